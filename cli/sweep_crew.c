/* sweep_crew.c - the first process of a crew: its own workers, and the helpers' share.
 *
 * With helpers it looks for messages every millisecond: MPI has no descriptor to wait for. A helper is given as many
 * tasks as its workers do in a moment; nobody holds long ones that another could be doing.
 */
#include "cli/sweep_crew.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep_crew_messages.h"
#include "hw/clock.h"
#include "models/base/memory.h"

#define MOMENT_SECONDS 0.05
#define HELD_MAX 256 /* by a worker of a helper */
#define LOOK_MILLISECONDS 1

/* Another process. */
struct helper {
    uint32_t process;
    uint64_t jobs; /* 0: it has not said hello */
    bool lost;
    size_t *held;
    size_t n_held, capacity;
    double task_seconds; /* a running mean; below 0: nothing known */
    double heard_at, told_at;
};

struct sweep_crew {
    struct sweep_crew_settings settings;
    struct workers *workers;
    struct helper *helpers; /* of all other processes */
    size_t n_helpers;
    size_t *returned; /* tasks of lost helpers */
    size_t n_returned, returned_capacity;
    bool refused;                         /* a process was asked another question */
    const struct sweep_crew_owner *owner; /* while it runs */
    struct diagnostics notes;
};

static void take_own(void *taker, size_t task, struct worker_result *result)
{
    struct sweep_crew *crew = taker;
    crew->owner->take(crew->owner->owner, task, result);
}

struct sweep_crew *sweep_crew_create(const struct sweep_crew_settings *settings)
{
    struct sweep_crew *crew = memory_zeroed(1, sizeof *crew);
    crew->settings = *settings;
    diagnostics_init(&crew->notes);
    struct workers_settings workers = settings->workers;
    workers.take = take_own;
    workers.taker = crew;
    crew->workers = workers_create(&workers);
    crew->n_helpers = settings->processes ? processes_count(settings->processes) - 1 : 0;
    crew->helpers = memory_zeroed(crew->n_helpers, sizeof *crew->helpers);
    for (size_t i = 0; i < crew->n_helpers; i++)
        crew->helpers[i] = (struct helper){.process = (uint32_t)i + 1, .task_seconds = -1, .heard_at = seconds_now()};
    return crew;
}

const struct diagnostics *sweep_crew_notes(const struct sweep_crew *crew)
{
    return &crew->notes;
}

/* ---- handing out ---- */

static bool next_task(struct sweep_crew *crew, size_t *task)
{
    if (crew->n_returned == 0)
        return crew->owner->next(crew->owner->owner, task);
    *task = crew->returned[--crew->n_returned];
    return true;
}

static size_t room_of(const struct helper *helper)
{
    if (helper->lost || helper->jobs == 0)
        return 0;
    double tasks = helper->task_seconds < 0   ? 1
                   : helper->task_seconds > 0 ? MOMENT_SECONDS / helper->task_seconds
                                              : HELD_MAX;
    size_t most = (size_t)helper->jobs * (tasks < 1 ? 1 : tasks > HELD_MAX ? HELD_MAX : (size_t)tasks);
    return helper->n_held < most ? most - helper->n_held : 0;
}

static void tell(struct sweep_crew *crew, struct helper *helper, struct sweep_crew_text *text)
{
    helper->told_at = seconds_now();
    sweep_crew_text_send(text, crew->settings.processes, helper->process);
}

/* A helper gets more when it has done half, so that messages stay few. */
static void give_helper(struct sweep_crew *crew, struct helper *helper)
{
    size_t room = room_of(helper), task;
    if (room == 0 || room < helper->n_held)
        return;
    struct sweep_crew_text text = sweep_crew_text(CREW_TASKS);
    size_t n_before = helper->n_held;
    for (; room > 0 && next_task(crew, &task); room--) {
        memory_grow(helper->held, helper->n_held, helper->capacity);
        helper->held[helper->n_held++] = task;
        sweep_crew_text_add_number(&text, task);
    }
    if (helper->n_held > n_before)
        tell(crew, helper, &text);
    free(text.bytes);
}

static void hand_out(struct sweep_crew *crew)
{
    size_t task;
    for (size_t room = workers_room(crew->workers); room > 0 && next_task(crew, &task); room--)
        workers_add(crew->workers, task);
    for (size_t i = 0; i < crew->n_helpers; i++)
        give_helper(crew, &crew->helpers[i]);
}

/* ---- what comes back ---- */

/* Takes a task from what the helper holds; false when it is not there. */
static bool give_up_hold(struct helper *helper, size_t task)
{
    size_t place = 0;
    while (place < helper->n_held && helper->held[place] != task)
        place++;
    if (place == helper->n_held)
        return false;
    memmove(helper->held + place, helper->held + place + 1, (--helper->n_held - place) * sizeof *helper->held);
    return true;
}

static void take_results(struct sweep_crew *crew, struct helper *helper, const char *bytes, size_t size)
{
    size_t at = 1, task;
    struct worker_result result;
    while (sweep_crew_text_next_result(bytes, size, &at, &task, &result)) {
        double weight = helper->task_seconds < 0 ? 1 : 0.2;
        helper->task_seconds += weight * (result.seconds - helper->task_seconds);
        if (give_up_hold(helper, task))
            crew->owner->take(crew->owner->owner, task, &result);
        else
            free(result.text); /* others were given it when this one was silent */
    }
}

/* Nothing is given to a silent helper any more; what it holds is for others. */
static void lose_helper(struct sweep_crew *crew, struct helper *helper)
{
    helper->lost = true;
    while (helper->n_held > 0) {
        memory_grow(crew->returned, crew->n_returned, crew->returned_capacity);
        crew->returned[crew->n_returned++] = helper->held[--helper->n_held];
    }
}

static void greet(struct sweep_crew *crew, struct helper *helper, const char *bytes, size_t size)
{
    size_t at = 1;
    uint64_t jobs = 0;
    sweep_crew_text_next_number(bytes, size, &at, &jobs);
    size_t length = strlen(crew->settings.question);
    if (size - at == length && memcmp(bytes + at, crew->settings.question, length) == 0) {
        helper->jobs = jobs;
        return;
    }
    diagnostics_add(&crew->notes, "process %" PRIu32 " was asked another question than process 0", helper->process);
    crew->refused = true;
}

static void hear_helpers(struct sweep_crew *crew)
{
    uint32_t from;
    char *bytes;
    size_t size;
    while (processes_receive(crew->settings.processes, &from, &bytes, &size)) {
        struct helper *helper = from > 0 && from <= crew->n_helpers ? &crew->helpers[from - 1] : NULL;
        if (helper && size > 0) {
            helper->heard_at = seconds_now();
            helper->lost = false; /* it was only slow */
            if (*bytes == CREW_HELLO)
                greet(crew, helper, bytes, size);
            else if (*bytes == CREW_RESULTS)
                take_results(crew, helper, bytes, size);
        }
        free(bytes);
    }
}

static void watch_helpers(struct sweep_crew *crew)
{
    double now = seconds_now();
    for (size_t i = 0; i < crew->n_helpers; i++) {
        struct helper *helper = &crew->helpers[i];
        if (helper->lost)
            continue;
        bool ended = now - helper->heard_at > CREW_ALIVE_SECONDS / 4.0 &&
                     processes_has_ended(crew->settings.processes, helper->process);
        if (ended || now - helper->heard_at > CREW_SILENT_SECONDS) {
            diagnostics_add(&crew->notes, "process %" PRIu32 " %s; the others do what it was given (%zu points)",
                            helper->process, ended ? "has ended" : "has fallen silent", helper->n_held);
            lose_helper(crew, helper);
        } else if (now - helper->told_at > CREW_ALIVE_SECONDS) {
            struct sweep_crew_text text = sweep_crew_text(CREW_ALIVE);
            tell(crew, helper, &text);
        }
    }
}

/* Whether every process has said what it was asked, or is lost: until then nobody knows that they are at the same. */
static bool all_have_greeted(const struct sweep_crew *crew)
{
    for (size_t i = 0; i < crew->n_helpers; i++)
        if (crew->helpers[i].jobs == 0 && !crew->helpers[i].lost)
            return false;
    return true;
}

int sweep_crew_run(struct sweep_crew *crew, const struct sweep_crew_owner *owner)
{
    crew->owner = owner;
    int signal_number = 0;
    double begin = seconds_now();
    for (size_t i = 0; i < crew->n_helpers; i++)
        crew->helpers[i].heard_at = begin; /* nobody listened in between */
    while (signal_number == 0 && !crew->refused && (owner->goes_on(owner->owner) || !all_have_greeted(crew))) {
        hand_out(crew);
        signal_number = workers_wait(crew->workers, crew->n_helpers ? LOOK_MILLISECONDS : -1);
        if (crew->n_helpers && signal_number == 0) {
            hear_helpers(crew);
            watch_helpers(crew);
        }
    }
    crew->owner = NULL;
    return crew->refused ? CREW_REFUSED : signal_number;
}

bool sweep_crew_lost_any(const struct sweep_crew *crew)
{
    for (size_t i = 0; i < crew->n_helpers; i++)
        if (crew->helpers[i].lost)
            return true;
    return false;
}

void sweep_crew_destroy(struct sweep_crew *crew)
{
    uint64_t complete = !sweep_crew_lost_any(crew);
    for (size_t i = 0; i < crew->n_helpers; i++) {
        struct sweep_crew_text text = sweep_crew_text(CREW_HOME);
        sweep_crew_text_add_number(&text, complete);
        if (!crew->helpers[i].lost)
            tell(crew, &crew->helpers[i], &text);
        free(text.bytes);
        free(crew->helpers[i].held);
    }
    workers_destroy(crew->workers);
    diagnostics_fini(&crew->notes);
    free(crew->returned);
    free(crew->helpers);
    free(crew);
}
