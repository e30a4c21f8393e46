/* executor_memory.c - what buffers hold when they get memory: inputs, poison, or stand-ins for what no message brings.
 *
 * On an asynchronous backend memory is given while the host is ahead of the device, which may still be using it for the
 * buffer that had it before. So poison is queued: in the stream of the first operation that touches the buffer, in
 * front of it, where that operation may touch it too. It writes the buffer, as nothing may be read that nobody wrote,
 * and all others are ordered behind it. Inputs are written at the beginning of a phase, when nothing is queued.
 */
#include <inttypes.h>

#include "hw/run/executor_parts.h"

#define POISON 0xff   /* NaN in fp32, in bf16 and in fp16 */
#define STAND_IN 0x3c /* a small number in fp32 and in bf16, one of some size in fp16 */

struct rank_tensors executor_tensors(const struct executor *x)
{
    return (struct rank_tensors){x->schedule, x->program, x->compute_ops, x->compute, x->memory.memory, x->place};
}

static void fill_new(void *context, uint32_t index)
{
    struct executor *x = context;
    const struct buffer *buffer = &x->program->buffers[index];
    void *memory = x->memory.memory[index];
    if (x->memory.is_input[index]) {
        const struct rank_tensors tensors = executor_tensors(x);
        rank_tensors_write_input(&tensors, x->step->seed, index);
    } else if (x->queued) {
        x->unfilled[index] = x->step->mode == RUN_ALL && x->step->poison;
    } else if (x->step->mode != RUN_ALL) {
        x->compute_ops->fill(x->compute, memory, STAND_IN, buffer->bytes);
    } else if (x->step->poison) {
        x->compute_ops->fill(x->compute, memory, POISON, buffer->bytes);
    }
}

static void complain(struct executor *x, int64_t buffer)
{
    const char *reason = compute_failure(x->compute_ops, x->compute);
    if (reason)
        executor_fail(x, "%s", reason); /* of which the missing memory is a consequence */
    else
        executor_fail(x, "no memory for buffer '%s' of %" PRIu64 " bytes, beside %" PRIu64 " in use",
                      x->program->buffers[buffer].name, x->program->buffers[buffer].bytes, x->memory.bytes);
}

void executor_go_to_point(struct executor *x, uint32_t point)
{
    int64_t missing = x->failed ? -1 : rank_memory_at(&x->memory, point, fill_new, x);
    if (missing >= 0)
        complain(x, missing);
}

void executor_rehearse_memory(struct executor *x)
{
    int64_t missing = -1;
    for (uint32_t point = 0; point < x->memory.lifetimes.n_points && missing < 0; point++)
        missing = rank_memory_at(&x->memory, point, NULL, NULL);
    if (missing >= 0)
        complain(x, missing);
    rank_memory_reset(&x->memory, false);
}

static void fill_first(struct executor *x, const struct op *op, uint32_t buffer)
{
    uint64_t bytes = x->program->buffers[buffer].bytes;
    if (!x->unfilled[buffer])
        return;
    x->unfilled[buffer] = false;
    if (bytes)
        x->compute_ops->queues->fill(x->compute, (enum stream)op->stream, x->memory.memory[buffer], POISON, bytes);
}

void executor_fill_before(struct executor *x, uint32_t index)
{
    const struct op *op = &x->program->ops[index];
    if (!x->step->poison)
        return;
    for (uint32_t i = 0; i < op->n_reads; i++)
        fill_first(x, op, program_reads(x->program, op)[i]);
    for (uint32_t i = 0; i < op->n_writes; i++)
        fill_first(x, op, program_writes(x->program, op)[i]);
}
