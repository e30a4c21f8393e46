/* tile_schedule.h - how long a device works on an attention kernel's tiles, when each is one slot's from start to end.
 *
 * A kernel cuts the rows of a head into tiles; the device has slots (SMs, times the thread blocks that fit on one). A
 * tile starts on the slot that is free first, in the order of the list: head after head, and in a head from its first
 * row to its last. Work is in rows x length, a row's length being what it sees; every slot works at the same speed. The
 * time of the last slot, times the slots, is what the device could have done meanwhile: the work, if all ended
 * together, and more where slots idle at the end.
 *
 * Equal tiles are waves, ceil(tiles / slots), whatever the order. With unequal ones a list that ends with its longest
 * leaves most slots idle: about 2/3 of the longest tile for a list of triangles from short to long. A list that all
 * slots draw from longest first ends evenly, unless one tile is longer than a slot's share.
 */
#ifndef CPSIM_MODELS_COST_TILE_SCHEDULE_H
#define CPSIM_MODELS_COST_TILE_SCHEDULE_H

#include <stdbool.h>

struct tile_schedule {
    double heads;     /* each has its rows */
    double rows;      /* of a head, cut into tiles */
    double tile_rows; /* of a tile; a smaller last one is as much work as a whole one */
    double slots;     /* tiles at a time */
    double first_row,
        length;         /* length of a head's first and longest row: lengths rise evenly, and the last is longest */
    bool longest_first; /* slots draw from one list that is sorted */
    bool descending;    /* else: each head's tiles run from the longest row to the shortest, not the other way */
};

/* Slots x the time until all are done. Never less for more heads or longer rows. */
double tile_schedule_work(const struct tile_schedule *schedule);

/* The same, for those who ask for few different schedules many times: what was asked last is kept in `memo`, which
 * starts as zeros. Without one (NULL) nothing is kept. */
#define TILE_MEMO_ENTRIES 4093 /* a prime: see memo_entry */
struct tile_memo {
    struct {
        struct tile_schedule schedule;
        double work;
    } entries[TILE_MEMO_ENTRIES];
};
double tile_schedule_work_kept(const struct tile_schedule *schedule, struct tile_memo *memo);

/* Slots x that time for tiles that take as long whatever their length, in rows. Unequal tiles' are not counted in
 * waves: gaps of their lengths hide it. */
double tile_schedule_rows(const struct tile_schedule *schedule);

#endif
