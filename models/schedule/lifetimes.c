/* lifetimes.c - points of the compute stream, what touches each buffer when, and from that its births and deaths. */
#include "models/schedule/lifetimes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

/* How one phase touches a buffer. */
struct use {
    bool used;
    bool read_first;             /* its first access needs what the buffer held before */
    uint32_t born;               /* point */
    uint32_t last[STREAM_COUNT]; /* 1 + the last operation of each stream that touches it; 0: none */
};

struct scan {
    const struct program *program;
    struct stream_reach reach;
    struct lifetimes *out;
    struct use (*uses)[PHASE_COUNT]; /* [buffer] */
};

static uint32_t phase_first(const struct program *program, int phase)
{
    return phase ? program->phase_end[phase - 1] : 0;
}

/* Numbers the points: each phase's begin, then two for each operation (or group) of the compute stream. */
static void number_points(struct lifetimes *out, const struct program *program)
{
    uint32_t point = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        uint32_t group = 0;
        out->phase_begin[phase] = point++;
        for (uint32_t i = phase_first(program, phase); i < program->phase_end[phase]; i++) {
            const struct op *op = &program->ops[i];
            if (op->stream != STREAM_COMPUTE)
                continue;
            bool mate = op->group && op->group == group;
            group = op->group;
            out->starts[i] = mate ? point - 2 : point;
            point += mate ? 0 : 2;
        }
    }
    out->n_points = point + 1;
}

/* The point from which `op` may run. */
static uint32_t ready_point(const struct scan *scan, uint32_t op, int phase)
{
    const struct op *what = &scan->program->ops[op];
    if (what->stream == STREAM_COMPUTE)
        return scan->out->starts[op];
    uint32_t member = what->group ? scan->reach.group_ends[what->group] - 1 : op;
    uint32_t before = scan->reach.last[member][STREAM_COMPUTE];
    return before > phase_first(scan->program, phase) ? scan->out->starts[before - 1] + 1
                                                      : scan->out->phase_begin[phase];
}

static void touch(const struct scan *scan, uint32_t buffer, uint32_t op, int phase, bool read)
{
    struct use *use = &scan->uses[buffer][phase];
    const struct op *what = &scan->program->ops[op];
    uint32_t first = op, last = op;
    if (what->collective && what->stream == STREAM_COMPUTE) {
        first = scan->program->collectives[what->collective - 1].first_op;
        last = scan->program->collectives[what->collective - 1].end_op - 1;
    }
    uint32_t born = ready_point(scan, first, phase);
    if (!use->used)
        *use = (struct use){.used = true, .read_first = read, .born = born};
    if (born < use->born)
        use->born = born;
    use->last[what->stream] = last + 1;
}

static void find_uses(struct scan *scan)
{
    for (uint32_t i = 0; i < scan->program->n_ops; i++) {
        const struct op *op = &scan->program->ops[i];
        int phase = (int)program_phase(scan->program, i);
        for (uint32_t a = 0; a < op->n_reads; a++)
            touch(scan, program_reads(scan->program, op)[a], i, phase, true);
        for (uint32_t a = 0; a < op->n_writes; a++)
            touch(scan, program_writes(scan->program, op)[a], i, phase, false);
    }
}

/* The start of the first of `units` (compute operations of one phase, in order) that has waited for the first `last`
 * operations of `stream`; `never` if there is none. What one has waited for, all later ones have. */
static uint32_t waited_for(const struct scan *scan, const uint32_t *units, uint32_t n_units, enum stream stream,
                           uint32_t last, uint32_t never)
{
    uint32_t low = 0, high = n_units;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (scan->reach.last[units[middle]][stream] >= last)
            high = middle;
        else
            low = middle + 1;
    }
    return low < n_units ? scan->out->starts[units[low]] : never;
}

static uint32_t death_point(const struct scan *scan, const struct use *use, int phase, const uint32_t *units,
                            uint32_t n_units)
{
    uint32_t end = phase + 1 < PHASE_COUNT ? scan->out->phase_begin[phase + 1] : scan->out->n_points - 1;
    uint32_t dies = 0;
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        if (use->last[stream] == 0)
            continue;
        uint32_t point = stream == STREAM_COMPUTE
                             ? scan->out->starts[use->last[stream] - 1] + 1
                             : waited_for(scan, units, n_units, (enum stream)stream, use->last[stream], end);
        dies = point > dies ? point : dies;
    }
    return dies;
}

static void set_lives(struct scan *scan, int phase)
{
    const struct program *program = scan->program;
    uint32_t first = phase_first(program, phase), n_units = 0;
    uint32_t *units = memory_zeroed(program->phase_end[phase] - first, sizeof *units);
    for (uint32_t i = first; i < program->phase_end[phase]; i++)
        if (program->ops[i].stream == STREAM_COMPUTE)
            units[n_units++] = i;
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        const struct use *use = &scan->uses[b][phase];
        if (use->used)
            scan->out->lives[b][phase] = (struct life){use->born, death_point(scan, use, phase, units, n_units)};
    }
    free(units);
}

/* Stretches residents over their phases, and joins the two lives of what is kept from one phase to the next. */
static void keep(struct scan *scan, uint32_t buffer)
{
    const struct buffer *what = &scan->program->buffers[buffer];
    struct life *forward = &scan->out->lives[buffer][PHASE_FORWARD], *backward = forward + 1;
    bool in_forward = scan->uses[buffer][PHASE_FORWARD].used, in_backward = scan->uses[buffer][PHASE_BACKWARD].used;
    uint32_t begin = scan->out->phase_begin[PHASE_BACKWARD], end = scan->out->n_points - 1;
    if (what->kept) {
        *forward = (struct life){0, end};
        *backward = (struct life){0, 0};
        return;
    }
    if (what->role == ROLE_RESIDENT) {
        bool stays = what->tensor == TENSOR_O || what->tensor == TENSOR_LSE;
        if (in_forward)
            *forward = (struct life){0, stays ? end : begin};
        if (in_backward)
            *backward = (struct life){begin, end};
        if (!in_forward && !in_backward) /* keys that nobody sees: the rank holds them all the same */
            *forward = (struct life){0, begin};
    }
    if (in_forward && in_backward && (what->role == ROLE_RESIDENT || scan->uses[buffer][PHASE_BACKWARD].read_first)) {
        forward->dies = backward->dies;
        *backward = (struct life){0, 0};
    }
}

/* Buffers of one array come and go together. */
static void join_arrays(struct scan *scan)
{
    const struct program *program = scan->program;
    uint32_t *leader = memory_zeroed((size_t)program->n_arrays + 1, sizeof *leader); /* 1 + its first buffer */
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        uint32_t array = program->buffers[b].array;
        if (array && !leader[array])
            leader[array] = b + 1;
        for (int phase = 0; array && phase < PHASE_COUNT; phase++) {
            struct life *life = &scan->out->lives[leader[array] - 1][phase], other = scan->out->lives[b][phase];
            if (other.born == other.dies)
                continue;
            bool fresh = life->born == life->dies;
            life->born = fresh || other.born < life->born ? other.born : life->born;
            life->dies = fresh || other.dies > life->dies ? other.dies : life->dies;
        }
    }
    for (uint32_t b = 0; b < program->n_buffers; b++)
        if (program->buffers[b].array)
            memcpy(scan->out->lives[b], scan->out->lives[leader[program->buffers[b].array] - 1],
                   sizeof scan->out->lives[b]);
    free(leader);
}

void lifetimes_init(struct lifetimes *lifetimes, const struct stream_order *order)
{
    const struct program *program = order->program;
    *lifetimes = (struct lifetimes){.lives = memory_zeroed(program->n_buffers, sizeof *lifetimes->lives),
                                    .starts = memory_zeroed(program->n_ops, sizeof *lifetimes->starts)};
    struct scan scan = {
        .program = program, .out = lifetimes, .uses = memory_zeroed(program->n_buffers, sizeof *scan.uses)};
    stream_reach_init(&scan.reach, order);
    number_points(lifetimes, program);
    find_uses(&scan);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        set_lives(&scan, phase);
    for (uint32_t b = 0; b < program->n_buffers; b++)
        keep(&scan, b);
    join_arrays(&scan);
    stream_reach_fini(&scan.reach);
    free(scan.uses);
}

void lifetimes_fini(struct lifetimes *lifetimes)
{
    free(lifetimes->lives);
    free(lifetimes->starts);
    memset(lifetimes, 0, sizeof *lifetimes);
}
