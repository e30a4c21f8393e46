/* diagnostics.c - a growing list of lines. */
#include "models/base/diagnostics.h"

#include <stdarg.h>
#include <stdlib.h>

#include "models/base/memory.h"

void diagnostics_init(struct diagnostics *diag)
{
    diag->lines = NULL;
    diag->count = 0;
}

void diagnostics_fini(struct diagnostics *diag)
{
    for (size_t i = 0; i < diag->count; i++)
        free(diag->lines[i]);
    free(diag->lines);
    diagnostics_init(diag);
}

static void append(struct diagnostics *diag, char *line)
{
    diag->lines = memory_resized(diag->lines, diag->count + 1, sizeof *diag->lines);
    diag->lines[diag->count++] = line;
}

bool diagnostics_add(struct diagnostics *diag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(diag, memory_vformat(format, arguments));
    va_end(arguments);
    return false;
}

bool diagnostics_at(struct diagnostics *diag, const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = memory_vformat(format, arguments);
    va_end(arguments);
    append(diag, line > 0 ? memory_format("%s:%d: %s", file, line, text) : memory_format("%s: %s", file, text));
    free(text);
    return false;
}

void diagnostics_print(const struct diagnostics *diag, FILE *stream, const char *prefix)
{
    for (size_t i = 0; i < diag->count; i++)
        fprintf(stream, "%s%s\n", prefix, diag->lines[i]);
}
