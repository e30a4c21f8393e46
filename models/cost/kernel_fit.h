/* kernel_fit.h - an attention kernel's time as a function of its block's shape, fitted to a table of rates.
 *
 * t = a + b_m h rows + c_m h d pairs, for mask m (full or causal): a is what one launch costs whatever its size, b what
 * a query row (forward; mean of query and key rows backward) costs beside its pairs (prologue, epilogue, wasted
 * diagonal tiles), c the asymptotic rate. Least squares of the relative error over the table's points with a, b, c >=
 * 0. A table with one mask only serves the other with the same a, b, c. A causal pair is no less work than a full one:
 * its c is no less, beyond the table's spread.
 *
 * Where it is known how a kernel's tiles are run (a table's `persistent`), rows and pairs are those that its slots had
 * time for until the last ended (tile_schedule.h), in the table's runs as in the block that is asked for: waves of
 * equal tiles; causal tiles in the order in which a kernel of a block a tile starts them, head after head (queries from
 * the first, whose rows are short, keys from the first, that all see), or longest first from one list if it is
 * persistent. So a, b and c are the kernel's own, whatever the heads of the table. Of other kernels only the longest
 * tile is a bound.
 *
 * No block is faster than the table's best rate, or than what its last two points rise to when a is nothing and b
 * vanishes; by no more than the table's spread.
 *
 * What b of the causal fit has beyond that of the full one is the price of an edge: tiles on the border of what is
 * seen, computed in part for nothing, a row of them for every row of the block. A window has two such edges.
 *
 * Left out, an edge costs nothing: the full fit's b holds under a mask too.
 *
 * A block that sees all of its pairs is full, any other causal, but never dearer than the whole rectangle computed
 * without a mask: time grows with the pairs. Lower bounds: a is at least the device's launch; the device's peak; and
 * one tile of rows (queries forward, keys backward: what a kernel hands to one processor) cannot be split, so few rows
 * leave the device empty.
 */
#ifndef CPSIM_MODELS_COST_KERNEL_FIT_H
#define CPSIM_MODELS_COST_KERNEL_FIT_H

#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/cost/mechanisms.h"
#include "models/cost/tile_schedule.h"
#include "models/input/device.h"

struct kernel_terms {
    double seconds;          /* a */
    double seconds_per_row;  /* b, per head */
    double seconds_per_pair; /* c d, per head */
    double worst_error;      /* of the fit, relative, over the table */
};

/* What a profile may lack, from the outside in. */
enum kernel_lack { LACKS_NOTHING, LACKS_KERNEL, LACKS_PASS, LACKS_DTYPE, LACKS_HEAD_DIM };

struct kernel_fit_masks {
    struct kernel_terms full, causal;
};

struct kernel_fit {
    const struct device *device;
    const struct attention_table *table;
    double flops_per_pair;               /* of one head, by the convention of rates: 4 d, 10 d backward */
    double fastest_full, fastest_causal; /* FLOP/s that no block of the mask exceeds; 0: no bound */
    struct kernel_fit_masks fitted;
    struct kernel_fit_masks level; /* as if slots always ended together: for predictions without waves */
    enum kernel_lack lack;         /* why there is no fit; the rest is then zero */
};

/* For those who ask for few different fits and schedules of tiles many times: what was asked last is kept. Starts as
 * zeros. */
#define KERNEL_MEMO_FITS 8
struct kernel_memo {
    struct tile_memo tiles;
    struct {
        uint64_t key[2]; /* of all that the terms follow from; zeros: none */
        struct kernel_fit_masks fitted, level;
    } fits[KERNEL_MEMO_FITS];
    size_t next_fit; /* to give way */
};

/* The fit for `kernel` ("" = the device's default). False with a message naming what there is. */
bool kernel_fit_init(struct kernel_fit *fit, const struct device *device, const char *kernel, enum attention_pass pass,
                     enum dtype dtype, uint32_t head_dim, struct diagnostics *diag);
/* The same; what is known is in `memo`, and kept there. */
bool kernel_fit_init_kept(struct kernel_fit *fit, const struct device *device, const char *kernel,
                          enum attention_pass pass, enum dtype dtype, uint32_t head_dim, struct kernel_memo *memo,
                          struct diagnostics *diag);

/* Seconds for `heads` (query heads x batch) of a block of query_rows x key_rows with `pairs` visible pairs a head
 * (0: the whole rectangle is computed). */
double kernel_fit_seconds(const struct kernel_fit *fit, double heads, double query_rows, double key_rows, double pairs);

/* A block as a kernel sees it. */
struct kernel_block {
    double heads;                /* query heads x batch */
    double query_rows, key_rows; /* of each */
    double pairs;                /* visible ones of a head; 0: the whole rectangle is computed */
    int edges;                   /* slanting edges of what is seen: 1 is causal */
    mechanism_set without;       /* edges, waves and launch may be left out */
    struct tile_memo *memo;      /* of blocks asked before; NULL: none */
};

double kernel_fit_block_seconds(const struct kernel_fit *fit, const struct kernel_block *block);

/* Rows of a tile of the kernel, and how many tiles the device works on at a time. */
double kernel_fit_tile_rows(const struct kernel_fit *fit);
double kernel_fit_slots(const struct kernel_fit *fit);

/* Seconds of that which pass whatever the shape: what the launch costs, max(a, launch). */
double kernel_fit_fixed_seconds(const struct kernel_fit *fit, const struct kernel_block *block);

#endif
