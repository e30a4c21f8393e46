/* list.c - one table per kind of thing: names in a column, one line about each. */
#include "cli/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/key_reference.h"
#include "cli/text_table.h"
#include "hw/compute.h"
#include "hw/machine.h"
#include "hw/transport.h"
#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/transformer.h"
#include "models/layer/activations.h"
#include "models/layer/flops.h"
#include "models/layer/parameters.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/mask.h"
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
        fprintf(stream, "%-14s %s%s\n", (*compute)->name, (*compute)->summary,
                compute != computes ? " (default where it can run the experiment)"
                : compute[1]        ? " (default else)"
                                    : " (default)");
    return true;
}

/* The GPUs of this machine, or why there are none: both are answers. */
static bool list_gpus(FILE *stream, struct diagnostics *diag)
{
    char reason[256];
    int count = machine_gpus(reason, sizeof reason);
    bool fine = true;
    if (count == 0) {
        fprintf(stream, "none: %s\n", reason);
        return true;
    }
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, false, "GPU");
    text_table_column(&table, true, "name");
    text_table_column(&table, true, "bus");
    text_table_column(&table, false, "memory GiB");
    text_table_column(&table, false, "free GiB");
    text_table_column(&table, false, "SMs");
    text_table_column(&table, false, "capability");
    text_table_column(&table, false, "driver's CUDA");
    for (int i = 0; i < count; i++) {
        struct machine_gpu gpu;
        if (!machine_gpu_read(&gpu, i, reason, sizeof reason)) {
            fine = diagnostics_add(diag, "GPU %d: %s", i, reason);
            continue;
        }
        text_table_cell(&table, "%d", i);
        text_table_cell(&table, "%s", gpu.name);
        text_table_cell(&table, "%s", gpu.bus);
        text_table_cell(&table, "%.4g", (double)gpu.memory_bytes / (1 << 30));
        text_table_cell(&table, "%.4g", (double)gpu.free_bytes / (1 << 30));
        text_table_cell(&table, "%" PRIu32, gpu.processors);
        text_table_cell(&table, "%d.%d", gpu.major, gpu.minor);
        text_table_cell(&table, "%d.%d", gpu.driver / 1000, gpu.driver % 1000 / 10);
    }
    text_table_print(&table, stream);
    text_table_fini(&table);
    return fine;
}

static bool list_transports(FILE *stream, struct diagnostics *diag)
{
    (void)diag;
    for (const struct transport_ops *const *transport = transports; *transport; transport++)
        fprintf(stream, "%-14s %s\n", (*transport)->name, (*transport)->summary);
    return true;
}

static bool list_mechanisms(FILE *stream, struct diagnostics *diag)
{
    (void)diag;
    for (int m = 0; m < MECHANISM_COUNT; m++)
        fprintf(stream, "%-15s %s\n", mechanism_name((enum mechanism)m), mechanism_summary((enum mechanism)m));
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

/* The names of a folder's data files, as data_path_list has them; complains where there is none. */
static char **file_names(const char *folder, bool *fine, struct diagnostics *diag)
{
    char **names = data_path_list(folder);
    *fine =
        names[0] || diagnostics_add(diag, "no data files in '%s': set CPSIM_DATA to the folder that has it", folder);
    return names;
}

static bool list_files(const char *folder, FILE *stream, struct diagnostics *diag)
{
    bool fine;
    char **names = file_names(folder, &fine, diag);
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

/* ---- transformers ---- */

#define LISTED_SEQ_LEN 8192

/* What a model counts at a length that it can have; nothing where its file leaves out what the counts need. */
static void transformer_counts(struct text_table *table, const struct transformer *model)
{
    if (!transformer_is_complete(model)) {
        for (int column = 0; column < 5; column++)
            text_table_cell(table, "-");
        return;
    }
    uint64_t seq_len = model->positions && model->positions < LISTED_SEQ_LEN ? model->positions : LISTED_SEQ_LEN;
    bool windowed = model->window > 0 && model->window < seq_len;
    struct mask mask = {.kind = windowed ? MASK_WINDOW : MASK_CAUSAL, .seq_len = seq_len, .window = model->window};
    struct span all = {.stride = 1, .count = seq_len};
    struct parameters parameters = parameters_of_model(model);
    struct step_flops step =
        flops_of_step(model, (double)seq_len, (double)mask_pairs(&mask, all, all), RECOMPUTE_NONE, false);
    struct activation_setting setting = {.rows = 1, .keys = seq_len, .tp = 1, .flash = true, .dtype = DTYPE_BF16};
    struct activation kept[ACTIVATIONS_MAX];
    double bytes = activations_total(kept, activations_of_layer(model, &setting, kept));
    text_table_cell(table, "%.3f", (double)parameters_total(&parameters) / 1e9);
    text_table_cell(table, "%" PRIu64, seq_len);
    text_table_cell(table, "%.2f", flops_total(&step.forward) / (double)seq_len / 1e9);
    text_table_cell(table, "%.2f", flops_total(&step.backward) / (double)seq_len / 1e9);
    text_table_cell(table, "%.1f", bytes / 1024);
}

/* One row; false, with a message and no row, when the file is bad. */
static bool transformer_row(struct text_table *table, const char *name, const char *path, struct diagnostics *diag)
{
    char what[512];
    struct transformer model;
    if (!path || !read_opening_comment(path, what, sizeof what))
        return diagnostics_add(diag, "cannot read 'models/transformers/%s.ini'", name);
    if (!transformer_read(&model, path, diag))
        return false;
    text_table_cell(table, "%s", name);
    transformer_counts(table, &model);
    text_table_cell(table, "%s", what);
    return true;
}

static bool list_transformers(FILE *stream, struct diagnostics *diag)
{
    bool fine;
    size_t rows = 0;
    char **names = file_names("models/transformers", &fine, diag);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "model");
    text_table_column(&table, false, "parameters\n10^9");
    text_table_column(&table, false, "seq_len\ntokens");
    text_table_column(&table, false, "forward\nGFLOP/token");
    text_table_column(&table, false, "backward\nGFLOP/token");
    text_table_column(&table, false, "kept per layer\nKiB/token");
    text_table_column(&table, true, "what");
    for (char **name = names; *name; name++) {
        char *path = data_path_find("models/transformers", *name);
        if (transformer_row(&table, *name, path, diag))
            rows++;
        else
            fine = false;
        free(path);
        free(*name);
    }
    free(names);
    if (rows > 0) {
        text_table_print(&table, stream);
        fprintf(stream,
                "FLOPs: those of the model's matrix products over a sequence of seq_len tokens under the causal "
                "mask, in its window if\nit has one. Kept: activations of a layer for the backward pass, in bf16 "
                "by one rank, with FlashAttention.\n");
    }
    text_table_fini(&table);
    return fine;
}

static const struct {
    const char *name;
    const char *folder; /* of files */
    bool (*print)(FILE *stream, struct diagnostics *diag);
} subjects[] = {
    {"algorithms", NULL, list_algorithms},
    {"devices", "models/devices", NULL},
    {"transformers", NULL, list_transformers},
    {"implementations", "models/implementations", NULL},
    {"topologies", "topologies", NULL},
    {"experiments", "experiments", NULL},
    {"engines", NULL, list_engines},
    {"mechanisms", NULL, list_mechanisms},
    {"computes", NULL, list_computes},
    {"transports", NULL, list_transports},
    {"gpus", NULL, list_gpus},
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
