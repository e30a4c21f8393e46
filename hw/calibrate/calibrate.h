/* calibrate.h - measures this machine: kernels, the steps around them, dispatch, messages, and each beside the other.
 *
 * What a prediction needs, by the very functions that a run uses: the attention kernels of a backend, the executor, the
 * transport. All ranks measure at once. How a kind of device is measured is one struct calibration_way: of CPUs here,
 * of GPUs in hw/cuda. profile_writer.h makes a device profile and a topology of what comes out.
 */
#ifndef CPSIM_HW_CALIBRATE_CALIBRATE_H
#define CPSIM_HW_CALIBRATE_CALIBRATE_H

#include "hw/calibrate/crew.h"
#include "hw/calibrate/kernel_times.h"
#include "hw/calibrate/link_fit.h"
#include "hw/calibrate/samples.h"
#include "hw/compute.h"
#include "hw/gpu_watch.h"
#include "models/base/dtype.h"
#include "models/input/device.h"
#include "models/input/experiment.h"

struct gpu_grid; /* hw/calibrate/gpu/gpu_grid.h */

struct calibration_settings {
    const struct compute_ops *compute;  /* whose kernels; NULL: a GPU's where there is one, else the CPU's */
    struct compute_settings kernels;    /* (GPUs) device below 0: each rank takes the one of its place on its host */
    struct transport_settings carrying; /* (GPUs) how the transport is to move their memory */
    const struct gpu_grid *grid;        /* (GPUs) what is measured; NULL: that of `quick` */
    const char *cublas;                 /* (GPUs) path of cuBLAS; NULL: the system's */
    const char *transport;              /* NULL: what fits how the process was started */
    /* 0: one for each core, or each GPU, or as many as MPI started. With one GPU and transport 'local': for how many
     * ranks that share it the topology is (0: GPU_SHARED_RANKS); one measures. */
    uint32_t ranks;
    double seconds; /* about how long it may take */
    bool quick;     /* fewer shapes, sizes and repeats: a try-out */
    /* Called by the rank that speaks with the share done; NULL: not called. */
    void (*progress)(void *context, double share);
    void *progress_context;
    bool *refused; /* set when it fails: whether it did so before it began to measure; NULL: not set */
};

/* A block of one table: square, or a shape that the table's fit is to foretell. */
enum block_kind { BLOCK_FULL, BLOCK_CAUSAL, BLOCK_WIDE, BLOCK_TALL, BLOCK_STRIPED, BLOCK_GROUPED, BLOCK_KIND_COUNT };

struct measured_block {
    enum block_kind kind;
    uint32_t queries, keys, heads, kv_heads;
    double pairs; /* visible, of one head */
    struct measured time;
    double foretold; /* seconds by the fit to the table; 0 until profile_foretell */
};

#define BLOCKS_MAX 24
#define GPU_SHARED_RANKS 8

struct measured_table {
    enum attention_pass pass;
    enum dtype dtype;
    uint32_t head_dim;
    struct measured_block blocks[BLOCKS_MAX];
    uint32_t n_blocks;
    double spread;    /* of the rates */
    double fit_error; /* of the fit over the squares, worst, relative; 0 until profile_foretell */
};

#define TABLES_MAX 12

/* A matrix product of one table, or one that the table is to foretell. */
struct measured_product {
    uint32_t rows, columns, depth;
    bool probe; /* the table does not hold it */
    struct measured time;
    double foretold; /* seconds by the model; 0 until profile_foretell_products */
};

#define PRODUCTS_MAX 24

struct measured_products {
    enum dtype dtype;
    struct measured_product items[PRODUCTS_MAX]; /* those of the table ascending in work */
    uint32_t n_items;
    uint32_t tile_rows, tile_columns;
    double prologue; /* what a tile costs beside its depth, as so many more of depth */
    double spread;   /* of the rates */
};

#define PRODUCT_TABLES_MAX 3

/* The orders in which a layer multiplies: forward, its input's gradient, its weights' gradient. Samples take turns
 * among them, so that a time's spread is theirs too. */
#define PRODUCT_ORDERS 3
extern const struct product_order {
    bool a_transposed, b_transposed;
} product_orders[PRODUCT_ORDERS];

struct measured_level {
    char name[16];
    uint32_t size;
    struct link_fit fit;
    double spread;
};

#define MEASURED_LEVELS_MAX 2

/* What else only a GPU has: for the reader of a profile, who wants to know why its figures are what they are. */
#define HELD_MAX 8
#define HELD_BLOCKS_MAX 4
#define COLLECTIVES_MAX 160

/* Times of one block of attention while something else holds so many SMs. */
struct held_block {
    enum attention_pass pass;
    uint32_t rows;
    struct measured times[HELD_MAX];
};

struct measured_collective {
    enum collective_call call;
    uint32_t ranks;
    uint64_t bytes; /* of the whole: ranks times what a rank gives (all-gather) or gets (reduce-scatter), or gives
                       (all-to-all) */
    struct measured time;
};

struct gpu_figures {
    uint32_t heads, kv_heads;   /* of the blocks of the tables */
    int driver, runtime;        /* CUDA versions */
    struct gpu_record state;    /* clocks and power while attention was measured; rank 0's GPU */
    struct measured executor;   /* seconds that the executor's host takes to queue an operation */
    struct measured gap;        /* seconds from kernel to kernel when the host is ahead: the device's own */
    struct measured graph;      /* the same in a graph */
    struct measured event_wait; /* seconds that a kernel waits for one of another stream, beyond `gap` */
    uint32_t held[HELD_MAX];    /* SMs; the first is 0 */
    uint32_t n_held, n_held_blocks;
    struct held_block held_blocks[HELD_BLOCKS_MAX];
    char no_products[512];         /* why no matrix products were measured; "": they were */
    struct measured copy_slowdown; /* of a message beside attention: its time over that alone; 0: not measured */
    struct measured_collective collectives[COLLECTIVES_MAX];
    uint32_t n_collectives;
};

struct calibration {
    char host[64], processor[128], isa[16], transport[16];
    char kernel[32];                   /* the tables' in the profile */
    uint32_t processors, tile_rows;    /* of a rank's device */
    bool on_gpu;                       /* then `gpu` is filled */
    bool shared_gpu;                   /* (GPU) the ranks are to share one, of which one rank measured */
    uint32_t ranks, n_hosts, cores;    /* cores: that the ranks may use, on all hosts */
    bool oversubscribed;               /* some rank has no core of its own: times are of taking turns, not of work */
    double memory_bytes;               /* of a rank: its host's, divided by the ranks on it */
    struct measured copy;              /* bytes per second, read and written, of a copy beyond the caches */
    struct measured launch;            /* seconds */
    struct measured steps[STEP_COUNT]; /* bytes per second */
    struct measured_table tables[TABLES_MAX];
    uint32_t n_tables;
    struct measured_products products[PRODUCT_TABLES_MAX];
    uint32_t n_products;
    struct measured slowdown; /* transfer_slowdown; the spread is absolute */
    uint64_t slowdown_bytes;  /* of the messages beside which it was measured */
    struct measured_level levels[MEASURED_LEVELS_MAX];
    uint32_t n_levels;
    double disturbed; /* share of samples in which a rank did not have its core all the time */
    double seconds;   /* that the calibration took */
    struct gpu_figures gpu;
    const struct kernel_times *times; /* given beside what is measured: `calibrate` leaves it NULL */
};

/* Measures. False with messages. `speaks` as in crew_run. */
bool calibrate(struct calibration *calibration, const struct calibration_settings *settings, bool *speaks,
               struct diagnostics *diag);

const char *block_kind_name(enum block_kind kind);

/* ---- the parts, each called by every rank in step; all ranks get the same numbers. False when a rank has failed. */

/* What a part may take, and how it tells that it is done with a share of itself. */
struct calibration_part {
    const struct crew *crew;
    struct calibration *calibration; /* rank 0's is the result; the other ranks' are scratch */
    double seconds;
    bool quick;
    void (*progress)(const struct calibration_part *part, double share);
    const struct calibration_settings *settings;
    double from, to; /* of the whole, for progress */
    size_t samples, disturbed;
    void *device; /* the way's own */
};

#define WAY_PARTS_MAX 8

/* How a kind of device is measured. */
struct calibration_way {
    /* Chooses transport and ranks where the settings leave it open (NULL, 0: crew_run's choice). */
    void (*choose)(const struct calibration_settings *settings, const char **transport, uint32_t *ranks);
    /* Opens the rank's device, and says what it is. Whatever it returned, `close` follows. */
    bool (*open)(struct calibration_part *part);
    void (*close)(struct calibration_part *part);
    struct {
        bool (*run)(struct calibration_part *part);
        double share; /* of the time */
    } parts[WAY_PARTS_MAX];
};

extern const struct calibration_way calibration_way_cuda; /* only if built with CUDA */

bool calibrate_attention(struct calibration_part *part);
bool calibrate_steps(struct calibration_part *part);
bool calibrate_products(struct calibration_part *part);
/* What a tile costs beside its depth, from the first product that the table does not hold, which has little depth, and
 * the square of the same rows and columns: t = k (depth + prologue). 0 where they do not say. */
void measured_products_set_prologue(struct measured_products *table);
bool calibrate_links(struct calibration_part *part);
bool calibrate_slowdown(struct calibration_part *part);

/* The backend that is calibrated: the one asked for, or a GPU's where there is one. */
const struct compute_ops *calibration_compute(const struct calibration_settings *settings);

/* Seconds of an operation that does next to nothing, by the executor, of this rank alone. False with messages. */
bool calibration_measure_executor(const struct compute_ops *ops, const struct compute_settings *settings,
                                  enum dtype dtype, uint32_t head_dim, int repeats, struct measured *seconds,
                                  struct diagnostics *diag);

/* An experiment so small that only its operations' fixed costs remain; `nothing_written` outlives it. */
struct experiment calibration_experiment(struct ini_document *nothing_written, enum dtype dtype, uint32_t head_dim);

/* Bytes that a step reads and writes for one row of one head. */
double calibration_step_bytes(enum device_step step, enum dtype dtype, uint32_t dim);

/* The means over all ranks. */
bool calibration_agree(const struct crew *crew, struct measured *measured);

#endif
