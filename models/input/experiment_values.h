/* experiment_values.h - reading and printing of an experiment's values that have a grammar of their own.
 *
 * For KEY_CUSTOM rows (key_table.h): `place` is the struct mask, the order array, or (sharding, preset, collective,
 * ring) the whole struct experiment.
 */
#ifndef CPSIM_MODELS_INPUT_EXPERIMENT_VALUES_H
#define CPSIM_MODELS_INPUT_EXPERIMENT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOCUMENTS_FORM "documents:4096*32,1024"
#define MASK_FORM "full | causal | window:4096 | " DOCUMENTS_FORM
#define SHARDING_FORM "contiguous | zigzag | striped | per-document | one count a rank such as 2,3 or 1024*31,1000"

#define COLLECTIVE_FORM "ring | direct | hierarchical:8"

#define RING_FORM "natural | node-major | rail | snake | each cp index once such as 0,2,1,3"

/* Ends the list in experiment.shard_counts. */
#define SHARD_COUNTS_END UINT64_MAX
/* Ends the list in experiment.ring_indices. */
#define RING_INDICES_END UINT64_MAX

bool experiment_parse_mask(void *place, const char *text, const char **expected);
void experiment_print_mask(const void *place, char *text, size_t size);

bool experiment_parse_sharding(void *place, const char *text, const char **expected);
void experiment_print_sharding(const void *place, char *text, size_t size);

bool experiment_parse_collective(void *place, const char *text, const char **expected);
void experiment_print_collective(const void *place, char *text, size_t size);

bool experiment_parse_order(void *place, const char *text, const char **expected);
void experiment_print_order(const void *place, char *text, size_t size);

bool experiment_parse_ring(void *place, const char *text, const char **expected);
void experiment_print_ring(const void *place, char *text, size_t size);

bool experiment_parse_preset(void *place, const char *text, const char **expected);
void experiment_print_preset(const void *place, char *text, size_t size);

#endif
