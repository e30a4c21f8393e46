/* longest.h - the longest sequence that fits: what --longest answers.
 *
 * Memory follows from programs alone, so nothing is simulated: lengths are tried, multiples of what every sharding and
 * tensor parallelism can part (2 x cp x tp), first doubled or halved, then by bisection. More tokens never take less
 * memory, so the longest that fits has none above it that does.
 */
#ifndef CPSIM_CLI_LONGEST_H
#define CPSIM_CLI_LONGEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/prediction.h"

/* What so many tokens take on the rank that takes most. */
struct length_memory {
    uint64_t seq_len; /* 0: there is none */
    uint64_t bytes, by_role[ROLE_COUNT];
    uint32_t rank; /* CP rank */
};

struct longest {
    struct prediction prediction; /* of the experiment as it is, not run */
    uint64_t unit;                /* lengths tried are multiples of it */
    double device_bytes, reserve_bytes;
    struct length_memory fits;     /* the longest that does */
    struct length_memory too_long; /* the next one */
    char *refused;                 /* why the next one cannot be asked for; NULL: it can, but does not fit */
    uint32_t tried;
};

/* Finds it. The caller calls longest_fini, also after a failure. */
enum prediction_status longest_find(struct longest *longest, const struct question *question, struct diagnostics *diag);
void longest_fini(struct longest *longest);

bool longest_table_write(const struct longest *longest, FILE *stream);
/* Schema cpsim.longest/1; the caller owns the reference. */
json_t *longest_to_json(const struct longest *longest);

#endif
