/* step_keys.c - the keys of [step], as a table. */
#include <stddef.h>

#include "models/input/experiment.h"
#include "models/input/experiment_keys.h"

#define AT(member) offsetof(struct experiment, step.member)

static const char *const recompute_words[] = {"none",   "selective", "alternate",
                                              "around", "full",      NULL}; /* enum recomputation */
static const char *const type_words[] = {"model", "fp32", NULL};
static const char *const linear_words[] = {"model", "fp8", NULL};    /* enum linear_type */
static const char *const loss_words[] = {"fused", "eager", NULL};    /* enum loss_kind */
static const char *const optimizer_words[] = {"adam", "none", NULL}; /* enum optimizer */

static const struct key_spec step_keys[] = {
    {.name = "sequence_parallel",
     .type = KEY_YES_NO,
     .offset = AT(sequence_parallel),
     .fallback = "yes",
     .help = "tp ranks share the rows of norms and residuals: reduce-scatter and all-gather in place of all-reduce"},
    {.name = "recompute",
     .type = KEY_CHOICE,
     .offset = AT(recomputation),
     .fallback = "none",
     .choices = recompute_words,
     .help = "computed again backward: nothing; attention; every second product and what is none; all around "
             "attention; the "
             "whole layer"},
    {.name = "zero",
     .type = KEY_COUNT32,
     .offset = AT(zero),
     .fallback = "0",
     .minimum = 0,
     .maximum = 3,
     .form = "a stage from 0 to 3",
     .help = "what the dp x cp ranks share out: 0 nothing; 1 optimizer states; 2 gradients too; 3 weights too (FSDP)"},
    {.name = "weight_gradients",
     .type = KEY_YES_NO,
     .offset = AT(weight_gradients_fp32),
     .fallback = "fp32",
     .choices = type_words,
     .help = "gradients of weights are kept and summed in fp32 or in the model's dtype"},
    {.name = "bucket",
     .type = KEY_COUNT32,
     .offset = AT(bucket_layers),
     .fallback = "1",
     .minimum = 1,
     .maximum = 65536,
     .form = "a count of layers",
     .help = "layers whose gradients are summed over dp x cp in one go, beside the backward pass of those before"},
    {.name = "linear",
     .type = KEY_CHOICE,
     .offset = AT(linear),
     .fallback = "model",
     .choices = linear_words,
     .help = "type that the layers' matrix products compute in; the head's is the model's"},
    {.name = "optimizer",
     .type = KEY_CHOICE,
     .offset = AT(optimizer),
     .fallback = "adam",
     .choices = optimizer_words,
     .help = "adam keeps each weight and two moments in fp32; none: no optimizer"},
    {.name = "loss",
     .type = KEY_CHOICE,
     .offset = AT(loss),
     .fallback = "fused",
     .choices = loss_words,
     .help = "fused: the logits' gradient takes their place; eager: as PyTorch's cross_entropy, operator by operator"},
    {.name = "loss_chunks",
     .type = KEY_COUNT32,
     .offset = AT(loss_chunks),
     .fallback = "1",
     .minimum = 1,
     .maximum = 65536,
     .help = "parts of a rank's rows whose logits, loss and gradients are made at a time; 1: all logits are kept"},
    {.name = "micro_batches",
     .type = KEY_COUNT32,
     .offset = AT(micro_batches),
     .fallback = "1",
     .minimum = 1,
     .maximum = 65536,
     .help = "forward and backward passes of `batch` sequences before gradients are summed and the optimizer runs"},
    {.name = "reserve",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_BYTES,
     .offset = AT(reserve_bytes),
     .fallback = "0 B",
     .minimum = 0,
     .maximum = 1e15,
     .help = "memory of each device that no tensor has: contexts, the libraries' buffers, fragments"},
};

const struct section_spec experiment_step = {.name = "step",
                                             .help =
                                                 "how what surrounds attention is done; not under scope = attention",
                                             .keys = step_keys,
                                             .n_keys = sizeof step_keys / sizeof *step_keys};
