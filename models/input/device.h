/* device.h - a device profile: how fast a GPU (or CPU) computes attention, how much memory it has and how fast that is.
 *
 * Data only, read from models/devices/NAME.ini, every figure with its source; models/cost turns it into seconds. A
 * kernel's speed is given as published or measured: rates at square problem sizes, per pass, mask and head dim; rates
 * of matrix products per dtype.
 */
#ifndef CPSIM_MODELS_INPUT_DEVICE_H
#define CPSIM_MODELS_INPUT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/base/dtype.h"

struct rate_point {
    double seq_len;
    double flops_per_s; /* by the convention FLOPs = 4 * heads * head_dim * pairs (x 2.5 backward), pairs = S^2 / 2
                           causal */
};

#define RATE_POINTS_MAX 12 /* of one mask in one table */

/* Whether a kernel's workers stay and fetch tile after tile, or each of its tiles is a block of its own. */
enum persistence { PERSISTENT_UNKNOWN, PERSISTENT_NO, PERSISTENT_YES };

enum attention_pass { PASS_FORWARD, PASS_BACKWARD, PASS_COUNT };

/* One section [attention KERNEL forward|backward HEAD_DIM [DTYPE]]: a table of rates for one kernel, pass and head dim.
 * Tables of different dtypes name theirs in the section. */
struct attention_table {
    char kernel[32];
    enum attention_pass pass;
    uint32_t head_dim;
    uint32_t dtypes; /* bit i: holds for enum dtype i */
    int named_dtype; /* that of the section's name; -1: none */
    bool refused;    /* its keys, while it is read */
    double heads;    /* query heads of the table's runs */
    double batch;    /* sequences of the table's runs; 0 when `tokens` is given */
    double tokens;   /* batch * seq_len held constant over the table; 0 when `batch` is given */
    enum persistence persistent;
    uint32_t tile_rows; /* of this kernel's tiles; 0: the device's */
    uint32_t blocks;    /* thread blocks of it that one processor holds at a time */
    double rate_scale;  /* multiplies every rate: a variant of the device measured at one point */
    double spread;      /* relative, of measured rates; 0: not known */
    struct rate_point *full, *causal;
    size_t n_full, n_causal;
    int line;
};

/* One run that a rate was published or measured for: C [rows x columns] = A [rows x depth] B [depth x columns]. */
struct product_point {
    double rows, columns, depth;
    double flops_per_s; /* FLOPs = 2 * rows * columns * depth */
};

/* One section [product DTYPE]: how fast matrix products are. */
struct product_table {
    uint32_t dtypes;                /* bit i: holds for operands of enum dtype i */
    int named_dtype;                /* that of the section's name; -1: any */
    double tile_rows, tile_columns; /* of the result, that one processor works on at a time */
    double prologue;                /* what a tile costs beside its depth, as so many more of depth */
    double peak_flops_per_s;        /* that no product exceeds; 0: not stated */
    double rate_scale;              /* multiplies every rate: a device known by those of a relative */
    double spread;                  /* relative, of measured rates; 0: not known */
    struct product_point *rates;    /* a larger product takes longer */
    size_t n_rates;
    int line;
};

/* The steps around attention, and the elementwise ones of a layer (norms, activations, residuals, the optimizer's),
 * which stream their operands through memory. */
enum device_step { STEP_MERGE, STEP_FINISH, STEP_DELTA, STEP_ACCUMULATE, STEP_CAST, STEP_ELEMENTWISE, STEP_COUNT };

struct device {
    char *path;
    char name[64]; /* for people: "H100 SXM5 80 GB" */
    double memory_bytes;
    double memory_bytes_per_s; /* datasheet */
    double memory_efficiency;  /* share of it that the steps reach which have no rate of their own */
    double peak_flops_per_s;   /* datasheet dense peak of 16-bit types, a bound on every rate; 0 = not stated */
    double launch_seconds;     /* from one kernel to the next on a stream, paid by every compute operation */
    double transfer_slowdown;  /* 0..1: how much slower a rank computes while one of its messages moves */
    double step_bytes_per_s[STEP_COUNT]; /* [steps]: read and written; 0: memory_bytes_per_s * memory_efficiency */
    double steps_spread;                 /* relative, of these rates; 0: not known */
    uint32_t processors;                 /* SMs (or cores) */
    uint32_t tile_rows;                  /* query rows that one SM works on at a time */
    char default_kernel[32];
    struct attention_table *tables;
    size_t n_tables;
    struct product_table *products;
    size_t n_products;
};

/* Reads the profile `name` (a name under models/devices/ or a path to a file). */
bool device_read(struct device *device, const char *name, struct diagnostics *diag);
/* Reads a file that has nothing but [attention] sections: the device's tables, and nothing else of it. */
bool device_read_tables(struct device *device, const char *path, struct diagnostics *diag);
void device_fini(struct device *device);

#endif
