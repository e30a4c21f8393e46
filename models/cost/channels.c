/* channels.c - the rule, in NCCL's order. */
#include "models/cost/channels.h"

#define KIB UINT64_C(1024)
#define LL_CHUNK (64 * KIB)
#define LL_BYTES_PER_CHANNEL (16 * KIB) /* NCCL_P2P_LL_THRESHOLD */

static uint64_t divided_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The outermost level within the communicator that says anything about channels; level 0 if none does. */
static const struct level *outermost(const struct topology *topology, struct communicator_size communicator)
{
    uint32_t k = communicator.span;
    while (k > 0 && topology->levels[k].channels == 0)
        k--;
    return &topology->levels[k];
}

static uint32_t per_peer(const struct topology *topology, struct communicator_size communicator)
{
    const struct level *outer = outermost(topology, communicator);
    uint32_t least = outer->channels;
    for (uint32_t k = 0; k <= communicator.span; k++) {
        const struct level *level = &topology->levels[k];
        if (level->channels)
            least = lesser(least, level->channels_per_peer ? level->channels_per_peer : level->channels);
    }
    while (outer->medium == MEDIUM_NETWORK && least > 1 &&
           (uint64_t)least * communicator.ranks > 4 * (uint64_t)outer->channels)
        least /= 2;
    return least;
}

struct channels channels_of(const struct topology *topology, struct communicator_size communicator, uint32_t level,
                            uint64_t bytes)
{
    const struct level *outer = outermost(topology, communicator);
    bool spans_nodes = outer->medium == MEDIUM_NETWORK;
    struct channels channels = {.all = outer->channels, .per_peer = per_peer(topology, communicator)};
    channels.small = topology->levels[level].ll_bytes_per_s > 0 && bytes <= LL_BYTES_PER_CHANNEL * channels.per_peer;
    uint64_t chunk = channels.small ? LL_CHUNK : (outer->medium == MEDIUM_NVLINK ? 512 : 128) * KIB;
    uint64_t least_part = spans_nodes ? chunk / 2 : chunk / 8, largest_part = spans_nodes ? chunk : 32 * chunk;

    uint32_t n = channels.per_peer;
    while ((uint64_t)n * communicator.ranks > channels.all && n > 1)
        n /= 2;
    uint64_t parts = divided_up(bytes, least_part);
    if (parts < n)
        n = parts ? (uint32_t)parts : 1;
    for (uint64_t part = divided_up(bytes, n); part > largest_part && n <= channels.per_peer / 2;) {
        n *= 2;
        part = divided_up(bytes, n);
    }
    channels.count = n;
    return channels;
}
