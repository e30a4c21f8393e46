/* folding.h - for tests: one question run whole and folded, by each engine, and all that must be equal then: every
 * rank's moments of every operation, what every link carried and when, and the reports.
 *
 * A pair is of an experiment, and of programs, which need not be those of its schedule.
 */
#ifndef CPSIM_TESTS_SIM_FOLDING_H
#define CPSIM_TESTS_SIM_FOLDING_H

#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/result/report.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/schedule.h"
#include "sim/engine.h"
#include "sim/fold.h"
#include "sim/plan.h"
#include "tests/random_cluster.h"

#define TOLERANCE 1e-9 /* relative to the step */

/* One question, whole and folded. The whole has a program of each rank's own; what is folded has only those that
 * turning others does not give. */
struct pair {
    struct experiment experiment;
    bool drawn; /* at random, the experiment was */
    struct topology topology;
    struct device device;
    struct schedule schedule;
    struct cost cost;
    struct placement placement;
    struct program *programs;
    uint32_t period; /* different ones among them, but for turning */
    struct ensemble whole, turned;
    struct simulation simulation, turned_simulation;
    struct plan plan, turned_plan;
    struct folding folding;
    char what[2048];
};

/* A link while messages moved over it. */
struct load {
    uint64_t link, bytes;
    double move, end; /* of one message; of all: `end` is how long the link was busy */
};

struct loads {
    struct load *items;
    size_t count, capacity;
};

static inline uint64_t count_moments(const struct ensemble *ensemble)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        count += ensemble_program(ensemble, i)->n_ops;
    return count;
}

/* Copies the moments of all operations to or from one array. */
static inline void copy_moments(const struct ensemble *ensemble, struct timeline *timeline, struct moment *all,
                                bool out)
{
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        size_t n = ensemble_program(ensemble, i)->n_ops;
        if (out)
            memcpy(all, timeline->moments[i], n * sizeof *all);
        else
            memcpy(timeline->moments[i], all, n * sizeof *all);
        all += n;
    }
}

static inline bool run_here(const struct engine_ops *engine, const struct pair *pair, const struct folding *folding,
                            struct timeline *timeline)
{
    const struct ensemble *ensemble = folding ? &folding->ensemble : &pair->whole;
    struct simulation simulation = pair->simulation;
    simulation.ensemble = ensemble;
    simulation.folding = folding;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = engine->run(&simulation, timeline, &diag);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    return good;
}

/* When the phases ended, of the step and of each replica; between this process and a child of it. */
static inline void copy_phases(const struct ensemble *ensemble, struct timeline *timeline, double *shared, bool write)
{
    size_t size = timeline->replica_end ? ensemble->n_replicas * sizeof *timeline->replica_end : 0;
    double *replicas = shared + PHASE_COUNT;
    memcpy(write ? shared : timeline->phase_end, write ? timeline->phase_end : shared, sizeof timeline->phase_end);
    if (size)
        memcpy(write ? replicas : *timeline->replica_end, write ? *timeline->replica_end : replicas, size);
}

/* Runs the whole ensemble or the folded one, in a process of its own where the engine asks for one. */
static inline bool run(const struct engine_ops *engine, const struct pair *pair, const struct folding *folding,
                       struct timeline *timeline)
{
    const struct ensemble *ensemble = folding ? &folding->ensemble : &pair->whole;
    timeline_of(timeline, ensemble);
    if (!engine->once)
        return run_here(engine, pair, folding, timeline);
    struct moment *moments;
    size_t phases = (1 + (size_t)ensemble->n_replicas) * PHASE_COUNT;
    size_t size = phases * sizeof(double) + count_moments(ensemble) * sizeof *moments;
    double *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    moments = (struct moment *)(shared + phases);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = run_here(engine, pair, folding, timeline);
        copy_phases(ensemble, timeline, shared, true);
        copy_moments(ensemble, timeline, moments, true);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    copy_phases(ensemble, timeline, shared, false);
    copy_moments(ensemble, timeline, moments, false);
    munmap(shared, size);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static inline bool near(double a, double b, double step)
{
    return fabs(a - b) <= TOLERANCE * step;
}

static inline void compare_moments(const struct pair *pair, const char *engine, const struct timeline *whole,
                                   const struct timeline *folded)
{
    double step = whole->phase_end[PHASE_COUNT - 1];
    for (int p = 0; p < PHASE_COUNT; p++)
        if (!near(whole->phase_end[p], folded->phase_end[p], step))
            fail_msg("%s: phase %d ends at %.17g s, folded at %.17g s: %s", engine, p, whole->phase_end[p],
                     folded->phase_end[p], pair->what);
    for (uint32_t i = 0; i < pair->whole.n_instances; i++) {
        uint32_t class = pair->folding.class_of[i];
        for (uint32_t op = 0; op < ensemble_program(&pair->whole, i)->n_ops; op++) {
            struct moment a = whole->moments[i][op], b = folded->moments[class][op];
            if (!near(a.begin, b.begin, step) || !near(a.move, b.move, step) || !near(a.end, b.end, step))
                fail_msg("%s: operation %u of rank %u is at %.17g, %.17g, %.17g s; of class %u at %.17g, %.17g, %.17g "
                         "s: %s",
                         engine, op, i, a.begin, a.move, a.end, class, b.begin, b.move, b.end, pair->what);
        }
    }
}

static inline void add_load(struct loads *loads, uint64_t link, uint64_t bytes, struct moment moment)
{
    memory_grow(loads->items, loads->count, loads->capacity);
    loads->items[loads->count++] = (struct load){link, bytes, moment.move, moment.end};
}

static inline int compare_loads(const void *left, const void *right)
{
    const struct load *a = left, *b = right;
    if (a->link != b->link)
        return a->link < b->link ? -1 : 1;
    return (a->move > b->move) - (a->move < b->move);
}

/* Leaves one for each link: what it carried, and for how long. */
static inline void sum_loads(struct loads *loads)
{
    size_t kept = 0;
    if (loads->count)
        qsort(loads->items, loads->count, sizeof *loads->items, compare_loads);
    for (size_t i = 0; i < loads->count;) {
        struct load sum = {.link = loads->items[i].link};
        for (double until = 0; i < loads->count && loads->items[i].link == sum.link; i++) {
            struct load load = loads->items[i];
            sum.bytes += load.bytes;
            sum.end += fmax(0, load.end - fmax(load.move, until));
            until = fmax(until, load.end);
        }
        loads->items[kept++] = sum;
    }
    loads->count = kept;
}

/* What the links carried; folded: those that stand for a class. */
static inline struct loads measure_links(const struct pair *pair, const struct folding *folding,
                                         const struct timeline *timeline)
{
    const struct ensemble *ensemble = folding ? &folding->ensemble : &pair->whole;
    struct loads loads = {0};
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct shape *shape = ensemble_shape(ensemble, i);
        for (uint32_t op = 0; op < shape->program->n_ops; op++) {
            if (shape->program->ops[op].kind != OP_SEND)
                continue;
            uint64_t bytes = shape->program->ops[op].bytes;
            size_t way = ensemble->instances[i].first_peer + shape->messages.peer_of[op];
            if (folding) {
                for (size_t h = folding->first_hop[way]; h < folding->first_hop[way + 1]; h++)
                    add_load(&loads, folding->hops[h].link, bytes * folding->hops[h].weight, timeline->moments[i][op]);
            } else {
                const struct route *route = &pair->plan.ways[way].route;
                for (size_t h = 0; h < route->n_links; h++)
                    add_load(&loads, route->links[h], bytes, timeline->moments[i][op]);
            }
        }
    }
    sum_loads(&loads);
    return loads;
}

static inline void compare_links(const struct pair *pair, const char *engine, const struct timeline *whole_timeline,
                                 const struct timeline *folded_timeline)
{
    double step = whole_timeline->phase_end[PHASE_COUNT - 1];
    struct loads whole = measure_links(pair, NULL, whole_timeline);
    struct loads folded = measure_links(pair, &pair->folding, folded_timeline);
    uint64_t bytes = 0, links = 0;
    double busy = 0, folded_busy = 0;
    assert_int_equal(folded.count, pair->folding.n_links);
    for (size_t w = 0, f = 0; w < whole.count; w++) {
        bytes += whole.items[w].bytes;
        busy += whole.items[w].end;
        if (f == folded.count || whole.items[w].link != folded.items[f].link) {
            assert_null(folding_link(&pair->folding, whole.items[w].link)); /* another one stands for it */
            continue;
        }
        struct load a = whole.items[w], b = folded.items[f++];
        const struct folded_link *class = folding_link(&pair->folding, b.link);
        assert_non_null(class);
        if (a.bytes != b.bytes || !near(a.end, b.end, step))
            fail_msg("%s: link %llu carries %llu bytes in %.17g s, folded %llu in %.17g s: %s", engine,
                     (unsigned long long)a.link, (unsigned long long)a.bytes, a.end, (unsigned long long)b.bytes, b.end,
                     pair->what);
        links += class->stands_for;
        bytes -= class->stands_for * b.bytes;
        folded_busy += (double)class->stands_for * b.end;
    }
    assert_int_equal(bytes, 0);
    assert_int_equal(links, whole.count);
    assert_true(near(busy, folded_busy, step * (double)(whole.count + 1)));
    free(whole.items);
    free(folded.items);
}

static inline void make_report(struct report *report, const struct pair *pair, const struct folding *folding,
                               const struct timeline *timeline)
{
    const struct report_input input = {.schedule = &pair->schedule,
                                       .ensemble = folding ? &folding->ensemble : &pair->whole,
                                       .folding = folding,
                                       .cost = &pair->cost,
                                       .placement = &pair->placement,
                                       .timeline = timeline};
    struct diagnostics diag;
    diagnostics_init(&diag);
    if (!report_init(report, &input, &diag)) {
        diagnostics_print(&diag, stderr, "  ");
        fail_msg("no report: %s", pair->what);
    }
    diagnostics_fini(&diag);
}

static inline bool ranks_equal(const struct rank_report *a, const struct rank_report *b, double step)
{
    return a->rank == b->rank && a->group == b->group && a->gpu == b->gpu && near(a->seconds, b->seconds, step) &&
           near(a->compute_seconds, b->compute_seconds, step) &&
           near(a->communication_seconds, b->communication_seconds, step) &&
           near(a->exposed_seconds, b->exposed_seconds, step) && near(a->idle_seconds, b->idle_seconds, step) &&
           near(a->overlapped_seconds, b->overlapped_seconds, step) && a->bytes_sent == b->bytes_sent &&
           a->bytes_received == b->bytes_received && a->messages_sent == b->messages_sent &&
           a->visible_pairs == b->visible_pairs && near(a->flops, b->flops, a->flops) &&
           a->peak_bytes == b->peak_bytes && a->resident_bytes == b->resident_bytes;
}

static inline void compare_reports(const struct pair *pair, const char *engine, const struct timeline *whole_timeline,
                                   const struct timeline *folded_timeline)
{
    struct report whole, folded;
    make_report(&whole, pair, NULL, whole_timeline);
    make_report(&folded, pair, &pair->folding, folded_timeline);
    assert_int_equal(whole.n_ranks, folded.n_ranks);
    for (uint32_t r = 0; r < whole.n_ranks; r++)
        if (!ranks_equal(&whole.ranks[r], &folded.ranks[r], whole.seconds))
            fail_msg("%s: the reports of rank %u differ: %s", engine, r, pair->what);
    assert_int_equal(whole.n_links, folded.n_links);
    for (uint32_t l = 0; l < whole.n_links; l++) {
        const struct link_class_report *a = &whole.links[l], *b = &folded.links[l];
        if (a->links_used != b->links_used || a->bytes != b->bytes ||
            !near(a->busy_seconds, b->busy_seconds, whole.seconds) || !near(a->utilization, b->utilization, 1))
            fail_msg("%s: the reports of level %s differ: %s", engine, a->name, pair->what);
    }
    report_fini(&whole);
    report_fini(&folded);
}

/* Every rank is of one class; classes come in the order of their first ranks, which stand for them. */
static inline void check_classes(const struct pair *pair)
{
    const struct ensemble *all = &pair->turned, *folded = &pair->folding.ensemble;
    uint32_t seen = 0, *sizes = memory_zeroed(folded->n_instances, sizeof *sizes);
    for (uint32_t i = 0; i < all->n_instances; i++) {
        uint32_t class = pair->folding.class_of[i];
        assert_true(class <= seen && class < folded->n_instances);
        const struct instance *instance = &folded->instances[class];
        if (class == seen) {
            assert_int_equal(instance->group * all->ranks + instance->rank, i);
            seen++;
        }
        assert_int_equal(instance->shape, all->instances[i].shape);
        sizes[class]++;
    }
    assert_int_equal(seen, folded->n_instances);
    for (uint32_t c = 0; c < seen; c++)
        assert_int_equal(folded->instances[c].stands_for, sizes[c]);
    free(sizes);
}

static inline void compare(const struct pair *pair)
{
    check_classes(pair);
    for (size_t e = 0; engines[e]; e++) {
        struct timeline whole, folded;
        if (!run(engines[e], pair, NULL, &whole) || !run(engines[e], pair, &pair->folding, &folded))
            fail_msg("%s: %s", engines[e]->name, pair->what);
        compare_moments(pair, engines[e]->name, &whole, &folded);
        compare_links(pair, engines[e]->name, &whole, &folded);
        compare_reports(pair, engines[e]->name, &whole, &folded);
        timeline_fini(&whole);
        timeline_fini(&folded);
    }
}

/* Folds a question whose experiment, topology, device, schedule and programs are there; false if ranks cannot reach
 * each other. */
static inline bool pair_fold(struct pair *pair)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = cost_init(&pair->cost, &pair->device, &pair->topology, &pair->schedule, &diag) &&
                placement_init(&pair->placement, &pair->experiment, &pair->topology, &diag);
    placement_permute(&pair->placement, pair->schedule.place_of_rank);
    uint32_t ranks = pair->schedule.ranks;
    const struct layout layout = layers_layout(&pair->schedule);
    good = good && ensemble_init(&pair->whole, pair->programs, ranks, layout, &diag) &&
           ensemble_init(&pair->turned, pair->programs, pair->period, layout, &diag);
    ensemble_set_replicas(&pair->whole);
    ensemble_set_replicas(&pair->turned);
    pair->simulation = pair->turned_simulation =
        (struct simulation){.ensemble = &pair->whole, .cost = &pair->cost, .placement = &pair->placement};
    pair->turned_simulation.ensemble = &pair->turned;
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    good = plan_init(&pair->plan, &pair->simulation, &diag) &&
           plan_init(&pair->turned_plan, &pair->turned_simulation, &diag);
    diagnostics_fini(&diag);
    if (good)
        fold_init(&pair->folding, &pair->turned, &pair->turned_plan);
    return good;
}

static inline void pair_fini(struct pair *pair)
{
    if (pair->turned_plan.simulation) {
        folding_fini(&pair->folding);
        plan_fini(&pair->plan);
        plan_fini(&pair->turned_plan);
    }
    ensemble_fini(&pair->whole);
    ensemble_fini(&pair->turned);
    schedule_free_programs(&pair->schedule, pair->programs);
    schedule_fini(&pair->schedule);
    device_fini(&pair->device);
    topology_fini(&pair->topology);
    if (pair->drawn)
        random_experiment_fini(&pair->experiment);
    else
        experiment_fini(&pair->experiment);
}

/* Makes the experiment one of several groups, their ranks in any order. */
static inline void random_layout(struct dice *dice, struct experiment *e, bool even)
{
    uint32_t *degree = e->degree, tp = 1 + dice_below(dice, even ? 2 : 3);
    degree[PARALLEL_TP] = e->model.kv_heads % tp ? 1 : tp;
    bool many = 256 / (degree[PARALLEL_CP] * degree[PARALLEL_TP]) >= 8;
    degree[PARALLEL_DP] = even ? 1U << dice_below(dice, many ? 4 : 2) : 1 + dice_below(dice, many ? 8 : 2);
    for (uint32_t i = PARALLEL_DIMENSIONS - 1; i > 0; i--) {
        uint32_t j = dice_below(dice, i + 1);
        enum parallel_dimension other = e->order[j];
        e->order[j] = e->order[i];
        e->order[i] = other;
    }
}

/* All ranks of a group do the same, and have neighbours alike in a cluster that is even. */
static inline void make_even(struct experiment *e)
{
    free(e->mask.document_starts);
    free(e->shard_counts);
    e->shard_counts = NULL;
    while (e->degree[PARALLEL_CP] & (e->degree[PARALLEL_CP] - 1))
        e->degree[PARALLEL_CP]--;
    e->sharding = SHARDING_CONTIGUOUS;
    e->seq_len = (e->seq_len / e->degree[PARALLEL_CP] + 1) * e->degree[PARALLEL_CP];
    e->new_tokens = 0;
    e->mask = (struct mask){.kind = MASK_FULL, .seq_len = e->seq_len};
}

static inline bool random_machine(struct dice *dice, struct pair *pair, const char *text)
{
    struct diagnostics unused;
    diagnostics_init(&unused);
    bool good = topology_read_text(&pair->topology, "test", text, &unused);
    if (good) {
        char *path = topology_device_path(&pair->topology, &unused);
        assert_true(path && device_read(&pair->device, path, &unused));
        free(path);
        pair->device.launch_seconds = 1e-6 * dice_below(dice, 8);
        pair->device.peak_flops_per_s = 100e12;
        pair->device.transfer_slowdown = dice_chance(dice, 3) ? 0.3 : 0;
    }
    diagnostics_fini(&unused);
    return good;
}

/* A cluster that is accepted. */
static inline void find_machine(struct dice *dice, struct pair *pair, bool even)
{
    const uint32_t *degree = pair->experiment.degree;
    char *text = NULL;
    do {
        free(text);
        text = random_cluster(dice, degree[0] * degree[1] * degree[2], even);
    } while (!random_machine(dice, pair, text));
    const struct experiment *e = &pair->experiment;
    random_experiment_describe(e, pair->what, 512);
    size_t n = strlen(pair->what);
    snprintf(pair->what + n, sizeof pair->what - n, ", tp %u, dp %u, order %d %d %d (tp 0, cp 1, dp 2)\n%s",
             degree[PARALLEL_TP], degree[PARALLEL_DP], (int)e->order[0], (int)e->order[1], (int)e->order[2], text);
    free(text);
}

/* Whether SimGrid can run all ranks of it in a moment. */
static inline bool is_quick(const struct pair *pair)
{
#ifdef __SANITIZE_ADDRESS__
    const double work = 4e6;
#else
    const double work = 2e7;
#endif
    return (double)count_moments(&pair->whole) * (double)pair->plan.n_ways <= work;
}

#endif
