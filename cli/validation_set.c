/* validation_set.c - sets: the INI file of each, and a folder of them. */
#include "cli/validation_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/validation_rows.h"
#include "models/base/memory.h"
#include "models/input/ini_document.h"

/* ---- a set ---- */

/* "a/b.ini" and "c.csv" give "a/c.csv". The caller frees it. */
static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return *name == '/' || !slash ? memory_text(name) : memory_format("%.*s/%s", (int)(slash - path), path, name);
}

static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path, *dot = strrchr(begin, '.');
    return memory_format("%.*s", dot ? (int)(dot - begin) : (int)strlen(begin), begin);
}

/* A set of transfers has no experiment: its sections would change nothing. Memory is judged of whole steps only. */
static bool check_sections(const struct validation_set *set, const struct ini_document *document,
                           struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < document->n_sections && validation_set_is_links(set); i++)
        if (strcmp(document->sections[i].name, "published") != 0)
            fine = ini_document_complain(document, &document->sections[i], NULL, diag,
                                         "section [%s] has no effect with kind = links", document->sections[i].name);
    const struct ini_section *published = ini_document_section(document, "published");
    const struct ini_entry *memory = ini_section_entry(published, "memory_bound");
    if (memory && !validation_set_is_steps(set))
        fine = ini_document_complain(document, published, memory, diag,
                                     "'memory_bound' has no effect with kind = %s, expected no such key",
                                     published_kind_name(set->published.kind));
    return fine;
}

bool validation_set_read(struct validation_set *set, const char *path, struct diagnostics *diag)
{
    *set = (struct validation_set){.path = memory_text(path), .name = name_of(path)};
    struct ini_document *document = ini_document_read(path, diag);
    if (!document)
        return false;
    bool fine = !document->incomplete;
    if (!published_is_there(document))
        fine = ini_document_complain(document, NULL, NULL, diag, "no section [published], expected one");
    else
        fine = published_read(&set->published, document, diag) && fine;
    if (fine) {
        fine = check_sections(set, document, diag);
        const char *topology = set->published.topology;
        set->topology = strchr(topology, '/') ? beside(path, topology) : memory_text(topology);
        set->rows_path = beside(path, set->published.rows);
        fine &= validation_rows_read(set, diag);
    }
    ini_document_destroy(document);
    return fine;
}

void validation_set_fini(struct validation_set *set)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        struct validation_row *row = &set->rows[i];
        for (size_t k = 0; k < set->n_columns; k++)
            free(row->cells[k]);
        free(row->cells);
        free(row->group);
        free(row->note);
    }
    for (size_t i = 0; i < set->n_columns; i++)
        free(set->columns[i]);
    free(set->columns);
    free(set->rows);
    free(set->rows_path);
    free(set->topology);
    free(set->path);
    free(set->name);
}

/* ---- all sets ---- */

static bool add_set(struct validation_sets *sets, const char *path, struct diagnostics *diag)
{
    memory_grow(sets->sets, sets->count, sets->capacity);
    struct validation_set *set = &sets->sets[sets->count++];
    bool fine = validation_set_read(set, path, diag);
    sets->n_rows += set->n_rows;
    return fine;
}

#define BOUNDS_NAME "bounds.ini"

/* The bounds are there only if the file is. */
static bool read_bounds(struct validation_sets *sets, const char *folder, struct diagnostics *diag)
{
    char *path = memory_format("%s/%s", folder, BOUNDS_NAME);
    if (access(path, F_OK) != 0) {
        free(path);
        return true;
    }
    sets->bounds_path = path;
    return overall_bounds_read(&sets->bounds, path, diag);
}

static int is_ini(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return strcmp(entry->d_name, BOUNDS_NAME) != 0 && length > 4 && entry->d_name[0] != '.' &&
           strcmp(entry->d_name + length - 4, ".ini") == 0;
}

bool validation_sets_read(struct validation_sets *sets, const char *path, struct diagnostics *diag)
{
    *sets = (struct validation_sets){.bounds = overall_bounds_none()};
    struct stat status;
    if (stat(path, &status) != 0)
        return diagnostics_add(diag, "cannot read '%s': %s", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return add_set(sets, path, diag);
    struct dirent **entries;
    int count = scandir(path, &entries, is_ini, alphasort);
    if (count < 0)
        return diagnostics_add(diag, "cannot read '%s': %s", path, strerror(errno));
    bool fine = read_bounds(sets, path, diag);
    size_t length = strlen(path);
    for (int i = 0; i < count; i++) {
        char *file = memory_format("%s%s%s", path, path[length - 1] == '/' ? "" : "/", entries[i]->d_name);
        fine &= add_set(sets, file, diag);
        free(file);
        free(entries[i]);
    }
    free(entries);
    if (count == 0)
        fine = diagnostics_add(diag, "'%s' holds no published set: no INI file", path);
    return fine;
}

void validation_sets_fini(struct validation_sets *sets)
{
    for (size_t i = 0; i < sets->count; i++)
        validation_set_fini(&sets->sets[i]);
    free(sets->sets);
    free(sets->bounds_path);
}
