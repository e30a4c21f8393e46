/* bench_process.c - one child at a time, in a process group of its own, its output through a file in memory. */
#include "tests/bench/bench_process.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* More than any case is allowed to take; below it lies a machine's memory, one hopes. */
#define MEMORY_LIMIT_BYTES ((rlim_t)16 << 30)

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

static void become(char *const *argv, int output)
{
    struct rlimit memory = {MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES};
    setpgid(0, 0);
    setrlimit(RLIMIT_AS, &memory);
    dup2(output, STDOUT_FILENO);
    execv(argv[0], argv);
    fprintf(stderr, "cannot run %s\n", argv[0]);
    _exit(127);
}

/* Waits until `child` has ended, or `seconds` have passed; then it is killed. */
static struct usage wait_for(pid_t child, double seconds)
{
    struct usage usage = {.ending = ENDED_WELL};
    double begin = now();
    int fd = pidfd_open(child, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (fd < 0 || poll(&ended, 1, (int)(1e3 * seconds)) == 0) {
        usage.ending = OUT_OF_TIME;
        kill(-child, SIGKILL);
    }
    if (fd >= 0)
        close(fd);
    int status = 0;
    struct rusage resources = {0};
    wait4(child, &status, 0, &resources);
    usage.wall_seconds = now() - begin;
    usage.processor_seconds = seconds_of(resources.ru_utime) + seconds_of(resources.ru_stime);
    usage.peak_mib = (double)resources.ru_maxrss / 1024;
    if (usage.ending != OUT_OF_TIME && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        usage.ending = ENDED_BADLY;
    return usage;
}

struct usage process_run(char *const *argv, double seconds)
{
    int output = memfd_create("output", MFD_CLOEXEC);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        become(argv, output);
    if (child < 0 || output < 0)
        return (struct usage){.ending = ENDED_BADLY};
    setpgid(child, child); /* as the child does: whoever is first */
    struct usage usage = wait_for(child, seconds);
    if (pread(output, usage.output, sizeof usage.output - 1, 0) < 0)
        usage.ending = ENDED_BADLY;
    close(output);
    return usage;
}
