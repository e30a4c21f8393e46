/* layer_names.h - what operations of a program of layers are called: "MLP up", "QKV dW", "norm"; and of which layer
 * they are.
 */
#ifndef CPSIM_MODELS_SCHEDULE_LAYER_NAMES_H
#define CPSIM_MODELS_SCHEDULE_LAYER_NAMES_H

#include <stddef.h>

#include "models/schedule/program.h"

/* The name of a local operation: of a layer's by its part, of others its kind. Products: "QKV", "output", "MLP up",
 * "MLP down", "head", "embedding"; " dX" behind it for the gradient of the input, " dW" for that of the weights. */
void layer_op_name(const struct program *program, const struct op *op, char *text, size_t size);

#define LAYER_NONE UINT32_MAX

/* The number that works behind the last layer have: how many layers there are; LAYER_NONE where nothing is behind. */
uint32_t layers_of_program(const struct program *program);

/* The layer of operation `op`, below n_layers: its own; of attention and of messages that of the operation of a layer
 * before it in the program. LAYER_NONE where there is none: embedding, last norm, head, loss and optimizer are of no
 * layer. */
uint32_t layer_of_op(const struct program *program, uint32_t op, uint32_t n_layers);

/* "backward, layer 12, MLP up dX"; a message's with what it carries; without layers "forward, attend". */
void layer_describe_op(const struct program *program, uint32_t op, char *text, size_t size);

#endif
