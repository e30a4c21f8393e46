/* packing.h - messages of a few of a buffer's lanes lie in many places: they are copied together into one piece on
 * their way. Where no such message is, nothing is allocated.
 *
 * On an asynchronous backend the piece is memory of the device, and the copies are queued in the message's stream: what
 * is packed before the message, what is unpacked behind it. Each stream has its own pieces, so that one may be used
 * again as soon as its last use is queued.
 */
#ifndef CPSIM_HW_RUN_PACKING_H
#define CPSIM_HW_RUN_PACKING_H

#include "hw/compute.h"
#include "hw/layout.h"

/* Room for packed messages, used again and again. */
struct packings {
    struct packing {
        char *memory; /* on the host; the backend's, if that is asynchronous */
        uint64_t bytes;
        enum stream stream;
        bool busy;
    } * items;
    size_t count, capacity;
};

#define NOT_PACKED SIZE_MAX

/* The pieces of `message` as it is posted, `buffer` being at `memory`; returns their number. If they are packed (a
 * message to be sent is so at once), *packing is given and must be handed to packing_end; else it is NOT_PACKED. 0 when
 * there is not enough memory. */
uint32_t packing_begin(struct packings *packings, const struct compute_ops *ops, struct compute *compute,
                       const struct schedule *schedule, const struct program *program, const struct op *message,
                       void *memory, struct piece_of_memory pieces[PIECES_MAX], size_t *packing);

/* The bytes of each array that `message` is of, packed or not; returns their number (queued_message.arrays). */
uint32_t message_arrays(const struct schedule *schedule, const struct program *program, const struct op *message,
                        uint64_t bytes[LAYOUT_ARRAYS_MAX]);

/* The message has finished, or is queued: unpacks what was received. */
void packing_end(struct packings *packings, const struct compute_ops *ops, struct compute *compute,
                 const struct schedule *schedule, const struct program *program, const struct op *message, void *memory,
                 size_t packing);

/* No message may be under way. */
void packings_fini(struct packings *packings, const struct compute_ops *ops, struct compute *compute);

#endif
