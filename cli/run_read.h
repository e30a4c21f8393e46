/* run_read.h - reads runs and sweeps back for comparison, without what comparisons have no use for.
 *
 * The ranks of a run are nearly all of its file, and nothing is compared rank by rank: they are passed over while they
 * are read, so that a file of 200 MB costs its reading and no memory.
 */
#ifndef CPSIM_CLI_RUN_READ_H
#define CPSIM_CLI_RUN_READ_H

#include <jansson.h>
#include <stdio.h>

/* The document, a cpsim.run/1 or a cpsim.sweep/1 whose "ranks" are empty, or whatever else it is; NULL with `error`
 * when it is not JSON. Lines are counted as in the file. What is wrong inside ranks is not noticed, unless they have no
 * end. */
json_t *run_read(FILE *stream, json_error_t *error);

#endif
