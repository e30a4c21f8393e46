/* message_chunks.c - finds the pieces that a range of a message's bytes lies in. */
#include "hw/transport/message_chunks.h"

uint64_t message_bytes(const struct piece_of_memory *pieces, uint32_t n_pieces)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n_pieces; i++)
        bytes += pieces[i].bytes;
    return bytes;
}

uint32_t message_chunks(uint64_t bytes)
{
    return bytes ? (uint32_t)((bytes - 1) / CHUNK_BYTES_MAX + 1) : 1;
}

uint32_t message_range(const struct piece_of_memory *pieces, uint32_t n_pieces, uint64_t offset, uint64_t bytes,
                       struct piece_of_memory range[PIECES_MAX])
{
    uint64_t skip = offset, left = bytes;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_pieces && left > 0; i++) {
        uint64_t skipped = skip < pieces[i].bytes ? skip : pieces[i].bytes;
        uint64_t rest = pieces[i].bytes - skipped, taken = rest < left ? rest : left;
        if (taken)
            range[n++] = (struct piece_of_memory){(char *)pieces[i].memory + skipped, taken};
        skip -= skipped;
        left -= taken;
    }
    return n;
}

uint32_t message_chunk(const struct piece_of_memory *pieces, uint32_t n_pieces, uint32_t index,
                       struct piece_of_memory chunk[PIECES_MAX])
{
    return message_range(pieces, n_pieces, index * CHUNK_BYTES_MAX, CHUNK_BYTES_MAX, chunk);
}
