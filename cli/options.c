/* options.c - the command line, by argp.
 *
 * options_table.h is parser and --help in one. argp hands over one option at a time (option_values.h); what they mean
 * together is judged afterwards (options_judge.h), so that all problems are reported at once.
 */
#include "cli/options.h"

#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/advice.h"
#include "cli/key_reference.h"
#include "cli/option_values.h"
#include "cli/options_judge.h"
#include "cli/options_table.h"
#include "hw/measure.h"
#include "models/base/memory.h"

const char *argp_program_version = "cpsim " CPSIM_VERSION;

#define RANKS_MAX 1024 /* threads of one process */
#define JOBS_MAX 1024
#define GPUS_MAX 1024
#define CTAS_MAX 1024

static void words_add(struct words *words, const char *word)
{
    memory_grow(words->items, words->count, words->capacity);
    words->items[words->count++] = word;
}

/* What an option without an argument sets; NULL: it is another option. */
static bool *flag_of(struct option_state *state, int key)
{
    switch (key) {
    case OPTION_OPERATIONS:
        return &state->options->operations;
    case OPTION_DETAILS:
        return &state->options->details;
    case OPTION_NO_FOLD:
        return &state->options->no_fold;
    case OPTION_QUIET:
        return &state->options->quiet;
    case OPTION_QUICK:
        return &state->options->quick;
    case OPTION_RESUME:
        return &state->options->resume;
    case OPTION_EVENTS:
        return &state->given.events;
    case OPTION_CHECK:
        return &state->given.check;
    case OPTION_COMPARE:
        return &state->given.compare;
    case OPTION_VALIDATE:
        return &state->given.validate;
    case OPTION_COMPARE_ALGORITHMS:
        return &state->given.algorithms;
    case OPTION_SENSITIVITY:
        return &state->given.sensitivity;
    case OPTION_EXPLAIN:
        return &state->given.explain;
    case OPTION_ADVISE:
        return &state->given.advise;
    case OPTION_EXHAUSTIVE:
        return &state->options->exhaustive;
    case OPTION_LONGEST:
        return &state->given.longest;
    case OPTION_HW:
        return &state->given.hw;
    case OPTION_DETERMINISTIC:
        return &state->options->hardware.kernels.deterministic;
    case OPTION_SERIAL:
        return &state->options->hardware.serial;
    case OPTION_GRAPH:
        return &state->options->hardware.graph;
    case OPTION_NCCL_ZERO_CTA:
        return &state->options->hardware.carrying.zero_cta;
    case OPTION_NCCL_REGISTERED:
        return &state->options->hardware.carrying.registered;
    case OPTION_NCCL_SELF:
        return &state->options->hardware.carrying.through_library;
    default:
        return NULL;
    }
}

/* An option that takes a text as it is, once. */
static error_t parse_text(struct option_state *state, int key, const char *argument)
{
    struct options *options = state->options;
    switch (key) {
    case OPTION_JSON:
        option_take_text(state, &options->json, "json", argument);
        return 0;
    case OPTION_CSV:
        option_take_text(state, &options->csv, "csv", argument);
        return 0;
    case OPTION_TRACE:
        option_take_text(state, &options->trace, "trace", argument);
        return 0;
    case OPTION_SCRIPT:
        option_take_text(state, &options->script, "script", argument);
        return 0;
    case OPTION_LIST:
        option_take_text(state, &options->list, "list", argument);
        return 0;
    case OPTION_CALIBRATE:
        option_take_text(state, &options->profile, "calibrate", argument);
        return 0;
    case OPTION_KERNEL_TIMES:
        option_take_text(state, &options->kernel_times, "kernel-times", argument);
        return 0;
    case OPTION_NCCL:
        option_take_text(state, &options->hardware.carrying.library, "nccl", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *argument, struct argp_state *argp_state)
{
    struct option_state *state = argp_state->input;
    struct options *options = state->options;
    struct given_options *given = &state->given;
    bool *flag = flag_of(state, key);
    if (flag) {
        *flag = true;
        return 0;
    }
    switch (key) {
    case OPTION_SET:
        words_add(&options->overrides, argument);
        return 0;
    case OPTION_SWEEP:
        words_add(&options->sweeps, argument);
        return 0;
    case OPTION_VARY:
        words_add(&options->vary, argument);
        return 0;
    case OPTION_FIX:
        words_add(&options->fix, argument);
        return 0;
    case OPTION_GPUS:
        options->gpus = option_take_number(state, "gpus", &given->gpus, argument, 1, INT32_MAX);
        return 0;
    case OPTION_BEST:
        options->best = (uint32_t)option_take_number(state, "best", &given->best, argument, 1, ADVICE_BEST_MAX);
        return 0;
    case OPTION_ENGINE:
        option_take_engine(state, argument);
        return 0;
    case OPTION_WITHOUT:
        option_take_without(state, argument);
        return 0;
    case OPTION_PLOT:
        option_take_plot(state, argument);
        return 0;
    case OPTION_PATH:
        option_take_path(state, argument);
        return 0;
    case OPTION_TRANSPORT:
        option_take_transport(state, argument);
        return 0;
    case OPTION_COMPUTE:
        option_take_compute(state, argument);
        return 0;
    case OPTION_COLLECTIVES:
        option_take_collectives(state, argument);
        return 0;
    case OPTION_KERNELS:
        option_take_kernels(state, argument);
        return 0;
    case OPTION_POINTS:
        option_take_points(state, argument);
        return 0;
    case OPTION_GPU:
        options->hardware.kernels.device =
            (int)option_take_number(state, "gpu", &given->gpu, argument, 0, GPUS_MAX - 1);
        return 0;
    case OPTION_NCCL_CTAS:
        options->hardware.carrying.max_ctas =
            (uint32_t)option_take_number(state, "nccl-ctas", &given->ctas, argument, 1, CTAS_MAX);
        return 0;
    case OPTION_JOBS:
        options->jobs = (uint32_t)option_take_number(state, "jobs", &given->jobs, argument, 1, JOBS_MAX);
        return 0;
    case OPTION_ITERATIONS:
        options->iterations =
            (uint32_t)option_take_number(state, "iterations", &given->iterations, argument, 1, MEASURE_TIMES_MAX);
        return 0;
    case OPTION_WARMUP:
        options->warmup = (uint32_t)option_take_number(state, "warmup", &given->warmup, argument, 0, MEASURE_TIMES_MAX);
        return 0;
    case OPTION_SEED:
        options->seed = option_take_number(state, "seed", &options->seed_given, argument, 0, INT64_MAX);
        return 0;
    case OPTION_RANKS:
        options->ranks = (uint32_t)option_take_number(state, "ranks", &given->ranks, argument, 1, RANKS_MAX);
        return 0;
    case OPTION_SHORT_HELP:
        argp_state_help(argp_state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        words_add(&options->files, argument);
        return 0;
    default:
        return parse_text(state, key, argument);
    }
}

/* Appends the names of all keys to the text behind the options. */
static char *extend_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    char *keys = key_reference_compact();
    char *extended = memory_format("%s\n%s", text, keys);
    free(keys);
    return extended;
}

/* Results quote what was typed, and they are UTF-8. */
static bool all_utf8(int argc, char **argv, struct diagnostics *diag)
{
    bool fine = true;
    for (int i = 1; i < argc; i++) {
        json_t *text = json_string(argv[i]);
        if (!text)
            fine = diagnostics_add(diag, "argument %d is not UTF-8 text", i);
        json_decref(text);
    }
    return fine;
}

/* That this process may use. */
static uint32_t count_cores(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return (uint32_t)CPU_COUNT(&cores);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

bool options_parse(struct options *options, int argc, char **argv, struct diagnostics *diag)
{
    *options = (struct options){.jobs = count_cores(),
                                .engine = engines[0],
                                .best = ADVICE_BEST_DEFAULT,
                                .hardware.kernels.device = -1,
                                .iterations = MEASURE_ITERATIONS,
                                .warmup = MEASURE_WARMUP};
    if (!all_utf8(argc, argv, diag))
        return false;
    size_t problems = diag->count;
    struct option_state state = {.options = options, .diag = diag};
    const struct argp argp = {options_table, parse_option, options_forms, options_description, NULL, extend_help, NULL};
    argp_err_exit_status = 2;
    argv[0] = program_invocation_short_name; /* messages begin with 'cpsim:' wherever it was started from */
    argp_parse(&argp, argc, argv, 0, NULL, &state);
    options_judge(options, &state.given, diag);
    return diag->count == problems;
}

void options_fini(struct options *options)
{
    free(options->files.items);
    free(options->overrides.items);
    free(options->sweeps.items);
    free(options->vary.items);
    free(options->fix.items);
    free(options->plots);
    free(options->paths);
}
