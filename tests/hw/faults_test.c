/* Faults planted into a backend: the verification of a run catches each and names tensor and rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "hw/layout.h"
#include "tests/hw/scene.h"

/* A backend that is 'cpu' but for one fault. */
struct faulty {
    struct compute *cpu;
    const struct schedule *schedule;
    uint32_t rank;
    uint32_t done;
    char *stale;
};

/* What goes wrong; each is told of every operation and runs it (or not) as it likes. */
typedef void fault(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                   const struct between_tiles *between_tiles);
static fault *planted; /* the test's, set before a run */

static struct compute *open_faulty(const struct schedule *schedule, uint32_t rank,
                                   const struct compute_settings *settings, struct diagnostics *diag)
{
    struct faulty *faulty = memory_zeroed(1, sizeof *faulty);
    *faulty =
        (struct faulty){.cpu = compute_cpu.open(schedule, rank, settings, diag), .schedule = schedule, .rank = rank};
    return (struct compute *)faulty;
}

static void close_faulty(struct compute *compute)
{
    struct faulty *faulty = (struct faulty *)compute;
    compute_cpu.close(faulty->cpu);
    free(faulty->stale);
    free(faulty);
}

static void run_faulty(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                       const struct between_tiles *between_tiles)
{
    planted((struct faulty *)compute, program, op, memory, between_tiles);
}

static void run_right(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                      const struct between_tiles *between_tiles)
{
    compute_cpu.run(faulty->cpu, program, op, memory, between_tiles);
}

static const struct buffer *written(const struct program *program, uint32_t op)
{
    return &program->buffers[*program_writes(program, &program->ops[op])];
}

/* The j-th array of the first buffer that `op` writes, at its rows, and the numbers of a row in it. */
static float *result(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                     uint32_t array, size_t *count)
{
    const struct op *what = &program->ops[op];
    struct buffer_layout layout = layout_of(faulty->schedule, written(program, op));
    struct block block = access_of(faulty->schedule, program, what, true, 0).block;
    *count = block.count * layout.arrays[array].row_bytes / sizeof(float);
    return layout_rows(&layout, written(program, op), memory[*program_writes(program, what)], array, block);
}

/* ---- the faults ---- */

static void none(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                 const struct between_tiles *between_tiles)
{
    run_right(faulty, program, op, memory, between_tiles);
}

/* Rank 1 does not add its share to a dKV that passes, or that comes back. */
static void lost_dkv(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                     const struct between_tiles *between_tiles)
{
    const struct op *what = &program->ops[op];
    bool adds = what->kind == OP_ACCUMULATE && what->n_reads == 2 && written(program, op)->tensor == TENSOR_DKV;
    if (faulty->rank == 1 && adds && faulty->done++ == 0)
        return;
    run_right(faulty, program, op, memory, between_tiles);
}

/* In the backward pass the last rank attends the first block that it received over and over. */
static void stale_block(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                        const struct between_tiles *between_tiles)
{
    const struct op *what = &program->ops[op];
    uint32_t kv = what->n_reads > 1 ? program_reads(program, what)[1] : 0;
    if (what->kind != OP_ATTEND_BACKWARD || faulty->rank + 1 < faulty->schedule->ranks ||
        program->buffers[kv].role != ROLE_RECEIVED) {
        run_right(faulty, program, op, memory, between_tiles);
        return;
    }
    void **other = memory_zeroed(program->n_buffers, sizeof *other);
    memcpy(other, memory, program->n_buffers * sizeof *other);
    if (!faulty->stale) {
        faulty->stale = memory_zeroed(1, program->buffers[kv].bytes);
        memcpy(faulty->stale, memory[kv], program->buffers[kv].bytes);
    }
    other[kv] = faulty->stale;
    run_right(faulty, program, op, other, between_tiles);
    free(other);
}

static void one_nan(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                    const struct between_tiles *between_tiles)
{
    run_right(faulty, program, op, memory, between_tiles);
    if (faulty->rank + 1 != faulty->schedule->ranks || program->ops[op].kind != OP_CAST ||
        written(program, op)->tensor != TENSOR_DQ)
        return;
    size_t count;
    float *dq = result(faulty, program, op, memory, 0, &count);
    dq[count - 1] = NAN;
}

static void base_2_lse(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                       const struct between_tiles *between_tiles)
{
    run_right(faulty, program, op, memory, between_tiles);
    size_t count;
    if (program->ops[op].kind != OP_ATTEND || written(program, op)->tensor != TENSOR_PARTIAL)
        return;
    float *lse = result(faulty, program, op, memory, 1, &count);
    for (size_t i = 0; i < count; i++)
        lse[i] *= (float)M_LOG2E;
}

/* Every block weighs the same, whatever its sum of exponentials. */
static void averaged_blocks(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                            const struct between_tiles *between_tiles)
{
    run_right(faulty, program, op, memory, between_tiles);
    size_t count;
    if (program->ops[op].kind != OP_ATTEND || written(program, op)->tensor != TENSOR_PARTIAL)
        return;
    float *lse = result(faulty, program, op, memory, 1, &count);
    for (size_t i = 0; i < count; i++)
        lse[i] = isfinite(lse[i]) ? 0 : lse[i];
}

/* Each query head reads the KV head of the other group (there are two). */
static void wrong_head_map(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                           const struct between_tiles *between_tiles)
{
    const struct op *what = &program->ops[op];
    if (what->kind != OP_ATTEND) {
        run_right(faulty, program, op, memory, between_tiles);
        return;
    }
    uint32_t kv = program_reads(program, what)[1];
    const struct buffer *buffer = &program->buffers[kv];
    size_t dim = faulty->schedule->experiment->model.head_dim;
    void **other = memory_zeroed(program->n_buffers, sizeof *other);
    float *turned = memory_zeroed(1, buffer->bytes), *source = memory[kv];
    for (size_t i = 0; i < buffer->bytes / sizeof(float); i++)
        turned[i] = source[i / dim % 2 ? i - dim : i + dim];
    memcpy(other, memory, program->n_buffers * sizeof *other);
    other[kv] = turned;
    run_right(faulty, program, op, other, between_tiles);
    free(turned);
    free(other);
}

/* Masks by where a row is in its block, not in the sequence: all shards are taken for rank 0's. */
static void local_positions(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                            const struct between_tiles *between_tiles)
{
    struct program other = *program;
    other.ops = memory_zeroed(program->n_ops, sizeof *other.ops);
    memcpy(other.ops, program->ops, program->n_ops * sizeof *other.ops);
    other.ops[op].q.owner = other.ops[op].k.owner = 0;
    run_right(faulty, &other, op, memory, between_tiles);
    free(other.ops);
}

/* A gradient that nobody writes keeps the poison. */
static void missing_dq(struct faulty *faulty, const struct program *program, uint32_t op, void *const *memory,
                       const struct between_tiles *between_tiles)
{
    if (faulty->rank == 1 && program->ops[op].kind == OP_CAST && written(program, op)->tensor == TENSOR_DQ)
        return;
    run_right(faulty, program, op, memory, between_tiles);
}

/* ---- caught ---- */

static void expect(const char *algorithm, uint64_t seq_len, fault *what, const char *tensor, const char *message)
{
    struct compute_ops ops = compute_cpu;
    ops.open = open_faulty;
    ops.close = close_faulty;
    ops.run = run_faulty;
    planted = what;
    struct experiment experiment = make_experiment(algorithm, 3, seq_len);
    struct scene scene;
    scene_open(&scene, &experiment, &ops, "local");
    scene_step(&scene, RUN_ALL, 11);
    assert_int_equal(scene.run.verification.kind, seq_len > 1000 ? CHECK_SAMPLED : CHECK_FULL);
    assert_int_equal(scene.passed, !tensor);
    assert_int_equal(scene.run.verification.passed, !tensor);
    bool found = !tensor;
    for (size_t i = 0; i < scene.diag.count; i++) {
        char start[64];
        snprintf(start, sizeof start, "verification failed: %s of rank ", tensor ? tensor : "");
        found =
            found || (strncmp(scene.diag.lines[i], start, strlen(start)) == 0 && strstr(scene.diag.lines[i], message));
    }
    if (!found)
        fail_msg("%s is not named ('%s'), but: %s", tensor, message, scene_message(&scene));
    scene_close(&scene);
}

/* Small problems are checked in full, long ones on samples: each fault is caught either way. */
static void expect_caught(fault *what, const char *tensor, const char *message)
{
    expect("ring", 48, what, tensor, message);
    expect("direct", 48, what, tensor, message);
    expect("ring", 3600, what, tensor, message);
}

static void without_a_fault_the_faulty_backend_passes(void **state)
{
    (void)state;
    expect_caught(none, NULL, NULL);
}

static void a_lost_dkv_contribution_is_caught(void **state)
{
    (void)state;
    expect_caught(lost_dkv, "dK", "is off by");
    expect_caught(lost_dkv, "dV", "is off by");
}

static void a_stale_kv_block_in_the_backward_pass_is_caught(void **state)
{
    (void)state;
    expect_caught(stale_block, "dQ", "of rank 2, ");
}

static void one_nan_on_the_last_rank_is_caught(void **state)
{
    (void)state;
    expect_caught(one_nan, "dQ", " is not a finite number (1 such values in all)");
}

static void a_base_2_lse_is_caught(void **state)
{
    (void)state;
    expect_caught(base_2_lse, "LSE", "is off by");
    expect_caught(base_2_lse, "O", "is off by");
}

static void averaged_block_softmaxes_are_caught(void **state)
{
    (void)state;
    expect_caught(averaged_blocks, "O", "is off by");
}

static void a_wrong_head_map_is_caught(void **state)
{
    (void)state;
    expect_caught(wrong_head_map, "O", "is off by");
}

static void local_causal_positions_are_caught(void **state)
{
    (void)state;
    expect_caught(local_positions, "O", "is off by");
    expect_caught(local_positions, "dV", "is off by");
}

static void a_gradient_that_is_never_written_is_caught(void **state)
{
    (void)state;
    expect_caught(missing_dq, "dQ", "of rank 1, ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_fault_the_faulty_backend_passes),
        cmocka_unit_test(a_lost_dkv_contribution_is_caught),
        cmocka_unit_test(a_stale_kv_block_in_the_backward_pass_is_caught),
        cmocka_unit_test(one_nan_on_the_last_rank_is_caught),
        cmocka_unit_test(a_base_2_lse_is_caught),
        cmocka_unit_test(averaged_block_softmaxes_are_caught),
        cmocka_unit_test(a_wrong_head_map_is_caught),
        cmocka_unit_test(local_causal_positions_are_caught),
        cmocka_unit_test(a_gradient_that_is_never_written_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
