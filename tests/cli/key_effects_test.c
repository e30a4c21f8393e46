/* Every key of a topology and of a device profile does something: a walk over the key tables changes each key that a
 * few samples write, and wants another result; or, where the level is one that no message crosses, or what an override
 * is about is not used, wants --sensitivity to say so. Every rate, every time and every share is among the constants
 * that --sensitivity lists.
 *
 * A new key needs a sample in which it matters; one with a grammar of its own also another value, below.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sensitivity.h"
#include "cli/worker_pool.h"
#include "cli/writers.h"
#include "models/input/experiment_keys.h"
#include "models/input/ini_document.h"
#include "models/input/key_table.h"
#include "tests/cli/run_tree.h"
#include "tests/predict.h"

/* Under sanitizers, which make it take a minute, some of the samples and of the pairs of steps. */
#ifdef __SANITIZE_ADDRESS__
#define ALL_SAMPLES 0
#define STEPS_APART 4
#else
#define ALL_SAMPLES 1
#define STEPS_APART 1
#endif

/* ---- samples ---- */

static const char device_text[] = "[device]\n"
                                  "name = sample\n"
                                  "memory = 10 GB\n"
                                  "memory_bandwidth = 1 TB/s\n"
                                  "memory_efficiency = 0.8\n"
                                  "peak = 91 TFLOP/s\n"
                                  "launch = 4 us\n"
                                  "transfer_slowdown = 0.1\n"
                                  "processors = 100\n"
                                  "tile_rows = 128\n"
                                  "kernel = k\n"
                                  "[steps]\n"
                                  "merge = 300 GB/s\n"
                                  "finish = 310 GB/s\n"
                                  "delta = 320 GB/s\n"
                                  "accumulate = 330 GB/s\n"
                                  "cast = 340 GB/s\n"
                                  "elementwise = 350 GB/s\n"
                                  "spread = 0.1\n"
                                  "source = made up\n"
                                  "[product bf16]\n"
                                  "dtype = bf16\n"
                                  "rate = 256x256x256: 20 TFLOP/s, 2048x2048x2048: 80 TFLOP/s\n"
                                  "tile = 128x64\n"
                                  "prologue = 90\n"
                                  "peak = 88 TFLOP/s\n"
                                  "rate_scale = 1\n"
                                  "spread = 0.04\n"
                                  "source = made up\n"
                                  "[product fp8]\n"
                                  "rate = 256x256x256: 30 TFLOP/s, 2048x2048x2048: 120 TFLOP/s\n"
                                  "tile = 128x128\n"
                                  "source = made up\n"
                                  "[attention k forward 64 bf16]\n"
                                  "dtype = bf16\n"
                                  "heads = 16\n"
                                  "tokens = 16384\n"
                                  "rate_scale = 1\n"
                                  "persistent = no\n"
                                  "tile_rows = 192\n"
                                  "blocks = 2\n"
                                  "spread = 0.02\n"
                                  "full = 512: 30 TFLOP/s, 2048: 60 TFLOP/s, 8192: 90 TFLOP/s\n"
                                  "causal = 512: 20 TFLOP/s, 2048: 50 TFLOP/s, 8192: 80 TFLOP/s\n"
                                  "source = made up\n"
                                  "[attention k backward 64]\n"
                                  "dtype = bf16\n"
                                  "heads = 16\n"
                                  "batch = 2\n"
                                  "persistent = yes\n"
                                  "spread = 0.03\n"
                                  "full = 512: 20 TFLOP/s, 2048: 50 TFLOP/s, 8192: 70 TFLOP/s\n"
                                  "causal = 512: 15 TFLOP/s, 2048: 40 TFLOP/s, 8192: 65 TFLOP/s\n"
                                  "source = made up\n"
                                  "[attention slow forward 64]\n"
                                  "dtype = bf16\n"
                                  "heads = 16\n"
                                  "batch = 2\n"
                                  "full = 512: 20 TFLOP/s\n"
                                  "source = made up\n"
                                  "[attention slow backward 64]\n"
                                  "dtype = bf16\n"
                                  "heads = 16\n"
                                  "batch = 2\n"
                                  "full = 512: 20 TFLOP/s\n"
                                  "source = made up\n";

/* Rings of two groups leave each node over one uplink; nothing goes from pod to pod. */
#define SHARED_UPLINKS                                                                                                 \
    "kernel = k\nranks_per_device = 1\n"                                                                               \
    "[level node]\nsize = 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\nduplex = full\nspread = 0.05\n"       \
    "[level cluster]\nsize = 4\nkind = ring\nattach = node\nbandwidth = 20 GB/s\nlatency = 5 us\nduplex = full\n"      \
    "curve = 64 KiB: 1 GB/s, 1 MiB: 4 GB/s, 64 MiB: 10 GB/s\nspread = 0.1\n"                                           \
    "[level pods]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 20 GB/s\nlatency = 5 us\nduplex = full\n"       \
    "curve = 64 KiB: 1 GB/s, 1 MiB: 4 GB/s, 64 MiB: 10 GB/s\nspread = 0.1\n"

#define LIBRARY                                                                                                        \
    "[level node]\nsize = 8\nkind = switch\nbandwidth = 60 GB/s\nlatency = 5 us\nmedium = nvlink\nchannels = 64\n"     \
    "channels_per_peer = 8\nchannel_bandwidth = 5 GB/s\nchannel_latency = 9 us\nll_bandwidth = 1 GB/s\n"               \
    "message_bandwidth = 36 GB/s\ncollectives = 10 us + 1 us: 20 GB/s, 60 us: 40 GB/s\nspread = 0.05\n"                \
    "collectives_spread = 0.06\nsmall_collectives_spread = 0.07\n"

#define EXPERIMENT(SEQ_LEN, PASS, PARALLEL, SCHEDULE)                                                                  \
    "[model]\nq_heads = 8\nkv_heads = 4\nhead_dim = 64\n[workload]\nseq_len = " SEQ_LEN "\npass = " PASS               \
    "\n[parallel]\n" PARALLEL "\n[schedule]\nsharding = zigzag\n" SCHEDULE "\n"

/* Members that share what they send to several at once. */
#define FAN "[level node]\nsize = 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 5 us\nfan_bandwidth = 8 GB/s\n"

/* Messages of several rings meet on parallel uplinks, those of the cluster's routing and those of the level's own. */
#define PARALLEL_UPLINKS                                                                                               \
    "kernel = k\nrouting = ecmp\nseed = 3\n"                                                                           \
    "[level node]\nsize = 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\n"                                     \
    "[level cluster]\nsize = 2\nkind = switch\nattach = node\nuplinks = 4\nbandwidth = 5 GB/s\nlatency = 5 us\n"       \
    "[level pods]\nsize = 2\nkind = switch\nattach = node\nuplinks = 3\nrouting = ecmp\nbandwidth = 4 GB/s\n"          \
    "latency = 6 us\n"

/* Two NICs for four GPUs, whose rails meet inside the nodes or in the spine. */
#define RAILS                                                                                                          \
    "kernel = k\n"                                                                                                     \
    "[level node]\nsize = 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\n"                                     \
    "[level rails]\nsize = 4\nkind = switch\nattach = rail\nnics = 2\ncross_rail = nvlink\nbandwidth = 6 GB/s\n"       \
    "latency = 5 us\n"                                                                                                 \
    "[level spine]\nsize = 2\nkind = switch\nattach = switch\noversubscription = 2:1\nlatency = 6 us\n"

/* The second of three nodes is a GPU short. */
#define UNEQUAL_NODES                                                                                                  \
    "kernel = k\n"                                                                                                     \
    "[level node]\nsize = 4\nsizes = 4, 3, 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\n"                    \
    "[level cluster]\nsize = 3\nkind = switch\nbandwidth = 6 GB/s\nlatency = 5 us\n"

#define DRAGONFLY                                                                                                      \
    "kernel = k\n"                                                                                                     \
    "[level node]\nsize = 2\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\n"                                     \
    "[level fly]\nsize = 4\nkind = dragonfly:2x2\nattach = node\nbandwidth = 9 GB/s\nlatency = 3 us\n"                 \
    "global_bandwidth = 5 GB/s\nglobal_latency = 7 us\n"

/* Two ways lead from one side to the other, and a bus. */
#define GRAPH                                                                                                          \
    "kernel = k\nrouting = ecmp\nseed = 1\n"                                                                           \
    "[link gpu0 left]\nbandwidth = 9 GB/s\nlatency = 1 us\nclass = near\n"                                             \
    "[link gpu1 left]\nbandwidth = 9 GB/s\nlatency = 1 us\nclass = near\n"                                             \
    "[link left right]\nbandwidth = 3 GB/s\nlatency = 4 us\ncount = 2\nduplex = half\nclass = far\n"                   \
    "[link gpu2 right]\nbandwidth = 9 GB/s\nlatency = 1 us\nclass = near\n"                                            \
    "[link gpu3 right]\nbandwidth = 9 GB/s\nlatency = 1 us\nclass = near\n"

/* A slow cable, one that is slow and late, a NIC that is not there, GPUs that are slow and one that beats the peak. */
#define ODD_ONES                                                                                                       \
    "kernel = k\n"                                                                                                     \
    "[level node]\nsize = 4\nkind = switch\nbandwidth = 60 GB/s\nlatency = 2 us\n"                                     \
    "[level cluster]\nsize = 4\nkind = switch\nbandwidth = 20 GB/s\nlatency = 5 us\n"                                  \
    "[override slow]\nlink = cluster: gpu 3 up\nfactor = 0.2\n"                                                        \
    "[override late]\nlink = cluster: gpu 11 *\nbandwidth = 3 GB/s\nlatency = 200 us\n"                                \
    "[override gone]\nlink = cluster: gpu 12 up\nmissing = yes\n"                                                      \
    "[override lame]\ngpu = 5, 6-7\nspeed = 0.4\n[override quick]\ngpu = 9\nspeed = 3\n"

/* Few queries on many keys: the memory decides. */
#define DECODING                                                                                                       \
    "[model]\nq_heads = 8\nkv_heads = 4\nhead_dim = 64\n[workload]\nseq_len = 64Ki\nnew_tokens = 1\nbatch = 256\n"     \
    "pass = forward\n[parallel]\ncp = 8\n[schedule]\nalgorithm = tree-decode\n"

/* A step of a small model. */
#define STEP(SCOPE, PASS, PARALLEL, KEYS)                                                                              \
    "[model]\nq_heads = 8\nkv_heads = 4\nhead_dim = 64\nhidden = 512\nffn = 1536\nvocab = 4096\nlayers = 3\n"          \
    "[workload]\nseq_len = 16Ki\nscope = " SCOPE "\npass = " PASS "\n[parallel]\n" PARALLEL                            \
    "\n[schedule]\nalgorithm = ring\nsharding = zigzag\n" KEYS

/* Of a sample. */
#define CONTENDS 1u /* what shares a link matters */
#define REPEATS 2u  /* others have the same topology: under the sanitizers these are enough */

static const struct sample {
    const char *levels, *experiment;
    unsigned flags;
} samples[] = {
    {SHARED_UPLINKS, EXPERIMENT("64Ki", "train", "cp = 8\ntp = 2", "algorithm = ring\ngradients = model"),
     CONTENDS | REPEATS},
    {SHARED_UPLINKS, EXPERIMENT("8Ki", "train", "cp = 8\ntp = 2", "algorithm = ring\noverlap = no"), 0},
    {LIBRARY, EXPERIMENT("64Ki", "train", "cp = 8", "algorithm = ring\noverlap = no"), REPEATS},
    {LIBRARY, EXPERIMENT("4Mi", "forward", "cp = 8", "algorithm = ring\noverlap = no"), 0},
    {LIBRARY, EXPERIMENT("1Ki", "forward", "cp = 8", "algorithm = ring\noverlap = no"), REPEATS},
    {LIBRARY, EXPERIMENT("16Ki", "forward", "cp = 8", "algorithm = ring\noverlap = no"), 0},
    {LIBRARY, EXPERIMENT("512", "forward", "cp = 8", "algorithm = all-gather"), REPEATS},
    {LIBRARY, EXPERIMENT("64Ki", "forward", "cp = 8", "algorithm = all-gather"), 0},
    {FAN, EXPERIMENT("64Ki", "forward", "cp = 4", "algorithm = ulysses\ncollective = direct"), 0},
    {LIBRARY, DECODING, 0},
    {PARALLEL_UPLINKS, EXPERIMENT("64Ki", "forward", "cp = 4\ntp = 4\norder = tp,cp,dp", "algorithm = ring"), CONTENDS},
    {RAILS, EXPERIMENT("64Ki", "forward", "cp = 16\ntp = 2", "algorithm = ring"), 0},
    {UNEQUAL_NODES, EXPERIMENT("64Ki", "forward", "cp = 8", "algorithm = ring"), 0},
    {DRAGONFLY, EXPERIMENT("64Ki", "forward", "cp = 8", "algorithm = ring\noverlap = no"), 0},
    {GRAPH, EXPERIMENT("64Ki", "forward", "cp = 2\ntp = 2", "algorithm = ring\noverlap = no"), CONTENDS},
    {ODD_ONES, EXPERIMENT("64Ki", "forward", "cp = 4\ndp = 4", "algorithm = ring\noverlap = no"), 0},
    {ODD_ONES, EXPERIMENT("64Ki", "forward", "cp = 16", "algorithm = ring\noverlap = no"), REPEATS},
    {ODD_ONES, EXPERIMENT("64Ki", "forward", "cp = 2\ndp = 4", "algorithm = ring\noverlap = no"), 0},
    {SHARED_UPLINKS, STEP("model", "train", "cp = 4\ntp = 2\ndp = 2", ""), CONTENDS | REPEATS},
    {SHARED_UPLINKS, STEP("layer", "train", "cp = 4\ntp = 2", "[step]\nlinear = fp8\n"), 0},
};

#define SAMPLES (sizeof samples / sizeof *samples)

/* Other values of keys that are no numbers, counts or choices. */
static const struct {
    const char *key, *values[3];
} other_values[] = {
    {"device", {"toy"}},
    {"kernel", {"slow"}},
    {"name", {"another"}},
    {"kind", {"switch", "mesh", "ring"}},
    {"duplex", {"full", "half"}},
    {"curve", {"64 KiB: 2 GB/s, 1 MiB: 4 GB/s, 64 MiB: 12 GB/s"}},
    {"collectives", {"10 us + 2 us: 20 GB/s, 60 us: 40 GB/s", "10 us + 1 us: 20 GB/s, 60 us: 45 GB/s"}},
    {"dtype", {"fp16"}},
    {"rate", {"256x256x256: 25 TFLOP/s, 2048x2048x2048: 70 TFLOP/s"}},
    {"tile", {"64x64"}},
    {"full", {"512: 31 TFLOP/s, 2048: 55 TFLOP/s, 8192: 75 TFLOP/s"}},
    {"causal", {"512: 22 TFLOP/s, 2048: 45 TFLOP/s, 8192: 62 TFLOP/s"}},
    {"source", {"elsewhere"}},
    {"oversubscription", {"4:1"}},
    {"sizes", {"4x2, 3", "3, 4x2"}},
    {"class", {"other"}},
    {"link", {"cluster: gpu 4 *", "cluster: gpu 3 down"}},
    {"gpu", {"8", "10-11"}},
};

/* Who reads the file wants it; nothing follows from it. */
static bool is_for_readers(const char *key)
{
    return strcmp(key, "source") == 0;
}

#define VALUES_MAX 4

/* Values unlike `value`; how many. The caller frees them. */
static size_t values_of(const struct key_spec *key, const char *value, char *values[VALUES_MAX])
{
    static const char *const no_yes[] = {"no", "yes", NULL};
    const char *const *choices = key->type == KEY_YES_NO && !key->choices ? no_yes : key->choices;
    size_t n = 0;
    double quantity;
    uint64_t count;
    char text[64];
    if (key->type == KEY_QUANTITY) {
        assert_true(units_parse(value, key->dimension, &quantity));
        for (int i = 0; i < 2; i++) {
            units_print_exact(text, sizeof text, key->dimension, i ? quantity / 1.3 : quantity * 1.3);
            values[n++] = memory_text(text);
        }
    } else if (key->type == KEY_COUNT32 || key->type == KEY_COUNT64) {
        assert_true(units_parse_count(value, &count));
        values[n++] = memory_format("%lu", (unsigned long)(2 * count));
        values[n++] = memory_format("%lu", (unsigned long)((count + 1) / 2));
    } else if (choices) {
        for (; *choices && n < VALUES_MAX; choices++)
            if (strcmp(*choices, value) != 0)
                values[n++] = memory_text(*choices);
    } else {
        for (size_t i = 0; i < sizeof other_values / sizeof *other_values; i++)
            for (size_t v = 0; v < 3 && strcmp(other_values[i].key, key->name) == 0 && other_values[i].values[v]; v++)
                if (strcmp(other_values[i].values[v], value) != 0)
                    values[n++] = memory_text(other_values[i].values[v]);
    }
    if (n == 0)
        fail_msg("key '%s' has no other value in this test", key->name);
    return n;
}

/* ---- one result ---- */

/* Where the three files of a sample are. */
struct files {
    char *topology, *device, *experiment;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* The document as text, with `value` in place of that of one entry (NULL: as it is). */
static void write_document(const char *path, const struct ini_document *document, const struct ini_entry *changed,
                           const char *value)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t s = 0; s < document->n_sections; s++) {
        fprintf(file, "[%s]\n", document->sections[s].name);
        for (size_t e = 0; e < document->sections[s].n_entries; e++) {
            const struct ini_entry *entry = &document->sections[s].entries[e];
            fprintf(file, "%s = %s\n", entry->key, entry == changed ? value : entry->value);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static struct question question_of(const struct files *files, const struct engine_ops *engine)
{
    return (struct question){.topology_path = files->topology, .experiment_path = files->experiment, .engine = engine};
}

/* All that was found, without what was asked; or why it was refused, behind "refused: ". */
static char *result_of(const struct files *files, const struct engine_ops *engine)
{
    const struct question question = question_of(files, engine);
    struct prediction prediction;
    struct diagnostics diag;
    diagnostics_init(&diag);
    enum prediction_status status = prediction_prepare(&prediction, &question, &diag);
    if (status == PREDICTION_DONE)
        status = prediction_run(&prediction, &question, &diag);
    char *text;
    if (status == PREDICTION_DONE) {
        json_t *json = run_tree(&prediction, false);
        json_object_del(json, "topology");
        json_object_del(json, "command");
        char *found = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));
        text = memory_format("%s %s", prediction.device.name, found);
        free(found);
        json_decref(json);
    } else {
        text = memory_format("refused: %s", diag.count ? diag.lines[0] : "");
    }
    prediction_fini(&prediction);
    diagnostics_fini(&diag);
    return text;
}

/* SimGrid runs once in a process. */
static void work(void *context, size_t task, FILE *stream)
{
    (void)task;
    char *text = result_of(context, &engine_simgrid);
    fputs(text, stream);
    free(text);
}

static char *contended_result_of(struct files *files)
{
    const struct worker_pool pool = {.n_tasks = 1, .jobs = 1, .work = work, .context = files};
    struct worker_result worker;
    assert_int_equal(worker_pool_run(&pool, &worker), 0);
    assert_int_equal(worker.wait_status, 0);
    char *text = memory_format("%.*s", (int)worker.size, worker.text);
    free(worker.text);
    return text;
}

/* ---- the walk ---- */

/* How often a key of a table was written, and changed a result. */
struct seen {
    const char *section, *key;
    unsigned written, effective;
};

struct walk {
    struct files files;
    char *found[2]; /* as the sample is: by the analytic engine; by SimGrid, if that makes a difference, else NULL */
    struct sensitivity sensitivity;
    struct seen *seen;
    size_t n_seen;
};

static struct seen *seen_of(struct walk *walk, const char *section, const char *key)
{
    for (size_t i = 0; i < walk->n_seen; i++)
        if (strcmp(walk->seen[i].section, section) == 0 && strcmp(walk->seen[i].key, key) == 0)
            return &walk->seen[i];
    walk->seen = memory_resized(walk->seen, walk->n_seen + 1, sizeof *walk->seen);
    walk->seen[walk->n_seen] = (struct seen){section, key, 0, 0};
    return &walk->seen[walk->n_seen++];
}

static bool is_refusal(const char *text)
{
    return strncmp(text, "refused: ", 9) == 0;
}

/* Whether the files, one of them changed, give another result. A refusal is one only of keys that name something that
 * has to be there, or without which their section would change nothing. */
static bool changes_result(struct walk *walk, const struct key_spec *key, bool idle)
{
    char *text = result_of(&walk->files, &engine_analytic);
    bool names = key->type == KEY_TEXT || strcmp(key->name, "dtype") == 0, refused = is_refusal(text);
    bool all_of_it = strcmp(key->name, "missing") == 0 && strstr(text, "changes nothing");
    bool changes = refused ? !idle && (names || all_of_it) : strcmp(text, walk->found[0]) != 0;
    free(text);
    if (changes || refused || !walk->found[1])
        return changes;
    text = contended_result_of(&walk->files);
    changes = strcmp(text, walk->found[1]) != 0;
    free(text);
    return changes;
}

/* The level that a section of a topology is about is one that no message crosses, or what an override is about is not
 * used. */
static bool is_idle(const struct walk *walk, const char *section)
{
    const struct topology *topology = &walk->sensitivity.prediction.topology;
    for (uint32_t k = 0; k < topology->n_levels && strncmp(section, "level ", 6) == 0; k++)
        if (strcmp(section + 6, topology->levels[k].name) == 0)
            return !walk->sensitivity.crosses[k];
    for (uint32_t number = 0; number < walk->sensitivity.n_overrides; number++)
        if (strcmp(section, overrides_name(topology, number)) == 0)
            return walk->sensitivity.idle_overrides[number];
    return false;
}

static void walk_key(struct walk *walk, const char *path, const struct ini_document *document,
                     const struct ini_section *section, const struct ini_entry *entry, const struct section_spec *spec)
{
    const struct key_spec *key = spec->keys;
    while (strcmp(key->name, entry->key) != 0)
        key++;
    struct seen *seen = seen_of(walk, spec->name, key->name);
    seen->written++;
    bool idle = is_idle(walk, section->name);
    if (seen->effective > 0 && !idle)
        return; /* known already */
    char *values[VALUES_MAX];
    size_t n = values_of(key, entry->value, values);
    bool effective = false;
    for (size_t v = 0; v < n; v++) {
        write_document(path, document, entry, values[v]);
        effective = effective || changes_result(walk, key, idle);
        free(values[v]);
    }
    write_document(path, document, NULL, NULL);
    if (effective && idle)
        fail_msg("[%s] %s has an effect, though it is said to have none", section->name, key->name);
    seen->effective += effective;
}

static const struct section_spec *spec_of(const struct file_spec *file, const char *section)
{
    char *word = memory_format("%.*s", (int)strcspn(section, " "), section);
    size_t i = 0;
    while (strcmp(file->sections[i]->name, word) != 0)
        i++;
    free(word);
    return file->sections[i];
}

static void walk_file(struct walk *walk, const char *path, const struct file_spec *file)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct ini_document *document = ini_document_read(path, &diag);
    for (size_t s = 0; s < document->n_sections; s++) {
        const struct ini_section *section = &document->sections[s];
        for (size_t e = 0; e < section->n_entries; e++)
            walk_key(walk, path, document, section, &section->entries[e], spec_of(file, section->name));
    }
    ini_document_destroy(document);
    diagnostics_fini(&diag);
}

/* Links of a graph count by class. */
static void expect_constant(const struct walk *walk, const struct ini_section *section, const char *key)
{
    const struct ini_entry *class = ini_section_entry(section, "class");
    bool link = strncmp(section->name, "link ", 5) == 0;
    char *name = link ? memory_format("links %s.%s", class ? class->value : "link", key)
                      : memory_format("%s.%s", section->name, key);
    bool listed = false;
    for (size_t i = 0; i < walk->sensitivity.n_rows; i++)
        listed |= strcmp(walk->sensitivity.rows[i].constant->name, name) == 0;
    if (!listed)
        fail_msg("--sensitivity does not know %s", name);
    free(name);
}

/* All rates and times that the file writes are constants. */
static void expect_constants(const struct walk *walk, const char *path, const struct file_spec *file)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct ini_document *document = ini_document_read(path, &diag);
    for (size_t s = 0; s < document->n_sections; s++) {
        const struct ini_section *section = &document->sections[s];
        const struct section_spec *spec = spec_of(file, section->name);
        for (size_t k = 0; k < spec->n_keys; k++) {
            enum dimension dimension = spec->keys[k].dimension;
            bool share = dimension == DIMENSION_NUMBER &&
                         (strcmp(spec->name, "device") == 0 || strcmp(spec->name, "override") == 0);
            bool of_rates = strcmp(spec->name, "product") == 0; /* its peak goes with its rates, under one name */
            if (spec->keys[k].type == KEY_QUANTITY && (dimension != DIMENSION_NUMBER || share) &&
                dimension != DIMENSION_BYTES && !of_rates && ini_section_entry(section, spec->keys[k].name))
                expect_constant(walk, section, spec->keys[k].name);
        }
    }
    ini_document_destroy(document);
    diagnostics_fini(&diag);
}

static void walk_sample(struct walk *walk, const struct sample *sample)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    char *topology = memory_format("[cluster]\ndevice = %s\n%s", walk->files.device, sample->levels);
    write_file(walk->files.device, device_text);
    write_file(walk->files.topology, topology);
    write_file(walk->files.experiment, sample->experiment);
    free(topology);
    walk->found[0] = result_of(&walk->files, &engine_analytic);
    walk->found[1] = sample->flags & CONTENDS ? contended_result_of(&walk->files) : NULL;
    if (is_refusal(walk->found[0]))
        fail_msg("%s", walk->found[0]);
    const struct question question = question_of(&walk->files, &engine_analytic);
    if (sensitivity_run(&walk->sensitivity, &question, 2, &diag) != PREDICTION_DONE)
        fail_msg("%s", diag.lines[0]);
    expect_constants(walk, walk->files.topology, &topology_file);
    expect_constants(walk, walk->files.device, &device_file);
    walk_file(walk, walk->files.topology, &topology_file);
    walk_file(walk, walk->files.device, &device_file);
    sensitivity_fini(&walk->sensitivity);
    free(walk->found[0]);
    free(walk->found[1]);
    diagnostics_fini(&diag);
}

/* Names every key of the tables that no sample writes, or that changes nothing in any; how many. */
static unsigned report_keys(struct walk *walk, const struct file_spec *file)
{
    unsigned problems = 0;
    for (size_t s = 0; file->sections[s]; s++) {
        for (size_t k = 0; k < file->sections[s]->n_keys; k++) {
            const char *section = file->sections[s]->name, *key = file->sections[s]->keys[k].name;
            const struct seen *seen = seen_of(walk, section, key);
            if (seen->effective > 0 || (seen->written > 0 && is_for_readers(key)))
                continue;
            print_error("%s [%s] %s: %s\n", file->name, section, key,
                        seen->written ? "changes no result" : "no sample writes it");
            problems++;
        }
    }
    return problems;
}

static void every_key_does_something(void **state)
{
    (void)state;
    struct walk walk = {.files = {temporary_file(""), temporary_file(""), temporary_file("")}};
    for (size_t i = 0; i < SAMPLES; i++)
        if (ALL_SAMPLES || !(samples[i].flags & REPEATS))
            walk_sample(&walk, &samples[i]);
    if (ALL_SAMPLES)
        assert_int_equal(report_keys(&walk, &topology_file) + report_keys(&walk, &device_file), 0);
    char *const paths[] = {walk.files.topology, walk.files.device, walk.files.experiment};
    for (int i = 0; i < 3; i++) {
        unlink(paths[i]);
        free(paths[i]);
    }
    free(walk.seen);
}

/* ---- keys of a step ---- */

/* Two texts that differ in a key of [step], or in the scope; where that key is one. */
static const struct {
    const char *key, *one, *other;
} steps[] = {
    {"scope", STEP("layer", "train", "cp = 2", ""), STEP("model", "train", "cp = 2", "")},
    {"scope", STEP("layer", "train", "cp = 2", ""), STEP("attention", "train", "cp = 2", "")},
    {"scope", STEP("layer", "forward", "cp = 2", ""), STEP("model", "forward", "cp = 2", "")},
#define DIFFER(KEY, SCOPE, PASS, PARALLEL, ONE, OTHER)                                                                 \
    {                                                                                                                  \
        KEY, STEP(SCOPE, PASS, PARALLEL, "[step]\n" KEY " = " ONE "\n"),                                               \
            STEP(SCOPE, PASS, PARALLEL, "[step]\n" KEY " = " OTHER "\n")                                               \
    }
    DIFFER("sequence_parallel", "model", "train", "cp = 2\ntp = 2", "yes", "no"),
    DIFFER("sequence_parallel", "layer", "forward", "cp = 1\ntp = 2", "yes", "no"),
    DIFFER("recompute", "model", "train", "cp = 2", "none", "selective"),
    DIFFER("recompute", "model", "train", "cp = 2", "selective", "around"),
    DIFFER("recompute", "model", "train", "cp = 2", "alternate", "around"),
    DIFFER("recompute", "layer", "train", "cp = 2", "none", "alternate"),
    DIFFER("loss", "model", "train", "cp = 2", "fused", "eager"),
    DIFFER("loss", "model", "forward", "cp = 2", "fused", "eager"),
    DIFFER("recompute", "layer", "train", "cp = 2", "around", "full"),
    DIFFER("recompute", "layer", "train", "cp = 1", "none", "full"),
    DIFFER("zero", "model", "train", "cp = 2", "0", "1"),
    DIFFER("zero", "model", "train", "cp = 2", "1", "2"),
    DIFFER("zero", "model", "train", "cp = 2", "2", "3"),
    DIFFER("zero", "layer", "train", "cp = 2", "0", "1"),
    DIFFER("zero", "layer", "train", "cp = 2\ndp = 2", "1", "2"),
    DIFFER("zero", "layer", "forward", "cp = 2", "0", "3"),
    DIFFER("weight_gradients", "model", "train", "cp = 2", "fp32", "model"),
    DIFFER("weight_gradients", "layer", "train", "cp = 1", "fp32", "model"),
    DIFFER("bucket", "model", "train", "cp = 2", "1", "2"),
    DIFFER("linear", "model", "train", "cp = 2", "model", "fp8"),
    DIFFER("linear", "layer", "forward", "cp = 2", "model", "fp8"),
    DIFFER("optimizer", "model", "train", "cp = 2", "adam", "none"),
    DIFFER("loss_chunks", "model", "train", "cp = 2", "1", "4"),
    DIFFER("loss_chunks", "model", "forward", "cp = 2", "4", "8"),
    DIFFER("micro_batches", "model", "train", "cp = 2", "1", "2"),
    DIFFER("micro_batches", "layer", "train", "cp = 1", "2", "3"),
    DIFFER("reserve", "model", "train", "cp = 2", "0 B", "1 GiB"),
    DIFFER("reserve", "layer", "forward", "cp = 2", "0 B", "1 GiB"),
#undef DIFFER
};

static void every_key_of_a_step_does_something(void **state)
{
    (void)state;
    struct files files = {temporary_file(""), temporary_file(""), temporary_file("")};
    char *topology = memory_format("[cluster]\ndevice = %s\n%s", files.device, SHARED_UPLINKS);
    write_file(files.device, device_text);
    write_file(files.topology, topology);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i += STEPS_APART) {
        write_file(files.experiment, steps[i].one);
        char *one = result_of(&files, &engine_analytic);
        write_file(files.experiment, steps[i].other);
        char *other = result_of(&files, &engine_analytic);
        if (is_refusal(one) || is_refusal(other))
            fail_msg("%s: %s", steps[i].key, is_refusal(one) ? one : other);
        json_t *trees[2] = {json_loads(strchr(one, '{'), 0, NULL), json_loads(strchr(other, '{'), 0, NULL)};
        for (int t = 0; t < 2; t++) /* what was asked is no result */
            json_object_del(trees[t], "experiment");
        if (json_equal(trees[0], trees[1]))
            fail_msg("'%s' changes nothing: %s", steps[i].key, steps[i].other);
        json_decref(trees[0]);
        json_decref(trees[1]);
        free(one);
        free(other);
    }
    for (size_t k = 0; k < experiment_step.n_keys; k++) {
        bool tried = false;
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
            tried |= strcmp(experiment_step.keys[k].name, steps[i].key) == 0;
        if (!tried)
            fail_msg("no pair differs in '%s'", experiment_step.keys[k].name);
    }
    char *const paths[] = {files.topology, files.device, files.experiment};
    for (int i = 0; i < 3; i++) {
        unlink(paths[i]);
        free(paths[i]);
    }
    free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_does_something),
        cmocka_unit_test(every_key_of_a_step_does_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
