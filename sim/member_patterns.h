/* member_patterns.h - the ranks that collectives are among, as programs name them.
 *
 * A program names the members of a collective by numbers (peers.h). Many collectives of many programs have the same
 * ones, a *pattern*; and a pattern that goes all round a dimension (tp, say) means the same ranks to all that differ in
 * that dimension alone. Patterns are the programs' own, wherever these run.
 */
#ifndef CPSIM_SIM_MEMBER_PATTERNS_H
#define CPSIM_SIM_MEMBER_PATTERNS_H

#include "models/base/numbering.h"
#include "models/cost/communicators.h"

struct member_pattern {
    uint32_t *numbers; /* ascending */
    uint32_t count;
    bool round_cp, round_tp, round_dp; /* goes all round that dimension */
};

/* Patterns of a shape's collectives. */
struct shape_patterns {
    uint32_t *of_collective; /* [collective]: index in patterns */
    uint32_t *patterns;      /* different ones */
    uint32_t count;
};

struct member_patterns {
    struct shape_patterns *shapes; /* [shape] */
    uint32_t n_shapes;
    struct member_pattern *items;
    uint32_t count;
    size_t capacity;
    struct numbering contents; /* by their numbers */
};

/* Of all collectives of an ensemble of all ranks. */
void member_patterns_init(struct member_patterns *patterns, const struct ensemble *whole);
void member_patterns_fini(struct member_patterns *patterns); /* zero: nothing */

#endif
