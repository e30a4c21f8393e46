/* simgrid.c - the engine that shares links: max-min fair flows in SimGrid. The only file that includes simgrid headers.
 *
 * The event loop (event_loop.h) knows of everything but how long bytes move that share links with others; SimGrid is
 * asked that alone, and for its clock. A pool of workers (SimGrid actors) does both. At each host that messages leave
 * there are as many as messages ever moved from there at once. A worker offers its message to the mailbox of the
 * receiving host, waits until it has arrived, then lets the loop do all that is due, by whomever: it hands messages
 * that begin to move to workers of their hosts. Before it falls idle it sleeps until the next event if nobody sleeps
 * until then. (Sleepers are a stack: who comes later wakes up earlier.) So SimGrid has to do with messages, and with
 * moments at which anything happens; for ranks in step that is once for all of them.
 *
 * Mailboxes, because SimGrid keeps what moves from host to host without (sg_host_sendto) in one list, and walks through
 * it at the end of each. At each host that receives, one more actor offers to receive, some messages in advance.
 *
 * No worker waits for anything but its message, a moment, or work, so SimGrid sees no deadlock; the execution does,
 * when nothing is due or moves and not everything is done.
 *
 * What SimGrid would answer with an abort is ruled out before it is called: the plan has a path for every message, the
 * platform is written here and not by a user, and a second simulation in one process is refused.
 */
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>
#include <xbt/config.h>
#include <xbt/log.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "sim/event_loop.h"
#include "sim/platform_xml.h"
#include "sim/solitary.h"

/* SimGrid's grain of time; it complains about a sleep below it. */
#define PRECISION_SECONDS 1e-12

/* Offers to receive that are made at once, by an actor for these. */
#define OFFERS 16

/* Stacks in KiB, of which all is touched. A worker needs 4 and may be interrupted; progress is printed in 14.
 * Sanitizers need more. */
#ifdef __SANITIZE_ADDRESS__
#define STACK_KIB 64
#define PRINTING_STACK_KIB 64
#else
#define STACK_KIB 16
#define PRINTING_STACK_KIB 32
#endif

#define NO_MESSAGE UINT32_MAX

struct worker {
    struct session *session;
    struct place *place;
    sg_sem_t work; /* released when there is a message or a moment for it, or the session is over */
    uint32_t message;
    double wake; /* to sleep until then; 0: not to sleep */
};

/* Offers to receive that an actor has made. SimGrid keeps them until it is asked for them, or the actor ends: it does
 * when all have been met. */
struct offers {
    struct place *place;
    struct offers *before, *behind; /* others of the place */
    uint64_t first;                 /* their numbers at the place begin here */
    sg_comm_t offers[OFFERS];
    uint32_t arrived;
    sg_sem_t all_met; /* or the session is over */
};

/* A host. */
struct place {
    sg_host_t host;
    struct worker **idle;
    size_t n_idle, capacity;
    /* The n-th message that is sent here meets the n-th offer to receive, in mailbox n % OFFERS: so SimGrid, which
     * searches a mailbox, finds it first. */
    sg_mailbox_t mailboxes[OFFERS];
    uint64_t sent, promised; /* promised: offers made and being made */
    struct offers *newest;
    struct session *session;
};

struct ends {
    struct place *from, *to;
};

/* One simulation under way. */
struct session {
    struct event_loop loop;
    struct place *places; /* [0]: home to workers that only sleep */
    size_t n_places;
    struct ends *ends; /* of plan.paths */
    uint32_t *moving;  /* messages that begin to move and have no worker yet: [moving_first] to [n_moving - 1] */
    size_t moving_first, n_moving, moving_capacity;
    double *wakes; /* of those who sleep, the earliest last */
    size_t n_wakes, wakes_capacity;
    uint64_t under_way; /* messages */
    sg_sem_t progress;  /* released when there is progress to show; NULL: nobody wants it */
    void *payload;      /* where the address of what is sent is put: nobody looks */
    bool over;          /* actors that wake up shall end */
};

static void worker_main(int argc, char **argv);
static void offer_main(int argc, char **argv);

static void start_actor(const char *name, sg_host_t host, void *data, void (*body)(int, char **))
{
    sg_actor_t actor = sg_actor_init(name, host);
    sg_actor_set_data(actor, data);
    sg_actor_start(actor, body, 0, NULL);
}

/* Gives a message, or a moment, to an idle worker or a new one. */
static void hand_out(struct session *session, struct place *place, uint32_t message, double wake)
{
    struct worker *worker = place->n_idle ? place->idle[--place->n_idle] : NULL;
    bool hired = !worker;
    if (hired) {
        worker = memory_zeroed(1, sizeof *worker);
        *worker = (struct worker){.session = session, .place = place, .work = sg_sem_init(0)};
    }
    worker->message = message;
    worker->wake = wake;
    if (hired)
        start_actor("worker", place->host, worker, worker_main);
    else
        sg_sem_release(worker->work);
}

/* All that waits, before any of it is released: then it is gone at once. */
static void dismiss_all(struct session *session)
{
    sg_sem_t *waiting = NULL;
    size_t count = 0, capacity = 0;
    session->over = true;
    for (size_t p = 0; p < session->n_places; p++) {
        struct place *place = &session->places[p];
        while (place->n_idle > 0) {
            memory_grow(waiting, count, capacity);
            waiting[count++] = place->idle[--place->n_idle]->work;
        }
        for (struct offers *offers = place->newest; offers; offers = offers->before) {
            if (offers->arrived == OFFERS)
                continue;
            memory_grow(waiting, count, capacity);
            waiting[count++] = offers->all_met;
        }
    }
    for (size_t i = 0; i < count; i++)
        sg_sem_release(waiting[i]);
    free(waiting);
    if (session->progress)
        sg_sem_release(session->progress);
}

/* ---- messages ---- */

/* The loop's: notes that a message begins to move. */
static void note_moving(void *context, uint32_t message)
{
    struct session *session = context;
    memory_grow(session->moving, session->n_moving, session->moving_capacity);
    session->moving[session->n_moving++] = message;
    session->under_way++;
}

static bool next_moving(struct session *session, uint32_t *message)
{
    if (session->moving_first == session->n_moving) {
        session->moving_first = session->n_moving = 0;
        return false;
    }
    *message = session->moving[session->moving_first++];
    return true;
}

static const struct ends *ends_of(const struct session *session, uint32_t message)
{
    const struct plan *plan = &session->loop.plan;
    return &session->ends[plan_path(plan, event_loop_send(&session->loop, message)) - plan->paths];
}

static void promise_offers(struct place *place)
{
    struct offers *offers = memory_zeroed(1, sizeof *offers);
    *offers =
        (struct offers){.place = place, .before = place->newest, .first = place->promised, .all_met = sg_sem_init(0)};
    if (offers->before)
        offers->before->behind = offers;
    place->newest = offers;
    place->promised += OFFERS;
    start_actor("offers", place->host, offers, offer_main);
}

/* Takes the next number of a message to `place`; whose offer it will meet. */
static struct offers *take_offer(struct place *place, uint64_t *number)
{
    while (place->sent == place->promised)
        promise_offers(place);
    struct offers *offers = place->newest;
    *number = place->sent++;
    while (offers->first > *number)
        offers = offers->before;
    return offers;
}

/* Offers to receive. That a message has arrived, its sender sees: nobody waits for it here. */
static void offer_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct offers *offers = sg_actor_self_get_data();
    struct place *place = offers->place;
    for (uint32_t i = 0; i < OFFERS; i++)
        offers->offers[i] = sg_mailbox_get_async(place->mailboxes[i], &place->session->payload);
    sg_sem_acquire(offers->all_met);
    for (uint32_t i = 0; i < OFFERS; i++)
        sg_comm_unref(offers->offers[i]);
    if (offers->before)
        offers->before->behind = offers->behind;
    *(offers->behind ? &offers->behind->before : &place->newest) = offers->before;
    sg_sem_destroy(offers->all_met);
    free(offers);
}

/* Lets a message's bytes move. */
static void transfer(struct session *session, uint32_t message)
{
    struct event_loop *loop = &session->loop;
    struct place *to = ends_of(session, message)->to;
    uint64_t number;
    struct offers *offers = take_offer(to, &number);
    sg_mailbox_put(to->mailboxes[number % OFFERS], session,
                   (long)plan_op(&loop->plan, event_loop_send(loop, message))->bytes);
    if (++offers->arrived == OFFERS)
        sg_sem_release(offers->all_met);
    session->under_way--;
    event_loop_arrive(loop, message, simgrid_get_clock());
}

/* ---- workers ---- */

/* Whether the first event is due, which is not to be waited for if it is nearer than SimGrid's grain. */
static bool is_due(const struct session *session)
{
    double at;
    return event_loop_next(&session->loop, &at) && at <= session->loop.now + PRECISION_SECONDS;
}

/* Gives messages that begin to move to workers, one of them perhaps to `worker`. Who gets one helps with the others
 * before it lets its own move: a call of SimGrid takes until all actors have made theirs, so that many are better made
 * at once.
 */
static void hand_out_moving(struct session *session, struct worker *worker)
{
    uint32_t message;
    while (next_moving(session, &message)) {
        struct place *from = ends_of(session, message)->from;
        if (from == worker->place && worker->message == NO_MESSAGE)
            worker->message = message;
        else
            hand_out(session, from, message, 0);
    }
}

/* Does what is due, and gives messages that begin to move to workers; one of them perhaps to this one. Others may be
 * here meanwhile: they take their turns when actors are called. */
static void do_due(struct session *session, struct worker *worker)
{
    struct event_loop *loop = &session->loop;
    if (loop->now < simgrid_get_clock())
        loop->now = simgrid_get_clock();
    event_loop_begin_ready(loop);
    while (is_due(session)) {
        event_loop_step(loop);
        event_loop_begin_ready(loop);
    }
    hand_out_moving(session, worker);
    if (session->progress && recorder_has_progress(&loop->recorder))
        sg_sem_release(session->progress);
}

/* Sees to it that somebody wakes up for the next event: `worker` if it has no message. */
static void set_alarm(struct session *session, struct worker *worker)
{
    double at;
    if (!event_loop_next(&session->loop, &at) || (session->n_wakes && session->wakes[session->n_wakes - 1] <= at))
        return;
    memory_grow(session->wakes, session->n_wakes, session->wakes_capacity);
    session->wakes[session->n_wakes++] = at;
    if (worker->message == NO_MESSAGE)
        worker->wake = at;
    else
        hand_out(session, &session->places[0], NO_MESSAGE, at);
}

static void sleep_until(struct session *session, double wake)
{
    double seconds = wake - simgrid_get_clock();
    if (seconds >= PRECISION_SECONDS)
        sg_actor_sleep_for(seconds);
    if (session->loop.now < wake) /* the clock may be short of it by rounding */
        session->loop.now = wake;
    /* Nearly always the last. */
    size_t i = session->n_wakes - 1;
    while (session->wakes[i] < wake)
        i--;
    session->n_wakes--;
    memmove(&session->wakes[i], &session->wakes[i + 1], (session->n_wakes - i) * sizeof *session->wakes);
}

/* Whether there is more to do for `worker`, which waits for it if need be. */
static bool find_work(struct session *session, struct worker *worker)
{
    double at;
    do_due(session, worker);
    set_alarm(session, worker);
    if (worker->message != NO_MESSAGE || worker->wake > 0)
        return true;
    if (session->under_way == 0 && !event_loop_next(&session->loop, &at)) {
        if (!session->over)
            dismiss_all(session);
        return false;
    }
    struct place *place = worker->place;
    memory_grow(place->idle, place->n_idle, place->capacity);
    place->idle[place->n_idle++] = worker;
    sg_sem_acquire(worker->work);
    return !session->over;
}

static void worker_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct worker *worker = sg_actor_self_get_data();
    struct session *session = worker->session;
    do {
        if (worker->message != NO_MESSAGE)
            hand_out_moving(session, worker);
        uint32_t message = worker->message;
        double wake = worker->wake;
        worker->message = NO_MESSAGE;
        worker->wake = 0;
        if (message != NO_MESSAGE)
            transfer(session, message);
        else if (wake > 0)
            sleep_until(session, wake);
    } while (find_work(session, worker));
    sg_sem_destroy(worker->work);
    free(worker);
}

static void progress_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct session *session = sg_actor_self_get_data();
    while (!session->over) {
        recorder_show_progress(&session->loop.recorder);
        sg_sem_acquire(session->progress);
    }
    recorder_show_progress(&session->loop.recorder);
    sg_sem_destroy(session->progress);
}

/* ---- SimGrid ---- */

/* The settings that make SimGrid's fluid model fit NVLink and RDMA: plain max-min sharing (CM02) without TCP's traffic
 * of acknowledgements and without its window, which caps long routes. */
static void start_simgrid(void)
{
    char name[] = "cpsim";
    char *argv[] = {name, NULL}; /* never the user's: SimGrid would obey it */
    int argc = 1;
    xbt_log_control_set("root.thresh:critical");
    simgrid_init(&argc, argv);
    sg_cfg_set_string("network/model", "CM02");
    sg_cfg_set_boolean("network/crosstraffic", "no");
    sg_cfg_set_double("network/TCP-gamma", 0);
    sg_cfg_set_double("surf/precision", PRECISION_SECONDS);
    /* No guard pages: the kernel's limit on mappings would be met at 32 k actors. */
    sg_cfg_set_int("contexts/guard-size", 0);
    sg_cfg_set_boolean("debug/verbose-exit", "no"); /* no list of workers at ctrl-C */
}

/* Loads the platform through a file that exists in memory only. */
static bool load_platform(const struct plan *plan, struct diagnostics *diag)
{
    int fd = memfd_create("cpsim-platform", MFD_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!stream) {
        diagnostics_add(diag, "cannot make a file in memory for the platform: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    platform_xml_write(plan, stream);
    bool good = fflush(stream) == 0 && !ferror(stream);
    if (good) {
        char name[40];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        simgrid_load_platform(name);
    } else {
        diagnostics_add(diag, "cannot write the platform: %s", strerror(errno));
    }
    fclose(stream);
    return good;
}

/* The place of a host, new the first time. */
static struct place *place_of(struct session *session, const char *name)
{
    sg_host_t host = sg_host_by_name(name);
    struct place *place = sg_host_get_data(host);
    if (!place) {
        place = &session->places[session->n_places++];
        *place = (struct place){.host = host, .session = session};
        sg_host_set_data(host, place);
    }
    return place;
}

static void make_mailboxes(struct place *place)
{
    char name[HOST_NAME_SIZE + 16];
    for (int i = 0; i < OFFERS; i++) {
        snprintf(name, sizeof name, "%s/%d", sg_host_get_name(place->host), i);
        place->mailboxes[i] = sg_mailbox_by_name(name);
    }
}

static void find_places(struct session *session)
{
    const struct plan *plan = &session->loop.plan;
    uint32_t n_instances = plan->simulation->ensemble->n_instances;
    session->ends = memory_zeroed(plan->first_path[n_instances], sizeof *session->ends);
    session->places = memory_zeroed(sg_host_count(), sizeof *session->places);
    place_of(session, HOST_OF_WORKERS);
    for (uint32_t i = 0; i < n_instances; i++) {
        for (size_t p = plan->first_path[i]; p < plan->first_path[i + 1]; p++) {
            if (plan->paths[p].solitary)
                continue;
            char from[HOST_NAME_SIZE], to[HOST_NAME_SIZE];
            platform_host_names(plan, i, &plan->paths[p], from, to);
            session->ends[p] = (struct ends){place_of(session, from), place_of(session, to)};
            if (!session->ends[p].to->mailboxes[0])
                make_mailboxes(session->ends[p].to);
        }
    }
}

static void simulate(struct session *session)
{
    find_places(session);
    session->loop.transfer = note_moving;
    session->loop.context = session;
    sg_cfg_set_int("contexts/stack-size", PRINTING_STACK_KIB);
    if (session->loop.simulation->progress) {
        session->progress = sg_sem_init(0);
        start_actor("progress", session->places[0].host, session, progress_main);
    }
    sg_cfg_set_int("contexts/stack-size", STACK_KIB);
    hand_out(session, &session->places[0], NO_MESSAGE, 0);
    simgrid_run();
    for (size_t p = 0; p < session->n_places; p++)
        free(session->places[p].idle);
    free(session->places);
    free(session->ends);
    free(session->moving);
    free(session->wakes);
}

static bool run(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag)
{
    /* SimGrid's world is the process: it has one clock and one platform, and cannot be torn down. */
    static bool used = false;
    if (used)
        return diagnostics_add(diag, "SimGrid can run one simulation in a process, and this one has had its");
    struct session session = {0};
    if (!event_loop_init(&session.loop, simulation, timeline, diag))
        return false;
    used = true;
    solitary_find(&session.loop.plan);
    start_simgrid();
    bool good = load_platform(&session.loop.plan, diag);
    if (good) {
        simulate(&session);
        good = recorder_end(&session.loop.recorder, diag);
    }
    event_loop_fini(&session.loop);
    return good;
}

const struct engine_ops engine_simgrid = {
    .name = "simgrid",
    .summary = "transfers share links max-min fairly: a discrete-event simulation with SimGrid",
    .once = true,
    .run = run,
};
