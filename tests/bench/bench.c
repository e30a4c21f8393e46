/* bench.c - how fast cpsim simulates: runs the command on rings of growing size and prints transfers per second of CPU
 * and peak memory of each run. A benchmark, not a test: machines differ and are shared.
 *
 *   bench CPSIM DATA_DIRECTORY [RANKS...]
 *
 * Each case is one process, so that its CPU time and peak memory are its own (wait4).
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_question(const char *directory, unsigned ranks, const char *pass)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-topology.ini", directory);
    FILE *file = fopen(path, "w");
    if (!file)
        exit(1);
    fprintf(
        file,
        "[cluster]\ndevice = h100-sxm\n[level node]\nsize = 8\nkind = switch\nbandwidth = 450 GB/s\nlatency = 2 us\n"
        "[level cluster]\nsize = %u\nkind = switch\nattach = rail\nbandwidth = 400 Gb/s\nlatency = 5 us\n",
        ranks < 8 ? 1 : ranks / 8);
    fclose(file);
    snprintf(path, sizeof path, "%s/bench-experiment.ini", directory);
    file = fopen(path, "w");
    if (!file)
        exit(1);
    fprintf(file,
            "[model]\npreset = llama3-8b\n[workload]\nseq_len = %u\nmask = causal\npass = %s\n[parallel]\ncp = %u\n"
            "[schedule]\nalgorithm = ring\nsharding = zigzag\n",
            ranks * 8192, pass, ranks);
    fclose(file);
}

static double transfers_in(const char *path)
{
    json_t *run = json_load_file(path, 0, NULL);
    double transfers = json_number_value(json_object_get(json_object_get(run, "step"), "messages_sent"));
    json_decref(run);
    return transfers;
}

/* Runs one case; returns the command's exit status. */
static int run_case(const char *cpsim, const char *directory, unsigned ranks, const char *pass, const char *engine)
{
    char topology[4096], experiment[4096], json[4096];
    write_question(directory, ranks, pass);
    snprintf(topology, sizeof topology, "%s/bench-topology.ini", directory);
    snprintf(experiment, sizeof experiment, "%s/bench-experiment.ini", directory);
    snprintf(json, sizeof json, "%s/bench.json", directory);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(cpsim, cpsim, "--quiet", "--engine", engine, "--json", json, topology, experiment, (char *)NULL);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || !WIFEXITED(status))
        return 1;
    if (WEXITSTATUS(status))
        return WEXITSTATUS(status);
    double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    double transfers = transfers_in(json);
    printf("%6u  %-8s  %-8s  %10.0f  %8.2f  %12.0f  %10.0f\n", ranks, pass, engine, transfers, seconds,
           transfers / seconds, (double)usage.ru_maxrss / 1024);
    return 0;
}

int main(int argc, char **argv)
{
    static const unsigned usual[] = {64, 256, 1024};
    if (argc < 3) {
        fprintf(stderr, "usage: %s CPSIM DIRECTORY [RANKS...]\n", argv[0]);
        return 2;
    }
    printf("%6s  %-8s  %-8s  %10s  %8s  %12s  %10s\n", "ranks", "pass", "engine", "transfers", "CPU s", "transfers/s",
           "peak MiB");
    size_t n = argc > 3 ? (size_t)argc - 3 : sizeof usual / sizeof *usual;
    for (size_t i = 0; i < n; i++) {
        unsigned ranks = argc > 3 ? (unsigned)strtoul(argv[3 + i], NULL, 10) : usual[i];
        static const char *const passes[] = {"forward", "train"}, *const engines[] = {"analytic", "simgrid"};
        for (size_t p = 0; p < 2; p++)
            for (size_t e = 0; e < 2; e++)
                if (run_case(argv[1], argv[2], ranks, passes[p], engines[e]))
                    return 1;
    }
    return 0;
}
