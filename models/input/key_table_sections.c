/* key_table_sections.c - which sections a kind of file has: those of a document that are none, and those that it lacks.
 *
 * A file none of whose sections belongs here, and all to another kind, is told to be of that kind, once.
 */
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/key_table.h"

/* Whether a section called `name` is one of `spec`: "model", or "level X" where `spec` is named. */
static bool is_of(const struct section_spec *spec, const char *name)
{
    size_t length = strlen(spec->name);
    if (strncmp(name, spec->name, length) != 0)
        return false;
    return spec->named ? name[length] == ' ' : name[length] == '\0';
}

static void unknown_section(const struct file_spec *file, const struct ini_document *document,
                            const struct ini_section *section, struct diagnostics *diag)
{
    size_t n = 0;
    while (file->sections[n])
        n++;
    const char **names = memory_zeroed(n + 1, sizeof *names);
    char *first_word = memory_format("%.*s", (int)strcspn(section->name, " "), section->name);
    const struct section_spec *unnamed = NULL;
    for (size_t i = 0; i < n; i++) {
        names[i] = file->sections[i]->name;
        if (strcmp(first_word, names[i]) == 0)
            unnamed = file->sections[i];
    }
    if (unnamed) {
        ini_document_complain(document, section, NULL, diag, "section [%s], expected [%s%s]", section->name,
                              unnamed->name, unnamed->named ? " NAME" : "");
    } else {
        char *hint = key_table_suggestion(first_word, names);
        ini_document_complain(document, section, NULL, diag, "unknown section [%s]%s", section->name, hint);
        free(hint);
    }
    free(first_word);
    free(names);
}

static bool has_section(const struct file_spec *file, const char *name)
{
    for (size_t k = 0; file->sections[k]; k++) {
        if (is_of(file->sections[k], name))
            return true;
    }
    return false;
}

/* The kind of file that `document` is when no section of it belongs to `file` and all to another kind; else NULL. */
static const struct file_spec *other_kind(const struct file_spec *file, const struct ini_document *document)
{
    for (size_t k = 0; file_specs[k] && document->n_sections > 0; k++) {
        size_t known = 0;
        for (size_t i = 0; i < document->n_sections; i++)
            known += has_section(file_specs[k], document->sections[i].name) &&
                     !has_section(file, document->sections[i].name);
        if (known == document->n_sections)
            return file_specs[k];
    }
    return NULL;
}

static const char *article(const char *noun)
{
    return strchr("aeiou", *noun) ? "an" : "a";
}

bool key_table_check_sections(const struct file_spec *file, const struct ini_document *document,
                              struct diagnostics *diag)
{
    bool ok = !document->incomplete;
    const struct file_spec *other = other_kind(file, document);
    if (other)
        return ini_document_complain(document, NULL, NULL, diag, "this is %s %s, expected %s %s", article(other->name),
                                     other->name, article(file->name), file->name);
    for (size_t i = 0; i < document->n_sections; i++) {
        if (!has_section(file, document->sections[i].name)) {
            unknown_section(file, document, &document->sections[i], diag);
            ok = false;
        }
    }
    for (size_t k = 0; file->sections[k]; k++) {
        const struct section_spec *spec = file->sections[k];
        bool found = !spec->required || document->incomplete; /* a refused line may have been that section's */
        for (size_t i = 0; i < document->n_sections && !found; i++)
            found = is_of(spec, document->sections[i].name) ||
                    (spec->instead && is_of(spec->instead, document->sections[i].name));
        if (!found)
            ok = ini_document_complain(document, NULL, NULL, diag, "no section [%s%s], expected one", spec->name,
                                       spec->named ? " NAME" : "");
    }
    return ok;
}

bool key_table_owns_override(const struct file_spec *file, const char *text)
{
    for (size_t k = 0; file->sections[k]; k++) {
        size_t length = strlen(file->sections[k]->name);
        if (!file->sections[k]->aside && strncmp(text, file->sections[k]->name, length) == 0 &&
            text[length] == (file->sections[k]->named ? ' ' : '.'))
            return true;
    }
    return false;
}
