/* dynamic_library.c - by dlopen and dlsym. */
#include "hw/dynamic_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *dynamic_library_open(const char *const *names, char *reason, size_t size)
{
    snprintf(reason, size, "%s", "");
    for (size_t i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        const char *why = dlerror();
        const size_t used = strlen(reason);
        snprintf(reason + used, size - used, "%s%s", used ? "; " : "", why ? why : names[i]);
    }
    return NULL;
}

void dynamic_library_close(void *library)
{
    dlclose(library);
}

bool dynamic_library_find(void *library, const struct dynamic_function *functions, size_t n_functions, void *pointers,
                          char *reason, size_t size)
{
    for (size_t i = 0; i < n_functions; i++) {
        const struct dynamic_function *wanted = &functions[i];
        void *function = dlsym(library, wanted->name);
        const char *why = function ? NULL : dlerror();
        if (!function && wanted->older)
            function = dlsym(library, wanted->older);
        if (!function && !wanted->optional) {
            snprintf(reason, size, "has no %s (%s)", wanted->name, why ? why : "nothing said");
            return false;
        }
        memcpy((char *)pointers + wanted->member, &function, sizeof function);
    }
    return true;
}
