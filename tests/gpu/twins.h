/* twins.h - for tests: one operation after the other on two backends at once, `cuda` in a type of 16 bits and `cpu` in
 * fp32, with the same numbers to begin with, which both types can hold.
 */
#ifndef CPSIM_TESTS_GPU_TWINS_H
#define CPSIM_TESTS_GPU_TWINS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "hw/layout.h"
#include "hw/numbers.h"
#include "kernels/cuda/runtime.h"
#include "tests/hw/scene.h"
#include "tests/random_experiment.h"

#define TWINS_BUFFERS_MAX 24

/* One of the two. */
struct twin {
    const struct compute_ops *ops;
    struct experiment experiment;
    struct schedule schedule;
    struct program program;
    struct compute *compute;
    void *memory[TWINS_BUFFERS_MAX];
};

enum { GPU, CPU, TWINS };

struct twins {
    struct twin of[TWINS];
    struct dice *dice;
    enum dtype dtype; /* of the GPU's */
    bool written[TWINS_BUFFERS_MAX];
    struct diagnostics diag;
};

/* Rank 0 of 4, of which pairs are joined; `dim` numbers a head, everything else drawn. */
static inline void twins_init(struct twins *t, struct dice *dice, uint32_t dim)
{
    static const uint32_t heads[][2] = {{8, 2}, {4, 4}, {6, 2}, {8, 4}};
    *t = (struct twins){.dice = dice, .dtype = dice_chance(dice, 2) ? DTYPE_FP16 : DTYPE_BF16};
    struct experiment e = make_experiment("usp", 4, 8 * (2 + dice_below(dice, 14)));
    const uint32_t *drawn = heads[dice_below(dice, 4)];
    e.model.q_heads = drawn[0];
    e.model.kv_heads = drawn[1];
    e.model.head_dim = dim;
    e.batch = 1 + dice_below(dice, 3);
    e.sharding = (enum sharding_kind)(SHARDING_CONTIGUOUS + (int)dice_below(dice, 3));
    e.ulysses_degree = 2;
    e.mask = random_mask(dice, e.seq_len);
    diagnostics_init(&t->diag);
    for (int i = 0; i < TWINS; i++) {
        struct twin *twin = &t->of[i];
        twin->ops = i == GPU ? &compute_cuda : &compute_cpu;
        twin->experiment = e;
        twin->experiment.dtype = i == GPU ? t->dtype : DTYPE_FP32;
        assert_true(schedule_init(&twin->schedule, &twin->experiment, NULL, &t->diag));
        program_init(&twin->program, 0);
        twin->compute = twin->ops->open(&twin->schedule, 0, &(struct compute_settings){0}, &t->diag);
        if (!twin->compute)
            fail_msg("%s", t->diag.lines[0]);
    }
}

/* Another program, without buffers and operations. */
static inline void twins_begin_again(struct twins *t)
{
    for (int i = 0; i < TWINS; i++) {
        struct twin *twin = &t->of[i];
        for (uint32_t b = 0; b < twin->program.n_buffers; b++)
            twin->ops->release(twin->compute, twin->memory[b]);
        program_fini(&twin->program);
        program_init(&twin->program, 0);
    }
}

static inline void twins_fini(struct twins *t)
{
    twins_begin_again(t);
    for (int i = 0; i < TWINS; i++) {
        struct twin *twin = &t->of[i];
        twin->ops->close(twin->compute);
        program_fini(&twin->program);
        schedule_fini(&twin->schedule);
    }
    free(t->of[GPU].experiment.mask.document_starts);
    diagnostics_fini(&t->diag);
}

/* ---- what to run on ---- */

static inline uint32_t draw(struct twins *t, uint32_t from, uint32_t to)
{
    return from + dice_below(t->dice, to - from + 1);
}

/* Some of the lanes of `all`. */
static inline struct lanes draw_lanes(struct twins *t, struct lanes all)
{
    struct lanes lanes;
    lanes.heads = dice_chance(t->dice, 3) ? all.heads : draw(t, 1, all.heads);
    lanes.head = all.head + draw(t, 0, all.heads - lanes.heads);
    lanes.items = dice_chance(t->dice, 3) ? all.items : draw(t, 1, all.items);
    lanes.item = all.item + draw(t, 0, all.items - lanes.items);
    return lanes;
}

/* Some of the rows of `owner`. */
static inline struct block draw_block(struct twins *t, uint32_t owner)
{
    const uint32_t rows = (uint32_t)sharding_keys(&t->of[GPU].schedule.sharding, owner).count;
    const uint32_t count = dice_chance(t->dice, 2) ? rows : draw(t, 1, rows);
    return (struct block){owner, draw(t, 0, rows - count), count};
}

/* A rank, or a pair of joined ones. */
static inline uint32_t draw_owner(struct twins *t)
{
    return dice_chance(t->dice, 2) ? draw(t, 0, 3) : block_joined(draw(t, 0, 1));
}

/* ---- buffers ---- */

/* What numbers are drawn for: LSE and the like are larger, sums are above 0, and now and then a part is empty. */
static inline float draw_number(struct twins *t, enum tensor tensor, uint32_t array)
{
    const float unit = (float)dice_below(t->dice, 1u << 24) / 8388608.0f - 1;
    const bool is_logarithm = (tensor == TENSOR_PARTIAL && array == 1) || tensor == TENSOR_LSE ||
                              tensor == TENSOR_TOP || (tensor == TENSOR_STATE && array == 1);
    const bool is_sum = (tensor == TENSOR_STATE && array == 2) || tensor == TENSOR_DENOMINATOR;
    if (is_logarithm)
        return tensor == TENSOR_PARTIAL && dice_chance(t->dice, 8) ? -INFINITY : 3 + unit;
    return is_sum ? 1.5f + unit : unit;
}

static inline size_t numbers_of(const struct twin *twin, uint32_t buffer, const struct buffer_layout *layout,
                                uint32_t array)
{
    return twin->program.buffers[buffer].rows * layout->arrays[array].row_bytes /
           dtype_bytes(layout->arrays[array].dtype);
}

/* Gives the two the same numbers. */
static inline void twins_fill(struct twins *t, uint32_t buffer)
{
    const struct buffer *is[TWINS] = {&t->of[GPU].program.buffers[buffer], &t->of[CPU].program.buffers[buffer]};
    const struct buffer_layout layouts[TWINS] = {layout_of(&t->of[GPU].schedule, is[GPU]),
                                                 layout_of(&t->of[CPU].schedule, is[CPU])};
    char *host[TWINS];
    for (int i = 0; i < TWINS; i++)
        host[i] = memory_zeroed(1, is[i]->bytes);
    for (uint32_t a = 0; a < layouts[GPU].n_arrays; a++) {
        const enum dtype dtype = layouts[GPU].arrays[a].dtype;
        for (size_t n = 0; n < numbers_of(&t->of[GPU], buffer, &layouts[GPU], a); n++) {
            const float number = number_rounded(dtype, draw_number(t, (enum tensor)is[GPU]->tensor, a));
            for (int i = 0; i < TWINS; i++)
                number_write(layouts[i].arrays[a].dtype, host[i] + layouts[i].arrays[a].offset, n, number);
        }
    }
    for (int i = 0; i < TWINS; i++) {
        t->of[i].ops->write(t->of[i].compute, t->of[i].memory[buffer], host[i], is[i]->bytes);
        free(host[i]);
    }
    t->written[buffer] = false;
}

/* A buffer of these lanes with room for the rows, and mostly for others too, filled. `dtype` is the GPU's. */
static inline uint32_t twins_slice(struct twins *t, enum tensor tensor, enum dtype dtype, struct block block,
                                   struct lanes lanes)
{
    uint32_t index = 0;
    struct buffer buffer = {.tensor = (uint8_t)tensor, .role = ROLE_WORKSPACE, .first = block.first};
    buffer.rows = block.count;
    buffer.lanes = lanes;
    if (!dice_chance(t->dice, 3)) {
        buffer.first = draw(t, 0, block.first);
        buffer.rows += block.first - buffer.first + draw(t, 0, 3);
    }
    for (int i = 0; i < TWINS; i++) {
        struct twin *twin = &t->of[i];
        buffer.dtype = (uint8_t)(i == GPU ? dtype : DTYPE_FP32);
        buffer.bytes =
            schedule_tensor_bytes(&twin->schedule, tensor, (enum dtype)buffer.dtype, buffer.rows, buffer.lanes);
        index = program_add_buffer(&twin->program, "x", buffer);
        assert_true(index < TWINS_BUFFERS_MAX);
        assert_non_null(twin->memory[index] = twin->ops->allocate(twin->compute, buffer.bytes));
    }
    twins_fill(t, index);
    return index;
}

/* The same, mostly with other lanes too. */
static inline uint32_t twins_buffer(struct twins *t, enum tensor tensor, enum dtype dtype, struct block block,
                                    struct lanes lanes)
{
    const struct lanes all = t->of[GPU].schedule.lanes;
    struct lanes held = lanes;
    if (!dice_chance(t->dice, 3)) {
        held.head = draw(t, all.head, lanes.head);
        held.heads = draw(t, lanes.head + lanes.heads, all.head + all.heads) - held.head;
        held.item = draw(t, all.item, lanes.item);
        held.items = draw(t, lanes.item + lanes.items, all.item + all.items) - held.item;
    }
    return twins_slice(t, tensor, dtype, block, held);
}

/* Puts a buffer of the GPU's somewhere else, with the same numbers. */
static inline void twins_move(struct twins *t, uint32_t buffer)
{
    struct twin *twin = &t->of[GPU];
    const uint64_t bytes = twin->program.buffers[buffer].bytes;
    void *there = twin->ops->allocate(twin->compute, bytes), *host = memory_zeroed(1, bytes);
    twin->ops->read(twin->compute, host, twin->memory[buffer], bytes);
    twin->ops->write(twin->compute, there, host, bytes);
    twin->ops->fill(twin->compute, twin->memory[buffer], 0xff, bytes);
    twin->ops->release(twin->compute, twin->memory[buffer]);
    twin->memory[buffer] = there;
    free(host);
}

/* ---- operations ---- */

static inline uint32_t twins_add(struct twins *t, struct op op, const uint32_t *reads, size_t n_reads,
                                 const uint32_t *writes, size_t n_writes)
{
    uint32_t index = 0;
    for (int i = 0; i < TWINS; i++) {
        index = program_add_op(&t->of[i].program, op, reads, n_reads, writes, n_writes);
        if (!layout_check(&t->of[i].schedule, &t->of[i].program, &t->diag))
            fail_msg("%s", t->diag.lines[0]);
    }
    return index;
}

static inline void twins_run(struct twins *t, uint32_t op)
{
    const struct program *program = &t->of[GPU].program;
    for (int i = 0; i < TWINS; i++)
        t->of[i].ops->run(t->of[i].compute, &t->of[i].program, op, t->of[i].memory, NULL);
    for (uint32_t i = 0; i < program->ops[op].n_writes; i++)
        t->written[program_writes(program, &program->ops[op])[i]] = true;
    assert_int_equal(cuda_wait(), 0);
    if (compute_failure(&compute_cuda, t->of[GPU].compute))
        fail_msg("%s", compute_failure(&compute_cuda, t->of[GPU].compute));
}

/* Half the distance between two numbers of a type, for one of size 1. */
static inline double unit_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? 0x1p-8 : dtype == DTYPE_FP16 ? 0x1p-11 : 0x1p-24;
}

/* How far the two may be apart: each number rounded once to the type it is kept in, and at most so much more. */
struct slack {
    double inner;    /* rounding of what is summed up, in units of the model's type and of the head's mean square */
    double absolute; /* of fp32 */
};

/* The `width` numbers of a head. */
static inline void compare_head(const struct twins *t, const char *what, const float *got, const float *expected,
                                size_t width, enum dtype dtype, struct slack slack)
{
    double squares = 0;
    for (size_t i = 0; i < width; i++)
        squares += isfinite(expected[i]) ? (double)expected[i] * (double)expected[i] : 0;
    const double more = slack.inner * unit_of(t->dtype) * sqrt(squares / (double)width) + slack.absolute;
    for (size_t i = 0; i < width; i++) {
        const double error = fabs((double)got[i] - (double)expected[i]);
        const double bound = unit_of(dtype) * fabs((double)expected[i]) + 0x1p-25 + more;
        if (!(got[i] == expected[i] || error <= bound))
            fail_msg("%s, number %zu of %zu: %.9g instead of %.9g, at most %.3g apart (%s)", what, i, width,
                     (double)got[i], (double)expected[i], bound, dtype_name(t->dtype));
    }
}

/* Numbers of an array, in fp32. */
static inline float *twin_numbers(struct twin *twin, uint32_t buffer, uint32_t array, size_t *n)
{
    const struct buffer_layout layout = layout_of(&twin->schedule, &twin->program.buffers[buffer]);
    const enum dtype dtype = layout.arrays[array].dtype;
    *n = numbers_of(twin, buffer, &layout, array);
    char *host = memory_zeroed(*n, dtype_bytes(dtype));
    float *numbers = memory_zeroed(*n, sizeof *numbers);
    twin->ops->read(twin->compute, host, (char *)twin->memory[buffer] + layout.arrays[array].offset,
                    *n * dtype_bytes(dtype));
    for (size_t i = 0; i < *n; i++)
        numbers[i] = number_read(dtype, host, i);
    free(host);
    return numbers;
}

/* All buffers: those that were written as far as the slack goes, others to the bit. What an operation is not on, is in
 * these buffers too, and no other than before. */
static inline void twins_compare(struct twins *t, struct slack slack)
{
    for (uint32_t b = 0; b < t->of[GPU].program.n_buffers; b++) {
        const struct buffer_layout layout = layout_of(&t->of[GPU].schedule, &t->of[GPU].program.buffers[b]);
        for (uint32_t a = 0; a < layout.n_arrays; a++) {
            char what[64];
            size_t n, m;
            float *got = twin_numbers(&t->of[GPU], b, a, &n), *expected = twin_numbers(&t->of[CPU], b, a, &m);
            assert_int_equal(n, m);
            snprintf(what, sizeof what, "buffer %u (%s), array %u", b,
                     tensor_name((enum tensor)t->of[GPU].program.buffers[b].tensor), a);
            const size_t width = layout.arrays[a].width;
            for (size_t i = 0; t->written[b] && i < n; i += width)
                compare_head(t, what, got + i, expected + i, width, layout.arrays[a].dtype, slack);
            if (!t->written[b])
                assert_memory_equal(got, expected, n * sizeof *got);
            free(got);
            free(expected);
        }
    }
}

#endif
