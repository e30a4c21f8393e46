/* calibrate.h - measures this machine: kernels, the steps around them, dispatch, messages, and each beside the other.
 *
 * What a prediction needs, by the very functions that a run uses: kernels/attention.h, the executor, the transport. All
 * ranks measure at once. profile_writer.h makes a device profile and a topology of it.
 */
#ifndef CPSIM_HW_CALIBRATE_CALIBRATE_H
#define CPSIM_HW_CALIBRATE_CALIBRATE_H

#include "hw/calibrate/crew.h"
#include "hw/calibrate/link_fit.h"
#include "hw/calibrate/samples.h"
#include "models/base/dtype.h"
#include "models/input/device.h"

struct calibration_settings {
    const char *transport; /* NULL: what fits how the process was started */
    uint32_t ranks;        /* 0: one for each core, or as many as MPI started */
    double seconds;        /* about how long it may take */
    bool quick;            /* fewer shapes, sizes and repeats: a try-out */
    /* Called by the rank that speaks with the share done; NULL: not called. */
    void (*progress)(void *context, double share);
    void *progress_context;
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

struct measured_table {
    enum attention_pass pass;
    enum dtype dtype;
    uint32_t head_dim;
    struct measured_block blocks[BLOCKS_MAX];
    uint32_t n_blocks;
    double spread;    /* of the rates */
    double fit_error; /* of the fit over the squares, worst, relative; 0 until profile_foretell */
};

#define TABLES_MAX 8

struct measured_level {
    char name[16];
    uint32_t size;
    struct link_fit fit;
    double spread;
};

#define MEASURED_LEVELS_MAX 2

struct calibration {
    char host[64], processor[128], isa[16], transport[16];
    uint32_t ranks, n_hosts, cores;    /* cores: that the ranks may use, on all hosts */
    bool oversubscribed;               /* some rank has no core of its own: times are of taking turns, not of work */
    double memory_bytes;               /* of a rank: its host's, divided by the ranks on it */
    struct measured copy;              /* bytes per second, read and written, of a copy beyond the caches */
    struct measured launch;            /* seconds */
    struct measured steps[STEP_COUNT]; /* bytes per second */
    struct measured_table tables[TABLES_MAX];
    uint32_t n_tables;
    struct measured slowdown; /* transfer_slowdown; the spread is absolute */
    uint64_t slowdown_bytes;  /* of the messages beside which it was measured */
    struct measured_level levels[MEASURED_LEVELS_MAX];
    uint32_t n_levels;
    double disturbed; /* share of samples in which a rank did not have its core all the time */
    double seconds;   /* that the calibration took */
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
};

bool calibrate_attention(struct calibration_part *part);
bool calibrate_steps(struct calibration_part *part);
bool calibrate_links(struct calibration_part *part);
bool calibrate_slowdown(struct calibration_part *part);

#endif
