/* intervals.c - sort, then one pass over what is sorted. */
#include "models/result/intervals.h"

#include <stdlib.h>

void intervals_fini(struct intervals *set)
{
    free(set->items);
    *set = (struct intervals){0};
}

void intervals_clear(struct intervals *set)
{
    set->count = 0;
}

static int compare_begin(const void *left, const void *right)
{
    const struct interval *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Sets are mostly sorted, or nearly: operations of a stream follow each other, and streams run side by side. So each is
 * moved to its place from behind, unless that turns out to be far for many. */
#define MOVES_EACH 8

static void sort(struct intervals *set)
{
    size_t left = MOVES_EACH * set->count;
    for (size_t i = 1; i < set->count; i++) {
        struct interval item = set->items[i];
        size_t at = i;
        for (; at > 0 && item.begin < set->items[at - 1].begin && left > 0; left--, at--)
            set->items[at] = set->items[at - 1];
        set->items[at] = item;
        if (left == 0) {
            qsort(set->items, set->count, sizeof *set->items, compare_begin);
            return;
        }
    }
}

void intervals_unite(struct intervals *set)
{
    if (set->count == 0)
        return;
    sort(set);
    size_t last = 0;
    for (size_t i = 1; i < set->count; i++) {
        if (set->items[i].begin > set->items[last].end)
            set->items[++last] = set->items[i];
        else if (set->items[i].end > set->items[last].end)
            set->items[last].end = set->items[i].end;
    }
    set->count = last + 1;
}

void intervals_subtract(struct intervals *set, const struct intervals *other)
{
    if (other->count == 0)
        return;
    struct intervals rest = {0};
    size_t first = 0; /* what ends before it lies before all that is left to look at */
    for (size_t i = 0; i < set->count; i++) {
        struct interval left = set->items[i];
        while (first < other->count && other->items[first].end <= left.begin)
            first++;
        for (size_t j = first; j < other->count && other->items[j].begin < left.end; j++) {
            intervals_add(&rest, left.begin, other->items[j].begin);
            left.begin = other->items[j].end;
        }
        intervals_add(&rest, left.begin, left.end);
    }
    intervals_fini(set);
    *set = rest;
}

double intervals_seconds(const struct intervals *set)
{
    double seconds = 0;
    for (size_t i = 0; i < set->count; i++)
        seconds += set->items[i].end - set->items[i].begin;
    return seconds;
}

double intervals_common_seconds(const struct intervals *a, const struct intervals *b)
{
    double seconds = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const struct interval *x = &a->items[i], *y = &b->items[j];
        double begin = x->begin > y->begin ? x->begin : y->begin;
        double end = x->end < y->end ? x->end : y->end;
        if (end > begin)
            seconds += end - begin;
        if (x->end < y->end)
            i++;
        else
            j++;
    }
    return seconds;
}
