/* library_keys.h - the keys of a level that say what a communication library makes of its links: channels, protocols.
 */
#ifndef CPSIM_MODELS_INPUT_LIBRARY_KEYS_H
#define CPSIM_MODELS_INPUT_LIBRARY_KEYS_H

#include "models/input/ini_document.h"
#include "models/input/topology.h"

/* For the key table: "12 us + 1.3 us: 140 GB/s, 36 us: 320 GB/s" into level->protocols. */
bool library_parse_collectives(void *target, const char *text, const char **expected);
void library_print_collectives(const void *target, char *text, size_t size);

/* Channels are powers of two and have a bandwidth; keys about channels have an effect only where there are some. */
bool library_check_channels(const struct ini_document *document, const struct ini_section *section,
                            const struct level *level, struct diagnostics *diag);

/* No message and no collective is faster than the link, nor a fan than all members' links together. */
bool library_check_rates(const struct ini_document *document, const struct ini_section *section,
                         const struct level *level, struct diagnostics *diag);

/* Whether there is a value to record of key `name`; true of keys that are not about the library. */
bool library_key_is_said(const struct level *level, const char *name);

#endif
