/* step_checks.c - each rule by the key that breaks it. */
#include "models/input/step_checks.h"

#include <inttypes.h>

#include "models/base/divisors.h"
#include "models/input/experiment_keys.h"
#include "models/input/ini_document.h"
#include "models/input/transformer.h"

static bool is_written(const struct experiment *experiment, const char *key)
{
    return experiment_key_line(experiment, "step", key) != 0;
}

/* Of the model, what is beyond its heads. */
static bool knows_shape(const struct experiment *experiment)
{
    static const char *const keys[] = {"preset", "layers", "hidden", "ffn", "vocab"};
    bool known = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        known &= experiment_knows(experiment, "model", keys[i]);
    return known;
}

static bool knows_parallel(const struct experiment *experiment, const char *key)
{
    return experiment_knows(experiment, "parallel", key);
}

/* A key of [step] that was written but changes nothing. */
static bool idle(const struct experiment *experiment, const char *key, bool without_effect, const char *with,
                 struct diagnostics *diag)
{
    if (!without_effect || !is_written(experiment, key))
        return true;
    return experiment_complain(experiment, "step", key, diag, "'%s' has no effect with %s, expected no such key", key,
                               with);
}

static bool check_attention(const struct experiment *experiment, struct diagnostics *diag)
{
    bool ok = true;
    for (size_t i = 0; i < experiment_step.n_keys; i++)
        ok &= idle(experiment, experiment_step.keys[i].name, true, "scope = attention", diag);
    return ok;
}

/* Operator by operator the loss has all logits of all rows. */
static bool check_loss(const struct experiment *experiment, struct diagnostics *diag)
{
    bool ok = true;
    if (experiment->step.loss != LOSS_EAGER || experiment->step.scope != SCOPE_MODEL)
        return true;
    if (experiment->step.loss_chunks > 1)
        ok = experiment_complain(experiment, "step", "loss", diag,
                                 "'loss' = eager has the logits of all rows, expected fused, or loss_chunks = 1");
    if (experiment->degree[PARALLEL_TP] > 1)
        ok = experiment_complain(experiment, "step", "loss", diag,
                                 "'loss' = eager has the logits of the whole vocabulary, expected fused, or tp = 1");
    return ok;
}

static bool check_effects(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct step_setting *step = &experiment->step;
    const uint32_t *degree = experiment->degree;
    bool pass = experiment_knows(experiment, "workload", "pass");
    bool forward = pass && !experiment->train, train = pass && experiment->train;
    bool degrees = knows_parallel(experiment, "cp") && knows_parallel(experiment, "dp");
    bool one = degree[PARALLEL_CP] == 1 && degree[PARALLEL_DP] == 1, alone = degrees && one, several = degrees && !one;
    enum dtype model = dtype_output(experiment->dtype);
    bool one_type = dtype_accumulator(model) == model && experiment_knows(experiment, "model", "dtype");
    bool layer = step->scope == SCOPE_LAYER, ok = true;
    ok &= idle(experiment, "sequence_parallel", degree[PARALLEL_TP] == 1 && knows_parallel(experiment, "tp"), "tp = 1",
               diag);
    ok &= idle(experiment, "recompute", forward, "pass = forward", diag);
    ok &= idle(experiment, "zero", alone, "cp = 1 and dp = 1", diag);
    ok &= idle(experiment, "zero", several && forward && (step->zero == 1 || step->zero == 2),
               "pass = forward, which has no gradients and no optimizer", diag);
    ok &= idle(experiment, "weight_gradients", forward, "pass = forward", diag);
    ok &= idle(experiment, "weight_gradients", train && one_type, "a dtype in which sums are made too", diag);
    ok &= idle(experiment, "bucket", forward || alone, forward ? "pass = forward" : "cp = 1 and dp = 1", diag);
    ok &= idle(experiment, "bucket", train && several && step->zero == 3,
               "zero = 3, which sums the gradients of each layer", diag);
    ok &= idle(experiment, "bucket", train && several && layer, "scope = layer", diag);
    ok &= idle(experiment, "optimizer", forward || layer, forward ? "pass = forward" : "scope = layer", diag);
    ok &= idle(experiment, "loss", layer, "scope = layer", diag);
    ok &= idle(experiment, "loss_chunks", layer, "scope = layer", diag);
    ok &= check_loss(experiment, diag);
    ok &= idle(experiment, "micro_batches", forward, "pass = forward", diag);
    if (step->scope == SCOPE_MODEL && step->bucket_layers > experiment->model.layers &&
        is_written(experiment, "bucket") && knows_shape(experiment))
        ok = experiment_complain(experiment, "step", "bucket", diag,
                                 "'bucket' = %" PRIu32 " layers of a model of %" PRIu32 ", expected at most these",
                                 step->bucket_layers, experiment->model.layers);
    return ok;
}

static bool check_division(const struct experiment *experiment, const char *section, const char *key, uint64_t count,
                           const char *what, struct diagnostics *diag)
{
    uint32_t tp = experiment->degree[PARALLEL_TP];
    if (tp == 0 || count % tp == 0)
        return true;
    return experiment_complain(experiment, section, key, diag,
                               "'%s' = %" PRIu32 " does not divide %s = %" PRIu64 ", expected a divisor", key, tp, what,
                               count);
}

static bool check_model(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct transformer *model = &experiment->model;
    if (transformer_is_complete(model) || !knows_shape(experiment))
        return check_division(experiment, "parallel", "tp", model->ffn, "ffn", diag);
    return experiment_complain(experiment, "workload", "scope", diag,
                               "'scope' = %s of a model without layers, hidden, ffn or vocab, expected all four in "
                               "[model], or a preset",
                               experiment->step.scope == SCOPE_LAYER ? "layer" : "model");
}

bool step_check(const struct experiment *experiment, struct diagnostics *diag)
{
    bool ok = true;
    if (!experiment_knows(experiment, "workload", "scope"))
        return true; /* whether there are layers at all */
    if (experiment->step.scope == SCOPE_ATTENTION)
        return check_attention(experiment, diag);
    if (experiment->new_tokens > 0)
        ok =
            experiment_complain(experiment, "workload", "new_tokens", diag,
                                "'new_tokens' has no layers around it yet, expected scope = attention, or no such key");
    ok &= check_model(experiment, diag);
    return check_effects(experiment, diag) && ok;
}
