/* Programs of layers follow from where nodes end, too: what a cache keeps of one cluster is not taken for another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/input_cache.h"
#include "tests/predict.h"

static const char experiment[] =
    "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 64\nhidden = 512\nffn = 2048\nvocab = 4096\nlayers = 2\n"
    "[workload]\nseq_len = 16Ki\nscope = model\n[parallel]\ncp = 8\ndp = 2\n%s[schedule]\nalgorithm = ring\n";

/* Nodes whose GPUs have a NIC each. */
static const char topology[] = "[cluster]\ndevice = toy\n[level node]\nsize = %u\nkind = switch\nbandwidth = 200 GB/s\n"
                               "latency = 1 us\n[level net]\nsize = %u\nkind = switch\nattach = rail\n"
                               "bandwidth = 10 GB/s\nlatency = 5 us\n";

static double seconds(const char *topology_path, const char *experiment_path, struct input_cache *cache)
{
    const struct question question = {
        .topology_path = topology_path, .experiment_path = experiment_path, .engine = &engine_analytic, .cache = cache};
    struct prediction prediction;
    struct diagnostics diag;
    diagnostics_init(&diag);
    enum prediction_status status = prediction_prepare(&prediction, &question, &diag);
    if (status == PREDICTION_DONE)
        status = prediction_run(&prediction, &question, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_int_equal(status, PREDICTION_DONE);
    double result = prediction.report.seconds;
    prediction_fini(&prediction);
    diagnostics_fini(&diag);
    return result;
}

static void a_cluster_with_other_nodes_has_other_rings(void **state)
{
    (void)state;
    static const uint32_t nodes[] = {2, 4, 8, 2};
    static struct input_cache *cache; /* lives as long as the process */
    cache = input_cache_create();
    char *text = memory_format(experiment, ""), *asked = temporary_file(text);
    double last = 0;
    for (size_t i = 0; i < 4; i++) {
        char *levels = memory_format(topology, nodes[i], 16 / nodes[i]), *path = temporary_file(levels);
        double kept = seconds(path, asked, cache), fresh = seconds(path, asked, NULL);
        if (kept != fresh)
            fail_msg("nodes of %u: %.12g s with what was kept, else %.12g s", nodes[i], kept, fresh);
        assert_true(fresh != last);
        last = fresh;
        unlink(path);
        free(path);
        free(levels);
    }
    unlink(asked);
    free(asked);
    free(text);
}

/* A ring in another order moves attention's messages; gradients flow along the GPUs all the same. */
static void rings_of_gradients_know_where_ranks_are(void **state)
{
    (void)state;
    char *natural = memory_format(experiment, "");
    char *moved = memory_format(experiment, "ring = 0,4,1,5,2,6,3,7\n");
    char *levels = memory_format(topology, 4, 4);
    char *path = temporary_file(levels), *one = temporary_file(natural), *other = temporary_file(moved);
    const struct question question = {.topology_path = path, .experiment_path = other, .engine = &engine_analytic};
    struct prediction prediction;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_int_equal(prediction_prepare(&prediction, &question, &diag), PREDICTION_DONE);
    assert_non_null(prediction.schedule.index_of_rank);
    unsigned inside = 0;
    for (uint32_t rank = 0; rank < 8; rank++) {
        const struct program *program = &prediction.programs[rank];
        for (uint32_t i = 0; i < program->n_ops; i++) {
            const struct op *op = &program->ops[i];
            if (op->kind != OP_SEND || op->traffic != TRAFFIC_WEIGHT_GRADIENT || op->peer >= 8)
                continue;
            uint64_t from = placement_gpu(&prediction.placement, 0, rank);
            uint64_t to = placement_gpu(&prediction.placement, 0, op->peer);
            inside += from / 4 == to / 4;
            assert_true(from / 4 == to / 4 || from % 4 == to % 4);
        }
    }
    assert_true(inside > 0);
    prediction_fini(&prediction);
    diagnostics_fini(&diag);
    char *const paths[] = {path, one, other}, *const texts[] = {natural, moved, levels};
    for (int i = 0; i < 3; i++) {
        unlink(paths[i]);
        free(paths[i]);
        free(texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_with_other_nodes_has_other_rings),
        cmocka_unit_test(rings_of_gradients_know_where_ranks_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
