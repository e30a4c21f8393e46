/* ring_step_table.h - every attention operation of every rank for people: which keys, how long, and what it waited for.
 */
#ifndef CPSIM_CLI_RING_STEP_TABLE_H
#define CPSIM_CLI_RING_STEP_TABLE_H

#include <stdio.h>

#include "cli/prediction.h"

/* `of_what` ends the title: the part of the step that the rows are of. */
void ring_step_table_write(const struct prediction *prediction, const char *of_what, FILE *stream);

#endif
