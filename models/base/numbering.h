/* numbering.h - gives keys numbers: 0, 1, 2, ... in the order in which they are first asked for. */
#ifndef CPSIM_MODELS_BASE_NUMBERING_H
#define CPSIM_MODELS_BASE_NUMBERING_H

#include <stddef.h>
#include <stdint.h>

/* Keys are of so many words each: of 64 bits, none of which is padding. */
struct numbering {
    size_t words;
    uint64_t *keys; /* [number * words] */
    uint32_t count, capacity;
    uint32_t *slots; /* 1 + number; 0: free */
    size_t n_slots;  /* a power of 2, more than twice count */
};

void numbering_init(struct numbering *numbering, size_t words);
void numbering_fini(struct numbering *numbering);

/* The number of `key`, a new one if it has none yet. */
uint32_t numbering_of(struct numbering *numbering, const uint64_t *key);

/* A double as a word of a key: the same for equal ones. */
uint64_t numbering_word(double value);

#endif
