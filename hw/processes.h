/* processes.h - the processes that a launcher (mpirun, srun) has started together, and messages between them: for work
 * that is handed out. (What ranks of a schedule send each other is transport.h's.)
 *
 * A message is any number of bytes and comes whole; messages of one sender come in its order. Nothing here blocks but
 * open and close, and a process that has died just falls silent: whoever waits for it has to notice.
 */
#ifndef CPSIM_HW_PROCESSES_H
#define CPSIM_HW_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/diagnostics.h"

struct processes;

/* Meets the others; all of them call it. NULL, with a message, when this build cannot, or when the launcher's number of
 * processes (transport_launched) is not the number that meet. */
struct processes *processes_open(struct diagnostics *diag);
uint32_t processes_count(const struct processes *processes);
uint32_t processes_here(const struct processes *processes);    /* which of them this one is, from 0 */
uint32_t processes_on_host(const struct processes *processes); /* how many run on this machine */

/* Whether another one is known to have ended: only one of this machine can be. */
bool processes_has_ended(const struct processes *processes, uint32_t other);

/* Takes over the bytes. */
void processes_send(struct processes *processes, uint32_t to, char *bytes, size_t size);
/* The next message that has arrived, and from whom; false when there is none. The caller frees the bytes. */
bool processes_receive(struct processes *processes, uint32_t *from, char **bytes, size_t *size);

/* Waits a few seconds until every process is here, so that none ends what another is still at. With `complete` false
 * some are known to be gone: then nobody waits. NULL is fine. */
void processes_close(struct processes *processes, bool complete);

#endif
