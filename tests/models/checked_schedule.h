/* checked_schedule.h - a schedule to be checked, and edits that break it. Include after cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_CHECKED_SCHEDULE_H
#define CPSIM_TESTS_MODELS_CHECKED_SCHEDULE_H

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/checker.h"

struct fixture {
    struct experiment experiment;
    struct schedule schedule;
    struct program *programs;
    struct diagnostics diag;
    uint64_t documents[65], counts[16];
};

static inline struct experiment plain_experiment(uint64_t seq_len, uint32_t ranks)
{
    struct experiment experiment = {
        .path = "test",
        .model = {.q_heads = 4, .kv_heads = 2, .head_dim = 8},
        .dtype = DTYPE_BF16,
        .seq_len = seq_len,
        .batch = 1,
        .mask = {.kind = MASK_CAUSAL, .seq_len = seq_len},
        .train = true,
        .degree = {1, ranks, 1},
        .overlap = true,
        .buffers = 2,
        .skip = SKIP_COMPUTE,
        .gradient_accumulator = true,
    };
    return experiment;
}

/* Makes the schedule of `f->experiment` and builds all programs; without schedule_init, whose subject is INI keys. */
static inline void build(struct fixture *f, const struct algorithm_ops *algorithm)
{
    diagnostics_init(&f->diag);
    f->schedule = (struct schedule){.experiment = &f->experiment,
                                    .algorithm = algorithm,
                                    .ranks = f->experiment.degree[PARALLEL_CP],
                                    .q_heads = f->experiment.model.q_heads,
                                    .kv_heads = f->experiment.model.kv_heads};
    f->schedule.lanes = (struct lanes){0, f->schedule.q_heads, 0, f->experiment.batch};
    sharding_init(&f->schedule.sharding, &f->experiment, 1);
    if (algorithm && algorithm->prepare)
        f->schedule.algorithm_data = algorithm->prepare(&f->schedule);
    f->programs = algorithm ? schedule_build_all(&f->schedule) : memory_zeroed(f->schedule.ranks, sizeof *f->programs);
}

static inline struct fixture *make(const struct algorithm_ops *algorithm, uint64_t seq_len, uint32_t ranks)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(seq_len, ranks);
    build(f, algorithm);
    return f;
}

static inline void release(struct fixture *f)
{
    schedule_free_programs(&f->schedule, f->programs);
    schedule_fini(&f->schedule);
    diagnostics_fini(&f->diag);
    free(f);
}

static inline void check_passes(struct fixture *f)
{
    if (!checker_check(&f->schedule, f->programs, &f->diag)) {
        diagnostics_print(&f->diag, stderr, "  ");
        fail();
    }
    assert_int_equal(f->diag.count, 0);
}

/* The schedule is refused, and some line has all of `text` in it. */
static inline void check_fails(struct fixture *f, const char *text)
{
    assert_false(checker_check(&f->schedule, f->programs, &f->diag));
    assert_true(f->diag.count > 0);
    for (size_t i = 0; i < f->diag.count; i++)
        if (strstr(f->diag.lines[i], text))
            goto found;
    diagnostics_print(&f->diag, stderr, "  ");
    fail_msg("no line says '%s'", text);
found:
    release(f);
}

/* ---- edits ---- */

static inline uint32_t find_op(const struct program *program, enum phase phase, enum op_kind kind, uint32_t nth)
{
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == kind && program_phase(program, i) == phase && nth-- == 0)
            return i;
    fail_msg("no such %s", op_kind_name(kind));
    return 0;
}

static inline uint32_t find_message(const struct program *program, enum op_kind kind, enum traffic traffic,
                                    uint32_t peer)
{
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == kind && program->ops[i].traffic == traffic && program->ops[i].peer == peer)
            return i;
    fail_msg("no such message");
    return 0;
}

static inline uint32_t find_buffer(const struct program *program, const char *name)
{
    for (uint32_t i = 0; i < program->n_buffers; i++)
        if (strcmp(program->buffers[i].name, name) == 0)
            return i;
    fail_msg("no buffer '%s'", name);
    return 0;
}

static inline void drop_op(struct program *program, uint32_t op)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        program->phase_end[phase] -= op < program->phase_end[phase];
    program->n_ops--;
    memmove(program->ops + op, program->ops + op + 1, (program->n_ops - op) * sizeof *program->ops);
}

/* Puts `added` before operation `at`. */
static inline void insert_op(struct program *program, uint32_t at, struct op added)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        program->phase_end[phase] += at < program->phase_end[phase];
    memory_grow(program->ops, program->n_ops, program->op_capacity);
    memmove(program->ops + at + 1, program->ops + at, (program->n_ops - at) * sizeof *program->ops);
    program->ops[at] = added;
    program->n_ops++;
}

static inline void set_access(struct program *program, uint32_t op, uint32_t nth, uint32_t buffer)
{
    program->accesses[program->ops[op].access + nth] = buffer;
}

#endif
