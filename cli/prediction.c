/* prediction.c - the stages of a prediction, each of which either adds to the result or says why it cannot.
 *
 * What is wrong with both files is reported in one go; a later stage runs only when the earlier ones succeeded. The
 * bits in `made` say what has to be freed, so that fini is right after any failure.
 */
#include "cli/prediction.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/idle_overrides.h"
#include "cli/input_cache.h"
#include "cli/passes.h"
#include "hw/rank_programs.h"
#include "models/base/memory.h"
#include "models/input/key_table.h"
#include "models/result/micro_batches.h"
#include "models/schedule/checker.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/layers/layers_checker.h"
#include "sim/fold.h"
#include "sim/interval.h"
#include "sim/plan.h"

enum made {
    MADE_EXPERIMENT = 1 << 0,
    MADE_TOPOLOGY = 1 << 1,
    MADE_DEVICE = 1 << 2,
    MADE_SCHEDULE = 1 << 3,
    MADE_PROGRAMS = 1 << 4,
    MADE_TIMELINE = 1 << 5,
    MADE_REPORT = 1 << 6,
    MADE_ENSEMBLE = 1 << 7,
    MADE_FOLDING = 1 << 8,
    MADE_PLAN = 1 << 9,
};

/* As question_file, which looks in many places. */
static char *find_file(const struct question *question, const char *folder, const char *name, struct diagnostics *diag)
{
    const char *known = question->cache ? input_cache_find_path(question->cache, folder, name) : NULL;
    if (known)
        return memory_text(known);
    char *path = question_file(folder, name, diag);
    if (path && question->cache)
        input_cache_keep_path(question->cache, folder, name, path);
    return path;
}

static bool read_experiment_file(struct prediction *prediction, const struct question *question,
                                 const struct question_overrides *mine, struct diagnostics *diag)
{
    char *path = find_file(question, "experiments", question->experiment_path, diag);
    bool fine = path && experiment_read(&prediction->experiment, path, mine->items, mine->count, diag);
    free(path);
    return fine;
}

/* What a cache has, or what is read and then the cache's; without one it is the prediction's own. */
static bool read_experiment(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    struct question_overrides mine = question_overrides(question, &experiment_file);
    char *key = question->cache ? input_cache_key(question->experiment_path, mine.items, mine.count) : NULL;
    bool known = key && input_cache_find_experiment(question->cache, key, &prediction->experiment);
    bool fine = known || read_experiment_file(prediction, question, &mine, diag);
    if (fine && !known && key)
        input_cache_keep_experiment(question->cache, key, &prediction->experiment);
    else if (fine && !known)
        prediction->made |= MADE_EXPERIMENT;
    if (fine && question->layers)
        prediction->experiment.model.layers = question->layers;
    free(key);
    free(mine.items);
    return fine;
}

static bool read_topology_file(struct prediction *prediction, const struct question *question,
                               const struct question_overrides *mine, struct diagnostics *diag)
{
    char *path = find_file(question, "topologies", question->topology_path, diag);
    bool fine = path && topology_read(&prediction->topology, path, mine->items, mine->count, diag);
    free(path);
    return fine;
}

static bool read_topology(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    struct question_overrides mine = question_overrides(question, &topology_file);
    char *key = question->cache ? input_cache_key(question->topology_path, mine.items, mine.count) : NULL;
    bool known = key && input_cache_find_topology(question->cache, key, &prediction->topology);
    bool fine = known || read_topology_file(prediction, question, &mine, diag);
    if (fine && !known && key)
        input_cache_keep_topology(question->cache, key, &prediction->topology);
    else if (fine && !known)
        prediction->made |= MADE_TOPOLOGY;
    free(key);
    free(mine.items);
    return fine;
}

static bool read_device(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    const char *name = prediction->topology.device;
    if (question->cache && input_cache_find_device(question->cache, name, &prediction->device))
        return true;
    char *path = topology_device_path(&prediction->topology, diag);
    bool fine = path && device_read(&prediction->device, path, diag);
    free(path);
    if (fine && question->cache)
        input_cache_keep_device(question->cache, name, &prediction->device);
    else if (fine)
        prediction->made |= MADE_DEVICE;
    return fine;
}

static bool read_files(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    bool fine = question_check_overrides(question, diag);
    fine &= read_experiment(prediction, question, diag);
    if (question->topology_path) {
        bool topology_fine = read_topology(prediction, question, diag);
        fine &= topology_fine && read_device(prediction, question, diag);
    }
    return fine;
}

bool prediction_is_large(const struct prediction *prediction)
{
    const struct placement *placement = &prediction->placement;
    return (double)placement->cp * placement->groups >= PREDICTION_MANY_RANKS;
}

static void tell_phase(const struct prediction *prediction, const struct question *question, const char *what)
{
    if (question->phase && prediction_is_large(prediction))
        question->phase(question->progress_context, what);
}

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

/* Where the rings of layers' collectives find their nodes. */
static void find_nodes(struct prediction *prediction)
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

/* Who runs which program; kept for others with a cache, which then owns it. */
static bool make_ensemble(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
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
    if (!read_files(prediction, question, diag))
        return PREDICTION_BAD_INPUT;
    const struct experiment *experiment = &prediction->experiment;
    bool fine = lay_out(prediction, question, diag);
    if (schedule_init(&prediction->schedule, experiment, question->lenient, diag))
        prediction->made |= MADE_SCHEDULE;
    else
        fine = false;
    if (!fine)
        return PREDICTION_BAD_INPUT;
    tell_phase(prediction, question, "building programs");
    placement_permute(&prediction->placement, prediction->schedule.place_of_rank);
    if (question->topology_path && experiment->step.scope != SCOPE_ATTENTION)
        find_nodes(prediction);
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

/* Of each a moment is kept. */
#define OPERATIONS_RUN_MAX 3e8

const struct ensemble *prediction_ensemble(const struct prediction *prediction)
{
    return prediction->made & MADE_FOLDING ? &prediction->folding.ensemble : &prediction->whole;
}

static bool check_operations(const struct prediction *prediction, struct diagnostics *diag)
{
    const struct ensemble *ensemble = prediction_ensemble(prediction);
    double operations = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        operations += ensemble_program(ensemble, i)->n_ops;
    if (operations <= OPERATIONS_RUN_MAX)
        return true;
    return diagnostics_add(diag,
                           "the %" PRIu32
                           " ranks to simulate have %.2g operations, expected at most %.0g: fewer ranks%s, or "
                           "larger blocks",
                           ensemble->n_instances, operations, OPERATIONS_RUN_MAX,
                           prediction->made & MADE_FOLDING ? " that are not alike" : "");
}

bool prediction_make_costs(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    if (!question->cache && !prediction->tiles)
        prediction->tiles = memory_zeroed(1, sizeof *prediction->tiles);
    struct tile_memo *tiles = question->cache ? input_cache_tiles(question->cache) : prediction->tiles;
    bool fine = cost_init_kept(&prediction->cost, &prediction->device, &prediction->topology, &prediction->schedule,
                               tiles, diag);
    prediction->cost.without = question->without;
    return fine;
}

static void forget_plan(struct prediction *prediction)
{
    if (prediction->made & MADE_PLAN)
        plan_fini(&prediction->plan);
    prediction->made &= ~(unsigned)MADE_PLAN;
}

/* With more of them the plan of all ranks does not stay while the engine has its own. */
#define WAYS_KEPT_MAX 65536

/* Who runs what, and who is like whom: from programs and costs to what an engine is given. */
static enum prediction_status plan_run(struct prediction *prediction, const struct question *question,
                                       struct diagnostics *diag)
{
    const struct placement *placement = &prediction->placement;
    tell_phase(prediction, question, "planning");
    if (!make_ensemble(prediction, question, diag))
        return PREDICTION_FAILED;
    /* A plan of all ranks shows that every message has a way, and which ranks are alike. */
    const struct simulation all = {
        .ensemble = &prediction->whole, .cost = &prediction->cost, .placement = placement, .memo = prediction->memo};
    if (!plan_init(&prediction->plan, &all, diag))
        return PREDICTION_BAD_INPUT;
    prediction->made |= MADE_PLAN;
    if (!question->no_fold && prediction->topology.ranks_per_device == 1) {
        tell_phase(prediction, question, "folding");
        fold_init(&prediction->folding, &prediction->whole, &prediction->plan);
        prediction->made |= MADE_FOLDING;
    }
    prediction->plan.simulation = NULL; /* it is no more */
    if (prediction->plan.n_ways > WAYS_KEPT_MAX)
        forget_plan(prediction);
    return check_operations(prediction, diag) ? PREDICTION_DONE : PREDICTION_BAD_INPUT;
}

enum prediction_status prediction_prepare(struct prediction *prediction, const struct question *question,
                                          struct diagnostics *diag)
{
    enum prediction_status status = prediction_prepare_schedule(prediction, question, diag);
    if (status != PREDICTION_DONE)
        return status;
    if (!prediction_make_costs(prediction, question, diag))
        return PREDICTION_BAD_INPUT;
    return plan_run(prediction, question, diag);
}

struct report_input prediction_report_input(const struct prediction *prediction)
{
    return (struct report_input){
        .schedule = &prediction->schedule,
        .ensemble = prediction_ensemble(prediction),
        .folding = prediction->made & MADE_FOLDING ? &prediction->folding : NULL,
        .cost = prediction->measured ? NULL : &prediction->cost,
        .placement = prediction->measured ? NULL : &prediction->placement,
        .timeline = &prediction->timeline,
        .facts = prediction->facts,
    };
}

uint32_t prediction_simulated_ranks(const struct prediction *prediction)
{
    return prediction->timeline.n_instances;
}

uint32_t prediction_instance(const struct prediction *prediction, uint32_t place)
{
    return folding_instance(prediction->made & MADE_FOLDING ? &prediction->folding : NULL, place);
}

static enum prediction_status run_engine(struct prediction *prediction, const struct question *question,
                                         struct diagnostics *diag)
{
    prediction->made |= MADE_TIMELINE;
    tell_phase(prediction, question, "simulating");
    const struct simulation simulation = {
        .ensemble = prediction_ensemble(prediction),
        .cost = &prediction->cost,
        .placement = &prediction->placement,
        .folding = prediction->made & MADE_FOLDING ? &prediction->folding : NULL,
        .whole = prediction->made & MADE_PLAN ? &prediction->plan : NULL,
        .memo = prediction->memo,
        .spares_moments = question->figures_only,
        .progress = question->progress,
        .progress_context = question->progress_context,
    };
    if (!question->engine->run(&simulation, &prediction->timeline, diag))
        return PREDICTION_FAILED;
    struct report_input input = prediction_report_input(prediction);
    input.figures_only = question->figures_only;
    tell_phase(prediction, question, "adding up");
    if (!report_init(&prediction->report, &input, diag))
        return PREDICTION_FAILED;
    prediction->made |= MADE_REPORT;
    struct interval_seconds interval = {0, 0};
    tell_phase(prediction, question, "finding the interval");
    if (!question->spares_interval && !interval_of(&simulation, prediction->report.seconds, &interval, diag))
        return PREDICTION_FAILED;
    if (interval.high > 0) {
        prediction->report.seconds_low = interval.low;
        prediction->report.seconds_high = interval.high;
    }
    return PREDICTION_DONE;
}

/* ---- the passes of a step before its last ---- */

/* Builds the programs of such a pass of `prediction`, whose files and placement it has in common, and whose attention
 * was proved. */
static enum prediction_status prepare_pass(struct prediction *pass, const struct prediction *prediction,
                                           const struct question *question, struct diagnostics *diag)
{
    struct diagnostics said; /* that keys have no effect was */
    diagnostics_init(&said);
    bool fine = schedule_init(&pass->schedule, &prediction->experiment, &said, diag);
    diagnostics_fini(&said);
    if (!fine)
        return PREDICTION_BAD_INPUT;
    pass->made |= MADE_SCHEDULE;
    pass->schedule.accumulates = true;
    placement_permute(&pass->placement, pass->schedule.place_of_rank);
    find_nodes(pass);
    pass->n_programs = schedule_period(&pass->schedule);
    pass->programs = schedule_build_first(&pass->schedule, pass->n_programs);
    pass->made |= MADE_PROGRAMS;
    if (!layers_prove(&pass->schedule, pass->programs, diag))
        return PREDICTION_FAILED;
    return prediction_make_costs(pass, question, diag) ? plan_run(pass, question, diag) : PREDICTION_BAD_INPUT;
}

enum prediction_status prediction_run_pass(const struct prediction *prediction, const struct question *question,
                                           struct report *report, struct diagnostics *diag)
{
    struct question asked = *question;
    asked.cache = NULL; /* which knows schedules by the experiment alone */
    struct prediction pass = {
        .experiment = prediction->experiment,
        .topology = prediction->topology,
        .device = prediction->device,
        .placement = prediction->placement,
        .engine = prediction->engine,
    };
    enum prediction_status status = prepare_pass(&pass, prediction, &asked, diag);
    if (status == PREDICTION_DONE)
        status = run_engine(&pass, &asked, diag);
    if (status == PREDICTION_DONE) {
        *report = pass.report;
        pass.made &= ~(unsigned)MADE_REPORT;
    }
    pass.placement = (struct placement){0}; /* the prediction's */
    prediction_fini(&pass);
    return status;
}

enum prediction_status prediction_run(struct prediction *prediction, const struct question *question,
                                      struct diagnostics *diag)
{
    uint32_t others = prediction->experiment.step.micro_batches - 1;
    prediction->pass_seconds = 0;
    if (others == 0)
        return run_engine(prediction, question, diag);
    struct report pass; /* first: it is made in a copy of this process, in which no engine may have run */
    enum prediction_status status = passes_report(prediction, question, &pass, diag);
    if (status != PREDICTION_DONE)
        return status;
    status = run_engine(prediction, question, diag);
    if (status == PREDICTION_DONE) {
        prediction->pass_seconds = pass.seconds;
        report_add_passes(&prediction->report, &pass, others);
    }
    report_fini(&pass);
    return status;
}

double prediction_drawn_seconds(const struct prediction *prediction)
{
    return prediction->pass_seconds > 0 ? prediction->timeline.phase_end[PHASE_COUNT - 1] : prediction->report.seconds;
}

/* The level that an override is about, its size apart, which is about how many GPUs there are; NULL: none. */
static const struct level *level_of_override(const struct topology *topology, const char *text)
{
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        const struct level *level = &topology->levels[k];
        size_t length = strlen(level->name);
        if (strncmp(text, "level ", 6) == 0 && strncmp(text + 6, level->name, length) == 0 && text[6 + length] == '.')
            return strncmp(text + 7 + length, "size", 4) == 0 ? NULL : level;
    }
    return NULL;
}

void prediction_note_idle(const struct prediction *prediction, const struct question *question,
                          struct diagnostics *notes)
{
    for (size_t i = 0; i < question->n_overrides; i++) {
        const struct level *level = level_of_override(&prediction->topology, question->overrides[i]);
        bool crossed = false;
        for (uint32_t k = 0; level && k < prediction->report.n_links; k++)
            crossed |= strcmp(prediction->report.links[k].name, level->name) == 0;
        if (level && !crossed)
            diagnostics_add(notes, "--set %s: has no effect, no message crosses level '%s'", question->overrides[i],
                            level->name);
    }
    idle_overrides_note(prediction, question, notes);
}

/* Those of a layer are not the predicted ones: collectives are written out, for all ranks of the layout. */
static void take_run_programs(struct prediction *prediction)
{
    const struct schedule *schedule = &prediction->schedule;
    if (schedule->experiment->step.scope == SCOPE_ATTENTION)
        return;
    schedule_free_first(prediction->programs, prediction->n_programs);
    prediction->programs = rank_programs_build(schedule);
    prediction->n_programs = rank_programs_count(schedule);
}

/* Ranks are counted through; a group's are `ranks` of them. Pairs are told of one group. */
static void name_groups(struct report *report, uint32_t ranks)
{
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        report->ranks[i].rank = i % ranks;
        report->ranks[i].group = i / ranks;
    }
    report->visible_pairs /= report->n_ranks / ranks;
}

enum prediction_status prediction_take_run(struct prediction *prediction, struct timeline *timeline,
                                           const struct measured_times *times, double device_bytes,
                                           struct diagnostics *diag)
{
    take_run_programs(prediction);
    const uint32_t ranks = prediction->n_programs;
    prediction->placement = (struct placement){.cp = ranks, .groups = 1, .stride = {0, 1, 0}, .tp = 1};
    prediction->timeline = *timeline;
    prediction->made |= MADE_TIMELINE;
    *timeline = (struct timeline){0};
    free(prediction->topology_name);
    prediction->topology_name = memory_text("(this machine)");
    if (!ensemble_init(&prediction->whole, prediction->programs, ranks, (struct layout){.cp = ranks, .tp = 1, .dp = 1},
                       diag))
        return PREDICTION_FAILED;
    prediction->made |= MADE_ENSEMBLE;
    const struct report_input input = {
        .schedule = &prediction->schedule,
        .ensemble = &prediction->whole,
        .timeline = &prediction->timeline,
        .measured = times,
        .device_bytes = device_bytes,
    };
    if (!report_init(&prediction->report, &input, diag))
        return PREDICTION_FAILED;
    prediction->made |= MADE_REPORT;
    name_groups(&prediction->report, prediction->schedule.ranks);
    return PREDICTION_DONE;
}

void prediction_fini(struct prediction *prediction)
{
    forget_plan(prediction);
    if (prediction->made & MADE_REPORT)
        report_fini(&prediction->report);
    if (prediction->made & MADE_TIMELINE)
        timeline_fini(&prediction->timeline);
    if (prediction->made & MADE_FOLDING)
        folding_fini(&prediction->folding);
    if (prediction->made & MADE_ENSEMBLE)
        ensemble_fini(&prediction->whole);
    if (prediction->made & MADE_PROGRAMS)
        schedule_free_first(prediction->programs, prediction->n_programs);
    free(prediction->tiles);
    placement_fini(&prediction->placement);
    if (prediction->made & MADE_SCHEDULE)
        schedule_fini(&prediction->schedule);
    if (prediction->made & MADE_DEVICE)
        device_fini(&prediction->device);
    if (prediction->made & MADE_TOPOLOGY)
        topology_fini(&prediction->topology);
    if (prediction->made & MADE_EXPERIMENT)
        experiment_fini(&prediction->experiment);
    free(prediction->topology_name);
    free(prediction->experiment_name);
    free(prediction->command);
    memset(prediction, 0, sizeof *prediction);
}
