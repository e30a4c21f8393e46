/* text_table.h - text in aligned columns.
 *
 * A table is filled row by row and printed once all widths are known: headers of one or two lines, a rule, rows; two
 * blanks between columns; no blanks at line ends.
 */
#ifndef CPSIM_CLI_TEXT_TABLE_H
#define CPSIM_CLI_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/quantity.h"

struct text_table {
    char **cells; /* row by row; row 0 is the headers */
    size_t n_cells, capacity;
    size_t n_columns;
    bool *left; /* per column: aligned left (words) instead of right (numbers) */
};

void text_table_init(struct text_table *table);
void text_table_fini(struct text_table *table);

/* Adds a column; all columns come before the first cell. A header may have two lines, parted by '\n': a name and its
 * unit. */
void text_table_column(struct text_table *table, bool left, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends one cell, from left to right, row after row. */
void text_table_cell(struct text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_table_count(struct text_table *table, uint64_t count);
/* Appends value / unit.size, as text_of_number has it. */
void text_table_number(struct text_table *table, double value, struct unit unit);
/* Fills the row that has been begun with empty cells. */
void text_table_end_row(struct text_table *table);

void text_table_print(const struct text_table *table, FILE *stream);

#endif
