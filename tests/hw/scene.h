/* scene.h - for tests: experiments made by hand, and runs of them. */
#ifndef CPSIM_TESTS_HW_SCENE_H
#define CPSIM_TESTS_HW_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/hardware.h"
#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/schedule/algorithms/algorithm.h"

static struct ini_document nothing_written; /* every key is a default */

static inline struct experiment make_experiment(const char *algorithm, uint32_t cp, uint64_t seq_len)
{
    struct experiment experiment = {
        .path = (char *)"test.ini",
        .model = {.name = "custom", .q_heads = 4, .kv_heads = 2, .head_dim = 8},
        .dtype = DTYPE_FP32,
        .seq_len = seq_len,
        .batch = 1,
        .mask = {.kind = MASK_CAUSAL, .seq_len = seq_len},
        .train = true,
        .degree = {1, cp, 1},
        .order = {PARALLEL_TP, PARALLEL_CP, PARALLEL_DP},
        .sharding = SHARDING_CONTIGUOUS,
        .buffers = 2,
        .overlap = true,
        .skip = SKIP_COMPUTE,
        .gradient_accumulator = true,
        .document = &nothing_written,
    };
    snprintf(experiment.algorithm, sizeof experiment.algorithm, "%s", algorithm);
    return experiment;
}

static inline struct mask make_mask(enum mask_kind kind, uint64_t seq_len, uint64_t window)
{
    return (struct mask){.kind = kind, .seq_len = seq_len, .window = window};
}

/* Whether the algorithm does what is asked. */
static inline bool is_accepted(const struct experiment *experiment)
{
    struct schedule schedule;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool accepted = schedule_init(&schedule, experiment, NULL, &diag);
    if (accepted)
        schedule_fini(&schedule);
    diagnostics_fini(&diag);
    return accepted;
}

/* What an algorithm is asked where any legal experiment will do: training if it can, groups and windows of two. */
static inline struct experiment make_experiment_for(const struct algorithm_ops *algorithm, uint32_t cp,
                                                    uint64_t seq_len)
{
    struct experiment experiment = make_experiment(algorithm->name, cp, seq_len);
    experiment.train = algorithm->can & CAN_TRAIN;
    experiment.ulysses_degree = algorithm->uses & USES_ULYSSES_DEGREE && cp % 2 == 0 ? 2 : 0;
    experiment.ring_window = algorithm->uses & USES_RING_WINDOW ? 1 : 0;
    experiment.gather_heads = algorithm->uses & USES_GATHER_HEADS ? 1 : 0;
    return experiment;
}

/* One run of an experiment. */
struct scene {
    struct schedule schedule;
    struct hardware *hardware;
    struct hardware_run run;
    struct diagnostics diag;
    bool opened, passed;
};

static inline void scene_open_as(struct scene *scene, const struct experiment *experiment,
                                 const struct compute_ops *compute, const char *transport,
                                 enum collective_mode collectives)
{
    *scene = (struct scene){0};
    diagnostics_init(&scene->diag);
    if (!schedule_init(&scene->schedule, experiment, NULL, &scene->diag)) {
        fprintf(stderr, "%s\n", scene->diag.lines[0]);
        abort();
    }
    const struct hardware_settings settings = {.schedule = &scene->schedule,
                                               .compute = compute,
                                               .transport = transport,
                                               .collectives = collectives,
                                               .stall_seconds = 60};
    scene->opened = hardware_open(&scene->hardware, &settings, &scene->diag);
}

static inline void scene_open(struct scene *scene, const struct experiment *experiment,
                              const struct compute_ops *compute, const char *transport)
{
    scene_open_as(scene, experiment, compute, transport, COLLECTIVES_DEFAULT);
}

static inline void scene_step(struct scene *scene, enum run_mode mode, uint64_t seed)
{
    const struct hardware_step step = {.mode = mode, .seed = seed, .verify = mode == RUN_ALL};
    hardware_run_fini(&scene->run);
    scene->passed = scene->opened && hardware_run(scene->hardware, &step, &scene->run, &scene->diag);
}

static inline void scene_close(struct scene *scene)
{
    hardware_run_fini(&scene->run);
    hardware_close(scene->hardware);
    schedule_fini(&scene->schedule);
    diagnostics_fini(&scene->diag);
}

static inline const char *scene_message(const struct scene *scene)
{
    return scene->diag.count ? scene->diag.lines[0] : "no message";
}

static inline const char *scene_describe(const struct experiment *experiment, char text[256])
{
    snprintf(
        text, 256,
        "%s cp %u seq %u batch %u heads %u/%u dim %u dtype %s mask %d sharding %d overlap %d buffers %u kv_block %u "
        "skip %d split %d accumulator %d collective %d train %d",
        experiment->algorithm, experiment->degree[PARALLEL_CP], (unsigned)experiment->seq_len, experiment->batch,
        experiment->model.q_heads, experiment->model.kv_heads, experiment->model.head_dim,
        dtype_name(experiment->dtype), (int)experiment->mask.kind, (int)experiment->sharding, experiment->overlap,
        experiment->buffers, (unsigned)experiment->kv_block, (int)experiment->skip, experiment->split_kv,
        experiment->gradient_accumulator, (int)experiment->collective, experiment->train);
    return text;
}

#endif
