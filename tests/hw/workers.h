/* workers.h - for tests that start themselves under mpirun, as workers, and look at what these say. */
#ifndef CPSIM_TESTS_HW_WORKERS_H
#define CPSIM_TESTS_HW_WORKERS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hw/clock.h"
#include "hw/transport.h"
#include "models/base/memory.h"

struct outcome {
    int status; /* 128: ended by a signal */
    double seconds;
    char text[8192]; /* both of the standard streams; what is longer is cut */
};

/* This program with `arguments`, started by `launcher` ("": none), for up to two minutes. */
static inline struct outcome launch(const char *launcher, const char *arguments)
{
    struct outcome outcome = {0};
    char self[4096], *command;
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    command = memory_format("timeout -k 5 120 %s '%s' %s 2>&1", launcher, self, arguments);
    const double begin = seconds_now();
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    outcome.text[fread(outcome.text, 1, sizeof outcome.text - 1, pipe)] = '\0';
    while (fgetc(pipe) != EOF)
        ;
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    outcome.seconds = seconds_now() - begin;
    free(command);
    return outcome;
}

/* So many ranks of it. */
static inline struct outcome start(uint32_t ranks, const char *arguments)
{
    char launcher[64];
    snprintf(launcher, sizeof launcher, "mpirun --oversubscribe -n %u", ranks);
    return launch(launcher, arguments);
}

/* Whether ranks can be started, for tests of `transport`; says why not. */
static inline bool can_start(const char *transport)
{
    if (!transport_find(transport)) {
        puts("skipped: this build has no MPI (CPSIM_MPI)");
        return false;
    }
    if (system("command -v mpirun >/dev/null 2>&1") != 0) {
        puts("skipped: there is no mpirun (for example: apt-get install openmpi-bin)");
        return false;
    }
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0); /* of the ranks, unless somebody knows better: OpenMPI itself leaks */
    return true;
}

#endif
