/* form.h - what the checks of single operations share. */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_FORM_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_FORM_H

#include "models/schedule/checker/internal.h"

/* What is being looked at: the subject of every complaint. */
struct subject {
    struct check *check;
    const struct program *program;
    uint32_t index;
    const struct op *op;
};

/* Complains about an operation that may be too broken to be described; returns false. */
bool form_complain(const struct subject *s, const char *text);

/* Whether it reads and writes what its kind does. Its buffers exist and its blocks are sound. */
bool operands_check(const struct subject *s);

/* Whether its buffers have the rows and lanes that it works on. Its operands are sound. */
bool room_check(const struct subject *s);

#endif
