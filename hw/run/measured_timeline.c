/* measured_timeline.c - moments of all ranks on one clock, counted from the start of the step. */
#include "hw/run/measured_timeline.h"

#include <math.h>

/* Seconds since the step began, of a moment of `rank` in a phase that began for all at `origin` and follows what ended
 * at `base`. Clocks of different hosts agree only so far: nothing is before its phase. */
static double shift(double seconds, double offset, double origin, double base)
{
    return base + fmax(0, seconds + offset - origin);
}

static bool any_has_phase(const struct program *programs, uint32_t n, int phase)
{
    for (uint32_t r = 0; r < n; r++)
        if (programs[r].phase_end[phase] > (phase ? programs[r].phase_end[phase - 1] : 0))
            return true;
    return false;
}

static void shift_phase(struct timeline *timeline, const struct program *programs, uint32_t n,
                        const struct rank_record *records, const double *offsets, int phase)
{
    double origin = INFINITY, base = phase ? timeline->phase_end[phase - 1] : 0, end = base;
    timeline->phase_end[phase] = base;
    if (!any_has_phase(programs, n, phase)) /* then it ends on each rank when the one before did */
        return;
    for (uint32_t r = 0; r < n; r++)
        origin = fmin(origin, records[r].phase_begin[phase] + offsets[r]);
    for (uint32_t r = 0; r < n; r++) {
        end = fmax(end, shift(records[r].phase_end[phase], offsets[r], origin, base));
        for (uint32_t i = phase ? programs[r].phase_end[phase - 1] : 0; i < programs[r].phase_end[phase]; i++) {
            const struct moment *raw = &records[r].moments[i];
            struct moment *moment = &timeline->moments[r][i];
            moment->begin = shift(raw->begin, offsets[r], origin, base);
            moment->move = fmax(moment->begin, shift(raw->move, offsets[r], origin, base));
            moment->end = fmax(moment->begin, shift(raw->end, offsets[r], origin, base));
            end = fmax(end, moment->end);
        }
    }
    timeline->phase_end[phase] = end;
}

static void join_messages(struct timeline *timeline, const struct program *program, uint32_t rank,
                          const struct execution *execution)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].kind != OP_SEND)
            continue;
        struct activity receive = execution_receive_of(execution, (struct activity){rank, i});
        struct moment *sent = &timeline->moments[rank][i], *received = &timeline->moments[receive.instance][receive.op];
        sent->begin = fmax(sent->begin, received->begin);
        sent->end = fmax(sent->begin, received->end);
        sent->move = fmin(sent->end, fmax(sent->begin, received->move));
        *received = *sent;
    }
}

void measured_timeline(struct timeline *timeline, const struct program *programs, uint32_t n_programs,
                       const struct execution *execution, const struct rank_record *records, const double *offsets,
                       enum run_mode mode)
{
    timeline_init(timeline, programs, n_programs, 1);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        shift_phase(timeline, programs, n_programs, records, offsets, phase);
    for (uint32_t r = 0; r < n_programs && mode != RUN_COMPUTE; r++)
        join_messages(timeline, &programs[r], r, execution);
}
