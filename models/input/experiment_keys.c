/* experiment_keys.c - the keys of an experiment, as tables.
 *
 * A value that is refused leaves the struct as it was, which is zero; so a zero count means "not known" to the
 * judgements in experiment.c.
 */
#include "models/input/experiment_keys.h"

#include "models/input/experiment.h"
#include "models/input/experiment_values.h"
#include "models/input/transformer.h"

#define AT(member) offsetof(struct experiment, member)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define DEGREE_MAX 1048576
#define DEGREE_FORM "a count from 1 to 1048576"

static const char *const dtype_words[] = {"fp64", "fp32", "bf16", "fp16", "fp8", NULL}; /* as enum dtype */

static const struct key_spec model_keys[] = {
    {.name = "preset",
     .type = KEY_CUSTOM,
     .fallback = "",
     .parse = experiment_parse_preset,
     .print = experiment_print_preset,
     .form = "a name from models/transformers, or a file",
     .help = "a published model, instead of the shape's keys"},
    {.name = "name",
     .type = KEY_TEXT,
     .offset = AT(model.name),
     .size = sizeof((struct experiment *)0)->model.name,
     .fallback = "custom",
     .form = "a text",
     .help = "what reports call a model that is no preset"},
    TRANSFORMER_SHAPE_KEYS(offsetof(struct experiment, model), ""),
    {.name = "dtype",
     .type = KEY_CHOICE,
     .offset = AT(dtype),
     .fallback = "bf16",
     .choices = dtype_words,
     .help = "element type of Q, K, V"},
};

static const char *const pass_words[] = {"forward", "train", NULL};

static const struct key_spec workload_keys[] = {
    {.name = "seq_len",
     .type = KEY_COUNT64,
     .offset = AT(seq_len),
     .minimum = 1,
     .maximum = (double)SEQ_LEN_MAX,
     .form = "a count such as 131072 or 128Ki",
     .help = "positions of one sequence, over the whole CP group"},
    {.name = "new_tokens",
     .type = KEY_COUNT64,
     .offset = AT(new_tokens),
     .fallback = "0",
     .minimum = 0,
     .maximum = (double)SEQ_LEN_MAX,
     .help = "the last positions, which alone have queries: prefill on a cached prefix; 1 is decoding; 0: all"},
    {.name = "batch",
     .type = KEY_COUNT32,
     .offset = AT(batch),
     .fallback = "1",
     .minimum = 1,
     .maximum = 1048576,
     .help = "sequences of one CP group"},
    {.name = "mask",
     .type = KEY_CUSTOM,
     .offset = AT(mask),
     .fallback = "causal",
     .form = MASK_FORM,
     .parse = experiment_parse_mask,
     .print = experiment_print_mask,
     .help = "which keys a query sees; a window counts the query's own position; length*count repeats a document"},
    {.name = "pass",
     .type = KEY_YES_NO,
     .offset = AT(train),
     .fallback = "train",
     .choices = pass_words,
     .help = "forward alone, or forward and backward"},
};

static const struct key_spec parallel_keys[] = {
    {.name = "cp",
     .type = KEY_COUNT32,
     .offset = AT(degree[PARALLEL_CP]),
     .minimum = 1,
     .maximum = DEGREE_MAX,
     .form = DEGREE_FORM,
     .help = "ranks that share one sequence"},
    {.name = "tp",
     .type = KEY_COUNT32,
     .offset = AT(degree[PARALLEL_TP]),
     .fallback = "1",
     .minimum = 1,
     .maximum = DEGREE_MAX,
     .form = DEGREE_FORM,
     .help = "ranks that share the heads; divides q_heads and kv_heads"},
    {.name = "dp",
     .type = KEY_COUNT32,
     .offset = AT(degree[PARALLEL_DP]),
     .fallback = "1",
     .minimum = 1,
     .maximum = DEGREE_MAX,
     .form = DEGREE_FORM,
     .help = "copies of the whole that work on other sequences"},
    {.name = "order",
     .type = KEY_CUSTOM,
     .offset = AT(order),
     .fallback = "tp,cp,dp",
     .form = "each of tp, cp and dp once, such as tp,cp,dp",
     .parse = experiment_parse_order,
     .print = experiment_print_order,
     .help = "which dimension's ranks are neighbours, innermost first"},
};

static const char *const skip_words[] = {"none", "compute", "transfer", NULL}; /* as enum skip_kind */
static const char *const messages_words[] = {"1", "2", NULL};
static const char *const gradients_words[] = {"model", "fp32", NULL};
static const char *const inner_words[] = {"all-to-all", "ring", NULL}; /* as enum inner_kind */

static const struct key_spec schedule_keys[] = {
    {.name = "algorithm",
     .type = KEY_TEXT,
     .offset = AT(algorithm),
     .size = sizeof((struct experiment *)0)->algorithm,
     .form = "a name from --list algorithms",
     .help = "how keys and values travel (--list algorithms)"},
    {.name = "sharding",
     .type = KEY_CUSTOM,
     .fallback = "contiguous",
     .form = SHARDING_FORM,
     .parse = experiment_parse_sharding,
     .print = experiment_print_sharding,
     .help = "which positions a rank owns"},
    {.name = "overlap",
     .type = KEY_YES_NO,
     .offset = AT(overlap),
     .fallback = "yes",
     .help = "exchanges run beside compute, on streams of their own"},
    {.name = "buffers",
     .type = KEY_COUNT32,
     .offset = AT(buffers),
     .fallback = "2",
     .minimum = 1,
     .maximum = 65536,
     .help = "received KV blocks that a rank can hold at once"},
    {.name = "kv_block",
     .type = KEY_COUNT64,
     .offset = AT(kv_block),
     .fallback = "0",
     .minimum = 0,
     .maximum = (double)SEQ_LEN_MAX,
     .help = "at most so many positions travel in one block; 0: the whole shard"},
    {.name = "skip",
     .type = KEY_CHOICE,
     .offset = AT(skip),
     .fallback = "compute",
     .choices = skip_words,
     .help = "blocks with no visible pair: skip nothing, the compute, or the transfer too"},
    {.name = "kv_messages",
     .type = KEY_YES_NO,
     .offset = AT(split_kv),
     .fallback = "1",
     .choices = messages_words,
     .help = "K and V in one message or in two"},
    {.name = "gradients",
     .type = KEY_YES_NO,
     .offset = AT(gradient_accumulator),
     .fallback = "fp32",
     .choices = gradients_words,
     .help = "dK and dV are summed and returned in fp32 or in the model's dtype"},
    {.name = "collective",
     .type = KEY_CUSTOM,
     .fallback = "ring",
     .parse = experiment_parse_collective,
     .print = experiment_print_collective,
     .form = COLLECTIVE_FORM,
     .help = "a ring of steps; every rank to every other at once; or by nodes of so many ranks, among them and inside"},
    {.name = "ulysses_degree",
     .type = KEY_COUNT32,
     .offset = AT(ulysses_degree),
     .fallback = "0",
     .minimum = 0,
     .maximum = DEGREE_MAX,
     .help = "ranks that exchange heads for rows, the groups form a ring; 0: usp as many as the KV heads allow, "
             "double-ring 1"},
    {.name = "ring_window",
     .type = KEY_COUNT32,
     .offset = AT(ring_window),
     .fallback = "0",
     .minimum = 0,
     .maximum = DEGREE_MAX,
     .help = "ranks of the inner ring of a double ring; 0: the inner one is the longer, both as equal as can be"},
    {.name = "gather_heads",
     .type = KEY_COUNT32,
     .offset = AT(gather_heads),
     .fallback = "0",
     .minimum = 0,
     .maximum = 65536,
     .help = "KV heads gathered at once, the next behind the attention on these; 0: one"},
    {.name = "inner",
     .type = KEY_CHOICE,
     .offset = AT(inner),
     .fallback = "all-to-all",
     .choices = inner_words,
     .help = "which ranks of a two-level algorithm are neighbours: those that exchange heads, or those of a ring"},
};

const struct section_spec experiment_model = {.name = "model",
                                              .required = true,
                                              .help = "whose attention layer",
                                              .keys = model_keys,
                                              .n_keys = COUNT_OF(model_keys)};
const struct section_spec experiment_workload = {.name = "workload",
                                                 .required = true,
                                                 .help = "what it works on",
                                                 .keys = workload_keys,
                                                 .n_keys = COUNT_OF(workload_keys)};
const struct section_spec experiment_parallel = {.name = "parallel",
                                                 .required = true,
                                                 .help = "how many ranks, laid out how",
                                                 .keys = parallel_keys,
                                                 .n_keys = COUNT_OF(parallel_keys)};
const struct section_spec experiment_schedule = {.name = "schedule",
                                                 .required = true,
                                                 .help = "who sends what to whom, and when",
                                                 .keys = schedule_keys,
                                                 .n_keys = COUNT_OF(schedule_keys)};

static const struct section_spec *const sections[] = {&experiment_model, &experiment_workload, &experiment_parallel,
                                                      &experiment_schedule, NULL};

const struct file_spec experiment_file = {.name = "experiment", .sections = sections};
