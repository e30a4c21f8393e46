/* rank_programs.h - the programs that hardware runs, one for each rank of the run.
 *
 * Of attention alone: one CP group's. Of a layer (scope = layer): those of all ranks of the layout, rank
 * (dp index * tp + tp index) * cp + CP rank of the run, collectives written out as messages and sums; peers are ranks
 * of the run. (program.rank is the CP rank in either case: whose rows they are.)
 */
#ifndef CPSIM_HW_RANK_PROGRAMS_H
#define CPSIM_HW_RANK_PROGRAMS_H

#include "models/schedule/layers/layers.h"
#include "models/schedule/schedule.h"

/* How many ranks run. */
uint32_t rank_programs_count(const struct schedule *schedule);

/* Where in the layout rank `rank` of the run is. */
struct layers_place rank_programs_place(const struct schedule *schedule, uint32_t rank);

/* Of all ranks; the caller calls rank_programs_free. */
struct program *rank_programs_build(const struct schedule *schedule);
void rank_programs_free(const struct schedule *schedule, struct program *programs);

/* Proves them, as far as they are attention (models/schedule/checker.h). False with messages. */
bool rank_programs_prove(const struct schedule *schedule, const struct program *programs, struct diagnostics *diag);

/* False, with messages, when hardware has nothing to run what is asked around attention by. */
bool rank_programs_check(const struct schedule *schedule, struct diagnostics *diag);

#endif
