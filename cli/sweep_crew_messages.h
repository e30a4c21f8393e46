/* sweep_crew_messages.h - what the processes of a crew say to each other.
 *
 * A message is its kind in one byte and what follows: HELLO the number of workers and the question, TASKS numbers,
 * RESULTS a header and the text for each, ALIVE nothing, HOME whether no process was lost. HELLO, RESULTS and ALIVE go
 * to the first process, TASKS, ALIVE and HOME come from it.
 */
#ifndef CPSIM_CLI_SWEEP_CREW_MESSAGES_H
#define CPSIM_CLI_SWEEP_CREW_MESSAGES_H

#include "cli/workers.h"
#include "hw/processes.h"

enum crew_message { CREW_HELLO = 'h', CREW_TASKS = 't', CREW_RESULTS = 'r', CREW_ALIVE = 'a', CREW_HOME = 'e' };

#define CREW_ALIVE_SECONDS 1   /* between two signs of life */
#define CREW_SILENT_SECONDS 15 /* after which a helper counts as lost */
#define CREW_ALONE_SECONDS 60  /* after which the helpers of a silent first process go home */

struct sweep_crew_text {
    char *bytes;
    size_t size, capacity;
};

/* Begins a message. */
struct sweep_crew_text sweep_crew_text(enum crew_message kind);
void sweep_crew_text_add(struct sweep_crew_text *text, const void *bytes, size_t size);
/* Sends it, which empties it. */
void sweep_crew_text_send(struct sweep_crew_text *text, struct processes *processes, uint32_t to);

void sweep_crew_text_add_result(struct sweep_crew_text *text, size_t task, const struct worker_result *result);
/* The next result behind `*at`, which moves on; the caller frees its text. False at the end. */
bool sweep_crew_text_next_result(const char *bytes, size_t size, size_t *at, size_t *task,
                                 struct worker_result *result);

/* The same for a number. */
void sweep_crew_text_add_number(struct sweep_crew_text *text, uint64_t number);
bool sweep_crew_text_next_number(const char *bytes, size_t size, size_t *at, uint64_t *number);

#endif
