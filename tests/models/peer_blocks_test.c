/* Peers of other groups whose indices are in blocks: every number names another rank, the way back is the way back, and
 * a ring inside a block stays there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/peers.h"

static const struct layout layouts[] = {
    {.cp = 2, .tp = 8, .dp = 3, .tp_block = 4},
    {.cp = 1, .tp = 4, .dp = 6, .block = 2, .tp_block = 2},
    {.cp = 3, .tp = 6, .dp = 4, .block = 4, .tp_block = 1},
    {.cp = 2, .tp = 5, .dp = 2},
};
#define LAYOUTS (sizeof layouts / sizeof *layouts)
#define GROUPS_MAX 64

static void every_group_has_one_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        uint32_t groups = layout->tp * layout->dp;
        for (uint32_t group = 0; group < groups; group++) {
            bool met[GROUPS_MAX] = {false};
            assert_int_equal(peer_group(layout, group, 0), group);
            for (uint32_t ahead = 0; ahead < groups; ahead++) {
                uint32_t there = peer_group(layout, group, ahead * layout->cp);
                assert_true(there < groups && !met[there]);
                met[there] = true;
            }
        }
    }
}

static void the_way_back_leads_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        uint32_t groups = layout->tp * layout->dp;
        for (uint32_t group = 0; group < groups; group++) {
            for (uint32_t number = 0; number < groups * layout->cp; number++) {
                uint32_t there = peer_group(layout, group, number), back = peer_back(layout, 0, number);
                assert_int_equal(peer_group(layout, there, back), group);
                assert_int_equal(back % layout->cp, 0);
            }
        }
    }
}

/* Eight tp indices in two blocks: four steps of one go round a block, one of four goes to the other. */
static void rings_stay_in_their_block(void **state)
{
    (void)state;
    const struct layout layout = {.cp = 1, .tp = 8, .dp = 1, .tp_block = 4};
    for (uint32_t group = 0; group < 8; group++) {
        uint32_t at = group;
        for (int step = 0; step < 4; step++) {
            at = peer_group(&layout, at, 1);
            assert_int_equal(at / 4, group / 4);
        }
        assert_int_equal(at, group);
        assert_int_equal(peer_group(&layout, group, 4), (group + 4) % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_group_has_one_number),
        cmocka_unit_test(the_way_back_leads_back),
        cmocka_unit_test(rings_stay_in_their_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
