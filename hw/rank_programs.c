/* rank_programs.c - programs of layers with their peers translated. */
#include "hw/rank_programs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/checker.h"
#include "models/schedule/peers.h"

static bool is_layer(const struct schedule *schedule)
{
    return schedule->experiment->step.scope != SCOPE_ATTENTION;
}

static uint32_t groups_of(const struct schedule *schedule)
{
    const uint32_t *degree = schedule->experiment->degree;
    return is_layer(schedule) ? degree[PARALLEL_TP] * degree[PARALLEL_DP] : 1;
}

uint32_t rank_programs_count(const struct schedule *schedule)
{
    return schedule->ranks * groups_of(schedule);
}

struct layers_place rank_programs_place(const struct schedule *schedule, uint32_t rank)
{
    const uint32_t group = rank / schedule->ranks, tp = schedule->experiment->degree[PARALLEL_TP];
    return (struct layers_place){rank % schedule->ranks, group % tp, group / tp};
}

/* Collectives are left to their messages and sums. */
static void translate(const struct schedule *schedule, struct program *program, uint32_t group)
{
    const struct layout layout = layers_layout(schedule);
    program->n_collectives = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        struct op *op = &program->ops[i];
        op->collective = 0;
        if (op_is_message(op))
            op->peer = peer_group(&layout, group, op->peer) * layout.cp + op->peer % layout.cp;
    }
}

struct program *rank_programs_build(const struct schedule *schedule)
{
    if (!is_layer(schedule))
        return schedule_build_all(schedule);
    const uint32_t ranks = rank_programs_count(schedule);
    struct program *programs = memory_zeroed(ranks, sizeof *programs);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        program_init(&programs[rank], rank % schedule->ranks);
        layers_build_at(schedule, rank_programs_place(schedule, rank), &programs[rank]);
        translate(schedule, &programs[rank], rank / schedule->ranks);
        program_trim(&programs[rank]);
    }
    return programs;
}

void rank_programs_free(const struct schedule *schedule, struct program *programs)
{
    if (programs)
        schedule_free_first(programs, rank_programs_count(schedule));
}

bool rank_programs_prove(const struct schedule *schedule, const struct program *programs, struct diagnostics *diag)
{
    if (!is_layer(schedule))
        return checker_check(schedule, programs, diag);
    struct program *attention = schedule_build_attention(schedule);
    bool sound = checker_check(schedule, attention, diag);
    schedule_free_programs(schedule, attention);
    return sound;
}

/* ---- what there is nothing for ---- */

static bool refuse(const struct schedule *schedule, const char *section, const char *key, bool asked, const char *what,
                   const char *expected, struct diagnostics *diag)
{
    return !asked || experiment_complain(schedule->experiment, section, key, diag,
                                         "hardware mode has no %s, expected %s", what, expected);
}

bool rank_programs_check(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    const struct step_setting *step = &experiment->step;
    const uint32_t *degree = experiment->degree;
    bool shares = degree[PARALLEL_CP] * degree[PARALLEL_DP] > 1;
    if (step->scope == SCOPE_ATTENTION)
        return true;
    if (step->scope == SCOPE_MODEL)
        return refuse(schedule, "workload", "scope", true, "embedding, loss or optimizer", "scope = layer or attention",
                      diag);
    bool fine = refuse(schedule, "step", "zero", shares && step->zero > 0,
                       "gradients, states or weights that ranks share out", "zero = 0", diag);
    fine &= refuse(schedule, "model", "bias", experiment->model.bias != BIAS_NONE, "biases", "bias = none", diag);
    fine &= refuse(schedule, "step", "linear", step->linear != LINEAR_MODEL, "products in fp8", "linear = model", diag);
    fine &= refuse(schedule, "step", "recompute", step->recomputation == RECOMPUTE_ALTERNATE,
                   "products of which a part is made again", "recompute = none, selective, around or full", diag);
    fine &=
        refuse(schedule, "step", "micro_batches", step->micro_batches > 1, "micro-batches", "micro_batches = 1", diag);
    return fine;
}
