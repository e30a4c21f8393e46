/* options_table.c - parser and --help in one table; see options_table.h. */
#include "cli/options_table.h"

#include "cli/list.h"

const struct argp_option options_table[] = {
    {NULL, 0, NULL, 0, "The question:", 1},
    {"set", OPTION_SET, "KEY=VALUE", 0,
     "Override a key of either file, or add it: section.key=value; section.key= takes it back (repeatable)", 1},
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

const char options_forms[] = "TOPOLOGY.ini EXPERIMENT.ini\n"
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
const char options_description[] =
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
    "      --set 'override net.link=cluster: *' \\\n"
    "      --sweep 'override net.factor=0.5,1' --plot -\n"
    "  mpirun -n 64 cpsim dgx-h100-4 llama3-8b-1m --engine analytic \\\n"
    "      --json grid.json --points summary --sweep parallel.cp=4,8 \\\n"
    "      --sweep workload.seq_len=256Ki,1Mi\n"
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
