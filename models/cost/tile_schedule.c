/* tile_schedule.c - list scheduling of tiles: closed forms where there are, else slot by slot.
 *
 * Adding a tile, or making one longer, makes no sorted load smaller: after one more tile on the least loaded slot a
 * state that was nowhere below another is still nowhere below it. So the time grows with heads and with lengths.
 *
 * Only the end of a list decides how unevenly the slots end: what comes before the last few tiles of each slot has
 * levelled them to within the tiles that are running. So of a long list the last heads are scheduled, about 32 tiles a
 * slot, after as much work as the others are, evenly spread.
 */
#include "models/cost/tile_schedule.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "models/base/memory.h"

#define SLOTS_MAX 1024    /* of which the loads are followed one by one */
#define TILES_A_SLOT 32.0 /* at the end of the list */
#define TILES_A_HEAD_MAX 32768.0

static double tiles_a_head(const struct tile_schedule *schedule)
{
    return fmax(1.0, ceil(schedule->rows / schedule->tile_rows));
}

/* Rows that a head's tiles compute: all of each tile, but for a head that is not even one. */
static double rows_computed(const struct tile_schedule *schedule)
{
    return fmin(schedule->rows, schedule->tile_rows);
}

static double row_length(const struct tile_schedule *schedule, double row)
{
    if (schedule->rows <= 1.0)
        return (schedule->first_row + schedule->length) / 2.0;
    return schedule->first_row + (schedule->length - schedule->first_row) * row / (schedule->rows - 1.0);
}

/* Work of a head's tile `i`, by the mean length of its rows. */
static double tile_work(const struct tile_schedule *schedule, double i)
{
    double first = i * schedule->tile_rows, last = fmin(first + schedule->tile_rows, schedule->rows) - 1.0;
    return rows_computed(schedule) * row_length(schedule, (first + fmax(first, last)) / 2.0);
}

/* The slots' loads as a knockout tournament: each node keeps the larger of two, the least of all comes out on top. What
 * takes its place meets only the nodes above its slot, and loses to few of them: it is nearly as large as the largest.
 */
struct tournament {
    double least;
    uint32_t place; /* the slot whose load that is */
    uint32_t n;     /* a power of 2; slots beyond those that there are never win */
    struct {
        double load;
        uint32_t place;
    } larger[SLOTS_MAX]; /* [node]: of the slots below it, but for the winner's; node i is above 2 i and 2 i + 1 */
};

/* All loads are equal: the leftmost wins, and the leftmost of the right half stays. */
static void tournament_init(struct tournament *tournament, uint32_t slots, double load)
{
    *tournament = (struct tournament){.least = load, .n = 1};
    while (tournament->n < slots)
        tournament->n *= 2;
    for (uint32_t width = tournament->n; width > 1; width /= 2) {
        for (uint32_t first = 0; first < tournament->n; first += width) {
            uint32_t node = (tournament->n + first) / width, right = first + width / 2;
            tournament->larger[node].load = right < slots ? load : (double)INFINITY;
            tournament->larger[node].place = right;
        }
    }
}

static void replace_least(struct tournament *tournament, double load)
{
    uint32_t place = tournament->place;
    for (uint32_t node = (tournament->n + place) / 2; node >= 1; node /= 2) {
        double other = tournament->larger[node].load;
        if (other >= load)
            continue;
        uint32_t other_place = tournament->larger[node].place;
        tournament->larger[node].load = load;
        tournament->larger[node].place = place;
        load = other;
        place = other_place;
    }
    tournament->least = load;
    tournament->place = place;
}

static double head_work(const struct tile_schedule *schedule)
{
    double tiles = tiles_a_head(schedule);
    if (tiles == 1.0)
        return tile_work(schedule, 0.0);
    /* All tiles but the last are whole, so their mean length is that of their rows. */
    double whole = (tiles - 1.0) * schedule->tile_rows;
    return whole * row_length(schedule, (whole - 1.0) / 2.0) + tile_work(schedule, tiles - 1.0);
}

/* The time of the last slot to end when the last heads follow `before` work on each. */
static double list_time(const struct tile_schedule *schedule, double heads, double before)
{
    struct tournament loads;
    double end = before;
    uint32_t tiles = (uint32_t)tiles_a_head(schedule);
    double *works = memory_zeroed(tiles, sizeof *works);
    for (uint32_t i = 0; i < tiles; i++)
        works[i] = tile_work(schedule, schedule->descending ? tiles - 1.0 - i : i);
    tournament_init(&loads, (uint32_t)schedule->slots, before);
    for (double head = 0.0; head < heads; head += 1.0) {
        for (uint32_t i = 0; i < tiles; i++) {
            double load = loads.least + works[i];
            end = load > end ? load : end;
            replace_least(&loads, load);
        }
    }
    free(works);
    return end;
}

static bool equal_tiles(const struct tile_schedule *schedule)
{
    return schedule->first_row >= schedule->length || schedule->rows <= 1.0;
}

static double waves(const struct tile_schedule *schedule)
{
    return ceil(ceil(schedule->heads) * tiles_a_head(schedule) / schedule->slots);
}

double tile_schedule_work(const struct tile_schedule *schedule)
{
    double slots = schedule->slots, tiles = tiles_a_head(schedule), heads = ceil(schedule->heads);
    double longest = tile_work(schedule, tiles - 1.0);
    if (equal_tiles(schedule) || heads * tiles <= slots)
        return slots * waves(schedule) * longest;
    double each = head_work(schedule);
    /* No slot ends before the mean, before the longest tile, nor with fewer than so many of the shortest. */
    double least = fmax(heads * each / slots, fmax(longest, waves(schedule) * tile_work(schedule, 0.0)));
    if (schedule->longest_first || slots > SLOTS_MAX || tiles > TILES_A_HEAD_MAX)
        return slots * least;
    double last = fmin(heads, ceil(TILES_A_SLOT * slots / tiles));
    return slots * fmax(least, list_time(schedule, last, (heads - last) * each / slots));
}

static bool same_schedule(const struct tile_schedule *one, const struct tile_schedule *other)
{
    return one->heads == other->heads && one->rows == other->rows && one->tile_rows == other->tile_rows &&
           one->slots == other->slots && one->first_row == other->first_row && one->length == other->length &&
           one->longest_first == other->longest_first && one->descending == other->descending;
}

/* Entries that are looked at, from memo_entry on. */
#define TRIED_MAX 8

/* The entry of a schedule: any function of it does, as long as schedules of one run seldom share one. */
static size_t memo_entry(const struct tile_schedule *schedule)
{
    double mixed = schedule->heads * 3.0 + schedule->rows * 5.0 + schedule->length * 7.0 + schedule->first_row * 11.0;
    return (size_t)fmod(floor(mixed), TILE_MEMO_ENTRIES);
}

double tile_schedule_work_kept(const struct tile_schedule *schedule, struct tile_memo *memo)
{
    if (!memo)
        return tile_schedule_work(schedule);
    size_t first = memo_entry(schedule), at = first;
    for (int tried = 0; tried < TRIED_MAX && memo->entries[at].schedule.heads > 0.0; tried++) {
        if (same_schedule(&memo->entries[at].schedule, schedule))
            return memo->entries[at].work;
        at = (at + 1) % TILE_MEMO_ENTRIES;
    }
    if (memo->entries[at].schedule.heads > 0.0)
        at = first;
    memo->entries[at].schedule = *schedule;
    return memo->entries[at].work = tile_schedule_work(schedule);
}

double tile_schedule_rows(const struct tile_schedule *schedule)
{
    double tiles = ceil(schedule->heads) * tiles_a_head(schedule);
    double counted = equal_tiles(schedule) ? schedule->slots * waves(schedule) : fmax(schedule->slots, tiles);
    return counted * rows_computed(schedule);
}
