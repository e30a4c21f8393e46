/* message_chunks.h - a message cut into chunks that a transport with 32-bit counts can send.
 *
 * The cut is by bytes of the message, not by piece: both ends, whatever their pieces, cut alike. Every message has a
 * chunk, an empty one too: both ends post the same number of them.
 */
#ifndef CPSIM_HW_TRANSPORT_MESSAGE_CHUNKS_H
#define CPSIM_HW_TRANSPORT_MESSAGE_CHUNKS_H

#include "hw/transport.h"

#define CHUNK_BYTES_MAX (UINT64_C(1) << 30)

uint64_t message_bytes(const struct piece_of_memory *pieces, uint32_t n_pieces);
uint32_t message_chunks(uint64_t bytes);

/* The pieces of up to `bytes` bytes at `offset`, none of them empty; returns their number. */
uint32_t message_range(const struct piece_of_memory *pieces, uint32_t n_pieces, uint64_t offset, uint64_t bytes,
                       struct piece_of_memory range[PIECES_MAX]);

/* The pieces of chunk `index`, none of them empty; returns their number. */
uint32_t message_chunk(const struct piece_of_memory *pieces, uint32_t n_pieces, uint32_t index,
                       struct piece_of_memory chunk[PIECES_MAX]);

#endif
