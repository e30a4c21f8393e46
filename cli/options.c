/* options.c - the command line, by argp.
 *
 * The table below is parser and --help in one. argp hands over one option at a time; what they mean together is judged
 * afterwards (options_judge.h), so that all problems are reported at once.
 */
#include "cli/options.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/advice.h"
#include "cli/key_reference.h"
#include "cli/list.h"
#include "cli/options_judge.h"
#include "hw/measure.h"
#include "hw/transport.h"
#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/key_table.h"
#include "models/input/units.h"

const char *argp_program_version = "cpsim " CPSIM_VERSION;

enum option_key {
    OPTION_SET = 0x100,
    OPTION_WITHOUT,
    OPTION_NO_FOLD,
    OPTION_VALIDATE,
    OPTION_SWEEP,
    OPTION_ENGINE,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_TRACE,
    OPTION_PLOT,
    OPTION_SCRIPT,
    OPTION_DETAILS,
    OPTION_QUIET,
    OPTION_EVENTS,
    OPTION_CHECK,
    OPTION_PATH,
    OPTION_LIST,
    OPTION_HW,
    OPTION_TRANSPORT,
    OPTION_COMPUTE,
    OPTION_COLLECTIVES,
    OPTION_ITERATIONS,
    OPTION_WARMUP,
    OPTION_SEED,
    OPTION_GPU,
    OPTION_KERNELS,
    OPTION_DETERMINISTIC,
    OPTION_SERIAL,
    OPTION_GRAPH,
    OPTION_NCCL,
    OPTION_NCCL_CTAS,
    OPTION_NCCL_ZERO_CTA,
    OPTION_NCCL_REGISTERED,
    OPTION_NCCL_SELF,
    OPTION_CALIBRATE,
    OPTION_RANKS,
    OPTION_QUICK,
    OPTION_KERNEL_TIMES,
    OPTION_COMPARE,
    OPTION_COMPARE_ALGORITHMS,
    OPTION_SENSITIVITY,
    OPTION_EXPLAIN,
    OPTION_ADVISE,
    OPTION_VARY,
    OPTION_FIX,
    OPTION_GPUS,
    OPTION_BEST,
    OPTION_EXHAUSTIVE,
    OPTION_LONGEST,
    OPTION_OPERATIONS,
    OPTION_RESUME,
    OPTION_POINTS,
    OPTION_JOBS = 'j',
    OPTION_SHORT_HELP = 'h',
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "The question:", 1},
    {"set", OPTION_SET, "KEY=VALUE", 0, "Override a key of either file, or add it: section.key=value (repeatable)", 1},
    {"engine", OPTION_ENGINE, "NAME", 0, "simgrid (default) or analytic, which knows no contention: a lower bound", 1},
    {"without", OPTION_WITHOUT, "MECHANISM", 0,
     "Leave a mechanism of the cost model out, to see what it is worth (--list mechanisms; repeatable)", 1},
    {"no-fold", OPTION_NO_FOLD, NULL, 0,
     "Simulate every rank, also those that behave alike, of which else one stands for all: the same result, later", 1},
    {NULL, 0, NULL, 0, "Many questions:", 2},
    {"sweep", OPTION_SWEEP, "KEY=V1,V2,...", 0,
     "Predict for every value of section.key; repeated: for every combination, the first key varying slowest. Values "
     "that contain commas are separated by ';'",
     2},
    {"compare-algorithms", OPTION_COMPARE_ALGORITHMS, NULL, 0,
     "Predict with every algorithm there is, best first, and say why others do not apply (--sweep may vary more)", 2},
    {"sensitivity", OPTION_SENSITIVITY, NULL, 0,
     "Predict with every rate, time and share of the cost model raised and lowered by 2 %, and say on which of them "
     "the step hangs, and how much",
     2},
    {"explain", OPTION_EXPLAIN, NULL, 0,
     "Say which chain of operations on which ranks and links makes the step as long as it is, and what would make it "
     "shorter: predicted with one thing better at a time",
     2},
    {"longest", OPTION_LONGEST, NULL, 0,
     "Find the longest sequence that fits the devices' memory, whatever the experiment's seq_len; nothing is simulated",
     2},
    {"advise", OPTION_ADVISE, NULL, 0,
     "Find the layout that takes the least time on these GPUs and fits their memory: degrees, algorithm, sharding, "
     "placement, recomputation, ZeRO. The model and the sequences of a step are the experiment's; the keys that are "
     "varied only say where it stands",
     2},
    {"vary", OPTION_VARY, "KEY=V1,V2,...", 0,
     "With --advise: the values of a key to choose among, in place of all that make sense; also of a key that is not "
     "varied otherwise (repeatable). Values that contain commas are separated by ';'",
     2},
    {"fix", OPTION_FIX, "KEY", 0, "With --advise: keep what the experiment has of a key (repeatable)", 2},
    {"gpus", OPTION_GPUS, "N", 0, "With --advise: use the first N GPUs (default: all of the cluster)", 2},
    {"best", OPTION_BEST, "N", 0, "With --advise: show the best N layouts (default: 5)", 2},
    {"exhaustive", OPTION_EXHAUSTIVE, NULL, 0,
     "With --advise: simulate every candidate, leaving none out for what others say of it", 2},
    {"validate", OPTION_VALIDATE, NULL, 0,
     "Predict every published measurement of the sets in a folder, or of one set, and say how right the predictions "
     "are",
     2},
    {"jobs", OPTION_JOBS, "N", 0,
     "Points of a sweep, rows of a validation, runs of a sensitivity, an explanation or an advice to do at once "
     "(default: one per "
     "core; under mpirun each process has its share of them); no effect on the result",
     2},
    {"points", OPTION_POINTS, "HOW", 0,
     "What a sweep's JSON has of each point: full (default), its whole run; summary, the step and the links without "
     "the ranks, a seventieth of the size for 64 of them",
     2},
    {"resume", OPTION_RESUME, NULL, 0,
     "Go on with a sweep that was stopped: points that the file of --json has already are not done again", 2},
    {NULL, 0, NULL, 0, "Results:", 3},
    {"json", OPTION_JSON, "FILE", 0,
     "Everything, as schema cpsim.run/1 (of a sweep: cpsim.sweep/1; of --compare: cpsim.compare/1; of "
     "--validate: cpsim.validation/1; of --sensitivity: cpsim.sensitivity/1; of --explain: cpsim.explanation/1; of "
     "--advise: cpsim.advice/1; of "
     "--longest: cpsim.longest/1; of --check: cpsim.topology/1)",
     3},
    {"operations", OPTION_OPERATIONS, NULL, 0, "Also every operation in the JSON, for --compare --plot timelines", 3},
    {"csv", OPTION_CSV, "FILE", 0,
     "A row per rank (of a sweep: per point; of --compare: per pair; of --validate: per measurement; of --sensitivity: "
     "per constant; of --explain: per change; of --advise: per layout)",
     3},
    {"trace", OPTION_TRACE, "FILE", 0, "Every operation as trace events, for ui.perfetto.dev or chrome://tracing", 3},
    {"plot", OPTION_PLOT, "[KIND=]FILE", 0,
     "Draw to FILE (.png .svg .pdf) with gnuplot, or to the terminal with '-' (repeatable). KIND: timeline (default), "
     "memory, time; of a sweep: scaling; of --compare-algorithms: algorithms (default), scaling; of --compare: scatter "
     "(default), phases, timelines; of --validate: scatter; of --sensitivity: tornado; of --explain: path; of "
     "--advise: pareto; of --check: topology",
     3},
    {"script", OPTION_SCRIPT, "FILE", 0, "Write the plots' gnuplot script to FILE instead of drawing them", 3},
    {"details", OPTION_DETAILS, NULL, 0,
     "Full tables: every rank, step and link class; every measurement; all of the chain", 3},
    {"quiet", OPTION_QUIET, NULL, 0, "No table", 3},
    {NULL, 0, NULL, 0, "Measuring:", 4},
    {"hw", OPTION_HW, NULL, 0,
     "Run the experiment on this machine, verify its results and measure it; under mpirun: one rank a process", 4},
    {"transport", OPTION_TRANSPORT, "NAME", 0,
     "mpi (default under mpirun), local (default else); with a GPU for each rank also nccl (under mpirun), "
     "nccl-threads",
     4},
    {"compute", OPTION_COMPUTE, "NAME", 0,
     "Backend that runs the kernels: cpu or cuda (default: a GPU if there is one that can run the experiment, else "
     "cpu)",
     4},
    {"collectives", OPTION_COLLECTIVES, "HOW", 0,
     "library (default where the transport has them): its own calls; messages: the messages and sums that are "
     "simulated",
     4},
    {"iterations", OPTION_ITERATIONS, "N", 0, "Iterations that are timed (default: 10)", 4},
    {"warmup", OPTION_WARMUP, "N", 0, "Iterations before those (default: 2)", 4},
    {"seed", OPTION_SEED, "N", 0, "Of the random inputs (default: another one every time; results state it)", 4},
    {"calibrate", OPTION_CALIBRATE, "FILE", 0,
     "With --hw: measure kernels and messages of this machine (about a minute; of its GPUs, if it has any, unless "
     "--compute says otherwise); write a device profile to FILE.ini and "
     "a topology that uses it to FILE-topology.ini",
     4},
    {"ranks", OPTION_RANKS, "N", 0,
     "Ranks to calibrate for, with transport local (default: one per core; with one GPU 8, which share it) or "
     "nccl-threads (default: one per GPU)",
     4},
    {"kernel-times", OPTION_KERNEL_TIMES, "FILE", 0,
     "With --calibrate: [attention] sections as in device profiles, measured elsewhere, that the profile is to hold "
     "too; the first one's kernel becomes its default",
     4},
    {"quick", OPTION_QUICK, NULL, 0, "Calibrate in seconds, and badly: to try it out", 4},
    {NULL, 0, NULL, 0, "Measuring on GPUs:", 5},
    {"gpu", OPTION_GPU, "N", 0, "Which GPU, counted from 0 (default: that of the rank's place on its host)", 5},
    {"kernels", OPTION_KERNELS, "NAME", 0, "Family of attention kernels: mma (default) or wgmma (Hopper)", 5},
    {"deterministic", OPTION_DETERMINISTIC, NULL, 0, "The same bits every time, where there is a faster way too", 5},
    {"serial", OPTION_SERIAL, NULL, 0,
     "With ranks that share one GPU: one rank's kernels at a time, and the step composed from their times as if each "
     "rank had a GPU of its own",
     5},
    {"graph", OPTION_GRAPH, NULL, 0, "Record each phase as a CUDA graph and launch that", 5},
    {"nccl", OPTION_NCCL, "FILE", 0, "NCCL's library (default: libnccl.so.2, as the system finds it)", 5},
    {"nccl-ctas", OPTION_NCCL_CTAS, "N", 0, "Thread blocks that NCCL may use for an operation (default: its choice)",
     5},
    {"nccl-zero-cta", OPTION_NCCL_ZERO_CTA, NULL, 0, "NCCL's copy engines in place of thread blocks, where it can", 5},
    {"nccl-registered", OPTION_NCCL_REGISTERED, NULL, 0, "Buffers are registered with NCCL", 5},
    {"nccl-self", OPTION_NCCL_SELF, NULL, 0,
     "With transport local: messages by NCCL's send and receive to oneself, to try its path on one GPU", 5},
    {NULL, 0, NULL, 0, "Instead of predicting:", 6},
    {"check", OPTION_CHECK, NULL, 0,
     "Read and check files of any kind without running, and show what a topology is: its tree, its link classes and "
     "what it carries between halves; with one topology and one experiment, also whether they fit together, and that "
     "the schedule computes attention exactly once",
     6},
    {"path", OPTION_PATH, "A:B", 0, "With --check: also the route from GPU A to GPU B, link by link (repeatable)", 6},
    {"compare", OPTION_COMPARE, NULL, 0,
     "Lay the runs of JSON files side by side: every measured run with the predictions of its experiment; of one kind "
     "only, the runs of the first file with those of the others",
     6},
    {"list", OPTION_LIST, "WHAT", 0,
     "One of: " LIST_SUBJECTS ". Algorithms with an experiment: which of them apply to it, and why others do not", 6},
    {"events", OPTION_EVENTS, NULL, 0, "Execute a tiny experiment with numbers and print every event", 6},
    {NULL, 0, NULL, 0, "Help:", -1},
    {NULL, OPTION_SHORT_HELP, NULL, OPTION_HIDDEN, NULL, -1},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const char forms[] = "TOPOLOGY.ini EXPERIMENT.ini\n"
                            "--hw EXPERIMENT.ini\n"
                            "--hw --calibrate PROFILE.ini\n"
                            "--check FILE...\n"
                            "--events [TOPOLOGY.ini] EXPERIMENT.ini\n"
                            "--compare RUN.json RUN.json...\n"
                            "--compare-algorithms TOPOLOGY.ini EXPERIMENT.ini\n"
                            "--sensitivity TOPOLOGY.ini EXPERIMENT.ini\n"
                            "--explain TOPOLOGY.ini EXPERIMENT.ini\n"
                            "--advise TOPOLOGY.ini EXPERIMENT.ini\n"
                            "--longest TOPOLOGY.ini EXPERIMENT.ini\n"
                            "--validate FOLDER\n"
                            "--list algorithms EXPERIMENT.ini\n"
                            "--list WHAT";

/* clang-format off: the text as it is printed */
static const char description[] =
    "Predicts context-parallel attention, or a whole training step around it, on a cluster that need not exist yet: "
    "time per step, communication hidden and exposed, memory per rank. The topology says what the cluster is, the "
    "experiment what to compute on it and how; both are INI files. A name without '/' or '.ini' is looked for among "
    "the shipped ones.\n"
    "\v"
    "FILE may be '-' for standard output; the table then gives way.\n"
    "\n"
    "Examples:\n"
    "  cpsim dgx-h100-4 llama3-8b-1m\n"
    "  cpsim dgx-h100-4 llama3-8b-1m --set parallel.cp=16 --plot timeline.svg\n"
    "  cpsim dgx-h100-4 llama3-8b-1m --sweep parallel.cp=1,2,4,8,16,32 \\\n"
    "      --json scaling.json --plot scaling.png\n"
    "  cpsim dgx-h100-4 llama3-8b-1m --sweep schedule.algorithm=ring,all-gather \\\n"
    "      --sweep 'level cluster.bandwidth=200 Gb/s, 400 Gb/s' --plot -\n"
    "  mpirun -n 64 cpsim dgx-h100-4 llama3-8b-1m --engine analytic --json grid.json \\\n"
    "      --points summary --sweep parallel.cp=4,8 --sweep workload.seq_len=256Ki,1Mi\n"
    "  cpsim dgx-h100-4 llama3-8b-1m --compare-algorithms --plot algorithms.png\n"
    "  cpsim dgx-h100-4 llama3-8b-1m --sensitivity --plot tornado.png\n"
    "  cpsim dgx-h100-4 llama3-8b-1m --explain\n"
    "  cpsim dgx-h100-4 llama3-8b-step\n"
    "  cpsim --advise dgx-h100-4 llama3-8b-step --fix step.zero --plot pareto.png\n"
    "  cpsim --longest dgx-h100-4 llama3-8b-step\n"
    "  cpsim --validate experiments/published --plot validation.png\n"
    "  cpsim --hw cpu-small\n"
    "  mpirun -n 2 cpsim --hw cpu-small --json measured.json\n"
    "  cpsim --hw cpu-small --set model.dtype=bf16 --compute cuda --serial\n"
    "  cpsim --check my-cluster.ini my-experiment.ini\n"
    "  cpsim --check dgx-h100-4 --path 0:9 --plot cluster.png\n"
    "  cpsim --compare predicted.json measured.json --plot scatter.png\n"
    "\n"
    "Of whole layers ([workload] scope): MFU is what the model's matrix products and attention take, forward and "
    "backward, each once and attention by the pairs that the mask lets through, over what the devices could compute "
    "in the step at their dense 16-bit peak; HFU counts what is computed again too, FlashAttention's scores among it; "
    "MFU as PaLM counts takes 6 FLOPs a parameter and token, and attention without a mask. Exposed time is of CP, TP "
    "or DP: of the message that was waited for last.\n"
    "\n"
    "Exit status: 0 done; 1 a run or its verification failed, a validation was worse than its bounds, nothing that "
    "--advise or --longest looked at fits the memory, or a result could not be written; 2 bad usage or bad input. A "
    "sweep is done when at least one of its points ran and each of the others was refused as bad input.\n";
/* clang-format on */

#define RANKS_MAX 1024 /* threads of one process */
#define JOBS_MAX 1024
#define GPUS_MAX 1024
#define CTAS_MAX 1024

struct parse_state {
    struct options *options;
    struct given_options given;
    struct diagnostics *diag;
};

static void words_add(struct words *words, const char *word)
{
    memory_grow(words->items, words->count, words->capacity);
    words->items[words->count++] = word;
}

static void set_once(struct parse_state *state, const char **target, const char *name, const char *value)
{
    if (*target)
        diagnostics_add(state->diag, "--%s is given twice", name);
    if (*value == '\0')
        diagnostics_add(state->diag, "--%s has an empty argument, expected a file or '-'", name);
    *target = value;
}

static void note_once(struct parse_state *state, bool *given, const char *name)
{
    if (*given)
        diagnostics_add(state->diag, "--%s is given twice", name);
    *given = true;
}

/* A whole number given once, from `least` to `most`. */
static uint64_t parse_number(struct parse_state *state, const char *name, bool *given, const char *text, uint64_t least,
                             uint64_t most)
{
    note_once(state, given, name);
    uint64_t number;
    if (units_parse_count(text, &number) && number >= least && number <= most)
        return number;
    diagnostics_add(state->diag, "--%s '%s', expected a whole number from %" PRIu64 " to %" PRIu64, name, text, least,
                    most);
    return least;
}

static void parse_engine(struct parse_state *state, const char *text)
{
    note_once(state, &state->given.engine, "engine");
    const struct engine_ops *engine = engine_find(text);
    if (engine)
        state->options->engine = engine;
    else
        diagnostics_add(state->diag, "no engine '%s' (see cpsim --list engines)", text);
}

static void parse_without(struct parse_state *state, const char *text)
{
    enum mechanism mechanism;
    state->given.without = true;
    if (mechanism_find(text, &mechanism)) {
        if (!mechanism_counts(state->options->without, mechanism))
            diagnostics_add(state->diag, "--without %s is given twice", text);
        state->options->without |= (mechanism_set)1 << mechanism;
        return;
    }
    const char *names[MECHANISM_COUNT + 1] = {NULL};
    for (int m = 0; m < MECHANISM_COUNT; m++)
        names[m] = mechanism_name((enum mechanism)m);
    char *hint = key_table_suggestion(text, names);
    diagnostics_add(state->diag, "no mechanism '%s'%s (see cpsim --list mechanisms)", text, hint);
    free(hint);
}

static void parse_compute(struct parse_state *state, const char *text)
{
    note_once(state, &state->given.compute, "compute");
    const struct compute_ops *compute = compute_find(text);
    if (compute)
        state->options->hardware.compute = compute;
    else
        diagnostics_add(state->diag, "no compute backend '%s'%s (see cpsim --list computes)", text,
                        strcmp(text, "cuda") == 0 ? " in this build, which was made without CUDA" : "");
}

static void parse_collectives(struct parse_state *state, const char *text)
{
    bool given = state->options->hardware.collectives != COLLECTIVES_DEFAULT;
    note_once(state, &given, "collectives");
    if (strcmp(text, "library") == 0)
        state->options->hardware.collectives = COLLECTIVES_LIBRARY;
    else if (strcmp(text, "messages") == 0)
        state->options->hardware.collectives = COLLECTIVES_MESSAGES;
    else
        diagnostics_add(state->diag, "--collectives '%s', expected library or messages", text);
}

static void parse_transport(struct parse_state *state, const char *text)
{
    bool given = state->options->hardware.transport;
    note_once(state, &given, "transport");
    state->options->hardware.transport = text;
    if (!transport_find(text))
        diagnostics_add(state->diag, "no transport '%s' in this build (see cpsim --list transports)", text);
}

static void parse_points(struct parse_state *state, const char *text)
{
    note_once(state, &state->given.points, "points");
    state->options->summary_points = strcmp(text, "summary") == 0;
    if (!state->options->summary_points && strcmp(text, "full") != 0)
        diagnostics_add(state->diag, "--points '%s', expected full or summary", text);
}

/* A name given once. */
static void parse_kernels(struct parse_state *state, const char *text)
{
    bool given = state->options->hardware.kernels.kernels;
    note_once(state, &given, "kernels");
    state->options->hardware.kernels.kernels = text;
}

static void parse_plot(struct parse_state *state, const char *text)
{
    struct options *options = state->options;
    struct plot_target target;
    if (!plot_target_parse(text, &target, state->diag))
        return;
    memory_grow(options->plots, options->n_plots, options->plot_capacity);
    options->plots[options->n_plots++] = target;
}

static void parse_path(struct parse_state *state, const char *text)
{
    struct options *options = state->options;
    struct gpu_pair pair;
    state->given.path = true;
    if (!gpu_pair_parse(text, &pair, state->diag))
        return;
    memory_grow(options->paths, options->n_paths, options->path_capacity);
    options->paths[options->n_paths++] = pair;
}

/* What an option without an argument sets; NULL: it is another option. */
static bool *flag_of(struct parse_state *state, int key)
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
static error_t parse_text(struct parse_state *state, int key, const char *argument)
{
    struct options *options = state->options;
    switch (key) {
    case OPTION_JSON:
        set_once(state, &options->json, "json", argument);
        return 0;
    case OPTION_CSV:
        set_once(state, &options->csv, "csv", argument);
        return 0;
    case OPTION_TRACE:
        set_once(state, &options->trace, "trace", argument);
        return 0;
    case OPTION_SCRIPT:
        set_once(state, &options->script, "script", argument);
        return 0;
    case OPTION_LIST:
        set_once(state, &options->list, "list", argument);
        return 0;
    case OPTION_CALIBRATE:
        set_once(state, &options->profile, "calibrate", argument);
        return 0;
    case OPTION_KERNEL_TIMES:
        set_once(state, &options->kernel_times, "kernel-times", argument);
        return 0;
    case OPTION_NCCL:
        set_once(state, &options->hardware.carrying.library, "nccl", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *argument, struct argp_state *argp_state)
{
    struct parse_state *state = argp_state->input;
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
        options->gpus = parse_number(state, "gpus", &given->gpus, argument, 1, INT32_MAX);
        return 0;
    case OPTION_BEST:
        options->best = (uint32_t)parse_number(state, "best", &given->best, argument, 1, ADVICE_BEST_MAX);
        return 0;
    case OPTION_ENGINE:
        parse_engine(state, argument);
        return 0;
    case OPTION_WITHOUT:
        parse_without(state, argument);
        return 0;
    case OPTION_PLOT:
        parse_plot(state, argument);
        return 0;
    case OPTION_PATH:
        parse_path(state, argument);
        return 0;
    case OPTION_TRANSPORT:
        parse_transport(state, argument);
        return 0;
    case OPTION_COMPUTE:
        parse_compute(state, argument);
        return 0;
    case OPTION_COLLECTIVES:
        parse_collectives(state, argument);
        return 0;
    case OPTION_KERNELS:
        parse_kernels(state, argument);
        return 0;
    case OPTION_POINTS:
        parse_points(state, argument);
        return 0;
    case OPTION_GPU:
        options->hardware.kernels.device = (int)parse_number(state, "gpu", &given->gpu, argument, 0, GPUS_MAX - 1);
        return 0;
    case OPTION_NCCL_CTAS:
        options->hardware.carrying.max_ctas =
            (uint32_t)parse_number(state, "nccl-ctas", &given->ctas, argument, 1, CTAS_MAX);
        return 0;
    case OPTION_JOBS:
        options->jobs = (uint32_t)parse_number(state, "jobs", &given->jobs, argument, 1, JOBS_MAX);
        return 0;
    case OPTION_ITERATIONS:
        options->iterations =
            (uint32_t)parse_number(state, "iterations", &given->iterations, argument, 1, MEASURE_TIMES_MAX);
        return 0;
    case OPTION_WARMUP:
        options->warmup = (uint32_t)parse_number(state, "warmup", &given->warmup, argument, 0, MEASURE_TIMES_MAX);
        return 0;
    case OPTION_SEED:
        options->seed = parse_number(state, "seed", &options->seed_given, argument, 0, INT64_MAX);
        return 0;
    case OPTION_RANKS:
        options->ranks = (uint32_t)parse_number(state, "ranks", &given->ranks, argument, 1, RANKS_MAX);
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
    struct parse_state state = {.options = options, .diag = diag};
    const struct argp argp = {option_table, parse_option, forms, description, NULL, extend_help, NULL};
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
