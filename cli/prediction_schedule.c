/* prediction_schedule.c - from the experiment to programs that are proved, and to who runs which; borrowed from an
 * earlier prediction of the same experiment where a cache has them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/input_cache.h"
#include "cli/prediction_parts.h"
#include "models/base/memory.h"
#include "models/schedule/checker.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/layers/layers_checker.h"

/* Proving walks every operation; where one program stands for all ranks that may be far more than simulating. */
#define PROVED_OPERATIONS_MAX 5e5

/* Programs that turn are proved like others, all ranks' of them, unless they are too many. (The tests show that they
 * turn, and prove small ones.) */
static bool prove(struct prediction *prediction, struct diagnostics *diag)
{
    const struct schedule *schedule = &prediction->schedule;
    double operations = (double)prediction->programs[0].n_ops * schedule->ranks;
    bool layers = prediction->experiment.step.scope != SCOPE_ATTENTION;
    if (prediction->n_programs == schedule->ranks && !layers)
        return prediction->proved = checker_check(schedule, prediction->programs, diag);
    if (operations > PROVED_OPERATIONS_MAX && !layers)
        return true;
    struct program *programs = layers ? schedule_build_attention(schedule) : schedule_build_all(schedule);
    prediction->proved = checker_check(schedule, programs, diag);
    schedule_free_programs(schedule, programs);
    if (layers && prediction->proved)
        prediction->proved = layers_prove(schedule, prediction->programs, diag);
    return prediction->proved;
}

void prediction_find_nodes(struct prediction *prediction)
{
    struct schedule *schedule = &prediction->schedule;
    const struct placement *placement = &prediction->placement;
    if (placement->n_rings > 1) /* each group in its own order: a program that all run cannot follow them */
        return;
    schedule->node_gpus = topology_node_gpus(&prediction->topology);
    if (!placement->ring_of_group && !placement->place_of_rank)
        return;
    uint64_t first = UINT64_MAX;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        first = placement_gpu(placement, 0, rank) < first ? placement_gpu(placement, 0, rank) : first;
    schedule->index_of_rank = memory_zeroed(schedule->ranks, sizeof *schedule->index_of_rank);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        schedule->index_of_rank[rank] =
            (uint32_t)((placement_gpu(placement, 0, rank) - first) / placement->stride[PARALLEL_CP]);
}

/* What programs follow from: the experiment, and of layers where nodes end. */
static char *schedule_key(const struct prediction *prediction, const struct question *question)
{
    const struct schedule *schedule = &prediction->schedule;
    struct question_overrides mine = question_overrides(question, &experiment_file);
    char *experiment = input_cache_key(question->experiment_path, mine.items, mine.count);
    char *key =
        memory_format("%s\n%" PRIu32 " layers, nodes of %" PRIu64, experiment, question->layers, schedule->node_gpus);
    for (uint32_t rank = 0; schedule->index_of_rank && rank < schedule->ranks; rank++) {
        char *longer = memory_format("%s %" PRIu32, key, schedule->index_of_rank[rank]);
        free(key);
        key = longer;
    }
    free(mine.items);
    free(experiment);
    return key;
}

/* Takes what an earlier prediction of the same experiment has built and proved; false if there is none. */
static bool borrow_schedule(struct prediction *prediction, const struct question *question)
{
    struct kept_schedule kept;
    if (!question->cache)
        return false;
    char *key = schedule_key(prediction, question);
    bool found = input_cache_find_schedule(question->cache, key, &kept) && kept.n_programs == prediction->n_programs;
    free(key);
    if (!found)
        return false;
    prediction->programs = kept.programs;
    prediction->proved = kept.proved;
    prediction->whole = kept.ensemble;
    prediction->facts = kept.facts;
    prediction->memo = kept.memo;
    return true;
}

bool prediction_make_ensemble(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    if (prediction->whole.shapes) /* borrowed */
        return true;
    const struct layout layout = layers_layout(&prediction->schedule);
    if (!ensemble_init(&prediction->whole, prediction->programs, prediction->n_programs, layout, diag))
        return false;
    ensemble_set_replicas(&prediction->whole);
    prediction->made |= MADE_ENSEMBLE;
    if (!question->cache)
        return true;
    prediction->facts = shape_facts_create(prediction->whole.n_shapes);
    prediction->memo = plan_memo_create();
    const struct kept_schedule kept = {.programs = prediction->programs,
                                       .n_programs = prediction->n_programs,
                                       .proved = prediction->proved,
                                       .ensemble = prediction->whole,
                                       .facts = prediction->facts,
                                       .memo = prediction->memo};
    char *key = schedule_key(prediction, question);
    input_cache_keep_schedule(question->cache, key, &kept);
    prediction->made &= ~(unsigned)(MADE_ENSEMBLE | MADE_PROGRAMS);
    free(key);
    return true;
}

/* Ranks onto GPUs, and their rings over them. */
static bool lay_out(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    const struct experiment *experiment = &prediction->experiment;
    struct placement *placement = &prediction->placement;
    if (!question->topology_path)
        return experiment->ring == RING_NATURAL ||
               experiment_complain(experiment, "parallel", "ring", diag,
                                   "'ring' has no effect without a topology, expected natural or no such key");
    if (!placement_init(placement, experiment, &prediction->topology, diag))
        return false;
    bool has_effect = placement_check_ring(placement, experiment, question->lenient ? question->lenient : diag);
    return has_effect || question->lenient;
}

enum prediction_status prediction_prepare_schedule(struct prediction *prediction, const struct question *question,
                                                   struct diagnostics *diag)
{
    memset(prediction, 0, sizeof *prediction);
    prediction->engine = question->engine;
    prediction->topology_name = memory_text(question->topology_path ? question->topology_path : "");
    prediction->experiment_name = memory_text(question->experiment_path);
    prediction->command = question_command(question, NULL, 0);
    if (!prediction_read_files(prediction, question, diag))
        return PREDICTION_BAD_INPUT;
    const struct experiment *experiment = &prediction->experiment;
    bool fine = lay_out(prediction, question, diag);
    if (schedule_init(&prediction->schedule, experiment, question->lenient, diag))
        prediction->made |= MADE_SCHEDULE;
    else
        fine = false;
    if (!fine)
        return PREDICTION_BAD_INPUT;
    prediction_tell_phase(prediction, question, "building programs");
    placement_permute(&prediction->placement, prediction->schedule.place_of_rank);
    if (question->topology_path && experiment->step.scope != SCOPE_ATTENTION)
        prediction_find_nodes(prediction);
    if (!question->topology_path && !schedule_check_all(&prediction->schedule, diag))
        return PREDICTION_BAD_INPUT;
    prediction->n_programs =
        question->topology_path ? schedule_period(&prediction->schedule) : prediction->schedule.ranks;
    if (borrow_schedule(prediction, question))
        return PREDICTION_DONE;
    prediction->programs = schedule_build_first(&prediction->schedule, prediction->n_programs);
    prediction->made |= MADE_PROGRAMS;
    return prove(prediction, diag) ? PREDICTION_DONE : PREDICTION_FAILED;
}
