/* splice.c - numbers of buffers, groups, arrays and collectives are those of the target: everything else is copied. */
#include "models/schedule/layers/splice.h"

#include <stdlib.h>

#include "models/base/memory.h"

/* A copy under way. The tables say what a number of `from` is in `into`; 0: nothing yet. */
struct splice {
    struct program *into;
    const struct program *from;
    uint32_t *map;    /* [buffer]; NO_BUFFER: nothing yet */
    uint32_t *groups; /* [group] */
    uint32_t *arrays; /* [array] */
    uint32_t shift;   /* of operations: added to their indices (mod 2^32) */
};

static uint32_t buffer_in(struct splice *splice, uint32_t b)
{
    if (b == NO_BUFFER)
        return NO_BUFFER;
    if (splice->map[b] == NO_BUFFER) {
        struct buffer copy = splice->from->buffers[b];
        if (copy.array && !splice->arrays[copy.array])
            splice->arrays[copy.array] = program_new_array(splice->into);
        copy.array = copy.array ? splice->arrays[copy.array] : 0;
        splice->map[b] = program_add_buffer(splice->into, splice->from->buffers[b].name, copy);
    }
    return splice->map[b];
}

/* The arrays that earlier copies of the same map have begun. */
static void find_arrays(struct splice *splice)
{
    for (uint32_t b = 0; b < splice->from->n_buffers; b++)
        if (splice->from->buffers[b].array && splice->map[b] != NO_BUFFER)
            splice->arrays[splice->from->buffers[b].array] = splice->into->buffers[splice->map[b]].array;
}

static uint32_t *translated(struct splice *splice, const uint32_t *buffers, uint32_t count)
{
    uint32_t *result = memory_zeroed(count, sizeof *result);
    for (uint32_t i = 0; i < count; i++)
        result[i] = buffer_in(splice, buffers[i]);
    return result;
}

static uint32_t copy_collective(struct splice *splice, const struct collective *what)
{
    const uint32_t *lists = splice->from->lists;
    uint32_t n = what->n_members;
    uint32_t *sources = translated(splice, lists + what->sources, n);
    uint32_t *targets = translated(splice, lists + what->targets, n);
    program_begin_collective(splice->into, (enum collective_call)what->call, (enum stream)what->stream, n, what->me,
                             lists + what->members, sources, targets);
    program_end_collective(splice->into);
    free(sources);
    free(targets);
    uint32_t number = splice->into->n_collectives;
    struct collective *copy = &splice->into->collectives[number - 1];
    copy->first_op = what->first_op + splice->shift;
    copy->end_op = what->end_op + splice->shift;
    return number;
}

static void copy_op(struct splice *splice, const struct op *what, const uint32_t *collectives)
{
    struct op op = *what;
    if (op.group) {
        if (!splice->groups[op.group])
            splice->groups[op.group] = program_new_group(splice->into);
        op.group = splice->groups[op.group];
    }
    uint32_t *reads = translated(splice, program_reads(splice->from, what), what->n_reads);
    uint32_t *writes = translated(splice, program_writes(splice->from, what), what->n_writes);
    uint32_t index = program_add_op(splice->into, op, reads, what->n_reads, writes, what->n_writes);
    splice->into->ops[index].collective = what->collective ? collectives[what->collective - 1] : 0;
    free(reads);
    free(writes);
}

void program_splice(struct program *into, const struct program *from, enum phase phase, uint32_t *map)
{
    uint32_t first = phase ? from->phase_end[phase - 1] : 0;
    struct splice splice = {.into = into,
                            .from = from,
                            .map = map,
                            .groups = memory_zeroed((size_t)from->n_groups + 1, sizeof *splice.groups),
                            .arrays = memory_zeroed((size_t)from->n_arrays + 1, sizeof *splice.arrays),
                            .shift = into->n_ops - first};
    uint32_t *collectives = memory_zeroed(from->n_collectives, sizeof *collectives);
    find_arrays(&splice);
    for (uint32_t c = 0; c < from->n_collectives; c++)
        if (from->collectives[c].phase == phase)
            collectives[c] = copy_collective(&splice, &from->collectives[c]);
    for (uint32_t i = first; i < from->phase_end[phase]; i++)
        copy_op(&splice, &from->ops[i], collectives);
    free(collectives);
    free(splice.groups);
    free(splice.arrays);
}
