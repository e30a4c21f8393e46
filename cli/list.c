/* list.c - one table per kind of thing: names in a column, one line about each. */
#include "cli/list.h"

#include <stdlib.h>
#include <string.h>

#include "cli/key_reference.h"
#include "hw/compute.h"
#include "hw/transport.h"
#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/schedule/algorithms/algorithm.h"
#include "sim/engine.h"

static bool list_algorithms(FILE *stream, struct diagnostics *diag)
{
    (void)diag;
    for (const struct algorithm_ops *const *algorithm = algorithms; *algorithm; algorithm++) {
        fprintf(stream, "%-17s %s\n", (*algorithm)->name, (*algorithm)->summary);
        if ((*algorithm)->constraint)
            fprintf(stream, "%-17s needs %s\n", "", (*algorithm)->constraint);
    }
    return true;
}

static bool list_engines(FILE *stream, struct diagnostics *diag)
{
    (void)diag;
    for (const struct engine_ops *const *engine = engines; *engine; engine++)
        fprintf(stream, "%-14s %s%s\n", (*engine)->name, (*engine)->summary, engine == engines ? " (default)" : "");
    return true;
}

static bool list_computes(FILE *stream, struct diagnostics *diag)
{
    (void)diag;
    for (const struct compute_ops *const *compute = computes; *compute; compute++)
        fprintf(stream, "%-14s %s%s\n", (*compute)->name, (*compute)->summary, compute == computes ? " (default)" : "");
    return true;
}

static bool list_transports(FILE *stream, struct diagnostics *diag)
{
    (void)diag;
    for (const struct transport_ops *const *transport = transports; *transport; transport++)
        fprintf(stream, "%-14s %s\n", (*transport)->name, (*transport)->summary);
    return true;
}

static bool list_keys(FILE *stream, struct diagnostics *diag)
{
    (void)diag;
    key_reference_print(stream);
    return true;
}

/* Appends a comment line to `text`, with a blank between; false if it is no comment, or an empty one. */
static bool append_comment(char *text, size_t size, char *line)
{
    line[strcspn(line, "\r\n")] = '\0';
    const char *words = line + strspn(line, ";# \t");
    if ((line[0] != ';' && line[0] != '#') || *words == '\0')
        return false;
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " " : "", words);
    return true;
}

/* Where the first sentence ends: behind a full stop or question mark that ends a word. */
static char *sentence_end(char *text)
{
    for (; *text; text++)
        if (strchr(".?:", *text) && (text[1] == ' ' || text[1] == '\0'))
            return text + (*text == '?');
    return text;
}

/* What a file says of itself: the first sentence of its opening comment, "; FILE - WHAT". Empty when there is none. */
static bool read_opening_comment(const char *path, char *text, size_t size)
{
    *text = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char comment[512] = "", line[256];
    while (fgets(line, sizeof line, file) && append_comment(comment, sizeof comment, line))
        ;
    fclose(file);
    char *dash = strstr(comment, " - ");
    char *what = dash ? dash + 3 : comment;
    *sentence_end(what) = '\0';
    snprintf(text, size, "%.*s", (int)size - 1, what);
    return true;
}

static bool list_files(const char *folder, FILE *stream, struct diagnostics *diag)
{
    char **names = data_path_list(folder);
    bool fine = true;
    if (!names[0])
        fine = diagnostics_add(diag, "no data files in '%s': set CPSIM_DATA to the folder that has it", folder);
    int width = 0;
    for (char **name = names; *name; name++)
        width = (int)strlen(*name) > width ? (int)strlen(*name) : width;
    for (char **name = names; *name; name++) {
        char *path = data_path_find(folder, *name);
        char what[512];
        if (!path || !read_opening_comment(path, what, sizeof what))
            fine = diagnostics_add(diag, "cannot read '%s/%s.ini'", folder, *name);
        else
            fprintf(stream, "%-*s%s%s\n", *what ? width : 0, *name, *what ? "  " : "", what);
        free(path);
        free(*name);
    }
    free(names);
    return fine;
}

static const struct {
    const char *name;
    const char *folder; /* of files */
    bool (*print)(FILE *stream, struct diagnostics *diag);
} subjects[] = {
    {"algorithms", NULL, list_algorithms},
    {"devices", "models/devices", NULL},
    {"transformers", "models/transformers", NULL},
    {"topologies", "topologies", NULL},
    {"experiments", "experiments", NULL},
    {"engines", NULL, list_engines},
    {"computes", NULL, list_computes},
    {"transports", NULL, list_transports},
    {"keys", NULL, list_keys},
};

#define N_SUBJECTS (sizeof subjects / sizeof *subjects)

bool list_knows(const char *subject)
{
    for (size_t i = 0; i < N_SUBJECTS; i++)
        if (strcmp(subjects[i].name, subject) == 0)
            return true;
    return false;
}

bool list_print(const char *subject, FILE *stream, struct diagnostics *diag)
{
    for (size_t i = 0; i < N_SUBJECTS; i++)
        if (strcmp(subjects[i].name, subject) == 0)
            return subjects[i].folder ? list_files(subjects[i].folder, stream, diag) : subjects[i].print(stream, diag);
    return diagnostics_add(diag, "nothing to list under '%s'", subject);
}
