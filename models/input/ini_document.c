/* ini_document.c - reads an INI file with libinih, line by line through a reader of our own.
 *
 * libinih 55 is lenient where this project is not: it cuts lines at 199 characters and section names at 49, takes an
 * indented line for more of the value above, reads "key: value", ignores what follows a ']', merges sections of one
 * name, and knows inline comments after ';' only. So the reader judges each line first and hands over a cleaned one:
 * comment and outer blanks removed, inner blanks of a section's name single. A line that was refused goes on as an
 * empty line, so that libinih sees nothing doubtful and every later line is still judged. Its handler runs right after
 * each line, which is how an entry learns its line number.
 */
#include "models/input/ini_document.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/base/printable.h"

#define FILE_BYTES_MAX ((size_t)256 * 1024) /* nobody writes so much by hand; /dev/zero must not fill the memory */
#define SECTION_NAME_MAX 49                 /* what libinih keeps of a section's name */

struct reader {
    const char *text;
    size_t size, position;
    int line;                /* of the line handed over last; 1-based */
    bool in_section;         /* some section line was seen, good or bad */
    bool ignoring;           /* the section line was refused: its keys belong nowhere */
    bool section_has_errors; /* some line of the section was refused, so it may look empty and is not */
    struct ini_document *document;
    struct diagnostics *diag;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void refuse(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void refuse(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = memory_vformat(format, arguments);
    va_end(arguments);
    diagnostics_at(reader->diag, reader->document->path, reader->line, "%s", text);
    free(text);
    reader->document->incomplete = true;
    reader->section_has_errors = true;
}

/* The line without its comment: from a ';' or '#' that stands first or after a blank. */
static size_t without_comment(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((line[i] == ';' || line[i] == '#') && (i == 0 || is_blank(line[i - 1])))
            return i;
    }
    return size;
}

static void end_section(struct reader *reader)
{
    const struct ini_document *document = reader->document;
    if (document->n_sections == 0 || reader->ignoring || reader->section_has_errors)
        return;
    const struct ini_section *section = &document->sections[document->n_sections - 1];
    if (section->n_entries == 0) {
        diagnostics_at(reader->diag, document->path, section->line, "section [%s] has no keys", section->name);
        reader->document->incomplete = true;
    }
}

static struct ini_section *add_section(struct ini_document *document, const char *name, int line)
{
    memory_grow(document->sections, document->n_sections, document->capacity);
    struct ini_section *section = &document->sections[document->n_sections++];
    *section = (struct ini_section){.name = memory_text(name), .line = line};
    return section;
}

static void add_entry(struct ini_section *section, const char *key, const char *value, int line)
{
    memory_grow(section->entries, section->n_entries, section->capacity);
    section->entries[section->n_entries++] =
        (struct ini_entry){.key = memory_text(key), .value = memory_text(value), .line = line};
}

/* Outer blanks away, inner ones single. Works in place. */
static void squeeze_blanks(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (!is_blank(*from))
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    }
    if (to > text && to[-1] == ' ')
        to--;
    *to = '\0';
}

/* A section line is there, which may prove to be none that holds: until it does, keys behind it belong nowhere. */
static void leave_section(struct reader *reader)
{
    end_section(reader);
    reader->in_section = true;
    reader->ignoring = true;
    reader->section_has_errors = false;
}

/* Judges "[name]" and opens the section; rewrites `line` as libinih shall see it. */
static bool read_section_line(struct reader *reader, char *line)
{
    char *close = strchr(line, ']');
    if (!close) {
        refuse(reader, "'%s' has no closing ']', expected [section]", line);
        return false;
    }
    if (close[1] != '\0') {
        refuse(reader, "'%s' goes on after the ']', expected [section] alone on its line", line);
        return false;
    }
    *close = '\0';
    squeeze_blanks(line + 1);
    const char *name = line + 1;
    if (*name == '\0') {
        refuse(reader, "section without a name, expected [section]");
        return false;
    }
    if (strlen(name) > SECTION_NAME_MAX) {
        refuse(reader, "section name '%s' has %zu characters, expected at most %d", name, strlen(name),
               SECTION_NAME_MAX);
        return false;
    }
    const struct ini_section *first = ini_document_section(reader->document, name);
    if (first) {
        refuse(reader, "section [%s] a second time, expected once (first on line %d)", name, first->line);
        return false;
    }
    add_section(reader->document, name, reader->line);
    reader->ignoring = false;
    strcat(line, "]"); /* there is room: the old one stood no further left */
    return true;
}

static bool read_key_line(struct reader *reader, char *line)
{
    if (reader->ignoring)
        return false;
    char *equals = strchr(line, '=');
    char *colon = strchr(line, ':');
    if (!equals || (colon && colon < equals)) { /* libinih would end the key at the colon */
        refuse(reader, "'%s' is neither a section nor a key, expected [section] or key = value", line);
        return false;
    }
    if (equals == line) {
        refuse(reader, "'%s' has no key before the '=', expected key = value", line);
        return false;
    }
    if (equals[1 + strspn(equals + 1, " \t")] == '\0') {
        int length = (int)(equals - line);
        while (length > 0 && is_blank(line[length - 1]))
            length--;
        refuse(reader, "'%.*s' has no value, expected key = value", length, line);
        return false;
    }
    if (!reader->in_section) {
        refuse(reader, "'%s' stands before any section, expected a [section] line above it", line);
        return false;
    }
    return true;
}

/* Takes the next line off the text: [*start, *start + *length), without line end. */
static void take_line(struct reader *reader, const char **start, size_t *length)
{
    *start = reader->text + reader->position;
    size_t rest = reader->size - reader->position;
    const char *newline = memchr(*start, '\n', rest);
    *length = newline ? (size_t)(newline - *start) : rest;
    reader->position += *length + (newline != NULL);
    if (*length > 0 && (*start)[*length - 1] == '\r')
        (*length)--;
    reader->line++;
    static const char mark[] = "\xef\xbb\xbf";
    if (reader->line == 1 && *length >= 3 && memcmp(*start, mark, 3) == 0) {
        refuse(reader, "the file begins with a byte order mark, expected plain UTF-8 without one");
        *start += 3;
        *length -= 3;
    }
}

/* libinih's reader: fills `buffer` with the next line like fgets. */
static char *read_line(char *buffer, int size, void *stream)
{
    struct reader *reader = stream;
    if (reader->position >= reader->size)
        return NULL;
    const char *start;
    size_t length;
    take_line(reader, &start, &length);
    strcpy(buffer, "\n");

    length = without_comment(start, length);
    while (length > 0 && is_blank(start[length - 1]))
        length--;
    if (length == 0)
        return buffer;
    size_t longest = (size_t)size - 2; /* newline and zero byte */
    size_t blanks = 0;
    while (is_blank(start[blanks]))
        blanks++;
    if (start[blanks] == '[')
        leave_section(reader);
    const char *bad = printable_fault(start, length);
    if (bad) {
        refuse(reader, "the line holds %s, expected text", bad);
    } else if (length > longest) {
        refuse(reader, "the line has %zu characters, expected at most %zu", length, longest);
    } else if (is_blank(*start)) {
        refuse(reader, "the line begins with a blank, expected [section] or key = value at its very start");
    } else {
        char *line = memory_format("%.*s", (int)length, start);
        if (*line == '[' ? read_section_line(reader, line) : read_key_line(reader, line))
            snprintf(buffer, (size_t)size, "%s\n", line);
        free(line);
    }
    return buffer;
}

/* libinih's handler: one key of the section that the reader opened last. */
static int take_entry(void *user, const char *section_name, const char *key, const char *value)
{
    struct reader *reader = user;
    (void)section_name;
    struct ini_section *section = &reader->document->sections[reader->document->n_sections - 1];
    const struct ini_entry *first = ini_section_entry(section, key);
    if (first)
        refuse(reader, "'%s' a second time in [%s], expected once (first on line %d)", key, section->name, first->line);
    else
        add_entry(section, key, value, reader->line);
    return 1;
}

static struct ini_document *read_bytes(const char *name, const char *text, size_t size, struct diagnostics *diag)
{
    struct ini_document *document = memory_zeroed(1, sizeof *document);
    document->path = memory_text(name);
    struct reader reader = {.text = text, .size = size, .document = document, .diag = diag};
    int status = ini_parse_stream(read_line, &reader, take_entry, &reader);
    end_section(&reader);
    if (status != 0) { /* the reader has judged every line, so this would be a rule of libinih that it does not know */
        diagnostics_at(diag, name, status > 0 ? status : 0, "not understood, expected [section] or key = value");
        document->incomplete = true;
    }
    return document;
}

struct ini_document *ini_document_read_text(const char *name, const char *text, struct diagnostics *diag)
{
    return read_bytes(name, text, strlen(text), diag);
}

struct ini_document *ini_document_read(const char *path, struct diagnostics *diag)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        diagnostics_at(diag, path, 0, "cannot be read: %s", strerror(errno));
        return NULL;
    }
    char *text = memory_zeroed(FILE_BYTES_MAX + 1, 1);
    size_t size = fread(text, 1, FILE_BYTES_MAX + 1, file);
    struct ini_document *document = NULL;
    if (ferror(file))
        diagnostics_at(diag, path, 0, "cannot be read: %s", strerror(errno));
    else if (size > FILE_BYTES_MAX)
        diagnostics_at(diag, path, 0, "has more than %zu KiB, expected an INI file of at most that",
                       FILE_BYTES_MAX / 1024);
    else
        document = read_bytes(path, text, size, diag);
    fclose(file);
    free(text);
    return document;
}

void ini_document_destroy(struct ini_document *document)
{
    if (!document)
        return;
    for (size_t i = 0; i < document->n_sections; i++) {
        struct ini_section *section = &document->sections[i];
        for (size_t j = 0; j < section->n_entries; j++) {
            free(section->entries[j].key);
            free(section->entries[j].value);
        }
        free(section->entries);
        free(section->name);
    }
    free(document->sections);
    free(document->path);
    free(document);
}

static struct ini_section *find_section(const struct ini_document *document, const char *name)
{
    for (size_t i = 0; i < document->n_sections; i++) {
        if (strcmp(document->sections[i].name, name) == 0)
            return &document->sections[i];
    }
    return NULL;
}

static struct ini_entry *find_entry(const struct ini_section *section, const char *key)
{
    for (size_t i = 0; i < section->n_entries; i++) {
        if (strcmp(section->entries[i].key, key) == 0)
            return &section->entries[i];
    }
    return NULL;
}

const struct ini_section *ini_document_section(const struct ini_document *document, const char *name)
{
    return find_section(document, name);
}

const struct ini_entry *ini_section_entry(const struct ini_section *section, const char *key)
{
    return find_entry(section, key);
}

void ini_section_refuse(const struct ini_section *section, const char *key)
{
    find_entry(section, key)->refused = true;
}

static bool set_entry(struct ini_document *document, const char *name, const char *key, const char *value)
{
    struct ini_section *section = find_section(document, name);
    if (!section)
        section = add_section(document, name, -1);
    struct ini_entry *entry = find_entry(section, key);
    if (!entry) {
        add_entry(section, key, value, -1);
        return true;
    }
    if (entry->line < 0)
        return false;
    free(entry->value);
    entry->value = memory_text(value);
    entry->line = -1;
    return true;
}

/* As if the file did not write it; false if it does not. */
static bool take_back_entry(struct ini_document *document, const char *name, const char *key)
{
    struct ini_section *section = find_section(document, name);
    struct ini_entry *entry = section ? find_entry(section, key) : NULL;
    if (!entry || entry->line < 0)
        return false;
    free(entry->key);
    free(entry->value);
    size_t behind = section->n_entries - 1 - (size_t)(entry - section->entries);
    memmove(entry, entry + 1, behind * sizeof *entry);
    section->n_entries--;
    return true;
}

bool ini_document_override(struct ini_document *document, const char *text, struct diagnostics *diag)
{
    const char *bad = printable_fault(text, strlen(text));
    if (bad)
        return diagnostics_add(diag, "--set: the text holds %s, expected section.key=value", bad);

    /* A section's name may hold dots, a key does not: the last dot before the '=' parts them. */
    char *section = memory_text(text);
    char *equals = strchr(section, '=');
    char *dot = NULL;
    if (equals) {
        *equals = '\0';
        dot = strrchr(section, '.');
    }
    if (dot) {
        *dot = '\0';
        squeeze_blanks(section);
        squeeze_blanks(dot + 1);
    }
    bool ok;
    if (!dot || *section == '\0' || dot[1] == '\0') {
        ok = diagnostics_add(diag, "--set %s: not understood, expected section.key=value", text);
    } else {
        char *value = equals + 1 + strspn(equals + 1, " \t");
        for (size_t length = strlen(value); length > 0 && is_blank(value[length - 1]);)
            value[--length] = '\0';
        if (*value == '\0' && take_back_entry(document, section, dot + 1))
            ok = true;
        else if (*value == '\0')
            ok =
                diagnostics_add(diag, "--set %s: takes back a key that '%s' does not write, expected section.key=value",
                                text, document->path);
        else if (set_entry(document, section, dot + 1, value))
            ok = true;
        else
            ok = diagnostics_add(diag, "--set %s: '%s.%s' is set a second time, expected once", text, section, dot + 1);
    }
    free(section);
    return ok;
}

bool ini_document_complain(const struct ini_document *document, const struct ini_section *section,
                           const struct ini_entry *entry, struct diagnostics *diag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = memory_vformat(format, arguments);
    va_end(arguments);
    if (section && section->line < 0 && !entry)
        entry = &section->entries[0]; /* the section is there for the sake of an override */
    if (section && entry && entry->line < 0)
        diagnostics_add(diag, "--set %s.%s=%s: %s", section->name, entry->key, entry->value, text);
    else
        diagnostics_at(diag, document->path, entry ? entry->line : section ? section->line : 0, "%s", text);
    free(text);
    return false;
}
