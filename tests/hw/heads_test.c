/* Algorithms that trade rows for heads, and rings in windows, run for real: against the full reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/algorithms/algorithm.h"
#include "tests/hw/scene.h"

static void expect_right(const struct experiment *experiment)
{
    struct scene scene;
    scene_open(&scene, experiment, NULL, "local");
    scene_step(&scene, RUN_ALL, 11);
    if (!scene.passed) {
        char text[256];
        fail_msg("%s, degree %u, window %u: %s", scene_describe(experiment, text), experiment->ulysses_degree,
                 experiment->ring_window, scene_message(&scene));
    }
    scene_close(&scene);
}

static struct experiment with_heads(const char *algorithm, uint32_t cp, uint64_t seq_len, uint32_t q_heads,
                                    uint32_t kv_heads)
{
    struct experiment experiment = make_experiment(algorithm, cp, seq_len);
    experiment.model.q_heads = q_heads;
    experiment.model.kv_heads = kv_heads;
    return experiment;
}

static void ulysses_gives_the_reference(void **state)
{
    (void)state;
    static const uint32_t heads[][2] = {{8, 8}, {8, 4}, {8, 2}, {4, 1}}; /* the last two replicated on four ranks */
    static const enum sharding_kind shardings[] = {SHARDING_CONTIGUOUS, SHARDING_ZIGZAG, SHARDING_STRIPED};
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned s = 0; s < 3; s++) {
            struct experiment e = with_heads("ulysses", 4, 48, heads[i][0], heads[i][1]);
            e.sharding = shardings[s];
            e.batch = 1 + i % 2;
            e.dtype = (i + s) % 2 ? DTYPE_BF16 : DTYPE_FP32;
            e.collective = s == 0 ? COLLECTIVE_DIRECT : s == 1 ? COLLECTIVE_RING : COLLECTIVE_HIERARCHICAL;
            e.collective_node = 2;
            e.split_kv = i == 1;
            e.overlap = i != 2;
            expect_right(&e);
        }
    }
}

static void usp_gives_the_reference(void **state)
{
    (void)state;
    static const uint32_t degrees[] = {1, 2, 4, 8};
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned variant = 0; variant < 3; variant++) {
            struct experiment e = with_heads("usp", 8, 64, 8, 2);
            e.ulysses_degree = degrees[i];
            e.sharding = variant == 0 ? SHARDING_ZIGZAG : variant == 1 ? SHARDING_STRIPED : SHARDING_CONTIGUOUS;
            e.batch = 1 + variant % 2;
            e.kv_block = variant == 1 ? 5 : 0;
            e.skip = variant == 2 ? SKIP_TRANSFER : SKIP_COMPUTE;
            e.gradient_accumulator = variant != 2;
            e.mask = variant == 2 ? make_mask(MASK_WINDOW, 64, 13) : e.mask;
            expect_right(&e);
        }
    }
}

static void double_ring_gives_the_reference(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 2}, {2, 1}, {4, 2}};
    for (unsigned i = 0; i < 7; i++) {
        for (unsigned variant = 0; variant < 3; variant++) {
            struct experiment e = with_heads("double-ring", 8, 64, 8, 2);
            e.ulysses_degree = shapes[i][0];
            e.ring_window = shapes[i][1];
            e.sharding = variant == 0 ? SHARDING_ZIGZAG : variant == 1 ? SHARDING_STRIPED : SHARDING_CONTIGUOUS;
            e.batch = 1 + variant % 2;
            e.kv_block = variant == 1 ? 5 : 0;
            e.overlap = variant != 1;
            e.gradient_accumulator = variant != 2;
            expect_right(&e);
        }
    }
}

/* New tokens on a cached prefix: fewer queries than keys on every rank. */
static void prefill_gives_the_reference(void **state)
{
    (void)state;
    static const char *const names[] = {"ulysses", "usp", "double-ring"};
    for (unsigned a = 0; a < 3; a++) {
        for (unsigned zigzag = 0; zigzag < 2; zigzag++) {
            struct experiment e = with_heads(names[a], 4, 57, 8, 4);
            e.new_tokens = 16;
            e.train = false;
            e.ulysses_degree = a ? 2 : 0;
            e.sharding = zigzag ? SHARDING_ZIGZAG : SHARDING_CONTIGUOUS;
            expect_right(&e);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ulysses_gives_the_reference),
        cmocka_unit_test(usp_gives_the_reference),
        cmocka_unit_test(double_ring_gives_the_reference),
        cmocka_unit_test(prefill_gives_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
