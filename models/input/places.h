/* places.h - clusters of unequal nodes: which GPU is where.
 *
 * Routes are arithmetic on places: GPUs counted as if every instance of every level were of full size. GPUs are
 * numbered over the places that are taken, in order; the last ones of an instance that has fewer members than `size`
 * are not. Taken places are kept as runs, so that a few small nodes among thousands cost little.
 */
#ifndef CPSIM_MODELS_INPUT_PLACES_H
#define CPSIM_MODELS_INPUT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct topology;

/* `count` instances of a level, one after the other, with `size` members each. */
struct size_run {
    uint32_t size;
    uint64_t count;
};

struct place_run {
    uint64_t gpu, place, count;
};

struct places {
    struct place_run *runs; /* ascending; NULL: every place is taken */
    size_t n_runs, capacity;
    uint64_t n_gpus; /* with runs */
};

/* From the levels' `sizes`; the product of the sizes is no overflow. On a level whose sizes are for another number of
 * instances than there are: false, with that level and number. */
bool places_init(struct places *places, const struct topology *topology, uint32_t *level, uint64_t *instances);
void places_fini(struct places *places);

uint64_t places_of_gpu(const struct places *places, uint64_t gpu);
/* False if no GPU is there. */
bool places_gpu(const struct places *places, uint64_t place, uint64_t *gpu);

#endif
