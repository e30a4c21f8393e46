/* schedule.h - a schedule: an experiment's attention layer under one algorithm; makes each rank's program on demand. */
#ifndef CPSIM_MODELS_SCHEDULE_SCHEDULE_H
#define CPSIM_MODELS_SCHEDULE_SCHEDULE_H

#include "models/base/diagnostics.h"
#include "models/input/experiment.h"
#include "models/schedule/program.h"
#include "models/schedule/sharding.h"

struct algorithm_ops;

/* Which queries a rank owns, and so which outputs it ends with. */
enum query_layout {
    QUERIES_BY_ROW,     /* the rows of its shard, of all lanes */
    QUERIES_BY_ITEM,    /* decoding: there are fewer new tokens than ranks, so the batch items are dealt out instead */
    QUERIES_REPLICATED, /* all of them, as every other rank does */
};

struct schedule {
    const struct experiment *experiment; /* outlives the schedule */
    const struct algorithm_ops *algorithm;
    void *algorithm_data; /* the algorithm's own: algorithm_ops.prepare */
    struct sharding sharding;
    enum query_layout queries;
    uint32_t ranks;             /* cp */
    uint32_t q_heads, kv_heads; /* of one rank, after tp */
    struct lanes lanes;         /* all of them */
    uint64_t node_gpus;         /* consecutive GPUs of a node of the cluster, for the rings of layers; 0: not known */
    bool accumulates;           /* of a step's micro-batches not the last: gradients are neither summed nor used */
    uint32_t *index_of_rank;    /* [rank]: which of its group's GPUs, in their order, it is on, where that is known and
                                   the same in every group; for the rings of layers. NULL: in rank order */
    uint32_t *place_of_rank;    /* [rank]: where in the layout each sits (schedule.inner); NULL: in rank order */
};

/* False, with messages, when the algorithm does not exist or refuses the experiment, or when a key that was written has
 * no effect with it. In a sweep over algorithms the latter is no error: pass `lenient` to have those messages in it
 * instead (NULL: strict). */
bool schedule_init(struct schedule *schedule, const struct experiment *experiment, struct diagnostics *lenient,
                   struct diagnostics *diag);
void schedule_fini(struct schedule *schedule);

/* How many programs there are: that of rank r is that of rank r mod period, turned by the rest (ensemble.h), up to the
 * order in which buffers are numbered. Either 1 or `ranks`. */
uint32_t schedule_period(const struct schedule *schedule);

/* The program of CP rank `rank`; the caller calls program_fini. */
void schedule_build(const struct schedule *schedule, uint32_t rank, struct program *program);

/* The programs of ranks below `count`; the caller frees them. */
struct program *schedule_build_first(const struct schedule *schedule, uint32_t count);
void schedule_free_first(struct program *programs, uint32_t count);

/* False, with a message, when the programs of all ranks would be too many operations. (Those of the ranks below the
 * period never are.) */
bool schedule_check_all(const struct schedule *schedule, struct diagnostics *diag);

/* Those of attention alone, whatever the scope: what the checker proves. The caller frees them in the same way. */
struct program *schedule_build_attention(const struct schedule *schedule);

/* All ranks' programs: an array of schedule->ranks; the caller calls schedule_free_programs. */
struct program *schedule_build_all(const struct schedule *schedule);
void schedule_free_programs(const struct schedule *schedule, struct program *programs);

/* The queries that `rank` owns: rows and lanes. Unless they are dealt out by row, the rows are of the one group that
 * all ranks are joined to. */
struct block schedule_queries(const struct schedule *schedule, uint32_t rank);
struct lanes schedule_query_lanes(const struct schedule *schedule, uint32_t rank);

/* The KV heads (and batch items) that the query heads of `lanes` read. */
struct lanes schedule_kv_lanes(const struct schedule *schedule, struct lanes lanes);

/* Bytes of `rows` sequence rows of `tensor` in `dtype`, over `lanes`. PARTIAL: O in dtype and LSE in fp32; STATE: m, l
 * and a in dtype; LSE, DELTA, TOP and DENOMINATOR: one number a lane. */
uint64_t schedule_tensor_bytes(const struct schedule *schedule, enum tensor tensor, enum dtype dtype, uint64_t rows,
                               struct lanes lanes);
/* Elements of the same. */
uint64_t schedule_tensor_elements(const struct schedule *schedule, enum tensor tensor, uint64_t rows,
                                  struct lanes lanes);

#endif
