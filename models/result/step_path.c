/* step_path.c - walks from the end of each phase to its begin, and turns what it found round.
 *
 * Each replica has phases of its own. The walk begins with the one that ends last; a message leads to another one if it
 * was that one's end that was late, and so does its phase's begin.
 *
 * `at` is the moment from which on the path is known; each visit of an activity that ended then adds the piece between
 * the end of its cause and that. A cause never ends later than what it causes begins, and dependencies have no cycle,
 * so the walk ends; a kernel that is waited for has taken time, so neither does waiting close one.
 */
#include "models/result/step_path.h"

#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"

/* Moments this close, of the step, are the same: engines add up in another order. */
#define SAME 1e-9

struct walk {
    const struct path_input *input;
    struct step_path *path; /* backwards while it grows */
    double grain;
};

/* What an activity waited for: all of that ended by `end`. */
struct cause {
    double end;
    enum path_cause cause;
    struct activity activity; /* of a phase's begin: any of the rank whose phase it is */
};

static const struct program *program_of(const struct walk *walk, struct activity activity)
{
    return ensemble_program(walk->input->whole, activity.instance);
}

static const struct op *op_of(const struct walk *walk, struct activity activity)
{
    return &program_of(walk, activity)->ops[activity.op];
}

static const struct moment *moments_of(const struct walk *walk, uint32_t instance)
{
    return walk->input->timeline->moments[folding_instance(walk->input->folding, instance)];
}

static struct moment moment_of(const struct walk *walk, struct activity activity)
{
    return moments_of(walk, activity.instance)[activity.op];
}

static void consider(const struct walk *walk, struct cause *latest, struct cause cause)
{
    if (cause.end > latest->end + walk->grain)
        *latest = cause;
}

/* ---- operations that an operation waited for ---- */

static uint32_t first_of_phase(const struct program *program, enum phase phase)
{
    return phase ? program->phase_end[phase - 1] : 0;
}

static enum phase phase_of(const struct walk *walk, struct activity activity)
{
    return program_phase(program_of(walk, activity), activity.op);
}

static const struct ensemble *timelines(const struct walk *walk)
{
    return walk->input->folding ? &walk->input->folding->ensemble : walk->input->whole;
}

static uint32_t replica_of(const struct walk *walk, uint32_t instance)
{
    return timelines(walk)->instances[folding_instance(walk->input->folding, instance)].replica;
}

/* When a phase began for a rank. */
static double begin_of(const struct walk *walk, uint32_t instance, enum phase phase)
{
    double phase_end[PHASE_COUNT];
    timeline_phases(walk->input->timeline, replica_of(walk, instance), phase_end);
    return phase ? phase_end[phase - 1] : 0;
}

/* Steps to the next (or with -1 the previous) operation of the same stream; whether that was posted together with `op`.
 */
static bool next_mate(const struct program *program, uint32_t *op, int step)
{
    const struct op *self = &program->ops[*op];
    if (!self->group)
        return false;
    for (int64_t i = (int64_t)*op + step; i >= 0 && i < program->n_ops; i += step) {
        if (program->ops[i].stream != self->stream)
            continue;
        *op = (uint32_t)i;
        return program->ops[i].group == self->group;
    }
    return false;
}

/* Of the messages posted together with `op`, itself among them, that which ended last; of several, one that goes the
 * way of `like`, so that a chain of messages stays what it is. */
static uint32_t last_of_group(const struct walk *walk, uint32_t instance, uint32_t op, const struct op *like)
{
    const struct program *program = ensemble_program(walk->input->whole, instance);
    const struct moment *moments = moments_of(walk, instance);
    uint32_t last = op;
    for (int step = -1; step <= 1; step += 2)
        for (uint32_t mate = op; next_mate(program, &mate, step);) {
            double later = moments[mate].end - moments[last].end;
            bool alike = program->ops[mate].kind == like->kind && program->ops[last].kind != like->kind;
            if (later > walk->grain || (alike && later >= -walk->grain))
                last = mate;
        }
    return last;
}

/* What `end` waited for in its own stream, then in others. */
static void consider_order(const struct walk *walk, struct activity end, bool other_end, struct cause *latest)
{
    const struct stream_order *order = &ensemble_shape(walk->input->whole, end.instance)->order;
    const struct op *op = &order->program->ops[end.op];
    uint32_t first = first_of_phase(order->program, phase_of(walk, end));
    for (uint32_t i = 0; i <= order->n_streams; i++) {
        enum stream stream = i ? (enum stream)order->streams[i - 1] : (enum stream)op->stream;
        uint32_t waits = stream_order_waits(order, end.op, stream);
        if (waits <= first || (i && stream == (enum stream)op->stream))
            continue;
        struct activity before = {end.instance, last_of_group(walk, end.instance, waits - 1, op)};
        consider(walk, latest,
                 (struct cause){moment_of(walk, before).end,
                                other_end ? PATH_BY_PEER
                                : i       ? PATH_BY_HAZARD
                                          : PATH_BY_STREAM,
                                before});
    }
}

/* Messages of a group are posted when all of them may be. */
static void consider_group(const struct walk *walk, struct activity end, bool other_end, struct cause *latest)
{
    const struct program *program = program_of(walk, end);
    consider_order(walk, end, other_end, latest);
    for (int step = -1; step <= 1; step += 2)
        for (uint32_t mate = end.op; next_mate(program, &mate, step);)
            consider_order(walk, (struct activity){end.instance, mate}, other_end, latest);
}

/* ---- kernels whose end was waited for ---- */

/* Of the kernels of one stream that ended in (after, until], the last; what ends is in order but for the messages of a
 * group. */
static void consider_kernels_of(const struct walk *walk, uint32_t instance, enum stream stream, struct activity self,
                                double after, double until, struct cause *latest)
{
    const struct stream_order *order = &ensemble_shape(walk->input->whole, instance)->order;
    const struct op *ops = order->program->ops;
    const struct moment *moments = moments_of(walk, instance);
    const uint32_t *sequence = order->sequence[stream];
    uint32_t low = 0, high = order->length[stream];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (moments[sequence[middle]].end <= until)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < order->length[stream] && low > 0 && ops[sequence[low]].group &&
           ops[sequence[low]].group == ops[sequence[low - 1]].group)
        low++;
    for (; low > 0; low--) {
        struct activity kernel = {instance, sequence[low - 1]};
        struct moment moment = moments[kernel.op];
        if (moment.end <= after)
            return;
        bool is_self = kernel.instance == self.instance && kernel.op == self.op;
        if (op_is_message(&ops[kernel.op]) || is_self || moment.end > until || !(moment.end > moment.begin))
            continue;
        consider(walk, latest, (struct cause){moment.end, PATH_BY_TURN, kernel});
        return;
    }
}

static void consider_kernels(const struct walk *walk, uint32_t instance, struct activity self, double after,
                             double until, struct cause *latest)
{
    const uint32_t *device_of = walk->input->device_of;
    for (uint32_t i = device_of ? 0 : instance; i < (device_of ? walk->input->whole->n_instances : instance + 1); i++) {
        if (device_of && device_of[i] != device_of[instance])
            continue;
        consider_kernels_of(walk, i, STREAM_COMPUTE, self, after, until, latest);
        consider_kernels_of(walk, i, STREAM_COMPUTE_2, self, after, until, latest);
    }
}

/* A kernel that waited for its turn worked from the end of the one before it on its device: the last to end before its
 * own end. A message that began later than all else allowed was called behind a kernel at one of its ends. */
static void consider_turn(const struct walk *walk, struct activity self, struct cause *latest)
{
    struct moment moment = moment_of(walk, self);
    if (!op_is_message(op_of(walk, self))) {
        if (moment.move > moment.begin + walk->grain)
            consider_kernels(walk, self.instance, self, moment.begin, moment.end - walk->grain, latest);
        return;
    }
    if (moment.begin <= latest->end + walk->grain)
        return;
    struct activity other = ensemble_other_end(walk->input->whole, self);
    double after = moment.begin - walk->grain, until = moment.begin + walk->grain;
    consider_kernels(walk, self.instance, self, after, until, latest);
    consider_kernels(walk, other.instance, other, after, until, latest);
}

/* A message is its send to those who are asked. */
static struct activity in_timeline(const struct walk *walk, struct activity activity)
{
    if (op_of(walk, activity)->kind == OP_RECEIVE)
        activity = ensemble_other_end(walk->input->whole, activity);
    return (struct activity){folding_instance(walk->input->folding, activity.instance), activity.op};
}

static void consider_host(const struct walk *walk, struct activity self, struct cause *latest)
{
    if (!walk->input->issued)
        return;
    double issued = walk->input->issued(walk->input->context, in_timeline(walk, self));
    consider(walk, latest, (struct cause){issued, PATH_BY_HOST, {self.instance, PATH_NO_OP}});
}

static struct cause cause_of(const struct walk *walk, struct activity self)
{
    struct cause latest = {begin_of(walk, self.instance, phase_of(walk, self)), PATH_BY_PHASE, self};
    consider_group(walk, self, false, &latest);
    if (op_is_message(op_of(walk, self))) {
        struct activity other = ensemble_other_end(walk->input->whole, self);
        consider(walk, &latest,
                 (struct cause){begin_of(walk, other.instance, phase_of(walk, other)), PATH_BY_PHASE, other});
        consider_group(walk, other, true, &latest);
    }
    consider_host(walk, self, &latest);
    consider_turn(walk, self, &latest);
    return latest;
}

/* ---- pieces ---- */

static enum path_kind kind_of(const struct op *op)
{
    switch ((enum op_kind)op->kind) {
    case OP_ATTEND:
    case OP_ATTEND_BACKWARD:
        return PATH_ATTENTION;
    case OP_MERGE:
    case OP_FINISH:
    case OP_ACCUMULATE:
    case OP_SUM_LSE:
    case OP_CORRECT:
    case OP_TOP:
    case OP_RAISE:
    case OP_WEIGH:
    case OP_NORMALIZE:
        return PATH_MERGE;
    case OP_PRODUCT:
        return PATH_PRODUCT;
    default:
        return PATH_OTHER;
    }
}

/* As much of `*left` as there is, up to `wanted`; rounding is nothing. */
static double take(double *left, double wanted, double grain)
{
    double taken = wanted < *left - grain ? wanted : *left;
    taken = taken > 0 ? taken : 0;
    *left -= taken;
    return taken;
}

static void split_kernel(const struct walk *walk, const struct op *op, struct path_cost cost, struct path_piece *piece)
{
    double left = piece->end - piece->begin;
    if (piece->cause != PATH_BY_TURN) /* else launched meanwhile */
        piece->seconds[PATH_START] = take(&left, cost.start, walk->grain);
    piece->seconds[kind_of(op)] = take(&left, cost.seconds - cost.start, walk->grain);
    piece->seconds[PATH_SLOWED] = left;
}

static void split_message(const struct walk *walk, struct moment moment, struct path_cost cost,
                          struct path_piece *piece)
{
    double before = moment.move - piece->begin, moving = piece->end - moment.move;
    piece->seconds[PATH_LATENCY] = take(&before, cost.start, walk->grain);
    piece->seconds[PATH_WAITING] = before;
    piece->seconds[PATH_TRANSFER] = take(&moving, cost.seconds - cost.start, walk->grain);
    piece->seconds[PATH_SHARED] = moving;
}

static struct path_cost cost_of(const struct walk *walk, struct activity self, struct moment moment)
{
    bool message = op_is_message(op_of(walk, self));
    if (!walk->input->cost)
        return message ? (struct path_cost){moment.end - moment.begin, moment.move - moment.begin}
                       : (struct path_cost){moment.end - moment.begin, 0};
    return walk->input->cost(walk->input->context, in_timeline(walk, self));
}

static void add(struct walk *walk, struct path_piece piece)
{
    struct step_path *path = walk->path;
    if (!(piece.end > piece.begin))
        return;
    memory_grow(path->pieces, path->count, path->capacity);
    path->pieces[path->count++] = piece;
}

/* A piece of `self`, from the end of what it waited for until `at`. */
static void visit(struct walk *walk, struct activity self, struct cause cause, double at)
{
    struct moment moment = moment_of(walk, self);
    struct path_piece piece = {
        .begin = cause.end, .end = at, .phase = phase_of(walk, self), .cause = cause.cause, .activity = self};
    const struct op *op = op_of(walk, self);
    struct path_cost cost = cost_of(walk, self, moment);
    if (op_is_message(op))
        split_message(walk, moment, cost, &piece);
    else
        split_kernel(walk, op, cost, &piece);
    add(walk, piece);
}

/* The ranks that stand for the others. */
static uint32_t rank_at(const struct walk *walk, uint32_t instance)
{
    const struct folding *folding = walk->input->folding;
    if (!folding)
        return instance;
    const struct instance *first = &folding->ensemble.instances[instance];
    return first->group * folding->ensemble.ranks + first->rank;
}

/* Of a replica's operations in a phase; PATH_NO_OP if it has none. */
static struct activity last_to_end(const struct walk *walk, uint32_t replica, enum phase phase)
{
    const struct path_input *input = walk->input;
    const struct ensemble *ensemble = timelines(walk);
    struct activity last = {0, PATH_NO_OP};
    double latest = -INFINITY;
    for (uint32_t i = 0; i < input->timeline->n_instances; i++) {
        if (ensemble->instances[i].replica != replica)
            continue;
        uint32_t instance = rank_at(walk, i);
        const struct program *program = ensemble_program(walk->input->whole, instance);
        const struct moment *moments = walk->input->timeline->moments[i];
        for (uint32_t op = first_of_phase(program, phase); op < program->phase_end[phase]; op++) {
            if (moments[op].end <= latest + walk->grain)
                continue;
            latest = moments[op].end;
            last = (struct activity){instance, op};
        }
    }
    return last;
}

/* The host of a rank has been issuing since the step began. */
static void add_host(struct walk *walk, uint32_t instance, enum phase last, double at)
{
    for (int phase = (int)last; phase >= 0; phase--) {
        double begin = begin_of(walk, instance, (enum phase)phase);
        struct path_piece piece = {.begin = begin < at ? begin : at,
                                   .end = at,
                                   .phase = (enum phase)phase,
                                   .cause = phase || begin > 0 ? PATH_BY_HOST : PATH_BY_PHASE,
                                   .activity = {instance, PATH_NO_OP}};
        piece.seconds[PATH_HOST] = piece.end - piece.begin;
        add(walk, piece);
        at = piece.begin;
    }
}

/* Adds the pieces of the path to the end of a replica's phase, which was at `at`, from the step's start on. */
static void walk_back(struct walk *walk, uint32_t replica, enum phase phase, double at)
{
    struct activity self = last_to_end(walk, replica, phase);
    while (self.op != PATH_NO_OP) {
        struct cause cause = cause_of(walk, self);
        visit(walk, self, cause, at);
        at = cause.end;
        if (cause.cause == PATH_BY_HOST) {
            add_host(walk, cause.activity.instance, phase_of(walk, self), at);
            return;
        }
        self = cause.activity;
        if (cause.cause == PATH_BY_PHASE) {
            phase = phase_of(walk, self);
            self = phase ? last_to_end(walk, replica_of(walk, self.instance), phase - 1)
                         : (struct activity){0, PATH_NO_OP};
        }
    }
}

/* ---- the whole ---- */

static void turn_round(struct step_path *path)
{
    for (size_t i = 0; i < path->count / 2; i++) {
        struct path_piece piece = path->pieces[i];
        path->pieces[i] = path->pieces[path->count - 1 - i];
        path->pieces[path->count - 1 - i] = piece;
    }
}

void step_path_init(struct step_path *path, const struct path_input *input)
{
    *path = (struct step_path){0};
    const double *phase_end = input->timeline->phase_end;
    double end = phase_end[PHASE_COUNT - 1];
    struct walk walk = {.input = input, .path = path, .grain = SAME * end};
    int phase = PHASE_COUNT - 1;
    while (phase > 0 && !(phase_end[phase - 1] < end))
        phase--;
    walk_back(&walk, input->timeline->last_replica, (enum phase)phase, end);
    turn_round(path);
}

void step_path_fini(struct step_path *path)
{
    free(path->pieces);
    *path = (struct step_path){0};
}

const char *path_kind_name(enum path_kind kind)
{
    static const char *const names[PATH_KIND_COUNT] = {
        [PATH_ATTENTION] = "attention", [PATH_MERGE] = "merge",     [PATH_OTHER] = "other",
        [PATH_START] = "start",         [PATH_SLOWED] = "slowed",   [PATH_LATENCY] = "latency",
        [PATH_TRANSFER] = "transfer",   [PATH_SHARED] = "shared",   [PATH_WAITING] = "waiting",
        [PATH_HOST] = "host",           [PATH_PRODUCT] = "product",
    };
    return names[kind];
}

const char *path_cause_name(enum path_cause cause)
{
    static const char *const names[] = {
        [PATH_BY_STREAM] = "stream", [PATH_BY_HAZARD] = "buffer", [PATH_BY_PEER] = "peer",
        [PATH_BY_TURN] = "turn",     [PATH_BY_HOST] = "host",     [PATH_BY_PHASE] = "phase",
    };
    return names[cause];
}
