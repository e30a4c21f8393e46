/* sweep_json.h - reading a sweep (cpsim.sweep/1): what its points have, and which of them is the best.
 *
 * Points answer the same question when they agree in every swept key of [model] and [workload]; the best of a question
 * is the fastest of its points that fit.
 */
#ifndef CPSIM_CLI_SWEEP_JSON_H
#define CPSIM_CLI_SWEEP_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

extern const char sweep_cp_key[]; /* "parallel.cp" */

/* The run of a point, and its "step"; NULL when the point did not run. */
const json_t *sweep_run_of(const json_t *point);
const json_t *sweep_step(const json_t *point);

/* Whether all points are there: it was not stopped. */
bool sweep_is_complete(const json_t *sweep);

/* A number of an object; 0 when it is not there. */
double sweep_number(const json_t *object, const char *key);

/* What a device must have for a point that ran: the high-water mark, and of layers what is reserved beside it. */
double sweep_memory_bytes(const json_t *point);

/* Whether another value of `key` asks another question. */
bool sweep_is_question(const char *key);

/* For each point the number of the first point that agrees with it in all keys that `matters`; the caller frees it. */
size_t *sweep_first_alike(const json_t *sweep, bool (*matters)(const char *key));

/* Names of link classes, in the order in which they come up. */
#define SWEEP_CLASSES_MAX 6
struct sweep_classes {
    const char *names[SWEEP_CLASSES_MAX];
    size_t count;
};

/* Adds the classes of a run; those beyond the maximum are left out. */
void sweep_add_classes(struct sweep_classes *classes, const json_t *run);

/* Bytes that the links of a class carried, over the number of ranks. */
double sweep_class_bytes_per_rank(const json_t *run, const char *class);

/* For each point whether it is the best of its question; of equally fast ones the first is. The caller frees it. */
bool *sweep_find_best(const json_t *sweep);

#endif
