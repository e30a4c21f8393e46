/* compare_columns.h - what tells the pairs of a comparison apart, and what they have in common. */
#ifndef CPSIM_CLI_COMPARE_COLUMNS_H
#define CPSIM_CLI_COMPARE_COLUMNS_H

#include "cli/compare.h"

/* Fills the columns, the pairs' cells and the title. */
void compare_choose_columns(struct comparison *comparison);

#endif
