/* events.c - the text of `--events`: the execution drives the walk (hw/verify/walk.h), and each event is printed as it
 * happens. One event per block attended: a partial result is shown when it is merged, with the state after it, or where
 * nothing is merged when its LSE is taken. A collective is named on each of its ranks before its messages. */
#include "hw/verify/events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hw/verify/events_text.h"
#include "models/base/memory.h"
#include "models/schedule/execution.h"

#define ROW_NUMBERS_MAX 8 /* q_heads x head_dim that still fits a line */

/* ---- events ---- */

static void print_attended(const struct events *events, uint32_t rank, const struct op *op, struct block keys,
                           const double *states)
{
    fprintf(events->stream, "rank %" PRIu32 " attends K,V of %s, positions %s%s\n", rank, owner_text(keys.owner).text,
            block_text(events, keys).text, lanes_text(events, op->lanes).text);
    print_states(events, op->q, op->lanes, states, keys);
}

/* The partial result that `op` takes up, as the numbers in its buffer `shown` are now: itself or what it went into. */
static void print_taken(const struct events *events, uint32_t rank, const struct op *op, const struct view *partial,
                        const struct view *shown)
{
    const struct walk *walk = &events->walk;
    size_t width = 2 + walk->head_dim, lanes = lanes_count(op->lanes);
    double *states = memory_zeroed((size_t)shown->count * lanes * width, sizeof *states);
    for (uint32_t i = 0; i < shown->count; i++)
        for (uint32_t lane = 0; lane < lanes; lane++)
            memcpy(states + (i * lanes + lane) * width, walk_lane(walk, shown, i, lane), width * sizeof *states);
    print_attended(events, rank, op, walk->holdings[rank][partial->buffer].attended, states);
    free(states);
}

static void print_partial(const struct events *events, uint32_t rank, const struct op *op)
{
    struct view partial, state;
    if (!walk_find(&events->walk, rank, op, false, TENSOR_PARTIAL, &partial))
        return;
    bool merges = walk_find(&events->walk, rank, op, true, TENSOR_STATE, &state);
    print_taken(events, rank, op, &partial, merges ? &state : &partial);
}

/* What operation `op` made of its queries: "rank 0 <what> of queries 0-1", and the numbers. */
static void print_made(const struct events *events, uint32_t rank, const struct op *op, const char *what)
{
    fprintf(events->stream, "rank %" PRIu32 " %s of queries %s%s\n", rank, what, block_text(events, op->q).text,
            lanes_text(events, op->lanes).text);
    for (uint32_t i = 0; i < op->n_writes; i++) {
        const struct access access = access_of(events->walk.schedule, &events->walk.programs[rank], op, true, i);
        const struct view view = walk_view(&events->walk, rank, &access);
        print_rows(events, &view, true);
    }
}

static void print_message(const struct events *events, uint32_t rank, const struct op *send)
{
    const struct access access = access_of(events->walk.schedule, &events->walk.programs[rank], send, false, 0);
    enum tensor tensor = (enum tensor)events->walk.programs[rank].buffers[access.buffer].tensor;
    bool returns = tensor == TENSOR_DKV && access.block.owner == send->peer;
    fprintf(events->stream, "rank %" PRIu32 " %s %s of positions %s%s to rank %" PRIu32 " (%" PRIu64 " bytes)\n", rank,
            returns ? "returns" : "sends", tensor_text(tensor, send->part), block_text(events, access.block).text,
            lanes_text(events, access.lanes).text, send->peer, send->bytes);
}

static void print_backward(const struct events *events, uint32_t rank, const struct op *op)
{
    const struct program *program = &events->walk.programs[rank];
    fprintf(events->stream, "rank %" PRIu32 " attends backward K,V of %s, positions %s%s, for queries %s\n", rank,
            owner_text(op->k.owner).text, block_text(events, op->k).text, lanes_text(events, op->lanes).text,
            block_text(events, op->q).text);
    bool header = true;
    for (uint32_t i = 0; i < op->n_writes; i++) {
        const struct access access = access_of(events->walk.schedule, program, op, true, i);
        if (program->buffers[access.buffer].tensor != TENSOR_DKV)
            continue;
        const struct view view = walk_view(&events->walk, rank, &access);
        print_rows(events, &view, header);
        header = false;
    }
}

/* "rank 0 adds dK,dV of positions 0-1 to 'dkv'", and what 'dkv' then is. */
static void print_sum(const struct events *events, uint32_t rank, const struct op *op)
{
    const struct program *program = &events->walk.programs[rank];
    for (uint32_t i = 0; i < op->n_writes; i++) {
        const struct access access = access_of(events->walk.schedule, program, op, true, i);
        enum tensor tensor = (enum tensor)program->buffers[access.buffer].tensor;
        bool adds = false;
        for (uint32_t j = 0; j < op->n_reads; j++)
            adds |= program_reads(program, op)[j] == access.buffer;
        fprintf(events->stream, "rank %" PRIu32 " %s %s of positions %s%s %s '%s'\n", rank, adds ? "adds" : "puts",
                tensor == TENSOR_DKV ? "dK,dV" : tensor_name(tensor), block_text(events, access.block).text,
                lanes_text(events, access.lanes).text, adds ? "to" : "into", program->buffers[access.buffer].name);
        if (op->kind == OP_ACCUMULATE) {
            const struct view view = walk_view(&events->walk, rank, &access);
            print_rows(events, &view, true);
        }
    }
}

/* "rank 0 splits Q of positions 0-3 into 'q 0' (heads 0-1), 'q 1' (heads 2-3)". */
static void print_layout(const struct events *events, uint32_t rank, const struct op *op)
{
    const struct program *program = &events->walk.programs[rank];
    bool splits = op->kind == OP_SPLIT_LANES || op->kind == OP_SPLIT_ROWS;
    bool by_rows = op->kind == OP_SPLIT_ROWS || op->kind == OP_JOIN_ROWS;
    const struct access one = access_of(events->walk.schedule, program, op, !splits, 0);
    const struct buffer *whole = &program->buffers[one.buffer];
    fprintf(events->stream, "rank %" PRIu32 " %s %s of positions %s%s %s", rank, splits ? "splits" : "joins",
            tensor_text((enum tensor)whole->tensor, PART_ALL), block_text(events, one.block).text,
            lanes_text(events, one.lanes).text, splits ? "into" : "from");
    for (uint32_t i = 0; i < (splits ? op->n_writes : op->n_reads); i++) {
        const struct access part = access_of(events->walk.schedule, program, op, splits, i);
        struct text lanes = lanes_text(events, part.lanes);
        fprintf(events->stream, "%s '%s'", i ? "," : "", program->buffers[part.buffer].name);
        if (by_rows)
            fprintf(events->stream, " (%s: positions %s)", owner_text(part.block.owner).text,
                    block_text(events, part.block).text);
        else if (lanes.text[0])
            fprintf(events->stream, " (%s)", lanes.text + 2);
    }
    fputc('\n', events->stream);
}

static void print_collective(const struct events *events, uint32_t rank, uint32_t index)
{
    const struct program *program = &events->walk.programs[rank];
    const struct collective *collective = &program->collectives[index];
    const char *tensor = "";
    for (uint32_t i = 0; i < collective->n_members; i++) {
        uint32_t source = program->lists[collective->sources + i], target = program->lists[collective->targets + i];
        uint32_t buffer = source != NO_BUFFER ? source : target;
        if (buffer != NO_BUFFER)
            tensor = tensor_text((enum tensor)program->buffers[buffer].tensor, PART_ALL);
    }
    fprintf(events->stream, "rank %" PRIu32 " begins the %s of %s of ranks ", rank,
            collective_call_name((enum collective_call)collective->call), tensor);
    for (uint32_t i = 0; i < collective->n_members; i++)
        fprintf(events->stream, "%s%" PRIu32, i ? "," : "", program->lists[collective->members + i]);
    fputc('\n', events->stream);
}

/* Names the collective that an operation belongs to, the first time. */
static void announce(const struct events *events, uint32_t rank, const struct op *op)
{
    if (!op->collective || events->announced[rank][op->collective - 1])
        return;
    events->announced[rank][op->collective - 1] = true;
    print_collective(events, rank, op->collective - 1);
}

static void print_op(const struct events *events, uint32_t rank, const struct op *op)
{
    const struct program *program = &events->walk.programs[rank];
    switch ((enum op_kind)op->kind) {
    case OP_ATTEND:
        if (program->buffers[*program_writes(program, op)].tensor != TENSOR_PARTIAL)
            print_attended(events, rank, op, op->k, events->walk.attended);
        break;
    case OP_MERGE:
        print_partial(events, rank, op);
        break;
    case OP_FINISH:
        fprintf(events->stream, "rank %" PRIu32 " finishes queries %s%s: O = a / l, LSE = m + ln l\n", rank,
                block_text(events, op->q).text, lanes_text(events, op->lanes).text);
        break;
    case OP_DELTA:
        print_made(events, rank, op, "computes delta = dO . O");
        break;
    case OP_ATTEND_BACKWARD:
        print_backward(events, rank, op);
        break;
    case OP_ACCUMULATE:
    case OP_CAST:
        print_sum(events, rank, op);
        break;
    case OP_SEND:
        print_message(events, rank, op);
        break;
    case OP_SPLIT_LANES:
    case OP_JOIN_LANES:
    case OP_SPLIT_ROWS:
    case OP_JOIN_ROWS:
        print_layout(events, rank, op);
        break;
    case OP_SUM_LSE:
        print_partial(events, rank, op);
        print_made(events, rank, op, "adds e^(m + ln l) to e^LSE");
        break;
    case OP_CORRECT:
        print_made(events, rank, op, "adds a / l e^(m + ln l - LSE) to O");
        break;
    case OP_TOP:
        print_partial(events, rank, op);
        print_made(events, rank, op, "takes top = m + ln l");
        break;
    case OP_RAISE:
        print_made(events, rank, op, "takes the larger top");
        break;
    case OP_WEIGH:
        print_made(events, rank, op, "weighs by e^(m + ln l - top) the a / l");
        break;
    case OP_NORMALIZE:
        print_made(events, rank, op, "takes O = numerator / denominator, LSE = top + ln denominator");
        break;
    case OP_PRODUCT:
    case OP_NORM:
    case OP_NORM_BACKWARD:
    case OP_ACTIVATE:
    case OP_ACTIVATE_BACKWARD:
    case OP_ADD:
    case OP_EMBED:
    case OP_EMBED_BACKWARD:
    case OP_LOSS:
    case OP_OPTIMIZE: /* of layers: no attention step */
    case OP_RECEIVE:
    case OP_KIND_COUNT:
        break;
    }
}

/* ---- the whole ---- */

bool events_check(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    uint64_t numbers = (uint64_t)schedule->q_heads * experiment->model.head_dim;
    size_t before = diag->count;
    if (experiment->step.scope != SCOPE_ATTENTION)
        return experiment_complain(experiment, "workload", "scope", diag,
                                   "--events executes attention alone, expected scope = attention");
    if (experiment->seq_len > EVENTS_SEQ_LEN_MAX)
        diagnostics_add(diag, "--events prints every row: 'seq_len' is %" PRIu64 ", expected at most %d",
                        experiment->seq_len, EVENTS_SEQ_LEN_MAX);
    if (schedule->ranks > EVENTS_SEQ_LEN_MAX)
        diagnostics_add(diag, "--events prints every rank: 'cp' is %" PRIu32 ", expected at most %d", schedule->ranks,
                        EVENTS_SEQ_LEN_MAX);
    if (experiment->batch > EVENTS_BATCH_MAX)
        diagnostics_add(diag, "--events prints every item: 'batch' is %" PRIu32 ", expected at most %d",
                        experiment->batch, EVENTS_BATCH_MAX);
    if (numbers > ROW_NUMBERS_MAX)
        diagnostics_add(
            diag, "--events prints every number: 'q_heads' x 'head_dim' is %" PRIu64 " a rank, expected at most %d",
            numbers, ROW_NUMBERS_MAX);
    return diag->count == before;
}

static bool run(struct events *events, struct execution *execution, struct diagnostics *diag)
{
    const struct program *programs = events->walk.programs;
    int phase = -1;
    struct activity activity;
    while (execution_next(execution, &activity)) {
        uint32_t rank = activity.instance;
        const struct op *op = &programs[rank].ops[activity.op];
        if ((int)program_phase(&programs[rank], activity.op) != phase) {
            phase = (int)program_phase(&programs[rank], activity.op);
            fprintf(events->stream, "\n%s\n", phase_name((enum phase)phase));
        }
        uint32_t receive = op->kind == OP_SEND ? execution_receive_of(execution, activity).op : 0;
        announce(events, rank, op);
        if (op->kind == OP_SEND)
            announce(events, op->peer, &programs[op->peer].ops[receive]);
        if (!walk_do(&events->walk, rank, activity.op, receive, diag))
            return false;
        print_op(events, rank, op);
        execution_finish(execution, activity);
    }
    if (execution_done(execution))
        return events_print_results(events, diag);
    execution_explain(execution, diag);
    return false;
}

bool events_print(const struct schedule *schedule, const struct program *programs, FILE *stream,
                  struct diagnostics *diag)
{
    struct execution *execution = execution_create(programs, schedule->ranks, 1, diag);
    if (!execution)
        return false;
    struct events events = {.stream = stream, .ranks = schedule->ranks};
    walk_init(&events.walk, schedule, programs);
    events.announced = memory_zeroed(schedule->ranks, sizeof *events.announced);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        events.announced[rank] = memory_zeroed(programs[rank].n_collectives, sizeof **events.announced);
    events_print_case(&events);
    bool passed = run(&events, execution, diag);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        free(events.announced[rank]);
    free(events.announced);
    walk_fini(&events.walk);
    execution_destroy(execution);
    return passed;
}
