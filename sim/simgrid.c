/* simgrid.c - the engine that shares links: max-min fair flows in SimGrid. The only file that includes simgrid headers.
 *
 * A pool of workers (SimGrid actors) runs the activities. A worker sleeps through a local operation, or through the
 * delay of a message and then sends its bytes from host to host (platform_xml.h); at the end it reports to the
 * execution, takes what has become ready, keeps one activity for itself and hands each other to an idle worker, or to a
 * new one. So there are as many workers as activities ever ran at once, and no worker waits for anything but work, or
 * for the kernels before its own kernel or message, which come to their end without it (device_turns.h, sm_queue.h):
 * SimGrid sees no deadlock, the execution does, when nothing is in flight and not everything is done.
 *
 * What SimGrid would answer with an abort is ruled out before it is called: the plan has a path for every message, the
 * platform is written here and not by a user, and a second simulation in one process is refused.
 */
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <xbt/config.h>
#include <xbt/log.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "sim/device_turns.h"
#include "sim/plan.h"
#include "sim/platform_xml.h"
#include "sim/recorder.h"
#include "sim/slowdown.h"
#include "sim/sm_queue.h"

/* SimGrid's grain of time; it complains about a sleep below it. */
#define PRECISION_SECONDS 1e-12

/* An activity taken from the execution. */
struct task {
    struct activity activity;
    bool behind;   /* another kernel of its device */
    double issued; /* when the host has issued it, if it has not yet */
};

struct worker {
    struct session *session;
    sg_sem_t work; /* released when `task` is new, what its kernel or message waits for has come, or the session
                    * is over */
    struct task task;
};

struct ends {
    sg_host_t from, to;
};

/* One simulation under way. */
struct session {
    const struct simulation *simulation;
    struct plan plan;
    struct recorder recorder;
    struct slowdown slowdown;
    struct device_turns turns;
    struct sm_queue sms;
    struct worker **waiting; /* [compute_stream_index]: the one whose kernel waits for its turn */
    sg_host_t home;          /* of the workers */
    struct ends *ends;       /* of plan.paths */
    struct worker **idle;
    size_t n_idle, idle_capacity;
    bool over; /* workers that wake up shall end */
};

static void worker_main(int argc, char **argv);

/* Gives a kernel its turn on its device. */
static void take_turn(struct session *session, struct task *task)
{
    const struct op *op = plan_op(&session->plan, task->activity);
    enum stream stream = (enum stream)op->stream;
    task->behind = !op_is_message(op) && stream_computes(stream) &&
                   !device_turns_enter(&session->turns, task->activity.instance, stream);
}

/* Takes what is ready next. Turns are given here, in the order in which activities become ready, and not where workers
 * wake up; but for those that the host has yet to issue. */
static bool take_next(struct session *session, struct task *task)
{
    if (!execution_next(session->simulation->execution, &task->activity))
        return false;
    task->issued = plan_issued(&session->plan, task->activity);
    if (task->issued <= simgrid_get_clock())
        take_turn(session, task);
    return true;
}

static void hire(struct session *session, struct task task)
{
    struct worker *worker = memory_zeroed(1, sizeof *worker);
    *worker = (struct worker){session, sg_sem_init(0), task};
    sg_actor_t actor = sg_actor_init("worker", session->home);
    sg_actor_set_data(actor, worker);
    sg_actor_start(actor, worker_main, 0, NULL);
}

static void hand_out(struct session *session, struct task task)
{
    if (session->n_idle == 0) {
        hire(session, task);
        return;
    }
    struct worker *worker = session->idle[--session->n_idle];
    worker->task = task;
    sg_sem_release(worker->work);
}

static void dismiss_all(struct session *session)
{
    session->over = true;
    while (session->n_idle > 0)
        sg_sem_release(session->idle[--session->n_idle]->work);
}

static void sleep_seconds(double seconds)
{
    if (seconds >= PRECISION_SECONDS)
        sg_actor_sleep_for(seconds);
}

/* Lets those messages go on that have waited long enough. */
static void go_on(struct session *session)
{
    struct waiting_message message;
    while (sm_queue_next(&session->sms, &message))
        sg_sem_release(((struct worker *)message.context)->work);
}

/* Until the message's bytes move. */
static void delay(struct session *session, struct worker *worker, double seconds)
{
    if (!session->sms.counts) {
        sleep_seconds(seconds);
        return;
    }
    double begin = simgrid_get_clock();
    sleep_seconds(RACE_SECONDS);
    if (sm_queue_ask(&session->sms, worker->task.activity, begin, worker)) {
        sleep_seconds(begin + seconds - simgrid_get_clock());
    } else {
        sg_sem_acquire(worker->work);
        sleep_seconds(seconds);
    }
}

static void transfer(struct session *session, struct worker *worker, struct moment *moment)
{
    struct activity send = worker->task.activity;
    const struct simulation *simulation = session->simulation;
    const struct op *op = plan_op(&session->plan, send);
    const struct path *path = plan_path(&session->plan, send);
    const struct ends *ends = &session->ends[path - session->plan.paths];
    uint32_t receiver = execution_receive_of(simulation->execution, send).instance;
    delay(session, worker, path->cost.delay_seconds);
    moment->move = simgrid_get_clock();
    enum stream stream = (enum stream)op->stream;
    uint32_t sms = plan_sms(&session->plan, send);
    slowdown_move(&session->slowdown, send.instance, receiver, stream, sms, moment->move);
    sg_host_sendto(ends->from, ends->to, (double)op->bytes);
    slowdown_stop(&session->slowdown, send.instance, receiver, stream, simgrid_get_clock());
}

/* Lets a local operation run for `seconds`, and for what transfers hold it up. */
static void run_for(struct session *session, struct activity local, double seconds)
{
    struct slowed slowed =
        slowdown_begin(&session->slowdown, local.instance, plan_op(&session->plan, local), simgrid_get_clock());
    do
        sleep_seconds(seconds);
    while ((seconds = slowdown_owed(&session->slowdown, local.instance, &slowed, simgrid_get_clock())) > 0);
}

/* Lets a kernel run that has the device, but for what of it passed before. */
static void run_kernel(struct session *session, struct activity kernel, double before)
{
    double seconds = plan_seconds(&session->plan, kernel) - before;
    double fill = session->sms.counts ? plan_fill_seconds(&session->plan, kernel) - before : 0;
    if (fill > 0) {
        sm_queue_fill(&session->sms, kernel.instance);
        run_for(session, kernel, fill);
        sm_queue_handed_out(&session->sms, kernel.instance);
        go_on(session);
        seconds -= fill;
    }
    run_for(session, kernel, seconds);
}

/* A kernel behind another one: launched beside it, it waits for its turn. */
static void compute_behind(struct session *session, struct worker *worker, enum stream stream, struct moment *moment)
{
    struct activity local = worker->task.activity;
    double fixed = plan_fixed_seconds(&session->plan, local);
    run_for(session, local, fixed);
    if (!device_turns_launched(&session->turns, local.instance, stream)) {
        double launched = simgrid_get_clock();
        session->waiting[compute_stream_index(local.instance, stream)] = worker;
        sg_sem_acquire(worker->work);
        moment->move += simgrid_get_clock() - launched;
    }
    run_kernel(session, local, fixed);
}

static void compute(struct session *session, struct worker *worker, struct moment *moment)
{
    struct activity local = worker->task.activity;
    enum stream stream = (enum stream)plan_op(&session->plan, local)->stream;
    if (worker->task.behind)
        compute_behind(session, worker, stream, moment);
    else
        run_kernel(session, local, 0);
    if (session->sms.counts && stream_computes(stream)) {
        sm_queue_ended(&session->sms, local);
        go_on(session);
    }
    struct turn next;
    if (stream_computes(stream) && device_turns_leave(&session->turns, local.instance, &next))
        sg_sem_release(session->waiting[compute_stream_index(next.instance, (enum stream)next.stream)]->work);
}

static void perform(struct session *session, struct worker *worker)
{
    struct activity activity = worker->task.activity;
    struct moment moment;
    if (worker->task.issued > simgrid_get_clock()) {
        sleep_seconds(worker->task.issued - simgrid_get_clock());
        take_turn(session, &worker->task);
    }
    bool is_message = op_is_message(plan_op(&session->plan, activity));
    if (is_message && session->sms.counts && !sm_queue_call(&session->sms, activity, worker))
        sg_sem_acquire(worker->work);
    moment.begin = moment.move = simgrid_get_clock();
    if (is_message)
        transfer(session, worker, &moment);
    else
        compute(session, worker, &moment);
    moment.end = simgrid_get_clock();
    recorder_finish(&session->recorder, activity, moment);
}

/* Gives `worker` its next task, waiting for one if need be; false at the end of the simulation. */
static bool next_task(struct session *session, struct worker *worker)
{
    if (take_next(session, &worker->task)) {
        struct task more;
        while (take_next(session, &more))
            hand_out(session, more);
        return true;
    }
    if (execution_in_flight(session->simulation->execution) == 0) {
        dismiss_all(session);
        return false;
    }
    memory_grow(session->idle, session->n_idle, session->idle_capacity);
    session->idle[session->n_idle++] = worker;
    sg_sem_acquire(worker->work);
    return !session->over;
}

static void worker_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct worker *worker = sg_actor_self_get_data();
    struct session *session = worker->session;
    do
        perform(session, worker);
    while (next_task(session, worker));
    sg_sem_destroy(worker->work);
    free(worker);
}

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
    /* Stacks in KiB, of which all is touched; a worker needs 4, and 14 to print progress. No guard pages: the kernel's
     * limit on mappings would be met at 32 k workers. */
    sg_cfg_set_int("contexts/stack-size", 32);
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

static void find_hosts(struct session *session)
{
    const struct plan *plan = &session->plan;
    uint32_t n_instances = plan->simulation->ensemble->n_instances;
    session->home = sg_host_by_name("cpsim");
    session->ends = memory_zeroed(plan->first_path[n_instances], sizeof *session->ends);
    for (uint32_t i = 0; i < n_instances; i++) {
        for (size_t p = plan->first_path[i]; p < plan->first_path[i + 1]; p++) {
            char from[HOST_NAME_SIZE], to[HOST_NAME_SIZE];
            platform_host_names(plan, i, &plan->paths[p], from, to);
            session->ends[p] = (struct ends){sg_host_by_name(from), sg_host_by_name(to)};
        }
    }
}

static bool run(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag)
{
    /* SimGrid's world is the process: it has one clock and one platform, and cannot be torn down. */
    static bool used = false;
    if (used)
        return diagnostics_add(diag, "SimGrid can run one simulation in a process, and this one has had its");
    struct session session = {.simulation = simulation};
    if (!plan_init(&session.plan, simulation, diag))
        return false;
    used = true;
    start_simgrid();
    bool good = load_platform(&session.plan, diag);
    if (good) {
        find_hosts(&session);
        recorder_init(&session.recorder, simulation, timeline);
        slowdown_init(&session.slowdown, simulation->cost, simulation->ensemble->n_instances);
        device_turns_init(&session.turns, simulation->ensemble, simulation->placement,
                          simulation->cost->topology->ranks_per_device);
        sm_queue_init(&session.sms, &session.plan);
        session.waiting = memory_zeroed(2 * (size_t)simulation->ensemble->n_instances, sizeof(struct worker *));
        struct task task;
        while (take_next(&session, &task))
            hire(&session, task);
        simgrid_run();
        good = recorder_end(&session.recorder, diag);
        free(session.waiting);
        sm_queue_fini(&session.sms);
        device_turns_fini(&session.turns);
        slowdown_fini(&session.slowdown);
    }
    free(session.ends);
    free(session.idle);
    plan_fini(&session.plan);
    return good;
}

const struct engine_ops engine_simgrid = {
    .name = "simgrid",
    .summary = "transfers share links max-min fairly: a discrete-event simulation with SimGrid",
    .once = true,
    .run = run,
};
