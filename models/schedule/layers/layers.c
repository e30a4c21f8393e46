/* layers.c - the order of a step's parts. */
#include "models/schedule/layers/layers.h"

#include <inttypes.h>

#include "models/layer/parameters.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/layers/layer_builder.h"

/* The resident end of a single layer: its input, or the gradient of its output. */
static uint32_t resident(struct layer_builder *b, const char *name)
{
    uint32_t buffer = layer_hidden(b, name, UINT32_MAX, b->rows);
    b->program->buffers[buffer].role = ROLE_RESIDENT;
    return buffer;
}

static uint32_t forward(struct layer_builder *b)
{
    uint32_t x = b->step->scope == SCOPE_MODEL ? embedding_forward(b) : resident(b, "x");
    for (uint32_t layer = 0; layer < b->n_layers; layer++) {
        layer_gather_unit(b, layer);
        x = layer_forward(b, layer, x, false);
        layer_release_unit(b, layer);
    }
    if (b->step->scope == SCOPE_MODEL)
        head_forward(b, x);
    else
        b->program->buffers[x].role = ROLE_RESIDENT;
    return x;
}

static void backward(struct layer_builder *b, uint32_t y)
{
    uint32_t d = b->step->scope == SCOPE_MODEL ? head_backward(b, y) : resident(b, "dy");
    for (uint32_t i = 0; i < b->n_layers; i++) {
        uint32_t layer = b->n_layers - 1 - i;
        layer_gather_unit(b, layer);
        d = layer_backward(b, layer, d);
        layer_release_unit(b, layer);
        layer_reduce_unit(b, layer);
    }
    if (b->step->scope == SCOPE_MODEL)
        embedding_backward(b, d);
    else
        b->program->buffers[d].role = ROLE_RESIDENT;
    layer_optimize(b);
}

static void build(const struct schedule *schedule, struct layers_place place, bool written_out, struct program *program)
{
    struct layer_builder b;
    layer_builder_init(&b, schedule, place, written_out, program);
    uint32_t y = forward(&b);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train) {
        backward(&b, y);
        program_end_phase(program, PHASE_BACKWARD);
    }
    layer_builder_fini(&b);
}

void layers_build(const struct schedule *schedule, uint32_t rank, struct program *program)
{
    build(schedule, (struct layers_place){.rank = rank}, false, program);
}

void layers_build_at(const struct schedule *schedule, struct layers_place place, struct program *program)
{
    build(schedule, place, true, program);
}

/* ---- what cannot be built ---- */

static bool check_rows(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    uint32_t tp = experiment->degree[PARALLEL_TP];
    if (tp == 1 || !experiment->step.sequence_parallel)
        return true;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        uint64_t rows = sharding_rows(&schedule->sharding, rank) * experiment->batch;
        if (rows % tp != 0)
            return experiment_complain(experiment, "parallel", "tp", diag,
                                       "'tp' = %" PRIu32 " does not divide the %" PRIu64 " rows of CP rank %" PRIu32
                                       " (its shard x batch), which sequence_parallel parts: expected a divisor, or "
                                       "[step] sequence_parallel = no",
                                       tp, rows, rank);
    }
    return true;
}

#define OPERATIONS_OF_LAYER 100 /* forward, again and backward, with all collectives */
#define OPERATIONS_OF_CHUNK 8

double layers_operations(const struct experiment *experiment, double attention)
{
    const struct step_setting *step = &experiment->step;
    double layers = step->scope == SCOPE_LAYER ? 1 : experiment->model.layers;
    double again = experiment->train && step->recomputation != RECOMPUTE_NONE ? 1.5 : 1;
    return layers * (attention * again + OPERATIONS_OF_LAYER) + (double)step->loss_chunks * OPERATIONS_OF_CHUNK;
}

/* The optimizer reads or writes every weight, and an operation has so many buffers at most. */
static bool check_depth(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    const uint32_t most = (UINT16_MAX - 4) / LAYER_WEIGHTS;
    return experiment->step.scope != SCOPE_MODEL || experiment->model.layers <= most ||
           experiment_complain(experiment, "workload", "scope", diag,
                               "'scope' = model of %" PRIu32 " layers, expected at most %" PRIu32 ", or scope = layer",
                               experiment->model.layers, most);
}

/* Hidden tensors of a layer that travel among tp ranks: forward, forward again and backward four each at most, twice
 * where they are summed; and columns that a rank keeps of a layer, at most. */
#define TRAVELLING 24
#define KEPT_HIDDEN 24
#define KEPT_WIDE 6

/* Every count of bytes, over all ranks and micro-batches, fits 63 bits. As in experiment.c, doubles do. */
static bool check_overflow(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    const struct transformer *model = &experiment->model;
    const struct step_setting *step = &experiment->step;
    double element = (double)dtype_bytes(dtype_output(experiment->dtype)), dp = experiment->degree[PARALLEL_DP];
    double layers = step->scope == SCOPE_LAYER ? 1 : model->layers, steps = step->micro_batches;
    double tokens = (double)experiment->seq_len * experiment->batch, hidden = model->hidden;
    double tensor = tokens * hidden * element * TRAVELLING * layers * experiment->degree[PARALLEL_TP] * dp * steps;
    struct parameters of_layer = parameters_of_layer(model), all = parameters_of_model(model);
    double weights = (double)parameters_total(step->scope == SCOPE_LAYER ? &of_layer : &all);
    double data = weights * sizeof(double) * 4 * experiment->degree[PARALLEL_CP] * dp * steps;
    double kept = tokens * element *
                  (layers * (KEPT_HIDDEN * hidden + KEPT_WIDE * (double)model->ffn) + 4 * (double)model->vocab);
    if (tensor < 0x1p62 && data < 0x1p62 && kept < 0x1p62)
        return true;
    return experiment_complain(experiment, "workload", "scope", diag,
                               "'scope' = %s with seq_len = %" PRIu64 ", batch = %" PRIu32 ", tp = %" PRIu32
                               ", cp = %" PRIu32 ", dp = %" PRIu32 " and %" PRIu32
                               " micro-batches moves more bytes than 63 bits can count, expected a smaller product",
                               step->scope == SCOPE_LAYER ? "layer" : "model", experiment->seq_len, experiment->batch,
                               experiment->degree[PARALLEL_TP], experiment->degree[PARALLEL_CP],
                               experiment->degree[PARALLEL_DP], step->micro_batches);
}

bool layers_check(const struct schedule *schedule, struct diagnostics *diag)
{
    bool ok = check_rows(schedule, diag) && check_depth(schedule, diag) && check_overflow(schedule, diag);
    if (schedule->algorithm->replicates_queries || schedule->queries != QUERIES_BY_ROW)
        ok = experiment_complain(schedule->experiment, "schedule", "algorithm", diag,
                                 "algorithm '%s' leaves every rank all outputs, which layers have no use for, expected "
                                 "scope = attention or an algorithm whose ranks own rows",
                                 schedule->algorithm->name);
    return ok;
}
