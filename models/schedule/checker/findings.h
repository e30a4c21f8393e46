/* findings.h - what the checker has found wrong: the first few in words, the rest as a count.
 *
 * One mistake in an algorithm usually shows on every rank and in every step; ten lines tell it as well as ten thousand.
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_FINDINGS_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_FINDINGS_H

#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/schedule/program.h"

#define FINDINGS_SHOWN 10

struct findings {
    struct diagnostics *diag;
    uint64_t count; /* all of them, shown or not */
    uint64_t shown;
};

/* Adds one finding. */
void findings_add(struct findings *findings, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same about operation `op`: "rank R, operation N (what it is) ...". The operation's operands must be sound. */
void findings_add_op(struct findings *findings, const struct program *program, uint32_t op, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds the lines of `diag`, from elsewhere, as findings; the first few are shown even if others have been. */
void findings_add_all(struct findings *findings, const struct diagnostics *diag);

/* Says how many were not shown; call once, last. */
void findings_end(struct findings *findings);

/* "keys of rank 1, rows 0-511": the rows that `block` means for `tensor`. */
void findings_describe_block(enum tensor tensor, struct block block, char *text, size_t size);

/* "rank 3" or "group 1": who owns rows. */
void findings_describe_owner(uint32_t owner, char *text, size_t size);

/* "heads 0-3 of items 0-1" */
void findings_describe_lanes(struct lanes lanes, char *text, size_t size);

#endif
