/* steps.c - cuts the kernels of a rank, in order of their begin, behind each attention operation. */
#include "models/result/steps.h"

#include "models/base/memory.h"

static struct step_row *open_step(struct step_list *steps, const struct program *program, uint32_t op_index,
                                  struct moment moment)
{
    const struct op *op = &program->ops[op_index];
    enum phase phase = program_phase(program, op_index);
    uint32_t step = 0;
    if (steps->count) {
        const struct step_row *last = &steps->rows[steps->count - 1];
        if (last->rank == program->rank && last->phase == phase)
            step = last->step + 1;
    }
    memory_grow(steps->rows, steps->count, steps->capacity);
    struct step_row *row = &steps->rows[steps->count++];
    *row = (struct step_row){
        .rank = program->rank,
        .phase = phase,
        .step = step,
        .key_owner = op->k.owner,
        .query_rows = op->q.count,
        .key_rows = op->k.count,
        .pairs = op->pairs,
        .begin = moment.move,
        .attend_seconds = moment.end - moment.move,
    };
    return row;
}

/* What comes before the first attention operation of the phase is added to that one's row, anything else to the row of
 * the attention operation before it; so the rows of a phase hold all of its waiting. */
static void append_phase(struct step_list *steps, const struct program *program, const struct moment *moments,
                         const struct rank_time *time, int phase, const uint32_t *kernels)
{
    struct step_row start = {0}, *row = NULL;
    for (uint32_t k = 0; k < time->n_kernels[phase]; k++) {
        uint32_t i = kernels[k];
        if (op_is_attention(&program->ops[i])) {
            bool first = !row;
            row = open_step(steps, program, i, moments[i]);
            row->exposed_seconds = time->exposed_before[i] + (first ? start.exposed_after_seconds : 0);
            row->idle_seconds = time->idle_before[i] + (first ? start.idle_after_seconds : 0);
            row->other_seconds = first ? start.other_seconds : 0;
        } else {
            struct step_row *before = row ? row : &start;
            before->other_seconds += moments[i].end - moments[i].move;
            before->exposed_after_seconds += time->exposed_before[i];
            before->idle_after_seconds += time->idle_before[i];
        }
    }
    if (row) {
        row->exposed_after_seconds += time->exposed_tail[phase];
        row->idle_after_seconds += time->idle_tail[phase];
    }
}

void steps_append(struct step_list *steps, const struct program *program, const struct moment *moments,
                  const struct rank_time *time)
{
    const uint32_t *kernels = time->kernels;
    for (int phase = 0; phase < PHASE_COUNT; kernels += time->n_kernels[phase++])
        append_phase(steps, program, moments, time, phase, kernels);
}
