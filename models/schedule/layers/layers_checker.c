/* layers_checker.c - the walk: what each operation needs of its buffers, and what it leaves; then whether all is there.
 */
#include "models/schedule/layers/layers_checker.h"

#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/layers/layers_proof.h"

/* ---- what is read ---- */

/* Memory that has contents when the step begins, or none at all: of a rank without rows. */
static bool is_given(const struct buffer *buffer)
{
    return buffer->bytes == 0 || buffer->role == ROLE_RESIDENT ||
           (buffer->kept && buffer->tensor != TENSOR_WEIGHT_GRADIENT);
}

static void check_reads(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    const uint32_t *reads = program_reads(proof->program, what);
    for (uint32_t i = 0; i < what->n_reads; i++)
        if (!proof->buffers[reads[i]].written && !is_given(&proof->program->buffers[reads[i]]))
            findings_add_op(proof->findings, proof->program, op, "reads '%s', which nobody wrote",
                            proof_name(proof, reads[i]));
}

/* Weights that are gathered belong to whom they were gathered for. */
static void check_weights(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    const uint32_t *reads = program_reads(proof->program, what);
    uint32_t layer = program_work(proof->program, what)->layer;
    for (uint32_t i = 0; i < what->n_reads; i++) {
        struct proof_buffer *state = &proof->buffers[reads[i]];
        const struct buffer *buffer = &proof->program->buffers[reads[i]];
        if (buffer->tensor != TENSOR_WEIGHT || buffer->kept)
            continue;
        if (state->fresh)
            state->layer = layer;
        else if (state->layer != layer)
            findings_add_op(proof->findings, proof->program, op,
                            "of layer %" PRIu32 " reads '%s', which was gathered for layer %" PRIu32, layer,
                            proof_name(proof, reads[i]), state->layer);
        state->fresh = false;
    }
}

/* ---- gradients of weights ---- */

static bool reads_buffer(const struct program *program, const struct op *op, uint32_t buffer)
{
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (program_reads(program, op)[i] == buffer)
            return true;
    return false;
}

/* The operation writes a gradient, or adds to it. */
static void contribute(struct proof *proof, uint32_t op, uint32_t buffer)
{
    const struct op *what = &proof->program->ops[op];
    struct proof_buffer *state = &proof->buffers[buffer];
    uint32_t layer = program_work(proof->program, what)->layer;
    bool adds = reads_buffer(proof->program, what, buffer), pending = state->contributions && !state->data_sums;
    if (adds && (!pending || state->layer != layer))
        findings_add_op(proof->findings, proof->program, op, "of layer %" PRIu32 " adds to '%s', which %s", layer,
                        proof_name(proof, buffer), pending ? "is another layer's" : "has been summed or is empty");
    if (!adds && state->contributions && (pending || proof->program->buffers[buffer].kept))
        findings_add_op(proof->findings, proof->program, op, "overwrites '%s', a gradient of layer %" PRIu32,
                        proof_name(proof, buffer), state->layer);
    if (state->used_up)
        findings_add_op(proof->findings, proof->program, op, "comes behind the optimizer");
    if (!adds)
        *state = (struct proof_buffer){.written = true, .layer = layer, .of_norm = what->kind == OP_NORM_BACKWARD};
    state->contributions++;
}

static void contribute_all(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    for (uint32_t i = 0; i < what->n_writes; i++) {
        uint32_t buffer = program_writes(proof->program, what)[i];
        if (proof->program->buffers[buffer].tensor == TENSOR_WEIGHT_GRADIENT)
            contribute(proof, op, buffer);
    }
}

/* The optimizer reads every gradient that the rank keeps, each whole, and writes all weights that it keeps. */
static void walk_optimizer(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    bool shares_gradients = proof->experiment->step.zero >= 2 && proof->ranks > 1;
    for (uint32_t i = 0; i < what->n_reads; i++) {
        uint32_t buffer = program_reads(proof->program, what)[i];
        struct proof_buffer *state = &proof->buffers[buffer];
        if (proof->program->buffers[buffer].tensor != TENSOR_WEIGHT_GRADIENT)
            continue;
        if (proof->sums && !shares_gradients && state->data_sums != 1)
            findings_add_op(proof->findings, proof->program, op, "reads '%s', which was summed %" PRIu32 " times",
                            proof_name(proof, buffer), state->data_sums);
        state->used_up = true;
    }
    for (uint32_t i = 0; i < what->n_writes; i++)
        proof->buffers[program_writes(proof->program, what)[i]].updates++;
    proof->optimized++;
}

/* ---- what each layer has ---- */

static enum proof_step step_of(const struct op *op, const struct layer_work *work)
{
    if (op->kind == OP_NORM || op->kind == OP_NORM_BACKWARD)
        return STEP_NORM;
    if (op->kind == OP_EMBED || op->kind == OP_EMBED_BACKWARD)
        return STEP_EMBED;
    if (op->kind != OP_PRODUCT)
        return STEP_KINDS;
    return work->part == MODEL_QUERY    ? STEP_QUERY
           : work->part == MODEL_OUTPUT ? STEP_OUTPUT
           : work->part == MODEL_MLP    ? STEP_MLP
           : work->part == MODEL_HEAD   ? STEP_HEAD
                                        : STEP_KINDS;
}

static void count(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    const struct layer_work *work = program_work(proof->program, what);
    enum proof_step step = step_of(what, work);
    if (work->layer > proof->n_layers) {
        findings_add_op(proof->findings, proof->program, op, "is of no layer: %" PRIu32, work->layer);
        return;
    }
    if (step == STEP_KINDS)
        return;
    struct proof_layer *layer = &proof->layers[work->layer];
    bool backward = what->kind == OP_NORM_BACKWARD || what->kind == OP_EMBED_BACKWARD,
         product = what->kind == OP_PRODUCT;
    bool of_input = product && work->form == PRODUCT_INPUT_GRADIENT;
    bool of_weight = product && work->form == PRODUCT_WEIGHT_GRADIENT;
    uint64_t more = step != STEP_HEAD ? 1 : of_weight ? work->depth : work->rows;
    if (backward || of_input)
        layer->input[step] += more;
    if (backward || of_weight)
        layer->weight[step] += more;
    if (!backward && !of_input && !of_weight && program_phase(proof->program, op) == PHASE_FORWARD)
        layer->forward[step] += more;
}

static void expect(struct proof *proof, uint32_t layer, const char *what, const uint64_t found[STEP_KINDS],
                   const uint64_t expected[STEP_KINDS])
{
    static const char *const names[STEP_KINDS] = {"norms",        "QKV products", "output products",
                                                  "MLP products", "embeddings",   "rows of the head"};
    for (int step = 0; step < STEP_KINDS; step++)
        if (found[step] != expected[step])
            findings_add(proof->findings, "rank %" PRIu32 ", layer %" PRIu32 ": %" PRIu64 " %s %s, expected %" PRIu64,
                         proof->program->rank, layer, found[step], names[step], what, expected[step]);
}

static void check_counts(struct proof *proof)
{
    const uint64_t none[STEP_KINDS] = {0}, of_layer[STEP_KINDS] = {2, 1, 1, 2, 0, 0};
    const uint64_t of_ends[STEP_KINDS] = {1, 0, 0, 0, 1, proof->tokens};
    bool train = proof->experiment->train, model = proof->experiment->step.scope == SCOPE_MODEL;
    for (uint32_t i = 0; i < proof->n_layers + model; i++) {
        const uint64_t *all = i < proof->n_layers ? of_layer : of_ends;
        const struct proof_layer *layer = &proof->layers[i];
        expect(proof, i, "forward", layer->forward, all);
        expect(proof, i, "backward", layer->input, train ? all : none);
        expect(proof, i, "for gradients of weights", layer->weight, train ? all : none);
    }
}

/* ---- what must be so at the end ---- */

static void check_sums(struct proof *proof)
{
    bool model = proof->experiment->step.scope == SCOPE_MODEL;
    for (uint32_t i = 0; i < proof->n_layers + model; i++) {
        uint32_t weights = i < proof->n_layers ? 6 : proof->experiment->model.tied_embeddings ? 2 : 3;
        if (proof->layers[i].summed != (proof->sums ? weights : 0))
            findings_add(proof->findings,
                         "rank %" PRIu32 ": %" PRIu32 " gradients of layer %" PRIu32
                         " are summed over dp x cp, expected %" PRIu32,
                         proof->program->rank, proof->layers[i].summed, i, proof->sums ? weights : 0);
    }
}

static void check_buffer(struct proof *proof, uint32_t b, bool optimizes)
{
    const struct buffer *buffer = &proof->program->buffers[b];
    const struct proof_buffer *state = &proof->buffers[b];
    const struct step_setting *step = &proof->experiment->step;
    uint32_t rank = proof->program->rank;
    if (buffer->tensor == TENSOR_WEIGHT_GRADIENT && buffer->kept && !state->written)
        findings_add(proof->findings, "rank %" PRIu32 ": nothing is in gradient '%s'", rank, buffer->name);
    if (buffer->tensor == TENSOR_WEIGHT_GRADIENT && buffer->kept && optimizes && !state->used_up)
        findings_add(proof->findings, "rank %" PRIu32 ": the optimizer does not read gradient '%s'", rank,
                     buffer->name);
    if (buffer->tensor == TENSOR_WEIGHT && buffer->kept && optimizes && proof->ranks > 1 && step->zero > 0 &&
        step->zero < 3 && state->updates)
        findings_add(proof->findings, "rank %" PRIu32 ": what is new of weights '%s' is not gathered", rank,
                     buffer->name);
}

static void check_end(struct proof *proof)
{
    const struct step_setting *step = &proof->experiment->step;
    bool train = proof->experiment->train;
    bool optimizes =
        train && step->scope == SCOPE_MODEL && step->optimizer != OPTIMIZER_NONE && !proof->schedule->accumulates;
    check_counts(proof);
    if (train)
        check_sums(proof);
    if (proof->optimized != optimizes)
        findings_add(proof->findings, "rank %" PRIu32 ": the optimizer runs %" PRIu32 " times, expected %d",
                     proof->program->rank, proof->optimized, optimizes);
    for (uint32_t b = 0; b < proof->program->n_buffers; b++)
        check_buffer(proof, b, optimizes);
}

/* ---- the walk ---- */

static void write_all(struct proof *proof, const struct op *op)
{
    for (uint32_t i = 0; i < op->n_writes; i++)
        proof->buffers[program_writes(proof->program, op)[i]].written = true;
}

static bool flows(const struct proof *proof, const struct op *op)
{
    return op->collective && proof->program->collectives[op->collective - 1].flowing;
}

/* Norms' gradients are of the rank's own rows: whole only when tp ranks have summed them. */
static void check_norm_sums(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    for (uint32_t i = 0; i < what->n_reads; i++) {
        uint32_t buffer = program_reads(proof->program, what)[i];
        const struct proof_buffer *state = &proof->buffers[buffer];
        if (state->of_norm && state->tensor_sums != (proof->splits_rows ? 1 : 0))
            findings_add_op(proof->findings, proof->program, op, "takes '%s', summed %" PRIu32 " times over tp",
                            proof_name(proof, buffer), state->tensor_sums);
    }
}

static void walk_op(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    check_reads(proof, op);
    if (flows(proof, what)) {
        const struct collective *collective = &proof->program->collectives[what->collective - 1];
        if (collective->first_op == op)
            proof_walk_flow(proof, op);
        if (what->traffic == TRAFFIC_WEIGHT_GRADIENT && what->kind == OP_SEND)
            check_norm_sums(proof, op);
    } else if (op_is_of_layer(what)) {
        count(proof, op);
        check_weights(proof, op);
        proof_check_shapes(proof, op);
        if (what->kind == OP_OPTIMIZE) {
            check_norm_sums(proof, op);
            walk_optimizer(proof, op);
        } else {
            contribute_all(proof, op);
        }
    }
    write_all(proof, what);
}

static void prove_rank(const struct schedule *schedule, const struct program *program, struct findings *findings)
{
    const struct experiment *experiment = schedule->experiment;
    const struct step_setting *step = &experiment->step;
    uint32_t tp = experiment->degree[PARALLEL_TP];
    uint32_t ranks = experiment->degree[PARALLEL_CP] * experiment->degree[PARALLEL_DP];
    struct proof proof = {
        .schedule = schedule,
        .experiment = experiment,
        .program = program,
        .findings = findings,
        .buffers = memory_zeroed(program->n_buffers, sizeof *proof.buffers),
        .tokens = sharding_rows(&schedule->sharding, program->rank) * experiment->batch,
        .n_layers = step->scope == SCOPE_LAYER ? 1 : experiment->model.layers,
        .ranks = ranks,
        .tp = tp,
        .sums = experiment->train && ranks > 1 && !(schedule->accumulates && step->zero < 2),
        .splits_rows = tp > 1 && step->sequence_parallel,
    };
    proof.rows = proof.splits_rows ? proof.tokens / tp : proof.tokens;
    proof.layers = memory_zeroed((size_t)proof.n_layers + 1, sizeof *proof.layers);
    for (uint32_t op = 0; op < program->n_ops; op++)
        walk_op(&proof, op);
    check_end(&proof);
    free(proof.buffers);
    free(proof.layers);
}

bool layers_prove(const struct schedule *schedule, const struct program *programs, struct diagnostics *diag)
{
    struct findings findings = {.diag = diag};
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        prove_rank(schedule, &programs[rank], &findings);
    proof_check_ends(schedule, programs, &findings);
    findings_end(&findings);
    return findings.count == 0;
}
