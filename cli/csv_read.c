/* csv_read.c - see csv_read.h. */
#include "cli/csv_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/base/printable.h"

static void add_field(struct csv_record *record, char *field)
{
    record->fields = memory_resized(record->fields, record->n_fields + 1, sizeof *record->fields);
    record->fields[record->n_fields++] = field;
}

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

/* Reads a field behind its opening quote; returns what follows the closing one, NULL when there is none. */
static const char *read_quoted(const char *text, char **field)
{
    size_t length = 0;
    *field = memory_zeroed(strlen(text) + 1, 1);
    for (; *text; text++) {
        if (*text == '"' && text[1] != '"')
            return text + 1;
        text += *text == '"';
        (*field)[length++] = *text;
    }
    return NULL;
}

static const char *read_plain(const char *text, char **field)
{
    const char *end = text + strcspn(text, ","), *last = end;
    while (last > text && (last[-1] == ' ' || last[-1] == '\t'))
        last--;
    *field = memory_format("%.*s", (int)(last - text), text);
    return end;
}

/* Splits a line into fields. False with a message. */
static bool split(struct csv_record *record, const char *text, const char *path, struct diagnostics *diag)
{
    for (;;) {
        char *field;
        text = skip_blanks(text);
        bool quoted = *text == '"';
        text = quoted ? read_quoted(text + 1, &field) : read_plain(text, &field);
        add_field(record, field);
        if (!text)
            return diagnostics_at(diag, path, record->line, "a quote without its end");
        text = skip_blanks(text);
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return diagnostics_at(diag, path, record->line, "'%s' behind a quoted field, expected a comma", text - 1);
    }
}

/* `text` is of `length` bytes, of which zero bytes may be some; its end of line is the file's. */
static bool read_line(struct csv_table *table, char *text, size_t length, int line, const char *path,
                      struct diagnostics *diag)
{
    length -= length > 0 && text[length - 1] == '\n';
    length -= length > 0 && text[length - 1] == '\r';
    text[length] = '\0';
    const char *fault = printable_fault(text, length);
    if (fault)
        return diagnostics_at(diag, path, line, "the line holds %s, expected text", fault);
    if (*text == '#') {
        table->has_comment = table->has_comment || line == 1;
        return true;
    }
    if (*skip_blanks(text) == '\0')
        return diagnostics_at(diag, path, line, "an empty line");
    memory_grow(table->records, table->n_records, table->capacity);
    struct csv_record *record = &table->records[table->n_records++];
    *record = (struct csv_record){.line = line};
    return split(record, text, path, diag);
}

bool csv_table_read(struct csv_table *table, const char *path, struct diagnostics *diag)
{
    *table = (struct csv_table){0};
    FILE *stream = fopen(path, "r");
    if (!stream)
        return diagnostics_add(diag, "cannot read '%s': %s", path, strerror(errno));
    char *text = NULL;
    size_t size = 0;
    bool fine = true;
    errno = 0;
    ssize_t length;
    for (int line = 1; (length = getline(&text, &size, stream)) >= 0; line++)
        fine &= read_line(table, text, (size_t)length, line, path, diag);
    if (ferror(stream))
        fine = diagnostics_add(diag, "cannot read '%s': %s", path, strerror(errno ? errno : EIO));
    free(text);
    fclose(stream);
    return fine;
}

void csv_table_fini(struct csv_table *table)
{
    for (size_t i = 0; i < table->n_records; i++) {
        for (size_t k = 0; k < table->records[i].n_fields; k++)
            free(table->records[i].fields[k]);
        free(table->records[i].fields);
    }
    free(table->records);
}
