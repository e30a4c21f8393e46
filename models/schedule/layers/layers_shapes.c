/* layers_shapes.c - a product's three numbers are rows and columns of what it reads and writes; all else has equal
 * shapes. Operands of attention count as tokens x columns: rows of all batch items, columns of all heads. */
#include <inttypes.h>

#include "models/schedule/layers/layers_proof.h"

struct proof_shape proof_shape_of(const struct proof *proof, uint32_t buffer)
{
    const struct buffer *what = &proof->program->buffers[buffer];
    if (tensor_is_of_layer((enum tensor)what->tensor))
        return (struct proof_shape){what->rows, what->columns};
    struct lanes lane = what->lanes;
    lane.items = 1;
    return (struct proof_shape){
        what->rows * what->lanes.items,
        schedule_tensor_elements(proof->schedule, (enum tensor)what->tensor, 1, lane),
    };
}

static void wrong(struct proof *proof, uint32_t op, uint32_t buffer, const char *what, uint64_t expected)
{
    struct proof_shape shape = proof_shape_of(proof, buffer);
    findings_add_op(proof->findings, proof->program, op,
                    "has %" PRIu64 " %s where buffer '%s' has %" PRIu64 " x %" PRIu64, expected, what,
                    proof_name(proof, buffer), shape.rows, shape.columns);
}

/* Operands or results side by side: `columns` in all. The head goes by chunks: its rows are some of a buffer's. */
static void check_side(struct proof *proof, uint32_t op, const uint32_t *buffers, uint32_t n, uint64_t rows,
                       uint64_t columns)
{
    const struct layer_work *work = program_work(proof->program, &proof->program->ops[op]);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct proof_shape shape = proof_shape_of(proof, buffers[i]);
        sum += shape.columns;
        if (work->part == MODEL_HEAD ? rows > shape.rows : rows != shape.rows)
            wrong(proof, op, buffers[i], "rows", rows);
    }
    if (sum != columns)
        wrong(proof, op, buffers[0], "columns", columns);
}

/* A matrix (or its gradient) of inputs x outputs, and a bias. One that is tied to the embedding lies the other way, and
 * positions behind it. */
static void check_matrix(struct proof *proof, uint32_t op, uint32_t buffer, uint64_t inputs, uint64_t outputs)
{
    const struct transformer *model = &proof->experiment->model;
    const struct layer_work *work = program_work(proof->program, &proof->program->ops[op]);
    struct proof_shape shape = proof_shape_of(proof, buffer);
    bool good =
        (shape.rows == inputs || (shape.rows == inputs + 1 && model->bias != BIAS_NONE)) && shape.columns == outputs;
    if (work->part == MODEL_HEAD && model->tied_embeddings)
        good = shape.columns == inputs && shape.rows == outputs + model->positions;
    if (!good)
        wrong(proof, op, buffer, "inputs of its matrix", inputs);
}

/* Where products alternate, a part of a result is kept beside it, and put to the rest when that is made again: a
 * buffer more that is written, or read. Its columns, which the result has beyond what is computed; 0: none. */
static uint64_t kept_columns(const struct proof *proof, const struct op *what, const struct layer_work *work)
{
    const struct program *program = proof->program;
    uint32_t results = work->part == MODEL_QUERY ? 2 : 1;
    if (proof->experiment->step.recomputation != RECOMPUTE_ALTERNATE)
        return 0;
    if (what->n_reads == 3)
        return proof_shape_of(proof, program_reads(program, what)[1]).columns;
    return what->n_writes > results ? proof_shape_of(proof, program_writes(program, what)[results]).columns : 0;
}

static void check_output(struct proof *proof, uint32_t op)
{
    const struct program *program = proof->program;
    const struct op *what = &program->ops[op];
    const struct layer_work *work = program_work(program, what);
    const uint32_t *reads = program_reads(program, what);
    uint64_t kept = kept_columns(proof, what, work), columns = work->columns;
    bool again = kept > 0 && what->n_reads == 3;
    uint32_t matrix = reads[what->n_reads - 1];
    if (again) /* with a part of the matrix */
        columns = proof_shape_of(proof, matrix).columns;
    check_side(proof, op, reads, again ? 1 : what->n_reads - 1U, work->rows, work->depth);
    check_matrix(proof, op, matrix, work->depth, columns);
    if (work->columns > columns)
        wrong(proof, op, matrix, "columns", work->columns);
    check_side(proof, op, program_writes(program, what), what->n_writes, work->rows, work->columns + kept);
}

static void check_product(struct proof *proof, uint32_t op)
{
    const struct program *program = proof->program;
    const struct op *what = &program->ops[op];
    const struct layer_work *work = program_work(program, what);
    const uint32_t *reads = program_reads(program, what), *writes = program_writes(program, what);
    uint32_t n = what->n_reads;
    if (n < 2 || what->n_writes < 1) {
        findings_add_op(proof->findings, program, op, "has not two operands and a result");
        return;
    }
    switch ((enum product_form)work->form) {
    case PRODUCT_OUTPUT:
        check_output(proof, op);
        return;
    case PRODUCT_INPUT_GRADIENT:
        check_side(proof, op, reads, n - 1, work->rows, work->depth);
        check_matrix(proof, op, reads[n - 1], work->columns, work->depth);
        check_side(proof, op, writes, what->n_writes, work->rows, work->columns);
        return;
    case PRODUCT_WEIGHT_GRADIENT:
        n -= reads[n - 1] == writes[0]; /* added to */
        check_side(proof, op, reads, 1, work->depth, work->rows);
        check_side(proof, op, reads + 1, n - 1, work->depth, work->columns);
        check_matrix(proof, op, writes[0], work->rows, work->columns);
        return;
    }
    findings_add_op(proof->findings, program, op, "is a product of no known form");
}

/* Every activation that the operation touches has the rows and columns of its work. */
static void check_equal(struct proof *proof, uint32_t op, uint64_t rows)
{
    const struct program *program = proof->program;
    const struct op *what = &program->ops[op];
    const struct layer_work *work = program_work(program, what);
    const uint32_t *buffers = program_reads(program, what);
    if (work->rows != rows)
        findings_add_op(proof->findings, program, op, "works on %" PRIu64 " rows, expected %" PRIu64, work->rows, rows);
    for (uint32_t i = 0; i < (uint32_t)what->n_reads + what->n_writes; i++) {
        struct proof_shape shape = proof_shape_of(proof, buffers[i]);
        bool of_weight =
            program->buffers[buffers[i]].role != ROLE_ACTIVATIONS && program->buffers[buffers[i]].role != ROLE_RESIDENT;
        if (!of_weight && shape.rows != work->rows)
            wrong(proof, op, buffers[i], "rows", work->rows);
        if (shape.columns != work->columns)
            wrong(proof, op, buffers[i], "columns", work->columns);
    }
}

/* Up has the columns of gate beside its own. */
static void check_activation(struct proof *proof, uint32_t op)
{
    const struct program *program = proof->program;
    const struct op *what = &program->ops[op];
    const struct layer_work *work = program_work(program, what);
    const uint32_t *buffers = program_reads(program, what);
    uint64_t wide = proof->experiment->model.mlp == MLP_GATED ? 2 : 1;
    uint64_t ffn = proof->experiment->model.ffn / proof->tp;
    uint64_t columns = what->kind == OP_ACTIVATE ? ffn : wide * ffn;
    if (work->rows != proof->tokens || work->columns != columns)
        findings_add_op(proof->findings, program, op,
                        "works on %" PRIu64 " x %" PRIu64 ", expected %" PRIu64 " x %" PRIu64, work->rows,
                        work->columns, proof->tokens, columns);
    for (uint32_t i = 0; i < (uint32_t)what->n_reads + what->n_writes; i++) {
        struct proof_shape shape = proof_shape_of(proof, buffers[i]);
        bool down = what->kind == OP_ACTIVATE ? i == 1 : i == 0;
        if (shape.rows != proof->tokens || shape.columns != (down ? ffn : wide * ffn))
            wrong(proof, op, buffers[i], "columns", down ? ffn : wide * ffn);
    }
}

void proof_check_shapes(struct proof *proof, uint32_t op)
{
    const struct op *what = &proof->program->ops[op];
    switch ((enum op_kind)what->kind) {
    case OP_PRODUCT:
        check_product(proof, op);
        break;
    case OP_NORM:
    case OP_NORM_BACKWARD:
    case OP_ADD:
        check_equal(proof, op, proof->rows);
        break;
    case OP_ACTIVATE:
    case OP_ACTIVATE_BACKWARD:
        check_activation(proof, op);
        break;
    case OP_EMBED:
    case OP_EMBED_BACKWARD:
        check_equal(proof, op, proof->tokens);
        break;
    default:
        break;
    }
}
