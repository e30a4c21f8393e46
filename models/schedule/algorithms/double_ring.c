/* double_ring.c - a ring cut into windows of neighbours: blocks go round a window, and all windows hand theirs on.
 *
 * The R places of the ring (ranks; with ulysses_degree = u > 1 groups that have traded rows for heads, heads.h) form
 * W = R/w windows of w = ring_window consecutive places: say, the ranks of a node. In window turn t a window's w blocks
 * are those of the window t before it, and each goes round once: place c holds that of place c - i at step i. Meanwhile
 * every place sends the block with which it began the turn to the like place of the next window, on a stream of its
 * own: what crosses windows is hidden behind w kernels, not one, and uses all places' ways out at once. The form of
 * LoongTrain's double ring attention and of BurstAttention. Messages of KV per rank and pass: W (w-1) inside a window,
 * W-1 between windows.
 *
 * Backward: the gradient of a block is summed turn by turn. A sum follows its block round the window, and home to the
 * place where the turn began: w messages. There it is added to the sum of the turns before, which has meanwhile come
 * from the like place of the window before, and the whole goes on to the next one; after the last turn, that is its
 * owner's. So the sum over the windows is a turn behind, and its W messages are hidden behind w kernels as well. In
 * all W w dKV inside windows (none if w = 1) and W between them (none if W = 1).
 *
 * Received blocks: `buffers` for those that go round the window, two more for those from the next window.
 */
#include <inttypes.h>

#include "models/base/divisors.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/heads.h"
#include "models/schedule/algorithms/rotation.h"

struct double_ring {
    struct builder *b;
    uint32_t width, windows; /* places of a window; windows */
    uint32_t window, place;  /* of this rank; and its place in the window */
    uint32_t j, blocks_max;  /* the circulation under way: block j of every place */
    enum stream outer;
    struct rotation inside, between; /* received KV */
    uint32_t part;                   /* dKV: this block's */
    uint32_t travelling[2];          /* the sum of a window turn: that of step s is travelling[s % 2] */
    uint32_t home;                   /* the same, come home */
    uint32_t total[2];               /* over the turns before: arrives with turn t in total[t % 2] */
};

typedef void visit_block(struct double_ring *d, uint32_t turn, uint32_t step, uint32_t held);

/* ---- who and what ---- */

static uint32_t rank_at(const struct double_ring *d, uint32_t window, uint32_t place)
{
    return circle_rank(&d->b->circle, window % d->windows * d->width + place % d->width);
}

static uint32_t window_ahead(const struct double_ring *d)
{
    return rank_at(d, d->window + 1, d->place);
}

static uint32_t window_back(const struct double_ring *d)
{
    return rank_at(d, d->window + d->windows - 1, d->place);
}

static uint32_t place_ahead(const struct double_ring *d)
{
    return rank_at(d, d->window, d->place + 1);
}

static uint32_t place_back(const struct double_ring *d)
{
    return rank_at(d, d->window, d->place + d->width - 1);
}

/* The block that this rank holds at a step of a turn; turn `windows` is turn 0 again. */
static struct block block_at(const struct double_ring *d, uint32_t turn, uint32_t step)
{
    uint32_t window = (d->window + d->windows - turn % d->windows) % d->windows;
    uint32_t place = (d->place + d->width - step) % d->width;
    return circle_block(&d->b->circle, window * d->width + place, d->j);
}

/* Whether any of the first `places` places computes anything that hold, in this turn of this window, the block that
 * this rank holds at `step`. */
static bool is_summed(const struct double_ring *d, uint32_t turn, uint32_t step, uint32_t places)
{
    struct block block = block_at(d, turn, step);
    for (uint32_t i = 0; i < places; i++) {
        uint32_t place = (d->place + d->width - step + i) % d->width;
        if (circle_computes(&d->b->circle, d->window * d->width + place, block))
            return true;
    }
    return false;
}

/* ---- keys and values ---- */

static void rotate_blocks(struct rotation *rotation, struct builder *b, const char *name, uint32_t count)
{
    struct block room = {0, 0, (uint32_t)circle_block_rows_max(&b->circle)};
    rotation_init(rotation, b, name, TENSOR_KV, b->model, ROLE_RECEIVED, room, count);
}

/* Passes on `leaves`, in buffer `held`, and receives `arrives`, in one group. Returns the buffer that then holds it. */
static uint32_t pass_on(struct double_ring *d, enum stream stream, enum traffic traffic, struct rotation *slots,
                        uint32_t held, struct block leaves, uint32_t to, struct block arrives, uint32_t from)
{
    uint32_t slot = NO_BUFFER, group = program_new_group(d->b->program);
    if (leaves.count)
        builder_send(d->b, stream, group, traffic, held, to, leaves);
    if (arrives.count) {
        slot = rotation_take(slots);
        builder_receive(d->b, stream, group, traffic, slot, from, arrives);
    }
    return slot;
}

static void walk(struct double_ring *d, enum traffic traffic, visit_block *visit)
{
    struct builder *b = d->b;
    uint32_t first = b->kv;
    for (uint32_t turn = 0; turn < d->windows; turn++) {
        uint32_t held = first;
        if (turn + 1 < d->windows)
            first = pass_on(d, d->outer, traffic, &d->between, held, block_at(d, turn, 0), window_ahead(d),
                            block_at(d, turn + 1, 0), window_back(d));
        for (uint32_t step = 0; step < d->width; step++) {
            uint32_t next = NO_BUFFER;
            if (step + 1 < d->width)
                next = pass_on(d, b->exchange, traffic, &d->inside, held, block_at(d, turn, step), place_ahead(d),
                               block_at(d, turn, step + 1), place_back(d));
            visit(d, turn, step, held);
            held = next;
        }
    }
}

static void forward_step(struct double_ring *d, uint32_t turn, uint32_t step, uint32_t held)
{
    builder_attend(d->b, block_at(d, turn, step), &held, 1);
}

/* ---- gradients ---- */

/* Passes on the sum of the step before and receives that of this one, from the second step of a turn on. */
static void pass_sum(struct double_ring *d, uint32_t turn, uint32_t step)
{
    struct builder *b = d->b;
    uint32_t group = program_new_group(b->program), number = turn * d->width + step;
    if (is_summed(d, turn, step - 1, step))
        builder_send(b, b->returns, group, TRAFFIC_GRADIENT, d->travelling[(number - 1) % 2], place_ahead(d),
                     block_at(d, turn, step - 1));
    if (is_summed(d, turn, step, step))
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, d->travelling[number % 2], place_back(d),
                        block_at(d, turn, step));
}

/* The sums of a turn go the last step home, to where their blocks came into the window. */
static void bring_home(struct double_ring *d, uint32_t turn)
{
    struct builder *b = d->b;
    uint32_t group = program_new_group(b->program), last = d->width - 1;
    if (is_summed(d, turn, last, d->width))
        builder_send(b, b->returns, group, TRAFFIC_GRADIENT, d->travelling[(turn * d->width + last) % 2],
                     place_ahead(d), block_at(d, turn, last));
    if (is_summed(d, turn, 0, d->width))
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, d->home, place_back(d), block_at(d, turn, 0));
}

/* A turn's sum is complete, and with it the total so far of the block with which the turn began: on to the next window
 * with it, or into dKV if it is the own block's. In the first turn the sum is the total. */
static void finish_turn(struct double_ring *d, uint32_t turn, struct block summed, uint32_t sum)
{
    struct builder *b = d->b;
    uint32_t total = turn == 0 ? d->home : d->total[turn % 2];
    struct block own = block_at(d, 0, 0), leaves = block_at(d, turn, 0), arrives = block_at(d, turn + 1, 0);
    if (turn > 0 && summed.count)
        builder_accumulate(b, STREAM_COMPUTE, total, sum, summed, false);
    if (d->windows > 1) {
        uint32_t group = program_new_group(b->program);
        if (leaves.count)
            builder_send(b, d->outer, group, TRAFFIC_GRADIENT, total, window_ahead(d), leaves);
        total = d->total[(turn + 1) % 2];
        if (arrives.count)
            builder_receive(b, d->outer, group, TRAFFIC_GRADIENT, total, window_back(d), arrives);
    }
    if (turn + 1 == d->windows && own.count)
        builder_cast(b, STREAM_COMPUTE, b->dkv, total, own);
}

static void finish_turn_at_home(struct double_ring *d, uint32_t turn)
{
    struct block summed = block_at(d, turn, 0);
    if (!is_summed(d, turn, 0, d->width))
        summed.count = 0;
    finish_turn(d, turn, summed, d->home);
}

static void backward_step(struct double_ring *d, uint32_t turn, uint32_t step, uint32_t held)
{
    struct builder *b = d->b;
    struct block keys = block_at(d, turn, step);
    bool alone = d->width == 1;
    if (step > 0)
        pass_sum(d, turn, step);
    if (!alone && step == 0 && turn > 0)
        bring_home(d, turn - 1);
    /* What begins a sum covers all its rows; a window of one adds each share to the total, which is there. */
    bool begins = alone ? turn == 0 : !is_summed(d, turn, step, step);
    struct block seen = builder_attend_backward(b, keys, &held, 1, &d->part, begins);
    uint32_t sum = alone ? d->home : d->travelling[(turn * d->width + step) % 2];
    if (seen.count && (!alone || turn == 0))
        builder_accumulate(b, STREAM_COMPUTE, sum, d->part, seen, begins);
    if (alone)
        finish_turn(d, turn, seen, d->part);
    else if (step == 0 && turn > 0)
        finish_turn_at_home(d, turn - 1);
}

static void backward_block(struct double_ring *d)
{
    struct builder *b = d->b;
    if (b->once && b->circle.places == 1) { /* nothing to sum and nowhere to go */
        builder_attend_backward(b, block_at(d, 0, 0), &b->kv, 1, &b->dkv, true);
        return;
    }
    walk(d, TRAFFIC_REPLAY_KV, backward_step);
    if (d->width > 1) {
        bring_home(d, d->windows - 1);
        finish_turn_at_home(d, d->windows - 1);
    }
}

static void add_gradient_buffers(struct double_ring *d)
{
    struct builder *b = d->b;
    uint64_t rows = circle_block_rows_max(&b->circle);
    if (b->once && b->circle.places == 1)
        return;
    d->part = builder_buffer(b, "dkv part", TENSOR_DKV, b->output, ROLE_WORKSPACE, rows);
    d->home = builder_buffer(b, "dkv home", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
    for (uint32_t i = 0; i < 2; i++) {
        if (d->width > 1)
            d->travelling[i] =
                builder_buffer_numbered(b, "dkv sum", i, TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
        if (d->windows > 1)
            d->total[i] = builder_buffer_numbered(b, "dkv total", i, TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
    }
}

/* ---- the algorithm ---- */

static uint32_t degree(const struct schedule *schedule)
{
    uint32_t asked = schedule->experiment->ulysses_degree;
    return asked ? asked : 1;
}

/* Places of a window: as asked; else there are as many windows as the largest divisor of the ring not above its root
 * says: the inner ring, on the faster links, is the longer one. */
static uint32_t window_width(const struct schedule *schedule, uint32_t places)
{
    uint32_t windows = 1;
    if (schedule->experiment->ring_window)
        return schedule->experiment->ring_window;
    for (uint32_t i = 1; (uint64_t)i * i <= places; i++)
        windows = places % i == 0 ? i : windows;
    return places / windows;
}

static uint32_t joined(const struct schedule *schedule)
{
    return heads_joined(schedule, degree(schedule));
}

static bool check_window(const struct schedule *schedule, uint32_t places, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    uint32_t width = window_width(schedule, places);
    char nearest[NEAREST_SIZE];
    if (places % width == 0)
        return true;
    divisors_nearest(places, width, nearest, sizeof nearest);
    return experiment_complain(experiment, "schedule", "ring_window", diag,
                               "'ring_window' = %" PRIu32 " does not divide the ring of %" PRIu32 " (cp = %" PRIu32
                               ", ulysses_degree = %" PRIu32 "), nearest: %s",
                               width, places, schedule->ranks, degree(schedule), nearest);
}

static bool check_buffers(const struct schedule *schedule, uint32_t width, struct diagnostics *diag)
{
    if (width <= 2 || schedule->experiment->buffers >= 2)
        return true;
    return experiment_complain(schedule->experiment, "schedule", "buffers", diag,
                               "algorithm '%s': in a window of %" PRIu32
                               " a rank passes one block on while it receives the next, so buffers = %" PRIu32
                               " is too few, expected at least 2",
                               schedule->algorithm->name, width, schedule->experiment->buffers);
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    if (!heads_check(schedule, degree(schedule), "schedule", "ulysses_degree", diag))
        return false;
    uint32_t places = schedule->ranks / degree(schedule);
    return check_window(schedule, places, diag) && check_buffers(schedule, window_width(schedule, places), diag);
}

static const char *no_effect(const struct schedule *schedule, enum algorithm_key key)
{
    return heads_no_effect(schedule, joined(schedule), key);
}

/* Attention operations of this rank in a phase (2: several), and blocks that it receives, in the window and from the
 * one before. */
struct counts {
    uint32_t attends, inside, between;
};

static struct counts count(const struct double_ring *d)
{
    struct double_ring scan = *d;
    struct counts counts = {0};
    for (scan.j = 0; scan.j < d->blocks_max; scan.j++) {
        for (uint32_t i = 0; i < d->windows * d->width; i++) {
            uint32_t turn = i / d->width, step = i % d->width;
            struct block block = block_at(&scan, turn, step);
            counts.inside += step > 0 && block.count;
            counts.between += step == 0 && turn > 0 && block.count;
            if (counts.attends < 2 && circle_attends(&d->b->circle, d->b->queries, block))
                counts.attends++;
        }
    }
    return counts;
}

static void all_blocks(struct double_ring *d, enum phase phase, uint32_t attends)
{
    builder_begin(d->b, phase, attends);
    if (phase == PHASE_BACKWARD)
        add_gradient_buffers(d);
    for (d->j = 0; d->j < d->blocks_max; d->j++) {
        if (phase == PHASE_BACKWARD)
            backward_block(d);
        else
            walk(d, TRAFFIC_FORWARD_KV, forward_step);
    }
    builder_end(d->b, phase);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    struct heads heads;
    builder_init(&b, schedule, program);
    heads_enter(&heads, &b);
    uint32_t width = window_width(schedule, b.circle.places);
    struct double_ring d = {.b = &b,
                            .width = width,
                            .windows = b.circle.places / width,
                            .window = b.place / width,
                            .place = b.place % width,
                            .blocks_max = circle_blocks_max(&b.circle),
                            .outer = schedule->experiment->overlap ? STREAM_OUTER : STREAM_COMPUTE};
    struct counts counts = count(&d);
    rotate_blocks(&d.inside, &b, "kv", rotation_count(&b, counts.inside));
    rotate_blocks(&d.between, &b, "kv outer", counts.between < 2 ? counts.between : 2);
    all_blocks(&d, PHASE_FORWARD, counts.attends);
    heads_leave(&heads);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train) {
        heads_enter_backward(&heads);
        all_blocks(&d, PHASE_BACKWARD, counts.attends);
        heads_leave_backward(&heads);
        program_end_phase(program, PHASE_BACKWARD);
    }
    rotation_fini(&d.inside);
    rotation_fini(&d.between);
    heads_fini(&heads);
}

const struct algorithm_ops algorithm_double_ring = {
    .name = "double-ring",
    .summary = "a ring in windows: K/V blocks go round a window while all windows hand theirs to the next",
    .constraint = "ring_window divides cp / ulysses_degree; ulysses_degree as for usp; buffers >= 2 in windows of more "
                  "than two",
    .uses = USES_BUFFERS | USES_KV_BLOCK | USES_SPLIT_KV | USES_COLLECTIVE | USES_GRADIENTS | USES_OVERLAP |
            USES_ULYSSES_DEGREE | USES_RING_WINDOW | USES_INNER,
    .can = CAN_TRAIN | CAN_PREFILL,
    .no_effect = no_effect,
    .joined = joined,
    .check = check,
    .build = build,
};
