/* predict.h - for tests: a whole prediction from the text of a topology and an experiment. */
#ifndef CPSIM_TESTS_PREDICT_H
#define CPSIM_TESTS_PREDICT_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/prediction.h"
#include "models/base/memory.h"

/* One level of `size` GPUs behind a switch, of the toy device: 100 TFLOP/s whatever the block. */
static inline char *toy_cluster(uint32_t size, const char *bandwidth, const char *latency)
{
    return memory_format(
        "[cluster]\ndevice = toy\n[level node]\nsize = %u\nkind = switch\nbandwidth = %s\nlatency = %s\n", size,
        bandwidth, latency);
}

/* Shape of the model and workload, then whatever keys of [schedule]. */
struct toy {
    uint32_t q_heads, kv_heads, head_dim;
    uint64_t seq_len;
    const char *mask, *pass;
    uint32_t cp;
    const char *schedule; /* lines of [schedule] */
};

static inline char *toy_experiment(const struct toy *toy)
{
    return memory_format("[model]\nq_heads = %u\nkv_heads = %u\nhead_dim = %u\ndtype = bf16\n"
                         "[workload]\nseq_len = %lu\nbatch = 1\nmask = %s\npass = %s\n"
                         "[parallel]\ncp = %u\n[schedule]\n%s\n",
                         toy->q_heads, toy->kv_heads, toy->head_dim, (unsigned long)toy->seq_len, toy->mask, toy->pass,
                         toy->cp, toy->schedule);
}

static inline char *temporary_file(const char *text)
{
    char *path = memory_text("/tmp/cpsim-test-XXXXXX.ini");
    int file = mkstemps(path, 4);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text) || close(file) != 0)
        abort();
    return path;
}

/* Frees both texts. Prints what went wrong. */
static inline enum prediction_status predict(struct prediction *prediction, const struct engine_ops *engine,
                                             char *topology, char *experiment)
{
    char *topology_path = temporary_file(topology), *experiment_path = temporary_file(experiment);
    const struct question question = {
        .topology_path = topology_path, .experiment_path = experiment_path, .engine = engine};
    struct diagnostics diag;
    diagnostics_init(&diag);
    enum prediction_status status = prediction_prepare(prediction, &question, &diag);
    if (status == PREDICTION_DONE)
        status = prediction_run(prediction, &question, &diag);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    unlink(topology_path);
    unlink(experiment_path);
    free(topology_path);
    free(experiment_path);
    free(topology);
    free(experiment);
    return status;
}

static inline enum prediction_status predict_toy(struct prediction *prediction, const struct toy *toy,
                                                 const char *bandwidth, const char *latency)
{
    return predict(prediction, &engine_analytic, toy_cluster(toy->cp > 1 ? toy->cp : 2, bandwidth, latency),
                   toy_experiment(toy));
}

#endif
