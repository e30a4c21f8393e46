/* runs.h - the run of key rows that each query row sees, as numbers: how a mask and a sharding reach a GPU.
 *
 * Every mask shows a query one run of positions, both ends of which grow with the query's position, and positions
 * ascend within the queries and within a key buffer. So query row i sees rows [from[i], to[i]) of the buffer (maybe
 * none), and neither array ever falls: what a tile sees shows at its first and last row, and the rows that see a key
 * are found by bisection.
 */
#ifndef CPSIM_KERNELS_RUNS_H
#define CPSIM_KERNELS_RUNS_H

#include "kernels/attention.h"

/* Fills `from` and `to`, queries->rows numbers each. Asserts that positions ascend and that numbers fit. */
void attention_runs(const struct mask *mask, const struct attention_rows *queries, const struct attention_rows *keys,
                    int32_t *from, int32_t *to);

#endif
