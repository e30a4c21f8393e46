/* bench.c - how fast cpsim answers, and in how much memory: a table of the cases that it is to be fast at, a process
 * each, beside a plain SimGrid program for the same ring (simgrid_ring.c). A benchmark, not a test: machines differ and
 * are shared, so nothing here fails for being slow.
 *
 *   bench [--quick] CPSIM SIMGRID_RING DIRECTORY [GROUP...]
 *
 * Groups: ring, gather, cluster, curve, sweep; all of them when none is named. --quick leaves out what takes long.
 * Times are by the clock on the wall, but "x plain" compares times of the processor, which others on the machine change
 * less. Short runs are repeated and the shortest counts. Every run ends in any case, by a limit on its time and memory.
 * Where this cpsim has no option --no-fold, nobody can say which it does: its runs are called "as it is" and not
 * judged.
 *
 * Exit status 1: a run failed, or cpsim and the plain program did not simulate the same.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench_process.h"
#include "tests/bench/bench_question.h"
#include "tests/bench/bench_report.h"

#define REPEATS 3
#define REPEAT_SECONDS 3.0 /* no repetition once the runs of a case took so long */
#define SAME 0.01          /* simulated seconds of cpsim and the plain program, relative */

enum way { PLAIN_MAILBOX, PLAIN_HOST, UNFOLDED, FOLDED };

static const char *const way_names[] = {"plain SimGrid, mailboxes", "plain SimGrid, hosts", "unfolded", "folded"};

/* What is asked of a case; 0: nothing. */
struct asked {
    double seconds, mib, times_plain;
};

struct benchmark {
    const char *cpsim, *simgrid_ring, *directory;
    char **groups;                   /* NULL-terminated */
    bool quick, has_no_fold, failed; /* has_no_fold: cpsim knows --no-fold */
    unsigned plain_ranks;            /* those of the plain runs below */
    double plain_seconds;            /* of the processor, of the faster */
    double plain_step;               /* simulated */
    double step_seconds;             /* compute of a rank between two blocks of the ring; 0: not yet known */
};

static const struct asked nothing = {0, 0, 0};

static const char *name_of(const struct benchmark *bench, enum way way)
{
    return way == UNFOLDED && !bench->has_no_fold ? "as it is" : way_names[way];
}

static void complain(struct benchmark *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void complain(struct benchmark *bench, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    bench->failed = true;
}

static const char *const group_names[] = {"ring", "gather", "cluster", "curve", "sweep", NULL};

static bool wants(const struct benchmark *bench, const char *name)
{
    bool wanted = !bench->groups[0];
    for (char **group = bench->groups; *group; group++)
        wanted = wanted || strcmp(*group, name) == 0;
    return wanted;
}

static bool begin_group(const struct benchmark *bench, const char *name, const char *title)
{
    bool wanted = wants(bench, name);
    if (wanted)
        printf("\n%s\n%-34s %7s %11s %8s %9s %9s %9s %8s  %s\n", title, "case", "ranks", "transfers", "classes",
               "wall s", "CPU s", "peak MiB", "x plain", "asked");
    return wanted;
}

static double time_limit(const struct benchmark *bench)
{
    return bench->quick ? 20 : 120;
}

/* The shortest of a few runs. */
static struct usage run_repeatedly(const struct benchmark *bench, char *const *argv)
{
    struct usage best = process_run(argv, time_limit(bench));
    double total = best.wall_seconds;
    for (int i = 1; i < REPEATS && best.ending == ENDED_WELL && total < REPEAT_SECONDS; i++) {
        struct usage again = process_run(argv, time_limit(bench));
        total += again.wall_seconds;
        if (again.ending != ENDED_WELL || again.processor_seconds < best.processor_seconds)
            best = again;
    }
    return best;
}

static struct usage run_cpsim(const struct benchmark *bench, const char *engine, enum way way,
                              struct bench_report *report)
{
    char topology[4096], experiment[4096], json[4096], engine_option[64];
    snprintf(topology, sizeof topology, "%s/topology.ini", bench->directory);
    snprintf(experiment, sizeof experiment, "%s/experiment.ini", bench->directory);
    snprintf(json, sizeof json, "%s/run.json", bench->directory);
    snprintf(engine_option, sizeof engine_option, "--engine=%s", engine);
    char command[4096], json_option[] = "--json", no_fold[] = "--no-fold";
    snprintf(command, sizeof command, "%s", bench->cpsim);
    char *argv[] = {command, engine_option, json_option, json, topology, experiment, NULL, NULL};
    if (way == UNFOLDED && bench->has_no_fold)
        argv[6] = no_fold;
    remove(json);
    struct usage usage = run_repeatedly(bench, argv);
    if (usage.ending == ENDED_WELL && !bench_report_read(json, report))
        usage.ending = ENDED_BADLY;
    return usage;
}

/* Compute of a rank from one block to the next, as cpsim has it: that of a small ring of the same shards. */
static void find_step_seconds(struct benchmark *bench)
{
    const struct question small = {8, 1, true, false, "ring", "contiguous", "full"};
    struct bench_report report;
    question_write(&small, bench->directory);
    if (run_cpsim(bench, "analytic", FOLDED, &report).ending == ENDED_WELL)
        bench->step_seconds = report.compute_seconds / small.cp;
    else
        complain(bench, "cannot tell how long a step of the ring computes");
}

static struct usage run_plain(struct benchmark *bench, enum way way, unsigned ranks)
{
    if (bench->step_seconds <= 0)
        find_step_seconds(bench);
    char command[4096], name[16], numbers[5][40];
    snprintf(command, sizeof command, "%s", bench->simgrid_ring);
    snprintf(name, sizeof name, "%s", way == PLAIN_MAILBOX ? "mailbox" : "host");
    const double values[] = {ranks, RING_BLOCK_BYTES, RING_BANDWIDTH, RING_LATENCY, bench->step_seconds};
    for (int i = 0; i < 5; i++)
        snprintf(numbers[i], sizeof numbers[i], "%.17g", values[i]);
    char *argv[] = {command, name, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], NULL};
    struct usage usage = run_repeatedly(bench, argv);
    if (usage.ending != ENDED_WELL)
        return usage;
    if (bench->plain_ranks != ranks || usage.processor_seconds < bench->plain_seconds)
        bench->plain_seconds = usage.processor_seconds;
    bench->plain_ranks = ranks;
    bench->plain_step = strtod(usage.output, NULL);
    return usage;
}

static void print_asked(const struct asked *asked, const struct usage *usage, double times_plain)
{
    bool met = usage->ending == ENDED_WELL;
    const char *comma = "";
    if (asked->times_plain > 0) {
        printf("  %g x plain", asked->times_plain);
        met = met && times_plain <= asked->times_plain;
        comma = ",";
    }
    if (asked->seconds > 0) {
        printf("%s  %g s", comma, asked->seconds);
        met = met && usage->wall_seconds <= asked->seconds;
        comma = ",";
    }
    if (asked->mib > 0) {
        printf("%s  %.0f MiB", comma, asked->mib);
        met = met && usage->peak_mib <= asked->mib;
        comma = ",";
    }
    if (*comma)
        fputs(met ? ": met" : ": NOT met", stdout);
}

static void print_count(int width, double count)
{
    if (count >= 0)
        printf(" %*.0f", width, count);
    else
        printf(" %*s", width, "-");
}

static void print_result(struct benchmark *bench, const struct question *question, const struct usage *usage,
                         const struct bench_report *report, const struct asked *asked)
{
    bool well = usage->ending == ENDED_WELL,
         beside = well && question->one_switch && bench->plain_ranks == question->cp;
    double times_plain = beside ? usage->processor_seconds / bench->plain_seconds : 0;
    print_count(11, well ? report->transfers : -1);
    print_count(8, well ? report->classes : -1);
    if (usage->ending == ENDED_BADLY) {
        printf(" %9s %9s %9s %8s", "failed", "-", "-", "-");
        complain(bench, "the run above failed");
    } else {
        printf(" %s%*.3f %9.3f %9.0f", well ? "" : ">", well ? 9 : 8, usage->wall_seconds, usage->processor_seconds,
               usage->peak_mib);
        if (beside)
            printf(" %8.2f", times_plain);
        else
            printf(" %8s", "-");
    }
    print_asked(asked, usage, times_plain);
    putchar('\n');
}

/* Runs a case and prints its row; returns its wall seconds, 0 when there are none. */
static double run_case(struct benchmark *bench, const struct question *question, const char *engine, enum way way,
                       struct asked asked)
{
    char title[80];
    bool plain = way == PLAIN_MAILBOX || way == PLAIN_HOST;
    unsigned ranks = question->cp * question->dp;
    snprintf(title, sizeof title, "%s%s%s%s", plain ? "" : question->algorithm, plain ? "" : ", ", plain ? "" : engine,
             plain ? "" : ", ");
    printf("%s%-*s %7u", title, 34 - (int)strlen(title), name_of(bench, way), ranks);
    fflush(stdout);
    if (way == FOLDED && !bench->has_no_fold) {
        puts("  not run: this cpsim has no option --no-fold");
        return 0;
    }
    struct bench_report report = {.transfers = (double)ranks * (ranks - 1), .classes = -1};
    struct usage usage;
    if (plain) {
        usage = run_plain(bench, way, ranks);
    } else {
        question_write(question, bench->directory);
        usage = run_cpsim(bench, engine, way, &report);
    }
    print_result(bench, question, &usage, &report, plain || bench->has_no_fold ? &asked : &nothing);
    if (!plain && usage.ending == ENDED_WELL && question->one_switch && bench->plain_ranks == question->cp &&
        fabs(report.step_seconds - bench->plain_step) > SAME * bench->plain_step)
        complain(bench, "cpsim simulated %g s, the plain program %g s", report.step_seconds, bench->plain_step);
    return usage.ending == ENDED_WELL ? usage.wall_seconds : 0;
}

static void run_rings(struct benchmark *bench)
{
    static const unsigned ranks[] = {256, 1024};
    static const struct asked unfolded[] = {{0, 143, 1.2}, {2, 143, 0}}, folded = {0.5, 0, 0};
    if (!begin_group(bench, "ring", "KV ring forward on one switch, every rank the same, from INI to report"))
        return;
    for (int i = 0; i < (bench->quick ? 1 : 2); i++) {
        const struct question question = {ranks[i], 1, true, false, "ring", "contiguous", "full"};
        bool asks = ranks[i] == 1024;
        run_case(bench, &question, "", PLAIN_MAILBOX, nothing);
        run_case(bench, &question, "", PLAIN_HOST, nothing);
        run_case(bench, &question, "simgrid", UNFOLDED, asks ? unfolded[0] : nothing);
        run_case(bench, &question, "analytic", UNFOLDED, asks ? unfolded[1] : nothing);
        run_case(bench, &question, "simgrid", FOLDED, asks ? folded : nothing);
        run_case(bench, &question, "analytic", FOLDED, asks ? folded : nothing);
    }
}

static void run_gathers(struct benchmark *bench)
{
    const struct question small = {256, 1, false, false, "all-gather", "contiguous", "full"},
                          large = {4096, 1, false, false, "all-gather", "contiguous", "full"};
    bench->plain_ranks = 0;
    if (!begin_group(bench, "gather", "K and V gathered by a ring over 4,096 H100, forward"))
        return;
    run_case(bench, &small, "simgrid", UNFOLDED, nothing);
    run_case(bench, &small, "simgrid", FOLDED, nothing);
    if (!bench->quick)
        run_case(bench, &large, "simgrid", FOLDED, (struct asked){2, 0, 0});
}

static struct question training(unsigned groups)
{
    return (struct question){64, groups, false, true, "ring", "zigzag", "causal"};
}

static void run_clusters(struct benchmark *bench)
{
    struct question large = training(256), larger = training(2048);
    if (!begin_group(bench, "cluster", "training on a rail-optimised fat-tree of H100: cp = 64, zigzag ring"))
        return;
    run_case(bench, &large, "simgrid", FOLDED, (struct asked){5, 1024, 0});
    run_case(bench, &large, "analytic", FOLDED, nothing);
    if (!bench->quick)
        run_case(bench, &larger, "simgrid", FOLDED, (struct asked){60, 8192, 0});
}

/* The classes stay what they are when a cluster only has more groups alike. */
static void run_curve(struct benchmark *bench)
{
    if (!begin_group(bench, "curve", "the same with ever more groups, so that ranks grow and classes do not"))
        return;
    for (int way = UNFOLDED; way <= FOLDED; way++) {
        unsigned most = way == UNFOLDED ? 4 : bench->quick ? 64 : 1024, first = 0, last = 0;
        double first_seconds = 0, last_seconds = 0;
        for (unsigned groups = 1; groups <= most; groups *= 4) {
            struct question question = training(groups);
            double seconds = run_case(bench, &question, "simgrid", (enum way)way, nothing);
            if (seconds <= 0)
                continue;
            if (first == 0) {
                first = groups;
                first_seconds = seconds;
            }
            last = groups;
            last_seconds = seconds;
        }
        if (last > first)
            printf("%s: wall seconds grow as ranks to the power of %.2f\n", name_of(bench, (enum way)way),
                   log(last_seconds / first_seconds) / log((double)last / first));
    }
}

/* One sweep; returns its points a second, 0 when it did not end well. */
static double run_sweep(struct benchmark *bench, const char *const *more, int n_more, unsigned points)
{
    char topology[4096], experiment[4096], csv[4096], command[4096];
    static const char *const always[] = {"parallel.cp=2,4,8,16,32,64", "workload.seq_len=128Ki,256Ki,512Ki",
                                         "schedule.algorithm=ring,all-gather", "workload.mask=causal;full"};
    snprintf(topology, sizeof topology, "%s/topology.ini", bench->directory);
    snprintf(experiment, sizeof experiment, "%s/experiment.ini", bench->directory);
    snprintf(csv, sizeof csv, "%s/sweep.csv", bench->directory);
    snprintf(command, sizeof command, "%s", bench->cpsim);
    char options[16][128];
    char *argv[32] = {command, topology, experiment};
    int n = 0;
    const char *const fixed[] = {"--quiet", "--engine=analytic", "--jobs=2"};
    for (int i = 0; i < 3; i++)
        snprintf(options[n++], sizeof *options, "%s", fixed[i]);
    for (int i = 0; i < 4; i++)
        snprintf(options[n++], sizeof *options, "--sweep=%s", always[i]);
    for (int i = 0; i < n_more; i++)
        snprintf(options[n++], sizeof *options, "--sweep=%s", more[i]);
    for (int i = 0; i < n; i++)
        argv[3 + i] = options[i];
    char csv_option[] = "--csv";
    argv[3 + n] = csv_option;
    argv[4 + n] = csv;
    struct usage usage = process_run(argv, time_limit(bench));
    printf("%9u", points);
    if (usage.ending == ENDED_WELL)
        printf(" %9.3f %9.0f  10000: %s\n", usage.wall_seconds, points / usage.wall_seconds,
               points / usage.wall_seconds >= 10000 ? "met" : "NOT met");
    else
        printf("  %s\n", usage.ending == OUT_OF_TIME ? "not done in time" : "failed");
    if (usage.ending == ENDED_BADLY)
        complain(bench, "the sweep above failed");
    return usage.ending == ENDED_WELL ? points / usage.wall_seconds : 0;
}

/* Each key makes the grid so many times as large: the same programs on more clusters. --advise looks at some 24,500
 * candidates where 1,024 GPUs train llama3-70b. */
static void run_sweeps(struct benchmark *bench)
{
    static const char *const more[] = {
        "level pod.bandwidth=100Gb/s,200Gb/s,300Gb/s,400Gb/s,500Gb/s,600Gb/s,700Gb/s,800Gb/s,900Gb/s,1000Gb/s",
        "level pod.latency=1us,2us,3us,4us,5us,6us,7us,8us,9us,10us",
        "level node.bandwidth=225GB/s,450GB/s,675GB/s,900GB/s"};
    static const unsigned factors[] = {10, 10, 4, 1};
    const struct question question = training(1);
    if (!wants(bench, "sweep"))
        return;
    printf("\nanalytic sweeps of what a planner asks, training, cp = 2 to 64, on two cores\n%9s %9s %9s  %s\n",
           "points", "wall s", "points/s", "asked");
    question_write(&question, bench->directory);
    unsigned points = 72;
    for (int i = 0; i < 4; points *= factors[i++]) {
        double rate = run_sweep(bench, more, i, points);
        if (rate <= 0 || points * factors[i] / rate > time_limit(bench))
            break;
    }
}

static bool knows_no_fold(const char *cpsim)
{
    char command[4096], help[] = "--help";
    snprintf(command, sizeof command, "%s", cpsim);
    char *argv[] = {command, help, NULL};
    struct usage usage = process_run(argv, 10);
    return usage.ending == ENDED_WELL && strstr(usage.output, "--no-fold");
}

static bool are_groups(char **groups)
{
    for (; *groups; groups++) {
        int i = 0;
        while (group_names[i] && strcmp(*groups, group_names[i]))
            i++;
        if (!group_names[i])
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct benchmark bench = {0};
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        bench.quick = true;
        argv++;
        argc--;
    }
    if (argc < 4 || !are_groups(argv + 4)) {
        fputs("usage: bench [--quick] CPSIM SIMGRID_RING DIRECTORY [ring|gather|cluster|curve|sweep...]\n", stderr);
        return 2;
    }
    bench.cpsim = argv[1];
    bench.simgrid_ring = argv[2];
    bench.directory = argv[3];
    bench.groups = argv + 4;
    bench.has_no_fold = knows_no_fold(bench.cpsim);
    run_rings(&bench);
    run_gathers(&bench);
    run_clusters(&bench);
    run_curve(&bench);
    run_sweeps(&bench);
    return bench.failed ? 1 : 0;
}
