/* splice.h - one program's phase as a part of another: how an attention program becomes the attention of a layer.
 *
 * An algorithm builds the program of one attention layer and knows nothing of layers; here its operations are copied,
 * as often as there are layers (or passes), each time on buffers of the layer's own.
 */
#ifndef CPSIM_MODELS_SCHEDULE_LAYERS_SPLICE_H
#define CPSIM_MODELS_SCHEDULE_LAYERS_SPLICE_H

#include "models/schedule/program.h"

/* Appends the operations of `from` in `phase`, with groups, arrays and collectives of their own. map[b] is the buffer
 * that buffer b of `from` is in `into`; NO_BUFFER: a copy of it is added when it is first used, and entered in the map,
 * so that what one phase leaves for the next is found there. */
void program_splice(struct program *into, const struct program *from, enum phase phase, uint32_t *map);

#endif
