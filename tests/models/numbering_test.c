/* Numbers by first appearance, whatever the keys, however many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/base/numbering.h"

static void keys_are_numbered_by_first_appearance(void **state)
{
    (void)state;
    struct numbering numbering;
    numbering_init(&numbering, 2);
    const uint64_t keys[][2] = {{7, 1}, {7, 2}, {0, 0}, {1, 7}};
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(numbering_of(&numbering, keys[i]), i);
    assert_int_equal(numbering.count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_memory_equal(numbering.keys + 2 * i, keys[i], sizeof keys[i]);
    numbering_fini(&numbering);
}

static void there_is_room_for_any_number_of_keys(void **state)
{
    (void)state;
    struct numbering numbering;
    numbering_init(&numbering, 1);
    const uint64_t step = UINT64_C(1) << 40;
    for (uint32_t i = 0; i < 10000; i++) {
        uint64_t key = i * step, half = i / 2 * step;
        assert_int_equal(numbering_of(&numbering, &key), i);
        assert_int_equal(numbering_of(&numbering, &half), i / 2);
    }
    assert_int_equal(numbering.count, 10000);
    numbering_fini(&numbering);
}

static void equal_doubles_are_equal_words(void **state)
{
    (void)state;
    assert_true(numbering_word(-0.0) == numbering_word(0.0));
    assert_true(numbering_word(1.5) == numbering_word(3 * 0.5));
    assert_true(numbering_word(1.5) != numbering_word(1.5 + 1e-15));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_numbered_by_first_appearance),
        cmocka_unit_test(there_is_room_for_any_number_of_keys),
        cmocka_unit_test(equal_doubles_are_equal_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
