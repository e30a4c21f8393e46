/* validation_rows.h - reads the rows of a set whose INI file has been read. */
#ifndef CPSIM_CLI_VALIDATION_ROWS_H
#define CPSIM_CLI_VALIDATION_ROWS_H

#include "cli/validation_set.h"

/* Fills in columns and rows from the set's file. False with every problem in `diag`. */
bool validation_rows_read(struct validation_set *set, struct diagnostics *diag);

#endif
