/* schedule.h - a schedule: an experiment's attention layer under one algorithm; makes each rank's program on demand. */
#ifndef CPSIM_MODELS_SCHEDULE_SCHEDULE_H
#define CPSIM_MODELS_SCHEDULE_SCHEDULE_H

#include "models/base/diagnostics.h"
#include "models/input/experiment.h"
#include "models/schedule/program.h"
#include "models/schedule/sharding.h"

struct algorithm_ops;

struct schedule {
    const struct experiment *experiment; /* outlives the schedule */
    const struct algorithm_ops *algorithm;
    void *algorithm_data; /* the algorithm's own: algorithm_ops.prepare */
    struct sharding sharding;
    uint32_t ranks;             /* cp */
    uint32_t q_heads, kv_heads; /* of one rank, after tp */
};

/* False, with messages, when the algorithm does not exist or refuses the experiment, or when a key that was written has
 * no effect with it. In a sweep over algorithms the latter is no error: pass `lenient` to have those messages in it
 * instead (NULL: strict). */
bool schedule_init(struct schedule *schedule, const struct experiment *experiment, struct diagnostics *lenient,
                   struct diagnostics *diag);
void schedule_fini(struct schedule *schedule);

/* The program of CP rank `rank`; the caller calls program_fini. */
void schedule_build(const struct schedule *schedule, uint32_t rank, struct program *program);

/* All ranks' programs: an array of schedule->ranks; the caller calls schedule_free_programs. */
struct program *schedule_build_all(const struct schedule *schedule);
void schedule_free_programs(const struct schedule *schedule, struct program *programs);

/* Bytes of `rows` sequence rows of `tensor` in `dtype`, over this rank's heads and the batch. PARTIAL: O in dtype and
 * LSE in fp32; STATE: m, l and a in dtype; LSE and DELTA: one number a head. */
uint64_t schedule_tensor_bytes(const struct schedule *schedule, enum tensor tensor, enum dtype dtype, uint64_t rows);
/* Elements of the same. */
uint64_t schedule_tensor_elements(const struct schedule *schedule, enum tensor tensor, uint64_t rows);

#endif
