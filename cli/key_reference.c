/* key_reference.c - a key's meaning on one line, its values on the next, as plain text for terminal and README. */
#include "cli/key_reference.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/key_table.h"

#define HELP_WIDTH 78
#define REFERENCE_WIDTH 100

/* Prints words where the line already has `indent` columns, and on further lines indented by as many. */
static void print_wrapped(FILE *stream, const char *text, size_t indent, size_t width)
{
    size_t column = indent;
    while (*text) {
        size_t length = strcspn(text, " "), gap = column > indent;
        if (gap && column + gap + length > width) {
            fprintf(stream, "\n%*s", (int)indent, "");
            column = indent;
            gap = 0;
        }
        fprintf(stream, "%s%.*s", gap ? " " : "", (int)length, text);
        column += gap + length;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', stream);
}

static void print_range(FILE *stream, const struct key_spec *key)
{
    if (key->minimum == 0 && key->maximum == 0)
        return;
    if (key->maximum >= DBL_MAX)
        fprintf(stream, ", at least %.10g", key->minimum);
    else
        fprintf(stream, ", %.10g to %.10g", key->minimum, key->maximum);
}

static void print_form(FILE *stream, const struct key_spec *key)
{
    if (key->form) {
        fputs(key->form, stream);
        return;
    }
    if (key->choices) {
        for (const char *const *choice = key->choices; *choice; choice++)
            fprintf(stream, "%s%s", choice == key->choices ? "" : " | ", *choice);
        return;
    }
    switch (key->type) {
    case KEY_TEXT:
        fputs("text", stream);
        break;
    case KEY_COUNT32:
    case KEY_COUNT64:
        fputs("whole number", stream);
        print_range(stream, key);
        break;
    case KEY_QUANTITY:
        fputs(units_expected(key->dimension), stream);
        break;
    case KEY_YES_NO:
        fputs("yes | no", stream);
        break;
    case KEY_CHOICE:
    case KEY_CUSTOM:
        break;
    }
}

/* What a value looks like, and what holds when there is none. The caller frees it. */
static char *value_text(const struct key_spec *key)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text("");
    print_form(stream, key);
    if (!key->fallback)
        fputs("; required", stream);
    else if (*key->fallback)
        fprintf(stream, "; default %s", key->fallback);
    else
        fputs("; optional", stream);
    fclose(stream);
    return text;
}

static void print_section(FILE *stream, const struct section_spec *section)
{
    fprintf(stream, "\n[%s%s]%s", section->name, section->named ? " NAME" : "", section->required ? ", required" : "");
    if (section->instead)
        fprintf(stream, " unless there is a [%s%s]", section->instead->name, section->instead->named ? " NAME" : "");
    fputc('\n', stream);
    print_wrapped(stream, section->help, 0, REFERENCE_WIDTH);
    size_t longest = 0;
    for (size_t i = 0; i < section->n_keys; i++)
        longest = strlen(section->keys[i].name) > longest ? strlen(section->keys[i].name) : longest;
    size_t indent = longest + 4;
    for (size_t i = 0; i < section->n_keys; i++) {
        const struct key_spec *key = &section->keys[i];
        char *value = value_text(key);
        fprintf(stream, "  %-*s  ", (int)longest, key->name);
        print_wrapped(stream, key->help, indent, REFERENCE_WIDTH);
        fprintf(stream, "%*s", (int)indent, "");
        print_wrapped(stream, value, indent, REFERENCE_WIDTH);
        free(value);
    }
}

static void print_heading(FILE *stream, const struct file_spec *file)
{
    fprintf(stream, "Keys of a%s %s:\n", strchr("aeiou", file->name[0]) ? "n" : "", file->name);
}

void key_reference_print(FILE *stream)
{
    for (const struct file_spec *const *file = file_specs; *file; file++) {
        fputs(file == file_specs ? "" : "\n\n", stream);
        print_heading(stream, *file);
        for (const struct section_spec *const *section = (*file)->sections; *section; section++)
            print_section(stream, *section);
    }
}

/* Names of keys, wrapped to the width of --help. */
static void print_names(FILE *stream, const struct section_spec *section)
{
    int column = fprintf(stream, "  [%s%s]", section->name, section->named ? " NAME" : "");
    for (size_t i = 0; i < section->n_keys; i++) {
        int length = (int)strlen(section->keys[i].name) + 1;
        if (column + length > HELP_WIDTH)
            column = fprintf(stream, "\n   ") - 1;
        column += fprintf(stream, " %s", section->keys[i].name);
    }
    fputc('\n', stream);
}

static void print_compact(FILE *stream, const struct file_spec *file)
{
    print_heading(stream, file);
    for (const struct section_spec *const *section = file->sections; *section; section++)
        print_names(stream, *section);
}

char *key_reference_compact(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text("");
    print_compact(stream, &topology_file);
    print_compact(stream, &experiment_file);
    fputs("'cpsim --list keys' says what each means.\n", stream);
    fclose(stream);
    return text;
}
