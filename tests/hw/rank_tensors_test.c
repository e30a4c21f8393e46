/* A rank's inputs are in its buffers as inputs.h makes them, row by row, however long the array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "hw/layout.h"
#include "hw/run/rank_tensors.h"
#include "hw/verify/inputs.h"
#include "tests/hw/scene.h"

static uint64_t writes; /* by the backend below */

static void write_counted(struct compute *compute, void *target, const void *host, uint64_t bytes)
{
    writes++;
    compute_cpu.write(compute, target, host, bytes);
}

/* KV of the rank's shard, written and looked at. */
static void check_keys(enum dtype dtype, uint64_t seq_len, enum sharding_kind sharding, uint64_t writes_max)
{
    struct experiment e = make_experiment("ring", 2, seq_len);
    struct schedule schedule;
    struct diagnostics diag;
    struct program program;
    struct compute_ops ops = compute_cpu;
    ops.write = write_counted;
    e.dtype = dtype;
    e.sharding = sharding;
    e.model.head_dim = 64;
    diagnostics_init(&diag);
    assert_true(schedule_init(&schedule, &e, NULL, &diag));
    program_init(&program, 1);
    const struct block keys = sharding_keys(&schedule.sharding, 1);
    const struct buffer buffer = {.tensor = TENSOR_KV,
                                  .dtype = (uint8_t)dtype,
                                  .role = ROLE_RESIDENT,
                                  .rows = keys.count,
                                  .bytes =
                                      schedule_tensor_bytes(&schedule, TENSOR_KV, dtype, keys.count, schedule.lanes),
                                  .lanes = schedule.lanes};
    program_add_buffer(&program, "kv", buffer);
    void *memory = memory_zeroed(1, buffer.bytes);
    const struct rank_tensors tensors = {.schedule = &schedule, .program = &program, .ops = &ops, .memory = &memory};
    writes = 0;
    rank_tensors_write_input(&tensors, 5, 0);
    assert_in_range(writes, 2, writes_max);
    const struct buffer_layout layout = layout_of(&schedule, &buffer);
    const size_t numbers = 2 * 64; /* KV heads times head dim */
    void *row = memory_zeroed(numbers, sizeof(float));
    struct span spans[SHARD_SPANS_MAX];
    const uint32_t n_spans = sharding_block_spans(&schedule.sharding, keys, spans);
    for (uint32_t array = 0; array < 2; array++) {
        const char *at = (const char *)memory + layout.arrays[array].offset;
        for (uint32_t s = 0; s < n_spans; s++) {
            for (uint64_t i = 0; i < spans[s].count; i++, at += numbers * dtype_bytes(dtype)) {
                input_row(5, array ? INPUT_V : INPUT_K, spans[s].first + i * spans[s].stride, 0, numbers, dtype, row);
                assert_memory_equal(at, row, numbers * dtype_bytes(dtype));
            }
        }
    }
    free(row);
    free(memory);
    program_fini(&program);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void inputs_arrive_in_few_pieces(void **state)
{
    (void)state;
    check_keys(DTYPE_FP32, 64, SHARDING_ZIGZAG, 2);
    check_keys(DTYPE_BF16, 64, SHARDING_STRIPED, 2);
    check_keys(DTYPE_FP16, 64, SHARDING_CONTIGUOUS, 2);
    check_keys(DTYPE_FP32, 36000, SHARDING_ZIGZAG, 6); /* 9 MiB each of K and V */
    check_keys(DTYPE_FP16, 36000, SHARDING_STRIPED, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_arrive_in_few_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
