/* level_checks.h - what concerns several keys of a topology at once: of one level and those inside it, and of all. */
#ifndef CPSIM_MODELS_INPUT_LEVEL_CHECKS_H
#define CPSIM_MODELS_INPUT_LEVEL_CHECKS_H

#include "models/input/ini_document.h"
#include "models/input/topology.h"

/* Level k, whose own keys are good: judges them together. Sets what follows from them: the bandwidth that an
 * oversubscription makes, and the level's wiring, for the levels outside it (not if an inner one was bad: `inner`). */
bool level_check(struct topology *topology, uint32_t k, bool inner, const struct ini_section *section,
                 struct diagnostics *diag);

/* That a level says one of bandwidth and oversubscription. */
bool level_check_bandwidth(const struct ini_document *document, const struct ini_section *section,
                           struct diagnostics *diag);

/* All levels, each good by itself, and [cluster]'s routing. */
bool level_check_all(struct topology *topology, struct diagnostics *diag);

/* Whether a value of level k's key `name` has an effect, and so is recorded. */
bool level_key_is_said(const struct topology *topology, uint32_t k, const char *name);
/* The same of [cluster]. */
bool cluster_key_is_said(const struct topology *topology, const char *name);

#endif
