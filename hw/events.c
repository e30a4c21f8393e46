/* events.c - the text of `--events`: the execution drives the walk (hw/walk.h), and each event is printed as it
 * happens. One event per block attended: a partial result is shown when it is merged, with the state after it. */
#include "hw/events.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hw/walk.h"
#include "models/schedule/execution.h"
#include "models/schedule/mask.h"

#define ROW_NUMBERS_MAX 8 /* q_heads x head_dim that still fits a line */
#define TOLERANCE 1e-12   /* of the largest number of a tensor */

struct events {
    struct walk walk;
    FILE *stream;
    uint32_t ranks;
};

/* ---- pieces of text ---- */

struct text {
    char text[4 * EVENTS_SEQ_LEN_MAX];
};

static int compare_positions(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* "0-3,8,10-11"; sorts `positions`. */
static struct text positions_text(uint64_t *positions, size_t count)
{
    struct text text = {"nothing"};
    size_t length = 0;
    qsort(positions, count, sizeof *positions, compare_positions);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && positions[end] == positions[end - 1] + 1;)
            end++;
        const char *comma = i > 0 ? "," : "";
        char *at = text.text + length;
        size_t room = sizeof text.text - length;
        length += (size_t)(end == i + 1
                               ? snprintf(at, room, "%s%" PRIu64, comma, positions[i])
                               : snprintf(at, room, "%s%" PRIu64 "-%" PRIu64, comma, positions[i], positions[end - 1]));
    }
    return text;
}

static struct text block_text(const struct events *events, struct block block)
{
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    return positions_text(positions, walk_positions(&events->walk, block, positions));
}

static struct text owner_text(uint32_t owner)
{
    struct text text = {"all ranks"};
    if (owner != BLOCK_ALL)
        snprintf(text.text, sizeof text.text, "rank %" PRIu32, owner);
    return text;
}

/* A number in nine columns; no negative zero. */
static void print_number(FILE *stream, double value)
{
    fprintf(stream, "%9.6f", fabs(value) < 0.5e-6 ? 0.0 : value);
}

static void print_vector(FILE *stream, const double *numbers, size_t count, double divisor)
{
    for (size_t i = 0; i < count; i++) {
        fputs(i ? " " : "  [", stream);
        print_number(stream, numbers[i] / divisor);
    }
    fputc(']', stream);
}

/* Column title over a vector of `count` numbers; 0: the last column, not padded. */
static void print_title(FILE *stream, const char *title, size_t count)
{
    fprintf(stream, "  %-*s", (int)(count ? 10 * count + 1 : 0), title);
}

static void print_row_name(const struct events *events, uint64_t position, size_t head)
{
    fprintf(events->stream, "  %8" PRIu64 "  %4zu", position, head);
}

/* ---- tables ---- */

/* Rows `block` of a buffer, by position and head: gradients, delta. */
static void print_rows(const struct events *events, uint32_t rank, uint32_t buffer, struct block block, bool header)
{
    static const char *const titles[TENSOR_COUNT][2] = {
        [TENSOR_Q] = {"Q"},           [TENSOR_KV] = {"K", "V"},    [TENSOR_O] = {"O"},   [TENSOR_LSE] = {"LSE"},
        [TENSOR_PARTIAL] = {"m l a"}, [TENSOR_STATE] = {"m l a"},  [TENSOR_DO] = {"dO"}, [TENSOR_DELTA] = {"delta"},
        [TENSOR_DQ] = {"dQ"},         [TENSOR_DKV] = {"dK", "dV"},
    };
    const struct walk *walk = &events->walk;
    enum tensor tensor = (enum tensor)walk->programs[rank].buffers[buffer].tensor;
    const double *rows = walk_rows(walk, rank, buffer, block);
    size_t heads = tensor_goes_by_keys(tensor) ? walk->kv_heads : walk->q_heads,
           parts = tensor_goes_by_keys(tensor) ? 2 : 1;
    size_t width = walk_row_width(walk, tensor), dim = width / parts / heads;
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    size_t count = walk_positions(walk, block, positions);
    if (header) {
        fprintf(events->stream, "  %8s  head", tensor_goes_by_keys(tensor) ? "key" : "query");
        for (size_t part = 0; part < parts; part++)
            print_title(events->stream, titles[tensor][part], part + 1 < parts ? dim : 0);
        fputc('\n', events->stream);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t head = 0; head < heads; head++) {
            print_row_name(events, positions[i], head);
            for (size_t part = 0; part < parts; part++)
                print_vector(events->stream, rows + i * width + (part * heads + head) * dim, dim, 1);
            fputc('\n', events->stream);
        }
    }
}

/* The online softmax of queries `q`, and which of the keys just attended each of them sees. */
static void print_states(const struct events *events, struct block q, const double *states, struct block keys)
{
    const struct walk *walk = &events->walk;
    size_t dim = walk->head_dim;
    uint64_t queries[EVENTS_SEQ_LEN_MAX], all[EVENTS_SEQ_LEN_MAX], seen[EVENTS_SEQ_LEN_MAX];
    size_t n_queries = walk_positions(walk, q, queries), n_all = walk_positions(walk, keys, all);
    fprintf(events->stream, "  %8s  head  %9s  %9s", "query", "m", "l");
    print_title(events->stream, "a / l", dim);
    fputs("  sees keys\n", events->stream);
    for (size_t i = 0; i < n_queries; i++) {
        size_t n_seen = 0;
        for (size_t j = 0; j < n_all; j++)
            if (mask_visible(&walk->schedule->experiment->mask, queries[i], all[j]))
                seen[n_seen++] = all[j];
        struct text text = positions_text(seen, n_seen);
        for (size_t head = 0; head < walk->q_heads; head++, states += 2 + dim) {
            print_row_name(events, queries[i], head);
            fputs("  ", events->stream);
            print_number(events->stream, states[0]);
            fputs("  ", events->stream);
            print_number(events->stream, states[1]);
            print_vector(events->stream, states + 2, dim, states[1] == 0 ? 1 : states[1]);
            fprintf(events->stream, "  %s\n", text.text);
        }
    }
}

/* ---- events ---- */

static void print_attended(const struct events *events, uint32_t rank, struct block q, struct block keys,
                           const double *states)
{
    fprintf(events->stream, "rank %" PRIu32 " attends K,V of %s, positions %s\n", rank, owner_text(keys.owner).text,
            block_text(events, keys).text);
    print_states(events, q, states, keys);
}

static void print_message(const struct events *events, uint32_t rank, const struct op *send)
{
    static const char *const kv[] = {[PART_K] = "K", [PART_V] = "V", [PART_ALL] = "K,V"};
    static const char *const dkv[] = {[PART_K] = "dK", [PART_V] = "dV", [PART_ALL] = "dK,dV"};
    const struct program *program = &events->walk.programs[rank];
    for (uint32_t i = 0; i < send->n_reads; i++) {
        struct block block = walk_block(&events->walk, rank, send, false, i);
        enum tensor tensor = (enum tensor)program->buffers[program_reads(program, send)[i]].tensor;
        const char *name = tensor == TENSOR_KV    ? kv[send->part & PART_ALL]
                           : tensor == TENSOR_DKV ? dkv[send->part & PART_ALL]
                                                  : tensor_name(tensor);
        if (i == 0)
            fprintf(events->stream, "rank %" PRIu32 " %s ", rank,
                    tensor == TENSOR_DKV && block.owner == send->peer ? "returns" : "sends");
        fprintf(events->stream, "%s%s of positions %s", i ? " and " : "", name, block_text(events, block).text);
    }
    fprintf(events->stream, " to rank %" PRIu32 " (%" PRIu64 " bytes)\n", send->peer, send->bytes);
}

static void print_backward(const struct events *events, uint32_t rank, const struct op *op)
{
    const struct program *program = &events->walk.programs[rank];
    fprintf(events->stream, "rank %" PRIu32 " attends backward K,V of %s, positions %s, for queries %s\n", rank,
            owner_text(op->k.owner).text, block_text(events, op->k).text, block_text(events, op->q).text);
    bool header = true;
    for (uint32_t i = 0; i < op->n_writes; i++) {
        uint32_t buffer = program_writes(program, op)[i];
        if (program->buffers[buffer].tensor != TENSOR_DKV)
            continue;
        print_rows(events, rank, buffer, walk_block(&events->walk, rank, op, true, i), header);
        header = false;
    }
}

/* "rank 0 adds dK,dV of positions 0-1 to 'dkv'", and what 'dkv' then is. */
static void print_sum(const struct events *events, uint32_t rank, const struct op *op)
{
    const struct program *program = &events->walk.programs[rank];
    for (uint32_t i = 0; i < op->n_writes; i++) {
        uint32_t target = program_writes(program, op)[i];
        struct block block = walk_block(&events->walk, rank, op, true, i);
        enum tensor tensor = (enum tensor)program->buffers[target].tensor;
        bool adds = false;
        for (uint32_t j = 0; j < op->n_reads; j++)
            adds |= program_reads(program, op)[j] == target;
        fprintf(events->stream, "rank %" PRIu32 " %s %s of positions %s %s '%s'\n", rank, adds ? "adds" : "puts",
                tensor == TENSOR_DKV ? "dK,dV" : tensor_name(tensor), block_text(events, block).text,
                adds ? "to" : "into", program->buffers[target].name);
        if (op->kind == OP_ACCUMULATE)
            print_rows(events, rank, target, block, true);
    }
}

static void print_op(const struct events *events, uint32_t rank, const struct op *op)
{
    const struct walk *walk = &events->walk;
    const struct program *program = &walk->programs[rank];
    switch ((enum op_kind)op->kind) {
    case OP_ATTEND:
        if (program->buffers[*program_writes(program, op)].tensor != TENSOR_PARTIAL)
            print_attended(events, rank, op->q, op->k, walk->attended);
        break;
    case OP_MERGE:
        for (uint32_t i = 0; i < op->n_reads; i++) {
            uint32_t buffer = program_reads(program, op)[i];
            if (program->buffers[buffer].tensor == TENSOR_PARTIAL)
                print_attended(events, rank, op->q, walk->holdings[rank][buffer].attended,
                               walk_rows(walk, rank, *program_writes(program, op), op->q));
        }
        break;
    case OP_FINISH:
        fprintf(events->stream, "rank %" PRIu32 " finishes queries %s: O = a / l, LSE = m + ln l\n", rank,
                block_text(events, op->q).text);
        break;
    case OP_DELTA:
        fprintf(events->stream, "rank %" PRIu32 " computes delta = dO . O of queries %s\n", rank,
                block_text(events, op->q).text);
        print_rows(events, rank, *program_writes(program, op), walk_block(walk, rank, op, true, 0), true);
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
    case OP_RECEIVE:
    case OP_KIND_COUNT:
        break;
    }
}

/* ---- before and after ---- */

static void print_mask(FILE *stream, const struct mask *mask)
{
    switch (mask->kind) {
    case MASK_FULL:
        fputs("full mask", stream);
        break;
    case MASK_CAUSAL:
        fputs("causal mask", stream);
        break;
    case MASK_WINDOW:
        fprintf(stream, "window of %" PRIu64, mask->window);
        break;
    case MASK_DOCUMENTS:
        fputs("documents of ", stream);
        for (size_t d = 0; d < mask->n_documents; d++)
            fprintf(stream, "%s%" PRIu64, d ? "," : "", mask->document_starts[d + 1] - mask->document_starts[d]);
        break;
    }
}

/* Two whole tensors side by side; `right` may be NULL. */
static void print_inputs(const struct events *events, size_t heads, const char *left_title, const double *left,
                         const char *right_title, const double *right)
{
    size_t dim = events->walk.head_dim, rows = events->walk.schedule->experiment->seq_len;
    fprintf(events->stream, "  %8s  head", "position");
    print_title(events->stream, left_title, right ? dim : 0);
    if (right)
        print_title(events->stream, right_title, 0);
    fputc('\n', events->stream);
    for (size_t i = 0; i < rows * heads; i++) {
        print_row_name(events, i / heads, i % heads);
        print_vector(events->stream, left + i * dim, dim, 1);
        if (right)
            print_vector(events->stream, right + i * dim, dim, 1);
        fputc('\n', events->stream);
    }
}

static void print_case(const struct events *events)
{
    const struct walk *walk = &events->walk;
    const struct experiment *experiment = walk->schedule->experiment;
    FILE *stream = events->stream;
    fprintf(stream, "cp %" PRIu32 ", seq_len %" PRIu64 ", ", events->ranks, experiment->seq_len);
    print_mask(stream, &experiment->mask);
    fprintf(stream, ", q_heads %zu, kv_heads %zu, head_dim %zu, scale %.6f\n", walk->q_heads, walk->kv_heads,
            walk->head_dim, walk->scale);
    for (uint32_t rank = 0; rank < events->ranks; rank++) {
        struct block shard = {rank, 0, (uint32_t)sharding_rows(&walk->schedule->sharding, rank)};
        fprintf(stream, "rank %" PRIu32 " owns positions %s\n", rank, block_text(events, shard).text);
    }
    fputs("\ninputs\n", stream);
    print_inputs(events, walk->q_heads, "Q", walk->input.q, "dO = G / seq_len",
                 experiment->train ? walk->input.d_o : NULL);
    print_inputs(events, walk->kv_heads, "K", walk->input.k, "V", walk->input.v);
    fputs("\nm: running maximum of the scores; l: sum of e^(score - m); a / l: the output so far\n", stream);
}

/* One result beside the reference, by position and head: [rows][heads][dim]. */
static bool print_result(const struct events *events, const char *name, const double *found, const double *expected,
                         size_t heads, size_t dim, struct diagnostics *diag)
{
    FILE *stream = events->stream;
    size_t rows = events->walk.schedule->experiment->seq_len, worst_row = 0;
    double worst = 0, largest = 0;
    fprintf(stream, "  %8s  head", "position");
    print_title(stream, name, dim);
    print_title(stream, "reference", dim);
    fputs("  difference\n", stream);
    for (size_t i = 0; i < rows * heads; i++) {
        double difference = 0;
        for (size_t d = i * dim; d < (i + 1) * dim; d++) {
            double off = fabs(found[d] - expected[d]);
            difference = isnan(off) || off > difference ? off : difference;
            largest = fmax(largest, fabs(expected[d]));
        }
        print_row_name(events, i / heads, i % heads);
        print_vector(stream, found + i * dim, dim, 1);
        print_vector(stream, expected + i * dim, dim, 1);
        fprintf(stream, "  %.1e\n", difference);
        if (!isnan(worst) && !(difference <= worst)) {
            worst = difference;
            worst_row = i;
        }
    }
    fprintf(stream, "  largest difference of %s: %.1e\n", name, worst);
    if (worst <= TOLERANCE * fmax(largest, 1e-3)) /* false for NaN; the floor is for a gradient that is 0 throughout */
        return true;
    return diagnostics_add(diag,
                           "%s of position %zu, head %zu is off by %.1e from the full reference, expected at most %g "
                           "of its largest number %.6f",
                           name, worst_row / heads, worst_row % heads, worst, TOLERANCE, largest);
}

static bool print_results(const struct events *events, struct diagnostics *diag)
{
    const struct walk *walk = &events->walk;
    struct whole found, expected;
    walk_collect(walk, &found);
    walk_reference(walk, &expected);
    fputs("\nresults beside the full reference\n", events->stream);
    bool passed = print_result(events, "O", found.o, expected.o, walk->q_heads, walk->head_dim, diag);
    passed &= print_result(events, "LSE", found.lse, expected.lse, walk->q_heads, 1, diag);
    if (walk->schedule->experiment->train) {
        passed &= print_result(events, "dQ", found.dq, expected.dq, walk->q_heads, walk->head_dim, diag);
        passed &= print_result(events, "dK", found.dk, expected.dk, walk->kv_heads, walk->head_dim, diag);
        passed &= print_result(events, "dV", found.dv, expected.dv, walk->kv_heads, walk->head_dim, diag);
    }
    walk_free_whole(&found);
    walk_free_whole(&expected);
    return passed;
}

/* ---- the whole ---- */

bool events_check(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    uint64_t numbers = (uint64_t)schedule->q_heads * experiment->model.head_dim;
    size_t before = diag->count;
    if (experiment->seq_len > EVENTS_SEQ_LEN_MAX)
        diagnostics_add(diag, "--events prints every row: 'seq_len' is %" PRIu64 ", expected at most %d",
                        experiment->seq_len, EVENTS_SEQ_LEN_MAX);
    if (schedule->ranks > EVENTS_SEQ_LEN_MAX)
        diagnostics_add(diag, "--events prints every rank: 'cp' is %" PRIu32 ", expected at most %d", schedule->ranks,
                        EVENTS_SEQ_LEN_MAX);
    if (experiment->batch != 1)
        diagnostics_add(diag, "--events prints one sequence: 'batch' is %" PRIu32 ", expected 1", experiment->batch);
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
        if (!walk_do(&events->walk, rank, activity.op, receive, diag))
            return false;
        print_op(events, rank, op);
        execution_finish(execution, activity);
    }
    if (execution_done(execution))
        return print_results(events, diag);
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
    print_case(&events);
    bool passed = run(&events, execution, diag);
    walk_fini(&events.walk);
    execution_destroy(execution);
    return passed;
}
