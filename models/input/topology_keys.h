/* topology_keys.h - the key tables of [cluster] and [level NAME]; those of other sections are with their readers. */
#ifndef CPSIM_MODELS_INPUT_TOPOLOGY_KEYS_H
#define CPSIM_MODELS_INPUT_TOPOLOGY_KEYS_H

#include "models/input/key_table.h"

extern const struct section_spec cluster_section, level_section;

/* For key tables: full or half, into a bool that says half. */
bool topology_parse_duplex(void *target, const char *text, const char **expected);
void topology_print_duplex(const void *target, char *text, size_t size);

#endif
