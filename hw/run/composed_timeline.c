/* composed_timeline.c - replays the programs with measured durations: of the activities under way, the one that ends
 * first is finished, which may make others ready. Few are under way at once, so they are a plain list. */
#include "hw/run/composed_timeline.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"

struct under_way {
    struct activity activity;
    double end;    /* INFINITY: waits for its rank's device */
    uint64_t turn; /* kernels: in the order in which they became ready */
};

struct composing {
    const struct program *programs;
    const struct execution *pairs;
    const struct rank_record *records;
    enum run_mode mode;
    struct timeline *timeline;
    struct under_way *items;
    size_t count, capacity;
    uint64_t turns;
    bool *is_busy; /* [rank]: its device runs a kernel */
    double now;
};

static const struct op *op_of(const struct composing *c, struct activity activity)
{
    return &c->programs[activity.instance].ops[activity.op];
}

static bool is_kernel(const struct composing *c, struct activity activity)
{
    const struct op *op = op_of(c, activity);
    return !op_is_message(op) && stream_computes((enum stream)op->stream);
}

static double measured_seconds(const struct composing *c, struct activity activity)
{
    bool message = op_is_message(op_of(c, activity));
    struct activity at = message ? execution_receive_of(c->pairs, activity) : activity;
    const struct moment *moment = &c->records[at.instance].moments[at.op];
    if (message && c->mode == RUN_COMPUTE)
        return 0;
    return fmax(0, moment->end - (message ? moment->move : moment->begin));
}

static void move(struct composing *c, struct under_way *item)
{
    c->timeline->moments[item->activity.instance][item->activity.op].move = c->now;
    item->end = c->now + measured_seconds(c, item->activity);
    if (is_kernel(c, item->activity))
        c->is_busy[item->activity.instance] = true;
}

static void begin(struct composing *c, struct activity activity)
{
    c->timeline->moments[activity.instance][activity.op].begin = c->now;
    memory_grow(c->items, c->count, c->capacity);
    struct under_way *item = &c->items[c->count++];
    *item = (struct under_way){activity, INFINITY, c->turns++};
    if (!is_kernel(c, activity) || !c->is_busy[activity.instance])
        move(c, item);
}

/* The kernel that has waited longest for its rank's device begins. */
static void give_device(struct composing *c, uint32_t rank)
{
    struct under_way *first = NULL;
    for (size_t i = 0; i < c->count; i++) {
        struct under_way *item = &c->items[i];
        if (item->activity.instance == rank && isinf(item->end) && (!first || item->turn < first->turn))
            first = item;
    }
    c->is_busy[rank] = false;
    if (first)
        move(c, first);
}

static void finish(struct composing *c, struct activity activity)
{
    struct moment *moment = &c->timeline->moments[activity.instance][activity.op];
    int phase = (int)program_phase(&c->programs[activity.instance], activity.op);
    moment->end = c->now;
    if (op_is_message(op_of(c, activity))) {
        struct activity receive = execution_receive_of(c->pairs, activity);
        c->timeline->moments[receive.instance][receive.op] = *moment;
    }
    for (; phase < PHASE_COUNT; phase++)
        c->timeline->phase_end[phase] = c->now;
    if (is_kernel(c, activity))
        give_device(c, activity.instance);
}

/* Takes what ends first, of several what came first, off the list. */
static struct activity take_next(struct composing *c)
{
    size_t next = 0;
    for (size_t i = 1; i < c->count; i++)
        if (c->items[i].end < c->items[next].end ||
            (c->items[i].end <= c->items[next].end && c->items[i].turn < c->items[next].turn))
            next = i;
    struct activity activity = c->items[next].activity;
    c->now = c->items[next].end;
    c->items[next] = c->items[--c->count];
    return activity;
}

void composed_timeline(struct timeline *timeline, const struct program *programs, uint32_t n_programs,
                       const struct execution *pairs, const struct rank_record *records, enum run_mode mode)
{
    struct diagnostics none;
    diagnostics_init(&none);
    struct execution *execution = execution_create(programs, n_programs, 1, &none);
    assert(execution); /* `pairs` is one too */
    timeline_init(timeline, programs, n_programs, 1);
    struct composing composing = {.programs = programs,
                                  .pairs = pairs,
                                  .records = records,
                                  .mode = mode,
                                  .timeline = timeline,
                                  .is_busy = memory_zeroed(n_programs, sizeof(bool))};
    struct activity activity;
    do {
        while (execution_next(execution, &activity))
            begin(&composing, activity);
        if (composing.count == 0)
            break;
        activity = take_next(&composing);
        finish(&composing, activity);
        execution_finish(execution, activity);
    } while (true);
    free(composing.items);
    free(composing.is_busy);
    execution_destroy(execution);
    diagnostics_fini(&none);
}
