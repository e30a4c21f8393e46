/* rank_ops.c - sorts a program's operations, and turns what has been waited for (streams.h) into numbers of messages.
 */
#include "models/result/rank_ops.h"

#include <stdlib.h>

#include "models/base/memory.h"

static void sort_ops(struct rank_ops *ops)
{
    const struct program *program = ops->program;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (uint32_t i = phase ? program->phase_end[phase - 1] : 0; i < program->phase_end[phase]; i++) {
            const struct op *op = &program->ops[i];
            if (op_is_message(op)) {
                ops->messages[ops->n_messages++] = i;
                continue;
            }
            ops->locals[ops->n_locals++] = i;
            if (!op_is_compute(op)) {
                ops->beside[ops->n_beside++] = i;
                continue;
            }
            int stream = op->stream == STREAM_COMPUTE ? 0 : 1;
            uint32_t before = 0;
            for (int earlier = 0; earlier < phase; earlier++)
                before += ops->kernels[stream].n[earlier];
            ops->kernels[stream].ops[before + ops->kernels[stream].n[phase]++] = i;
        }
    }
}

/* Streams finish in order, so what is behind a stream's last operation or group ends before it. */
static void find_last(struct rank_ops *ops)
{
    const struct program *program = ops->program;
    uint32_t n = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        uint32_t begin = phase ? program->phase_end[phase - 1] : 0, first = n;
        const struct op *found[STREAM_COUNT] = {NULL};
        for (uint32_t i = program->phase_end[phase]; i-- > begin;) {
            const struct op *op = &program->ops[i], **last = &found[op->stream];
            if (*last && (op->group == 0 || op->group != (*last)->group))
                continue;
            *last = op;
            ops->last[n++] = i;
        }
        ops->n_last[phase] = n - first;
    }
}

/* Fills in by_stream and `streams`, the stream of each which. */
static void sort_messages(struct rank_ops *ops, enum stream streams[STREAM_COUNT])
{
    uint32_t n = 0;
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        ops->first[ops->n_streams] = n;
        for (uint32_t m = 0; m < ops->n_messages; m++)
            if (ops->program->ops[ops->messages[m]].stream == stream)
                ops->by_stream[n++] = ops->messages[m];
        if (n > ops->first[ops->n_streams])
            streams[ops->n_streams++] = (enum stream)stream;
    }
    ops->first[ops->n_streams] = n;
}

/* The first of messages [low, high) of by_stream that is not below operation `op`. */
static uint32_t messages_below(const struct rank_ops *ops, uint32_t low, uint32_t high, uint32_t op)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ops->by_stream[middle] < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void find_waited(struct rank_ops *ops, const enum stream streams[STREAM_COUNT], const struct stream_reach *reach)
{
    for (uint32_t l = 0; l < ops->n_locals; l++) {
        uint32_t op = ops->locals[l];
        for (uint32_t which = 0; which < ops->n_streams; which++)
            ops->waited[(size_t)op * ops->n_streams + which] =
                messages_below(ops, ops->first[which], ops->first[which + 1], reach->last[op][streams[which]]);
    }
}

void rank_ops_init(struct rank_ops *ops, const struct stream_order *order)
{
    const struct program *program = order->program;
    uint32_t n = program->n_ops;
    enum stream streams[STREAM_COUNT];
    struct stream_reach reach;
    *ops = (struct rank_ops){.program = program,
                             .locals = memory_zeroed(n, sizeof *ops->locals),
                             .messages = memory_zeroed(n, sizeof *ops->messages),
                             .beside = memory_zeroed(n, sizeof *ops->beside),
                             .last = memory_zeroed(n, sizeof *ops->last),
                             .by_stream = memory_zeroed(n, sizeof *ops->by_stream)};
    for (int stream = 0; stream < COMPUTE_STREAMS; stream++)
        ops->kernels[stream].ops = memory_zeroed(n, sizeof *ops->kernels[stream].ops);
    sort_ops(ops);
    find_last(ops);
    sort_messages(ops, streams);
    ops->waited = memory_zeroed((size_t)n * ops->n_streams, sizeof *ops->waited);
    stream_reach_init(&reach, order);
    find_waited(ops, streams, &reach);
    stream_reach_fini(&reach);
}

void rank_ops_fini(struct rank_ops *ops)
{
    free(ops->locals);
    free(ops->messages);
    free(ops->beside);
    for (int stream = 0; stream < COMPUTE_STREAMS; stream++)
        free(ops->kernels[stream].ops);
    free(ops->last);
    free(ops->by_stream);
    free(ops->waited);
    *ops = (struct rank_ops){0};
}
