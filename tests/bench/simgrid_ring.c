/* simgrid_ring.c - what SimGrid itself needs for a ring: the plain program beside which cpsim's time is put. No part of
 * cpsim is in it.
 *
 *   simgrid_ring WAY RANKS BLOCK_BYTES BYTES_PER_S LATENCY_SECONDS STEP_SECONDS
 *
 * Every rank computes on a block, STEP_SECONDS long, sends it to the next rank and receives one from the previous,
 * both at once; RANKS - 1 times, and then computes on the last. One switch joins the ranks: a message crosses its
 * sender's link and its receiver's. Prints the simulated seconds.
 *
 * WAY mailbox is the fastest of those tried with SimGrid 3.32, about 2 us for all that one rank does in one step, at 64
 * ranks as at 1,024: one actor a rank, which asks for the next block, offers its own, sleeps through the computation
 * and waits for both.
 *
 * WAY host is two actors a rank, as two streams: one sleeps and waits for what arrives, the other sends from host to
 * host (sg_host_sendto) and tells the next rank by a semaphore. It costs 1.3 times as much at 256 ranks and 2.4 times
 * as much at 1,024: SimGrid keeps the transfers between hosts that are in flight in one list, through which it walks at
 * the end of each (as it does for sends that nobody waits for, sg_comm_detach). Between mailboxes it does not.
 *
 * Also tried, at 1,024 ranks: computing by sg_actor_execute instead of sleeping, half as much again; C++ activities
 * that start one another without actors (Comm::sendto_init, Activity::on_completion), slower than either, with that
 * list again; a star zone (routing = Cluster), contexts/factory boost, stacks of 16 KiB, cpu/optim: no difference.
 * network/optim = Full gains a tenth here, where all is in step, and loses where it is not; cpsim does not use it, so
 * this does not.
 */
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>
#include <xbt/config.h>
#include <xbt/log.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ring {
    bool by_mailbox;
    unsigned ranks;
    double block_bytes, bytes_per_s, latency_seconds, step_seconds;
};

struct rank {
    const struct ring *ring;
    struct rank *next;
    sg_host_t host;
    sg_mailbox_t mailbox;          /* where its blocks arrive */
    sg_sem_t arrived, may_forward; /* way host: blocks that came, and those of them not yet sent on */
    void *block;                   /* way mailbox: where a block's address is left */
    bool done;
};

static void exchange_and_compute(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct rank *rank = sg_actor_self_get_data();
    for (unsigned step = 1; step < rank->ring->ranks; step++) {
        sg_comm_t in = sg_mailbox_get_async(rank->mailbox, &rank->block);
        sg_comm_t out = sg_mailbox_put_async(rank->next->mailbox, rank, (long)rank->ring->block_bytes);
        sg_actor_sleep_for(rank->ring->step_seconds);
        sg_comm_wait(in);
        sg_comm_wait(out);
    }
    sg_actor_sleep_for(rank->ring->step_seconds);
    rank->done = true;
}

static void compute(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct rank *rank = sg_actor_self_get_data();
    for (unsigned step = 1; step < rank->ring->ranks; step++) {
        sg_actor_sleep_for(rank->ring->step_seconds);
        sg_sem_acquire(rank->arrived);
    }
    sg_actor_sleep_for(rank->ring->step_seconds);
    rank->done = true;
}

static void forward(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct rank *rank = sg_actor_self_get_data();
    for (unsigned step = 1; step < rank->ring->ranks; step++) {
        sg_sem_acquire(rank->may_forward);
        sg_actor_sleep_for(rank->ring->latency_seconds);
        sg_host_sendto(rank->host, rank->next->host, rank->ring->block_bytes);
        sg_sem_release(rank->next->arrived);
        sg_sem_release(rank->next->may_forward);
    }
}

/* The same settings as cpsim's (sim/simgrid.c). */
static void start_simgrid(void)
{
    char name[] = "simgrid_ring";
    char *argv[] = {name, NULL};
    int argc = 1;
    xbt_log_control_set("root.thresh:critical");
    simgrid_init(&argc, argv);
    sg_cfg_set_string("network/model", "CM02");
    sg_cfg_set_boolean("network/crosstraffic", "no");
    sg_cfg_set_double("network/TCP-gamma", 0);
    sg_cfg_set_double("surf/precision", 1e-12);
    sg_cfg_set_int("contexts/stack-size", 32);
    sg_cfg_set_int("contexts/guard-size", 0);
}

/* All latencies are equal, so the links may have them: SimGrid shares by them only where they differ. */
static void write_platform(const struct ring *ring, FILE *stream)
{
    double latency = ring->by_mailbox ? ring->latency_seconds / 2 : 0;
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"ring\" routing=\"Full\">\n",
          stream);
    for (unsigned i = 0; i < ring->ranks; i++)
        fprintf(stream, "<host id=\"rank%u\" speed=\"1f\"/>\n", i);
    for (unsigned i = 0; i < ring->ranks; i++)
        fprintf(stream,
                "<link id=\"up%u\" bandwidth=\"%.17gBps\" latency=\"%.17gs\"/>"
                "<link id=\"down%u\" bandwidth=\"%.17gBps\" latency=\"%.17gs\"/>\n",
                i, ring->bytes_per_s, latency, i, ring->bytes_per_s, latency);
    for (unsigned i = 0; i < ring->ranks; i++)
        fprintf(stream,
                "<route src=\"rank%u\" dst=\"rank%u\" symmetrical=\"NO\"><link_ctn id=\"up%u\"/>"
                "<link_ctn id=\"down%u\"/></route>\n",
                i, (i + 1) % ring->ranks, i, (i + 1) % ring->ranks);
    fputs("</zone>\n</platform>\n", stream);
}

static bool load_platform(const struct ring *ring)
{
    int fd = memfd_create("ring", MFD_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!stream)
        return false;
    write_platform(ring, stream);
    if (fflush(stream))
        return false;
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    simgrid_load_platform(name);
    fclose(stream);
    return true;
}

static void start_actor(struct rank *rank, void (*body)(int, char **))
{
    sg_actor_t actor = sg_actor_init("rank", rank->host);
    sg_actor_set_data(actor, rank);
    sg_actor_start(actor, body, 0, NULL);
}

static void make_rank(const struct ring *ring, struct rank *ranks, unsigned i)
{
    char name[32];
    snprintf(name, sizeof name, "rank%u", i);
    ranks[i] = (struct rank){.ring = ring, .next = &ranks[(i + 1) % ring->ranks], .host = sg_host_by_name(name)};
    if (ring->by_mailbox) {
        ranks[i].mailbox = sg_mailbox_by_name(name);
    } else {
        ranks[i].arrived = sg_sem_init(0);
        ranks[i].may_forward = sg_sem_init(1); /* its own block */
    }
}

static bool read_arguments(int argc, char **argv, struct ring *ring)
{
    if (argc != 7 || (strcmp(argv[1], "mailbox") && strcmp(argv[1], "host")))
        return false;
    *ring = (struct ring){strcmp(argv[1], "mailbox") == 0, (unsigned)strtoul(argv[2], NULL, 10),
                          strtod(argv[3], NULL),           strtod(argv[4], NULL),
                          strtod(argv[5], NULL),           strtod(argv[6], NULL)};
    return ring->ranks > 1 && ring->block_bytes >= 1 && ring->bytes_per_s > 0;
}

int main(int argc, char **argv)
{
    struct ring ring;
    if (!read_arguments(argc, argv, &ring)) {
        fprintf(stderr, "usage: %s mailbox|host RANKS BLOCK_BYTES BYTES_PER_S LATENCY_SECONDS STEP_SECONDS\n", argv[0]);
        return 2;
    }
    start_simgrid();
    struct rank *ranks = calloc(ring.ranks, sizeof *ranks);
    if (!ranks || !load_platform(&ring))
        return 1;
    for (unsigned i = 0; i < ring.ranks; i++)
        make_rank(&ring, ranks, i);
    for (unsigned i = 0; i < ring.ranks; i++) {
        start_actor(&ranks[i], ring.by_mailbox ? exchange_and_compute : compute);
        if (!ring.by_mailbox)
            start_actor(&ranks[i], forward);
    }
    simgrid_run();
    for (unsigned i = 0; i < ring.ranks; i++) {
        if (!ranks[i].done)
            return 1;
    }
    printf("%.9f\n", simgrid_get_clock());
    free(ranks);
    return 0;
}
