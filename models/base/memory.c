/* memory.c - libc's allocators, with one way to fail. */
#include "models/base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(void)
{
    fputs("cpsim: out of memory\n", stderr);
    exit(1);
}

void *memory_zeroed(size_t count, size_t size)
{
    void *pointer = calloc(count ? count : 1, size ? size : 1);
    if (!pointer)
        out_of_memory();
    return pointer;
}

void *memory_resized(void *pointer, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        out_of_memory();
    void *resized = realloc(pointer, bytes ? bytes : 1);
    if (!resized)
        out_of_memory();
    return resized;
}

char *memory_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        out_of_memory();
    return copy;
}

char *memory_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = memory_vformat(format, arguments);
    va_end(arguments);
    return text;
}

char *memory_vformat(const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        out_of_memory();
    return text;
}
