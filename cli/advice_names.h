/* advice_names.h - what a candidate of an advice is called in tables and messages. */
#ifndef CPSIM_CLI_ADVICE_NAMES_H
#define CPSIM_CLI_ADVICE_NAMES_H

#include "cli/advice_space.h"

/* "tp 8 x cp 4 x dp 2, usp (ulysses 4), zigzag, ZeRO 1, recompute full": the caller frees it. */
char *advice_name(const struct advice_space *space, size_t candidate);
/* The algorithm with its degrees: "usp 4 x 8". The caller frees it. */
char *advice_algorithm(const struct advice_space *space, size_t candidate);

#endif
