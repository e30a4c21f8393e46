/* key_table.h - the keys of a section as data: parser, errors, --help and the README's reference come from one table.
 *
 * A key_spec says a key's name, type, default, range and meaning, and where in the target struct its value goes.
 * Reading a section against its table stores every value or default, and reports unknown keys (with "did you mean"),
 * missing required ones, bad units and values out of range, each as file:line.
 */
#ifndef CPSIM_MODELS_INPUT_KEY_TABLE_H
#define CPSIM_MODELS_INPUT_KEY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/input/ini_document.h"
#include "models/input/units.h"

enum key_type {
    KEY_TEXT,     /* char[size] */
    KEY_COUNT32,  /* uint32_t */
    KEY_COUNT64,  /* uint64_t */
    KEY_QUANTITY, /* double, of `dimension` */
    KEY_CHOICE,   /* int-sized enum: the index of the word in `choices` */
    KEY_YES_NO,   /* bool: the words for false and true are choices[0] and [1]; NULL: no and yes */
    KEY_CUSTOM,   /* `parse` stores it and `print` writes it */
};

struct key_spec {
    const char *name;
    enum key_type type;
    enum dimension dimension;   /* KEY_QUANTITY */
    size_t offset;              /* of the value in the target struct */
    size_t size;                /* KEY_TEXT: of the array */
    const char *fallback;       /* default as text; NULL: the key is required; "": absent leaves the target as it is */
    double minimum, maximum;    /* KEY_COUNT*, KEY_QUANTITY: inclusive range; both 0: any */
    const char *const *choices; /* KEY_CHOICE, KEY_YES_NO: NULL-terminated */
    const char *form;           /* what a value looks like, for help and messages: "full | causal | window:N" */
    /* KEY_CUSTOM: stores `text` at `place` (the target struct + offset); false, with the expectation in `expected`
     * (static text; preset to `form`), if it is bad. `print` writes it in INI syntax. */
    bool (*parse)(void *place, const char *text, const char **expected);
    void (*print)(const void *place, char *text, size_t size);
    const char *help; /* one line */
};

struct section_spec {
    const char *name; /* "model"; for a section that carries a name, "level" (written [level node]) */
    bool named;       /* [name X]: may stand several times with different X */
    bool required;
    const struct section_spec *instead; /* unless one of this other section is there; NULL: in any case */
    bool aside;       /* another reader's: known, but neither read nor overridden with the rest of the file */
    const char *help; /* one line */
    const struct key_spec *keys;
    size_t n_keys;
};

/* One kind of file: its sections. */
struct file_spec {
    const char
        *name; /* "experiment", "topology", "device profile", "transformer", "implementation", "file of bounds" */
    const struct section_spec *const *sections; /* NULL-terminated */
};

extern const struct file_spec experiment_file, topology_file, device_file, transformer_file, implementation_file,
    bounds_file;
extern const struct file_spec *const file_specs[]; /* all of them, NULL-terminated */

/* Reports unknown and missing sections of `document`. False also when the document is incomplete (bad lines, reported
 * when it was read); a missing section or key is not held against it then. */
bool key_table_check_sections(const struct file_spec *file, const struct ini_document *document,
                              struct diagnostics *diag);

/* Reads `section` (NULL: not there, so defaults only) into `target`. False when anything was reported. */
bool key_table_read(const struct section_spec *spec, const struct ini_document *document,
                    const struct ini_section *section, void *target, struct diagnostics *diag);

/* Whether what a file says of a key may be judged by: its value was taken, or it is not written and has its default.
 * False where the value was refused, or may stand under a name, in a section or on a line that was: that has been
 * reported, and what follows from it need not be. Ask when the section has been read. */
bool key_table_knows(const struct section_spec *spec, const struct ini_document *document, const char *key);

/* The effective value of one key as INI text. */
void key_table_print_value(const struct key_spec *key, const void *target, char *text, size_t size);

/* The nearest of `words` (NULL-terminated) to `word`, or NULL if none is near: for "did you mean". */
const char *key_table_nearest(const char *word, const char *const *words);
/* The end of a message about the unknown `word`: ", did you mean 'x'?" or ", expected a, b or c". The caller frees it.
 */
char *key_table_suggestion(const char *word, const char *const *words);

/* Sections of `file` that a `--set section.key=...` may address: true if `text` starts with one of them. */
bool key_table_owns_override(const struct file_spec *file, const char *text);

#endif
