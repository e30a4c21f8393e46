/* idle_overrides.h - [override NAME] sections that change nothing in a run: of links that no message crosses, of NICs
 * that no message would take if they were there, of GPUs that no rank is on. (In a file that is no mistake: a topology
 * serves many experiments.) */
#ifndef CPSIM_CLI_IDLE_OVERRIDES_H
#define CPSIM_CLI_IDLE_OVERRIDES_H

#include "cli/prediction.h"

/* How many [override NAME] the topology has. */
uint32_t overrides_count(const struct topology *topology);

/* Whether the override of that number changes nothing, of a prediction that has been prepared. Time: all ways that
 * messages take. */
bool override_is_idle(const struct prediction *prediction, uint32_t number);

/* Whether no message crosses any link of the [link A B] of that name, "link A B". */
bool graph_link_is_idle(const struct prediction *prediction, const char *section);

/* Of a prediction that has run: adds a line for each --set of a level, link, override or GPU that is not used. (The
 * same key in a file is no mistake.) */
void idle_overrides_note(const struct prediction *prediction, const struct question *question,
                         struct diagnostics *notes);

#endif
