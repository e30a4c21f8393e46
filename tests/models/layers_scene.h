/* layers_scene.h - for tests: programs of layers and steps from a text, proved and run to their end. Include after
 * cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_LAYERS_SCENE_H
#define CPSIM_TESTS_MODELS_LAYERS_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/checker.h"
#include "models/schedule/execution.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/layers/layers_checker.h"
#include "tests/models/schedule_text.h"

struct layers_scene {
    struct experiment experiment;
    struct schedule schedule;
    struct program *programs; /* [cp rank] */
    struct ensemble ensemble;
};

/* A small model whose numbers are all different. */
#define SMALL_MODEL                                                                                                    \
    "q_heads = 8\nkv_heads = 4\nhead_dim = 6\nhidden = 40\nffn = 56\nvocab = 72\nlayers = 3\ndtype = bf16\n"

/* Lines of [model], [workload], [parallel], [schedule] and [step]. */
struct layers_question {
    const char *model, *workload, *parallel, *schedule, *step;
    uint64_t node_gpus;
};

static inline bool layers_try(struct layers_scene *s, const struct layers_question *q, struct diagnostics *diag)
{
    char *text = memory_format("[model]\n%s\n[workload]\n%s\n[parallel]\n%s\n[schedule]\n%s\n%s%s\n",
                               q->model ? q->model : SMALL_MODEL, q->workload, q->parallel,
                               q->schedule ? q->schedule : "algorithm = ring\nsharding = contiguous",
                               q->step ? "[step]\n" : "", q->step ? q->step : "");
    memset(s, 0, sizeof *s);
    return schedule_of_text(&s->experiment, &s->schedule, text, diag);
}

static inline void layers_scene_build(struct layers_scene *s, uint64_t node_gpus)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    s->schedule.node_gpus = node_gpus;
    s->programs = schedule_build_all(&s->schedule);
    bool good = ensemble_init(&s->ensemble, s->programs, s->schedule.ranks, layers_layout(&s->schedule), &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    ensemble_set_replicas(&s->ensemble);
    diagnostics_fini(&diag);
}

static inline void layers_ask(struct layers_scene *s, const struct layers_question *q)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = layers_try(s, q, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    diagnostics_fini(&diag);
    layers_scene_build(s, q->node_gpus);
}

static inline void layers_scene_fini(struct layers_scene *s)
{
    ensemble_fini(&s->ensemble);
    schedule_free_programs(&s->schedule, s->programs);
    schedule_fini(&s->schedule);
    experiment_fini(&s->experiment);
}

/* Every rank comes to its end, whoever is first. */
static inline bool layers_run(const struct layers_scene *s, struct diagnostics *diag)
{
    struct execution *execution = execution_of(&s->ensemble);
    struct activity activity;
    while (execution_next(execution, &activity))
        execution_finish(execution, activity);
    bool done = execution_done(execution);
    if (!done)
        execution_explain(execution, diag);
    execution_destroy(execution);
    return done;
}

static inline void layers_expect_proved(const struct layers_scene *s, const char *what)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct program *attention = schedule_build_attention(&s->schedule);
    bool good = checker_check(&s->schedule, attention, &diag) && layers_prove(&s->schedule, s->programs, &diag) &&
                layers_run(s, &diag);
    schedule_free_programs(&s->schedule, attention);
    if (!good) {
        print_error("%s\n", what);
        diagnostics_print(&diag, stderr, "  ");
    }
    assert_true(good);
    diagnostics_fini(&diag);
}

/* The one message with which it is refused has `words` in it. */
static inline void layers_expect_refused(const struct layers_question *q, const char *words)
{
    struct layers_scene s;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_false(layers_try(&s, q, &diag));
    expect_one_message(&diag, words);
}

#endif
