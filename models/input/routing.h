/* routing.h - which of several equal ways a message takes under ECMP.
 *
 * Switches choose by a hash of a message's addresses, so that a pair's messages keep one way; here the hash is of seed,
 * source GPU, destination GPU and where the choice is made (a level's number, a graph's node): three rounds of the
 * finaliser of SplitMix64 (Steele, Lea and Flood 2014). Two pairs meet on one of n ways in a share 1 / n of all seeds.
 */
#ifndef CPSIM_MODELS_INPUT_ROUTING_H
#define CPSIM_MODELS_INPUT_ROUTING_H

#include <stdint.h>

static inline uint64_t routing_mixed(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* One of `n` ways, 0 to n - 1. GPU numbers are below 2^24, so the inner rounds see each pair once. */
static inline uint32_t routing_choice(uint64_t seed, uint64_t from, uint64_t to, uint64_t where, uint32_t n)
{
    uint64_t hash = routing_mixed(routing_mixed(seed ^ routing_mixed(where)) ^ (from << 32 | to));
    return (uint32_t)(((hash >> 32) * n) >> 32);
}

#endif
