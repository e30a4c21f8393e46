/* layer_names.c - a product's place in the MLP shows in its buffers: what is wide lies between up and down. */
#include "models/schedule/layer_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/input/step.h"

static bool is_wide(const struct program *program, uint32_t buffer)
{
    return program->buffers[buffer].tensor == TENSOR_WIDE;
}

/* Whether a product is by the matrix that leads to the MLP's columns, not back. */
static bool goes_up(const struct program *program, const struct op *op)
{
    switch ((enum product_form)program_work(program, op)->form) {
    case PRODUCT_OUTPUT:
        return is_wide(program, *program_writes(program, op));
    case PRODUCT_INPUT_GRADIENT:
        return !is_wide(program, *program_writes(program, op));
    case PRODUCT_WEIGHT_GRADIENT:
        break;
    }
    return !is_wide(program, *program_reads(program, op));
}

static const char *product_name(const struct program *program, const struct op *op)
{
    switch ((enum model_part)program_work(program, op)->part) {
    case MODEL_QUERY:
    case MODEL_KEY:
    case MODEL_VALUE:
        return "QKV";
    case MODEL_OUTPUT:
        return "output";
    case MODEL_MLP:
        return goes_up(program, op) ? "MLP up" : "MLP down";
    case MODEL_EMBEDDING:
    case MODEL_HEAD:
        return "head"; /* tied: the embedding's matrix */
    case MODEL_ATTENTION:
    case MODEL_NORM:
    case MODEL_PARTS:
        break;
    }
    return "product";
}

void layer_op_name(const struct program *program, const struct op *op, char *text, size_t size)
{
    static const char *const forms[] = {
        [PRODUCT_OUTPUT] = "", [PRODUCT_INPUT_GRADIENT] = " dX", [PRODUCT_WEIGHT_GRADIENT] = " dW"};
    if (op->kind == OP_PRODUCT)
        snprintf(text, size, "%s%s", product_name(program, op), forms[program_work(program, op)->form]);
    else
        snprintf(text, size, "%s", op_kind_name((enum op_kind)op->kind));
}

uint32_t layers_of_program(const struct program *program)
{
    for (uint32_t i = 0; i < program->n_works; i++)
        if (program->works[i].part == MODEL_HEAD)
            return program->works[i].layer;
    return LAYER_NONE;
}

/* Those of the model's begin and end, whatever number their work has. */
static bool is_of_no_layer(const struct program *program, const struct op *op, uint32_t n_layers)
{
    const struct layer_work *work = program_work(program, op);
    return work->layer >= n_layers || work->part == MODEL_EMBEDDING || work->part == MODEL_HEAD ||
           op->kind == OP_LOSS || op->kind == OP_OPTIMIZE;
}

uint32_t layer_of_op(const struct program *program, uint32_t op, uint32_t n_layers)
{
    for (uint32_t i = op + 1; i-- > 0;) {
        const struct op *what = &program->ops[i];
        if (op_is_of_layer(what))
            return is_of_no_layer(program, what, n_layers) ? LAYER_NONE : program_work(program, what)->layer;
    }
    return LAYER_NONE;
}

void layer_describe_op(const struct program *program, uint32_t op, char *text, size_t size)
{
    const struct op *what = &program->ops[op];
    char name[48], layer[32] = "";
    uint32_t number = layer_of_op(program, op, layers_of_program(program));
    if (op_is_message(what))
        snprintf(
            name, sizeof name, "%s of %s", what->kind == OP_SEND ? "sending" : "receiving",
            program->buffers[what->kind == OP_SEND ? *program_reads(program, what) : *program_writes(program, what)]
                .name);
    else
        layer_op_name(program, what, name, sizeof name);
    if (number != LAYER_NONE)
        snprintf(layer, sizeof layer, "layer %" PRIu32 ", ", number);
    snprintf(text, size, "%s, %s%s", phase_name(program_phase(program, op)), layer, name);
}
