/* writers.h - a prediction as table, JSON, CSV and trace. They print; they compute nothing.
 *
 * Every writer writes the same bytes for the same prediction: fixed order, "%.17g" for doubles in JSON and CSV, C
 * locale. Return false when the stream reported an error.
 */
#ifndef CPSIM_CLI_WRITERS_H
#define CPSIM_CLI_WRITERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/prediction.h"

/* The run as schema cpsim.run/1, rank by rank; with `operations` every operation of every rank too: "operations", an
 * array of {rank, op, kind, stream, phase, begin, end (seconds), and of messages move, peer, bytes, traffic, of
 * attention pairs, and where there are several groups group}; of several micro-batches those of the last. */
bool run_json_write(const struct prediction *prediction, bool operations, FILE *stream);
/* The same as a member of something larger, and of it the operations. */
struct json_writer;
void run_json_write_in(struct json_writer *writer, const char *key, const struct prediction *prediction,
                       bool operations);
void operations_json_write_in(struct json_writer *writer, const struct prediction *prediction);
/* Its step, links and number of ranks, and cp of its experiment; with `common` all of experiment and topology. The
 * caller owns the reference. */
json_t *run_to_json_summary(const struct prediction *prediction, bool common);
/* The head of what is said about one question in another schema than the run's: schema, version, the command with
 * `option`, files, engine, mechanisms left out. */
void json_set_asked(json_t *json, const char *schema, const char *option, const struct prediction *prediction);
/* Prints any JSON with this project's layout and precision, with a final newline. */
bool json_print(const json_t *json, FILE *stream);

/* For people: the answer in a few lines, then tables of ranks, memory, accounting and links, cut to the most telling
 * ranks; with `details` everything, steps too. */
bool table_write(const struct prediction *prediction, bool details, FILE *stream);

/* One row per rank. */
bool csv_write_run(const struct prediction *prediction, FILE *stream);
/* The header of a sweep, and the row of a point of cpsim.sweep/1: swept keys, then the step's numbers (with `layers`
 * those of whole layers too), then what kept it from running. */
void csv_write_sweep_head(const char *const *keys, size_t n_keys, bool layers, FILE *stream);
void csv_write_sweep_point(const json_t *point, bool layers, FILE *stream);
/* One field, quoted where it must be. */
void csv_write_text(const char *text, FILE *stream);

/* A sweep as a table: one row a point, swept keys first, best point marked. */
bool sweep_table_write(const json_t *sweep, FILE *stream);
struct text_table;
/* Appends a cell with the point's value of each swept key. */
void sweep_table_add_settings(struct text_table *table, const json_t *sweep, const json_t *point);

/* Chrome / Perfetto trace events (JSON): a process per rank, a thread per stream, one complete event per operation with
 * its blocks, bytes and pairs as arguments; microseconds. */
bool trace_write(const struct prediction *prediction, FILE *stream);

#endif
