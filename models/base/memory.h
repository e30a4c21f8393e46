/* memory.h - allocation that does not fail, and arrays that grow.
 *
 * A process that has no memory left cannot report a prediction: these functions print one line and exit with status 1,
 * the one exception to "nobody but the command exits". Everything returned is freed with free().
 */
#ifndef CPSIM_MODELS_BASE_MEMORY_H
#define CPSIM_MODELS_BASE_MEMORY_H

#include <stdarg.h>
#include <stddef.h>

void *memory_zeroed(size_t count, size_t size); /* like calloc; count 0 gives a valid pointer */
void *memory_resized(void *pointer, size_t count, size_t size);
char *memory_text(const char *text); /* like strdup */
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *memory_vformat(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* Makes room for one more element at the end of `array` (of `count` elements, `capacity` allocated). Amortised O(1). */
#define memory_grow(array, count, capacity)                                                                            \
    ((count) < (capacity) ? (void)0                                                                                    \
                          : (void)((capacity) = (capacity) ? (capacity)*2 : 8,                                         \
                                   (array) = memory_resized((array), (capacity), sizeof *(array))))

/* Gives back what such an array has allocated beyond `count` elements. */
#define memory_trim(array, count, capacity)                                                                            \
    ((count) == (capacity)                                                                                             \
         ? (void)0                                                                                                     \
         : (void)((capacity) = (count), (array) = memory_resized((array), (capacity), sizeof *(array))))

#endif
