/* compare_writers.h - a comparison as table, CSV and JSON. They print; they compute nothing.
 *
 * The same bytes for the same files, whatever the machine. Return false when the stream reported an error.
 */
#ifndef CPSIM_CLI_COMPARE_WRITERS_H
#define CPSIM_CLI_COMPARE_WRITERS_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/compare.h"

/* A row a pair, then the summary. `details` 0: of many pairs those with the largest errors; 1: all, and a table of both
 * values for every quantity. */
bool compare_table_write(const struct comparison *comparison, int details, FILE *stream);

/* A row a pair: what tells it apart, both runs, both values and the error of every quantity, intervals. */
bool compare_csv_write(const struct comparison *comparison, FILE *stream);

/* Schema cpsim.compare/1:
 *
 *   { schema, cpsim_version, files: [...], subject, reference: "predicted", "measured" (or "other", "first"),
 *     pairs: [ { settings: {...}, SUBJECT: {file, point, topology, step}, REFERENCE: {...}, experiment: {...},
 *                errors: {seconds, ...}, in_spread, in_interval } ],
 *     summary: { QUANTITY: {pairs, median, percentile90, worst, worst_pair, bias}, in_spread, in_interval },
 *     unpaired: [ {file, point, kind} ] }
 *
 * Errors are ratios, null where there is none; points and pairs are counted from 1. The caller owns the reference. */
json_t *compare_to_json(const struct comparison *comparison);

#endif
