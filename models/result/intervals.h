/* intervals.h - sets of moments as lists of half-open intervals [begin, end), in seconds. */
#ifndef CPSIM_MODELS_RESULT_INTERVALS_H
#define CPSIM_MODELS_RESULT_INTERVALS_H

#include <stddef.h>

#include "models/base/memory.h"

struct interval {
    double begin, end;
};

/* Zero-initialised is the empty set. */
struct intervals {
    struct interval *items;
    size_t count, capacity;
};

void intervals_fini(struct intervals *set);
void intervals_clear(struct intervals *set);

/* Adds [begin, end); nothing when that is empty. The set is in no order until it is united. */
static inline void intervals_add(struct intervals *set, double begin, double end)
{
    if (!(end > begin))
        return;
    memory_grow(set->items, set->count, set->capacity);
    set->items[set->count++] = (struct interval){begin, end};
}

/* Sorts the intervals and joins those that touch or overlap. O(n log n). */
void intervals_unite(struct intervals *set);

/* Length of a united set. */
double intervals_seconds(const struct intervals *set);

/* Takes the moments of `other` out of `set`; both are united, and `set` stays so. O(n + m). */
void intervals_subtract(struct intervals *set, const struct intervals *other);

/* Length of what two united sets have in common. O(n + m). */
double intervals_common_seconds(const struct intervals *a, const struct intervals *b);

#endif
