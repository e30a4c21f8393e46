/* member_patterns.c - patterns by their content, which tells the same members from others however they are written. */
#include "sim/member_patterns.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "models/base/memory.h"

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Whether each number has one further by `step`, in cp, tp or dp, among the others. */
static bool goes_round(const struct member_pattern *pattern, const struct layout *layout, struct peer_place step)
{
    for (uint32_t i = 0; i < pattern->count; i++) {
        struct peer_place place = peer_place_of(layout, pattern->numbers[i]);
        uint32_t number = peer_number(layout, (struct peer_place){(place.rank + step.rank) % layout->cp,
                                                                  (place.tp_ahead + step.tp_ahead) % layout->tp,
                                                                  (place.dp_ahead + step.dp_ahead) % layout->dp});
        if (!bsearch(&number, pattern->numbers, pattern->count, sizeof number, compare_numbers))
            return false;
    }
    return true;
}

static uint32_t number_by_content(struct numbering *contents, const uint32_t *numbers, uint32_t count)
{
    XXH128_hash_t hash = XXH3_128bits(numbers, count * sizeof *numbers);
    uint64_t key[] = {hash.low64, hash.high64};
    return numbering_of(contents, key);
}

/* The pattern of members, which are in any order. */
static uint32_t pattern_of(struct member_patterns *patterns, const struct layout *layout, struct members members)
{
    struct member_pattern pattern = {.numbers = memory_zeroed(members.count, sizeof *pattern.numbers),
                                     .count = members.count};
    memcpy(pattern.numbers, members.numbers, members.count * sizeof *pattern.numbers);
    qsort(pattern.numbers, pattern.count, sizeof *pattern.numbers, compare_numbers);
    uint32_t index = number_by_content(&patterns->contents, pattern.numbers, pattern.count);
    if (index < patterns->count) {
        free(pattern.numbers);
        return index;
    }
    pattern.round_cp = goes_round(&pattern, layout, (struct peer_place){1, 0, 0});
    pattern.round_tp = goes_round(&pattern, layout, (struct peer_place){0, 1, 0});
    pattern.round_dp = goes_round(&pattern, layout, (struct peer_place){0, 0, 1});
    memory_grow(patterns->items, patterns->count, patterns->capacity);
    patterns->items[patterns->count++] = pattern;
    return index;
}

/* Lists of members are met again and again as they are written: each is sorted once. */
static struct shape_patterns patterns_of(struct member_patterns *patterns, const struct layout *layout,
                                         const struct program *program)
{
    uint32_t n = program->n_collectives, *known = memory_zeroed(n, sizeof *known);
    struct shape_patterns shape = {memory_zeroed(n, sizeof *shape.of_collective),
                                   memory_zeroed(n, sizeof *shape.patterns), 0};
    struct numbering written;
    numbering_init(&written, 2);
    for (uint32_t c = 0; c < n; c++) {
        struct members members = communicator_of_collective(program, &program->collectives[c]);
        uint32_t before = written.count, list = number_by_content(&written, members.numbers, members.count);
        if (list == before) {
            uint32_t pattern = pattern_of(patterns, layout, members), at = 0;
            while (at < shape.count && shape.patterns[at] != pattern)
                at++;
            shape.patterns[at] = pattern;
            shape.count += at == shape.count;
            known[list] = at;
        }
        shape.of_collective[c] = known[list];
    }
    numbering_fini(&written);
    free(known);
    return shape;
}

void member_patterns_init(struct member_patterns *patterns, const struct ensemble *whole)
{
    *patterns = (struct member_patterns){.n_shapes = whole->n_shapes,
                                         .shapes = memory_zeroed(whole->n_shapes, sizeof *patterns->shapes)};
    numbering_init(&patterns->contents, 2);
    for (uint32_t s = 0; s < whole->n_shapes; s++)
        patterns->shapes[s] = patterns_of(patterns, &whole->layout, whole->shapes[s].program);
}

void member_patterns_fini(struct member_patterns *patterns)
{
    for (uint32_t s = 0; s < patterns->n_shapes; s++) {
        free(patterns->shapes[s].of_collective);
        free(patterns->shapes[s].patterns);
    }
    for (uint32_t p = 0; p < patterns->count; p++)
        free(patterns->items[p].numbers);
    free(patterns->shapes);
    free(patterns->items);
    numbering_fini(&patterns->contents);
    *patterns = (struct member_patterns){0};
}
