/* ini_document.h - an INI file as it was written: sections, keys, values and their lines; strict.
 *
 * libinih parses; this file's reader feeds it line by line, so that lines are counted and what libinih would do
 * silently (cut long lines and names, join indented lines, merge repeated sections) is an error instead. A comment
 * starts with ; or # at the start of a line, or with ; or # after a blank behind a value (quotes change nothing). Every
 * section stands once and is not empty, every key of a section stands once and has a value.
 */
#ifndef CPSIM_MODELS_INPUT_INI_DOCUMENT_H
#define CPSIM_MODELS_INPUT_INI_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "models/base/diagnostics.h"

struct ini_entry {
    char *key, *value;
    int line;     /* -1: from an override on the command line */
    bool refused; /* its value, by whoever read it: reported, and nothing is judged by it */
};

struct ini_section {
    char *name; /* what stands between the brackets, such as "level node" */
    int line;
    struct ini_entry *entries;
    size_t n_entries, capacity;
};

struct ini_document {
    char *path;
    struct ini_section *sections; /* in the order of the file */
    size_t n_sections, capacity;
    bool incomplete; /* some line was refused: `diag` says which; key_table_check_sections fails */
};

/* Reads the file. NULL when it cannot be read at all. A file with bad lines gives a document of its good ones, marked
 * `incomplete`, so that the problems of its keys are found in the same go. */
struct ini_document *ini_document_read(const char *path, struct diagnostics *diag);
/* The same from text; `name` stands for the path in messages. */
struct ini_document *ini_document_read_text(const char *name, const char *text, struct diagnostics *diag);
void ini_document_destroy(struct ini_document *document);

const struct ini_section *ini_document_section(const struct ini_document *document, const char *name);
const struct ini_entry *ini_section_entry(const struct ini_section *section, const char *key);

/* Notes that the value of the section's `key`, which is there, was refused. */
void ini_section_refuse(const struct ini_section *section, const char *key);

/* Sets section.key to value ("level node.bandwidth=400 Gb/s"), replacing what the file says or adding to it (the
 * section too); without a value ("step.zero=") the key is taken back, as if the file did not write it. False when
 * `text` has not the form section.key=value, or when an override has set the key before. */
bool ini_document_override(struct ini_document *document, const char *text, struct diagnostics *diag);

/* Adds a message about an entry where its author will find it: `file:line: ...` or `--set section.key=value: ...`. With
 * `entry` NULL it is about the section, with `section` NULL about the file. Always returns false. */
bool ini_document_complain(const struct ini_document *document, const struct ini_section *section,
                           const struct ini_entry *entry, struct diagnostics *diag, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
