/* rank_table.h - a prediction's ranks for people: time and traffic, memory at the high-water mark, what each sends,
 * receives and holds.
 *
 * With many ranks the tables show the first, the critical, the one with the highest memory mark and the last, and say
 * how many are left out.
 */
#ifndef CPSIM_CLI_RANK_TABLE_H
#define CPSIM_CLI_RANK_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "models/result/report.h"

/* Marks the ranks to show in shown[n_ranks]; returns how many are left out. */
uint32_t rank_table_choose(const struct report *report, bool details, bool *shown);

/* Time and traffic of the ranks that are shown. */
void rank_table_write_time(const struct report *report, const bool *shown, uint32_t left_out, FILE *stream);

/* Of attention alone: memory by what it holds. */
void rank_table_write_memory(const struct report *report, const bool *shown, uint32_t left_out, FILE *stream);

/* Of attention alone: the first group's `cp` ranks, elements and bytes. Neighbours that are alike share their rows;
 * with `details` all of them are there. */
void rank_table_write_accounting(const struct report *report, uint32_t cp, bool details, FILE *stream);

#endif
