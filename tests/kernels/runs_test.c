/* The runs of key rows that query rows see, against the mask asked pair by pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdlib.h>

#include "kernels/runs.h"
#include "models/schedule/mask.h"

enum { ROWS_MAX = 64 };

static uint64_t position_of(const struct attention_rows *rows, size_t row)
{
    uint32_t s = 0;
    for (; row >= rows->spans[s].count; s++)
        row -= rows->spans[s].count;
    return rows->spans[s].first + row * rows->spans[s].stride;
}

/* A few spans, some of them empty, below `limit`. */
static struct attention_rows random_rows(uint64_t limit)
{
    struct attention_rows rows = {.n_spans = 0};
    uint64_t next = (uint64_t)rand() % 20;
    while (rows.n_spans < 4) {
        struct span span = {next, 1 + (uint64_t)rand() % 4, (uint64_t)rand() % 9};
        if (span.count > 0 && span.first + (span.count - 1) * span.stride >= limit)
            break;
        rows.spans[rows.n_spans++] = span;
        rows.rows += span.count;
        next = span.count > 0 ? span.first + (span.count - 1) * span.stride + 1 + (uint64_t)rand() % 12 : next;
    }
    return rows;
}

static void runs_are_what_the_mask_shows(void **state)
{
    (void)state;
    srand(1);
    uint64_t starts[] = {0, 13, 14, 50, 120};
    const struct mask masks[] = {
        {.kind = MASK_FULL, .seq_len = 120},
        {.kind = MASK_CAUSAL, .seq_len = 120},
        {.kind = MASK_WINDOW, .seq_len = 120, .window = 17},
        {.kind = MASK_DOCUMENTS, .seq_len = 120, .document_starts = starts, .n_documents = 4},
    };
    for (size_t turn = 0; turn < 4000; turn++) {
        const struct mask *mask = &masks[turn % 4];
        const struct attention_rows queries = random_rows(120), keys = random_rows(120);
        int32_t from[ROWS_MAX], to[ROWS_MAX];
        attention_runs(mask, &queries, &keys, from, to);
        for (size_t q = 0; q < queries.rows; q++) {
            assert_true(0 <= from[q] && from[q] <= to[q] && (size_t)to[q] <= keys.rows);
            assert_true(q == 0 || (from[q - 1] <= from[q] && to[q - 1] <= to[q]));
            for (size_t k = 0; k < keys.rows; k++)
                assert_int_equal((int32_t)k >= from[q] && (int32_t)k < to[q],
                                 mask_visible(mask, position_of(&queries, q), position_of(&keys, k)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_are_what_the_mask_shows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
