/* What predictions of one process keep for each other changes none of them: questions drawn at random, one after the
 * other with a cache and each by itself, have the same answers to the last byte.
 *
 * The keys that vary are such as each part of what is kept follows from: programs (algorithm, mask, length, degrees),
 * local times (device, kernel, what the library does), outlooks (sizes of levels, a fan's pipe), orders (ranks that are
 * like others or not); and such as nothing kept may follow from (bandwidths, latencies).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/input_cache.h"
#include "cli/writers.h"
#include "models/input/key_table.h"
#include "tests/predict.h"
#include "tests/random_experiment.h"

#ifdef __SANITIZE_ADDRESS__
#define QUESTIONS 130
#else
#define QUESTIONS 400
#endif
#define KEYS (sizeof keys / sizeof *keys)

static const char topology[] =
    "[cluster]\ndevice = h100-sxm\n"
    "[level node]\nsize = 4\nkind = switch\nbandwidth = 400 GB/s\nlatency = 2 us\nspread = 0.1\n"
    "[level pod]\nsize = 8\nkind = switch\nbandwidth = 50 GB/s\nlatency = 4 us\nspread = 0.2\n"
    "[override slow]\ngpu = 3\nspeed = 0.5\n[override narrow]\nlink = pod: gpu 1 *\nbandwidth = 50 GB/s\n";

static const char experiment[] = "[model]\nq_heads = 8\nkv_heads = 4\nhead_dim = 128\ndtype = bf16\n"
                                 "[workload]\nseq_len = 16Ki\nmask = causal\npass = train\n"
                                 "[parallel]\ncp = 4\n[schedule]\nalgorithm = ring\nsharding = zigzag\n";

/* Values of a key; NULL: not set. */
static const struct {
    const char *name, *values[4];
    uint32_t n_values;
} keys[] = {
    {"schedule.algorithm", {"ring", "all-gather", "direct", "ulysses"}, 4},
    {"schedule.collective", {NULL, "direct"}, 2},
    {"schedule.sharding", {NULL, "contiguous", "striped"}, 3},
    {"schedule.implementation", {NULL, "megatron"}, 2},
    {"workload.mask", {NULL, "full", "full"}, 3},
    {"workload.seq_len", {NULL, "32Ki"}, 2},
    {"parallel.cp", {"4", "8", "2"}, 3},
    {"parallel.dp", {NULL, "2"}, 2},
    {"cluster.device", {NULL, "a100-sxm-80gb", "h200-sxm"}, 3},
    {"cluster.kernel", {NULL, NULL, NULL, "fa2"}, 4},
    {"level node.size", {NULL, "2", "8"}, 3},
    {"level node.fan_bandwidth", {NULL, "100 GB/s", "60 GB/s"}, 3},
    {"level node.collectives", {NULL, "10 us: 100 GB/s"}, 2},
    {"level node.latency", {NULL, "30 us"}, 2},
    {"level pod.bandwidth", {NULL, "100 GB/s"}, 2},
    {"level pod.latency", {NULL, "9 us"}, 2},
    {"override slow.speed", {"1", "1", NULL}, 3},
    {"override slow.gpu", {NULL, "0"}, 2},
    {"override narrow.bandwidth", {NULL, "20 GB/s"}, 2},
};

/* A question: an index of a value for each key. */
struct drawn {
    uint32_t values[KEYS];
};

/* Several questions in a row ask one experiment, each of a topology of its own. */
static void draw(struct dice *dice, struct drawn *drawn)
{
    bool another = dice_chance(dice, 8);
    for (uint32_t i = 0; i < KEYS; i++)
        if (another || !key_table_owns_override(&experiment_file, keys[i].name))
            drawn->values[i] = dice_below(dice, keys[i].n_values);
}

/* The run as JSON, or what is wrong with it; *ran: which. */
static char *answer(const char *topology_path, const char *experiment_path, const struct drawn *drawn,
                    struct input_cache *cache, bool no_fold, bool *ran)
{
    char *overrides[KEYS], *text = NULL;
    size_t n = 0, size = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        if (keys[i].values[drawn->values[i]])
            overrides[n++] = memory_format("%s=%s", keys[i].name, keys[i].values[drawn->values[i]]);
    struct diagnostics diag, notes;
    diagnostics_init(&diag);
    diagnostics_init(&notes);
    const struct question question = {.topology_path = topology_path,
                                      .experiment_path = experiment_path,
                                      .overrides = (const char *const *)overrides,
                                      .n_overrides = n,
                                      .engine = &engine_analytic,
                                      .no_fold = no_fold,
                                      .lenient = &notes,
                                      .cache = cache};
    struct prediction prediction;
    FILE *stream = open_memstream(&text, &size);
    *ran = prediction_prepare(&prediction, &question, &diag) == PREDICTION_DONE &&
           prediction_run(&prediction, &question, &diag) == PREDICTION_DONE;
    if (*ran)
        run_json_write(&prediction, true, stream);
    else
        diagnostics_print(&diag, stream, "");
    fclose(stream);
    prediction_fini(&prediction);
    diagnostics_fini(&diag);
    diagnostics_fini(&notes);
    for (size_t i = 0; i < n; i++)
        free(overrides[i]);
    return text;
}

static void what_is_kept_changes_no_answer(void **state)
{
    (void)state;
    char *topology_path = temporary_file(topology), *experiment_path = temporary_file(experiment);
    static struct input_cache *cache; /* lives as long as the process */
    cache = input_cache_create();
    struct dice dice = {20261};
    struct drawn drawn = {{0}};
    uint32_t n_ran = 0;
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        bool ran, ran_alone, no_fold = dice_chance(&dice, 4);
        draw(&dice, &drawn);
        char *kept = answer(topology_path, experiment_path, &drawn, cache, no_fold, &ran);
        char *alone = answer(topology_path, experiment_path, &drawn, NULL, no_fold, &ran_alone);
        assert_true(ran == ran_alone);
        assert_string_equal(kept, alone);
        n_ran += ran;
        free(kept);
        free(alone);
    }
    assert_true(n_ran > QUESTIONS / 2);
    unlink(topology_path);
    unlink(experiment_path);
    free(topology_path);
    free(experiment_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_changes_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
