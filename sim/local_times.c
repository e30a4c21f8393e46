/* local_times.c - asks the cost model about every local operation of every shape. */
#include "sim/local_times.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"

static double *program_seconds(const struct cost *cost, const struct program *program)
{
    double *seconds = memory_zeroed(program->n_ops, sizeof *seconds);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op_is_message(op))
            continue;
        seconds[i] = cost_op_seconds(cost, program, op);
        assert(seconds[i] >= 0 && isfinite(seconds[i]));
    }
    return seconds;
}

/* When the host has issued each operation of a program, counted from the first; NULL when it takes no time to. */
static double *program_issue(const struct cost *cost, const struct program *program)
{
    double issued = 0;
    double *issue = memory_zeroed(program->n_ops, sizeof *issue);
    for (uint32_t i = 0; i < program->n_ops; i++)
        issue[i] = issued += cost_host_seconds(cost, program, &program->ops[i]);
    if (issued > 0)
        return issue;
    free(issue);
    return NULL;
}

static double computed_seconds(const struct program *program, const double *seconds)
{
    double computed = 0;
    for (uint32_t i = 0; i < program->n_ops; i++)
        computed += stream_computes((enum stream)program->ops[i].stream) ? seconds[i] : 0;
    return computed;
}

struct local_times *local_times_create(const struct ensemble *ensemble, const struct cost *cost)
{
    struct local_times *times = memory_zeroed(1, sizeof *times);
    struct kernel_memo *memo = NULL;
    struct cost kept = *cost;
    if (!kept.memo)
        kept.memo = memo = memory_zeroed(1, sizeof *memo);
    *times = (struct local_times){.users = 1,
                                  .n_shapes = ensemble->n_shapes,
                                  .seconds = memory_zeroed(ensemble->n_shapes, sizeof *times->seconds),
                                  .issue = memory_zeroed(ensemble->n_shapes, sizeof *times->issue),
                                  .computed = memory_zeroed(ensemble->n_shapes, sizeof *times->computed)};
    for (uint32_t s = 0; s < ensemble->n_shapes; s++) {
        const struct program *program = ensemble->shapes[s].program;
        times->seconds[s] = program_seconds(&kept, program);
        times->issue[s] = program_issue(&kept, program);
        times->issues |= times->issue[s] != NULL;
        times->computed[s] = computed_seconds(program, times->seconds[s]);
    }
    free(memo);
    return times;
}

void local_times_release(struct local_times *times)
{
    if (!times || --times->users > 0)
        return;
    for (uint32_t s = 0; s < times->n_shapes; s++) {
        free(times->seconds[s]);
        free(times->issue[s]);
    }
    free(times->seconds);
    free(times->issue);
    free(times->computed);
    free(times);
}
