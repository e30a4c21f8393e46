/* numbering.c - a hash table with open addressing: a few nanoseconds a key, nothing allocated for each. */
#include "models/base/numbering.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "models/base/memory.h"

#define FIRST_SLOTS 16

void numbering_init(struct numbering *numbering, size_t words)
{
    *numbering = (struct numbering){.words = words, .n_slots = FIRST_SLOTS};
    numbering->slots = memory_zeroed(numbering->n_slots, sizeof *numbering->slots);
}

void numbering_fini(struct numbering *numbering)
{
    free(numbering->keys);
    free(numbering->slots);
    memset(numbering, 0, sizeof *numbering);
}

static const uint64_t *key_of(const struct numbering *numbering, uint32_t number)
{
    return &numbering->keys[number * numbering->words];
}

/* Where `key` is, or would be. */
static uint32_t *slot_of(const struct numbering *numbering, const uint64_t *key)
{
    size_t size = numbering->words * sizeof *key, last = numbering->n_slots - 1;
    size_t slot = (size_t)XXH3_64bits(key, size) & last;
    while (numbering->slots[slot] && memcmp(key_of(numbering, numbering->slots[slot] - 1), key, size) != 0)
        slot = (slot + 1) & last;
    return &numbering->slots[slot];
}

static void double_slots(struct numbering *numbering)
{
    free(numbering->slots);
    numbering->n_slots *= 2;
    numbering->slots = memory_zeroed(numbering->n_slots, sizeof *numbering->slots);
    for (uint32_t number = 0; number < numbering->count; number++)
        *slot_of(numbering, key_of(numbering, number)) = number + 1;
}

uint32_t numbering_of(struct numbering *numbering, const uint64_t *key)
{
    uint32_t *slot = slot_of(numbering, key);
    if (*slot)
        return *slot - 1;
    if (numbering->count == numbering->capacity) {
        numbering->capacity = numbering->capacity ? 2 * numbering->capacity : FIRST_SLOTS;
        numbering->keys =
            memory_resized(numbering->keys, numbering->capacity, numbering->words * sizeof *numbering->keys);
    }
    memcpy(numbering->keys + numbering->count * numbering->words, key, numbering->words * sizeof *key);
    *slot = ++numbering->count;
    if (2 * (size_t)numbering->count >= numbering->n_slots)
        double_slots(numbering);
    return numbering->count - 1;
}

uint64_t numbering_word(double value)
{
    uint64_t word;
    value += 0.0; /* -0 equals 0 */
    memcpy(&word, &value, sizeof word);
    return word;
}
