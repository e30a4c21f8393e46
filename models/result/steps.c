/* steps.c - cuts the kernels of a rank, in order of their begin, behind each attention operation. */
#include "models/result/steps.h"

#include "models/base/memory.h"

/* The rank whose steps are listed. */
struct subject {
    const struct ensemble *whole;
    uint32_t rank;
    const struct program *program;
    const struct moment *moments;
    const struct rank_time *time;
};

static struct step_row *open_step(struct step_list *steps, const struct subject *subject, uint32_t op_index)
{
    const struct program *program = subject->program;
    const struct op *op = &program->ops[op_index];
    struct moment moment = subject->moments[op_index];
    enum phase phase = program_phase(program, op_index);
    uint32_t step = 0;
    if (steps->count) {
        const struct step_row *last = &steps->rows[steps->count - 1];
        if (last->rank == subject->rank && last->phase == phase)
            step = last->step + 1;
    }
    memory_grow(steps->rows, steps->count, steps->capacity);
    struct step_row *row = &steps->rows[steps->count++];
    *row = (struct step_row){
        .rank = subject->rank,
        .phase = phase,
        .step = step,
        .key_owner = ensemble_owner(subject->whole, subject->rank, op->k.owner),
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
static void append_phase(struct step_list *steps, const struct subject *subject, int phase, const uint32_t *kernels)
{
    const struct program *program = subject->program;
    const struct moment *moments = subject->moments;
    const struct rank_time *time = subject->time;
    struct step_row start = {0}, *row = NULL;
    for (uint32_t k = 0; k < time->n_kernels[phase]; k++) {
        uint32_t i = kernels[k];
        if (op_is_attention(&program->ops[i])) {
            bool first = !row;
            row = open_step(steps, subject, i);
            row->exposed_seconds = time->before[i].exposed + (first ? start.exposed_after_seconds : 0);
            row->idle_seconds = time->before[i].idle + (first ? start.idle_after_seconds : 0);
            row->other_seconds = first ? start.other_seconds : 0;
        } else {
            struct step_row *before = row ? row : &start;
            before->other_seconds += moments[i].end - moments[i].move;
            before->exposed_after_seconds += time->before[i].exposed;
            before->idle_after_seconds += time->before[i].idle;
        }
    }
    if (row) {
        row->exposed_after_seconds += time->tail[phase].exposed;
        row->idle_after_seconds += time->tail[phase].idle;
    }
}

static void append_rank(struct step_list *steps, const struct subject *subject)
{
    const uint32_t *kernels = subject->time->kernels;
    for (int phase = 0; phase < PHASE_COUNT; kernels += subject->time->n_kernels[phase++])
        append_phase(steps, subject, phase, kernels);
}

void steps_of(struct step_list *steps, const struct report_input *input)
{
    const struct ensemble *ensemble = input->ensemble;
    struct subject subject = {.whole = input->folding ? input->folding->whole : ensemble};
    *steps = (struct step_list){0};
    for (uint32_t rank = 0; rank < ensemble->ranks; rank++) {
        uint32_t instance = folding_instance(input->folding, rank);
        struct rank_time time;
        struct rank_ops ops;
        double phase_end[PHASE_COUNT];
        timeline_phases(input->timeline, ensemble->instances[instance].replica, phase_end);
        subject.rank = rank;
        subject.program = ensemble_program(ensemble, instance);
        subject.moments = input->timeline->moments[instance];
        subject.time = &time;
        rank_ops_init(&ops, &ensemble_shape(ensemble, instance)->order);
        rank_time_init(&time, &ops, timeline_instance(input->timeline, instance), phase_end);
        append_rank(steps, &subject);
        rank_time_fini(&time);
        rank_ops_fini(&ops);
    }
}
