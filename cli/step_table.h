/* step_table.h - what the table of a run says of whole layers (workload.scope): the model and how its step is done,
 * what its time and memory go to, and how well it uses its GPUs.
 */
#ifndef CPSIM_CLI_STEP_TABLE_H
#define CPSIM_CLI_STEP_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/prediction.h"
#include "cli/quantity.h"

/* Lines of the question: "model", "workload", "step". */
void step_table_write_question(const struct prediction *prediction, FILE *stream);

/* Lines of the answer behind the step's seconds: "passes", "speed", "use", and, behind the time, "computing",
 * "exposed". */
void step_table_write_speed(const struct prediction *prediction, FILE *stream);
void step_table_write_time(const struct prediction *prediction, FILE *stream);

/* "memory", "of which", "at": what the worst rank's peak is made of, when it comes, and whether it fits. */
void step_table_write_memory(const struct prediction *prediction, FILE *stream);

/* Tables: what the shown ranks' memory is made of at their peaks; what each kind of message carries. */
void step_table_write_roles(const struct prediction *prediction, const bool *shown, FILE *stream);
void step_table_write_traffic(const struct prediction *prediction, const bool *shown, FILE *stream);

/* "of which  weights 3.2 + gradients 6.4 + ... GiB", a line. */
void step_table_write_made_of(const uint64_t by_role[ROLE_COUNT], double reserve_bytes, struct unit unit, FILE *stream);

/* When the rank's memory is highest: "backward, layer 12, MLP up dX". */
void step_peak_describe(const struct prediction *prediction, uint32_t place, char *text, size_t size);

#endif
