/* Steps composed of operations' times: closed forms of rings whose kernels, or messages, all take the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "hw/run/composed_timeline.h"
#include "tests/hw/scene.h"

struct composed {
    struct experiment experiment;
    struct schedule schedule;
    struct program *programs;
    struct execution *execution;
    struct timeline timeline;
};

/* Of a ring of `ranks`: attention takes so long, messages so long, everything else nothing. All of them were measured
 * one after the other, from a time that means nothing. */
static void compose(struct composed *c, uint32_t ranks, double attend, double message, enum run_mode mode)
{
    struct diagnostics diag;
    c->experiment = make_experiment("ring", ranks, 16 * ranks);
    c->experiment.mask.kind = MASK_FULL;
    c->experiment.train = false;
    diagnostics_init(&diag);
    assert_true(schedule_init(&c->schedule, &c->experiment, NULL, &diag));
    c->programs = schedule_build_all(&c->schedule);
    c->execution = execution_create(c->programs, ranks, 1, &diag);
    assert_non_null(c->execution);
    struct rank_record *records = memory_zeroed(ranks, sizeof *records);
    double now = 1e6;
    for (uint32_t r = 0; r < ranks; r++) {
        records[r].moments = memory_zeroed(c->programs[r].n_ops, sizeof *records[r].moments);
        for (uint32_t i = 0; i < c->programs[r].n_ops; i++) {
            const struct op *op = &c->programs[r].ops[i];
            const double seconds = op_is_message(op) ? message : op_is_attention(op) ? attend : 0;
            records[r].moments[i] = (struct moment){now, now + (op_is_message(op) ? 7 : 0), now};
            records[r].moments[i].end = records[r].moments[i].move + seconds;
            now += seconds + 10;
        }
    }
    composed_timeline(&c->timeline, c->programs, ranks, c->execution, records, mode);
    for (uint32_t r = 0; r < ranks; r++)
        free(records[r].moments);
    free(records);
    diagnostics_fini(&diag);
}

static void composed_fini(struct composed *c)
{
    timeline_fini(&c->timeline);
    execution_destroy(c->execution);
    schedule_free_programs(&c->schedule, c->programs);
    schedule_fini(&c->schedule);
}

static void assert_step(uint32_t ranks, double attend, double message, enum run_mode mode, double expected)
{
    struct composed c;
    compose(&c, ranks, attend, message, mode);
    if (fabs(c.timeline.phase_end[PHASE_FORWARD] - expected) > 1e-6)
        fail_msg("%u ranks, kernels of %g s, messages of %g s: %.9g s, expected %.9g s", ranks, attend, message,
                 c.timeline.phase_end[PHASE_FORWARD], expected);
    assert_true(c.timeline.phase_end[PHASE_BACKWARD] == c.timeline.phase_end[PHASE_FORWARD]);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < c.programs[r].n_ops; i++)
            assert_true(c.timeline.moments[r][i].begin <= c.timeline.moments[r][i].move &&
                        c.timeline.moments[r][i].move <= c.timeline.moments[r][i].end);
    composed_fini(&c);
}

/* P kernels, and between them the longer of kernel and message: the message to the next step moves beside a kernel. */
static void a_ring_takes_the_slower_of_kernels_and_messages(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 5; ranks++) {
        assert_step(ranks, 1, 0.25, RUN_ALL, ranks);
        assert_step(ranks, 1, 4, RUN_ALL, 1 + 4 * (ranks - 1));
        assert_step(ranks, 1, 4, RUN_COMPUTE, ranks); /* messages take no time, whatever was measured */
        assert_step(ranks, 0, 4, RUN_MESSAGES, 4 * (ranks - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_ring_takes_the_slower_of_kernels_and_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
