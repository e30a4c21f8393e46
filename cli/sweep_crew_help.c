/* sweep_crew_help.c - any other process of a crew: it does what the first one hands out, and says that it is alive. */
#include <stdlib.h>
#include <string.h>

#include "cli/sweep_crew.h"
#include "cli/sweep_crew_messages.h"
#include "hw/clock.h"

#define LOOK_MILLISECONDS 1
#define MESSAGE_BYTES_MAX (64 << 20) /* of results that are sent together */

struct help {
    struct processes *processes;
    struct workers *workers;
    struct sweep_crew_text results; /* that have not been sent */
    bool home, all_there;           /* sent home; with no process lost */
    double heard_at, told_at;
};

static void send_results(struct help *help)
{
    if (help->results.size == 0)
        return;
    sweep_crew_text_send(&help->results, help->processes, 0);
    help->told_at = seconds_now();
}

static void take(void *taker, size_t task, struct worker_result *result)
{
    struct help *help = taker;
    if (help->results.size == 0)
        help->results = sweep_crew_text(CREW_RESULTS);
    sweep_crew_text_add_result(&help->results, task, result);
    free(result->text);
    if (help->results.size > MESSAGE_BYTES_MAX)
        send_results(help);
}

static void hear(struct help *help)
{
    uint32_t from;
    char *bytes;
    size_t size;
    while (!help->home && processes_receive(help->processes, &from, &bytes, &size)) {
        size_t at = 1;
        uint64_t task;
        help->heard_at = seconds_now();
        help->home = size > 0 && *bytes == CREW_HOME;
        help->all_there = help->home && sweep_crew_text_next_number(bytes, size, &at, &task) && task;
        while (size > 0 && *bytes == CREW_TASKS && sweep_crew_text_next_number(bytes, size, &at, &task))
            workers_add(help->workers, (size_t)task);
        free(bytes);
    }
}

static void say_hello(struct help *help, const struct sweep_crew_settings *settings)
{
    struct sweep_crew_text hello = sweep_crew_text(CREW_HELLO);
    sweep_crew_text_add_number(&hello, settings->workers.jobs);
    sweep_crew_text_add(&hello, settings->question, strlen(settings->question));
    sweep_crew_text_send(&hello, help->processes, 0);
}

static bool first_is_gone(const struct help *help)
{
    double silent = seconds_now() - help->heard_at;
    return silent > CREW_ALONE_SECONDS || (silent > 2 * CREW_ALIVE_SECONDS && processes_has_ended(help->processes, 0));
}

bool sweep_crew_help(const struct sweep_crew_settings *settings)
{
    struct help help = {.processes = settings->processes, .heard_at = seconds_now(), .told_at = seconds_now()};
    struct workers_settings workers = settings->workers;
    workers.take = take;
    workers.taker = &help;
    help.workers = workers_create(&workers);
    say_hello(&help, settings);
    bool ended = false;
    while (!help.home && !ended && !first_is_gone(&help)) {
        ended = workers_wait(help.workers, LOOK_MILLISECONDS) != 0;
        send_results(&help);
        hear(&help);
        if (seconds_now() - help.told_at > CREW_ALIVE_SECONDS) {
            struct sweep_crew_text alive = sweep_crew_text(CREW_ALIVE);
            sweep_crew_text_send(&alive, help.processes, 0);
            help.told_at = seconds_now();
        }
    }
    workers_destroy(help.workers);
    free(help.results.bytes);
    processes_close(help.processes, help.all_there || ended);
    return help.home || ended;
}
