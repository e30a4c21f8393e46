/* dynamic_library.h - libraries that are opened when they are asked for, and their functions as pointers: cpsim is not
 * linked with them, and starts where they are missing. Only dynamic_library.c knows dlfcn.h.
 */
#ifndef CPSIM_HW_DYNAMIC_LIBRARY_H
#define CPSIM_HW_DYNAMIC_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* A function of a library, and which member of a struct of pointers is to point to it. */
struct dynamic_function {
    const char *name;
    size_t member;     /* its offset in bytes */
    bool optional;     /* NULL where there is none; else that is an error */
    const char *older; /* the name that it had in older libraries; NULL: always the same */
};

/* Opens the first of the NULL-terminated `names` (file names that are searched for, or paths) that there is. NULL with
 * the reasons (for people, no full stop) in `reason`. */
void *dynamic_library_open(const char *const *names, char *reason, size_t size);
void dynamic_library_close(void *library);

/* Fills in the members of `pointers`. False with what there is not in `reason`: "has no NAME (...)". */
bool dynamic_library_find(void *library, const struct dynamic_function *functions, size_t n_functions, void *pointers,
                          char *reason, size_t size);

#endif
