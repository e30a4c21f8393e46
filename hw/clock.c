/* clock.c - offsets by the fastest of many round trips to rank 0, whose middle is taken for the same moment. */
#include "hw/clock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hw/machine.h"
#include "models/base/memory.h"

#define ROUNDS 200

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Sends or receives one number. */
static bool pass(const struct transport_ops *transport, struct transport *end, bool send, uint32_t peer, double *number)
{
    const struct piece_of_memory piece = {number, sizeof *number};
    int request = transport->post(end, send, peer, STREAM_COMPUTE, &piece, 1);
    while (!transport->test(end, request)) {
        if (transport->failed(end))
            return false;
        sched_yield();
    }
    return true;
}

/* Rank 0's side: the peer answers with its time, taken between our two. */
static bool ask(const struct transport_ops *transport, struct transport *end, uint32_t peer,
                struct clock_offset *offset)
{
    double fastest = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double ours = seconds_now(), theirs, begin = ours;
        if (!pass(transport, end, true, peer, &ours) || !pass(transport, end, false, peer, &theirs))
            return false;
        double round_trip = seconds_now() - begin;
        if (i > 0 && round_trip >= fastest)
            continue;
        fastest = round_trip;
        *offset = (struct clock_offset){begin + round_trip / 2 - theirs, round_trip / 2};
    }
    return true;
}

static bool answer(const struct transport_ops *transport, struct transport *end)
{
    for (int i = 0; i < ROUNDS; i++) {
        double number;
        if (!pass(transport, end, false, 0, &number))
            return false;
        number = seconds_now();
        if (!pass(transport, end, true, 0, &number))
            return false;
    }
    return true;
}

bool clock_offsets(const struct transport_ops *transport, struct transport *end, uint32_t rank, uint32_t ranks,
                   bool always, struct clock_offset *offsets)
{
    char kernel[MACHINE_KERNEL_BYTES], *kernels = memory_zeroed(ranks, sizeof kernel);
    struct clock_offset *mine = memory_zeroed(ranks, sizeof *mine), *all = memory_zeroed(ranks, ranks * sizeof *all);
    machine_kernel(kernel);
    bool good = transport->all_gather(end, kernel, sizeof kernel, kernels);
    for (uint32_t peer = 1; peer < ranks && good; peer++) { /* one after the other, so that each pair is undisturbed */
        if (!always && memcmp(kernels, kernels + peer * sizeof kernel, sizeof kernel) == 0)
            continue;
        if (rank == 0)
            good = ask(transport, end, peer, &mine[peer]);
        else if (rank == peer)
            good = answer(transport, end);
    }
    good = good && transport->all_gather(end, mine, ranks * sizeof *mine, all);
    memcpy(offsets, all, ranks * sizeof *offsets); /* rank 0's */
    free(kernels);
    free(mine);
    free(all);
    return good;
}
