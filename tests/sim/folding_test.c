/* Folded equals unfolded: every rank's moments of every operation, and what every link carried and when, for random
 * experiments of every algorithm in random layouts on random clusters, by both engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/result/report.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/schedule.h"
#include "sim/engine.h"
#include "sim/fold.h"
#include "sim/plan.h"
#include "tests/random_experiment.h"

#ifdef __SANITIZE_ADDRESS__
#define CASES 3 /* of each algorithm */
#else
#define CASES 20
#endif

#define TOLERANCE 1e-9 /* relative to the step */

/* One question, whole and folded. The whole has a program of each rank's own; what is folded has only those that
 * turning others does not give. */
struct pair {
    struct experiment experiment;
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

static uint64_t count_moments(const struct ensemble *ensemble)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        count += ensemble_program(ensemble, i)->n_ops;
    return count;
}

/* Copies the moments of all operations to or from one array. */
static void copy_moments(const struct ensemble *ensemble, struct timeline *timeline, struct moment *all, bool out)
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

static bool run_here(const struct engine_ops *engine, const struct pair *pair, const struct folding *folding,
                     struct timeline *timeline)
{
    const struct ensemble *ensemble = folding ? &folding->ensemble : &pair->whole;
    struct simulation simulation = pair->simulation;
    simulation.ensemble = ensemble;
    simulation.folding = folding;
    struct diagnostics diag;
    diagnostics_init(&diag);
    simulation.execution = execution_of(ensemble);
    bool good = engine->run(&simulation, timeline, &diag);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    execution_destroy(simulation.execution);
    return good;
}

/* Runs the whole ensemble or the folded one, in a process of its own where the engine asks for one. */
static bool run(const struct engine_ops *engine, const struct pair *pair, const struct folding *folding,
                struct timeline *timeline)
{
    const struct ensemble *ensemble = folding ? &folding->ensemble : &pair->whole;
    timeline_of(timeline, ensemble);
    if (!engine->once)
        return run_here(engine, pair, folding, timeline);
    struct moment *moments;
    size_t size = sizeof timeline->phase_end + count_moments(ensemble) * sizeof *moments;
    double *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    moments = (struct moment *)(shared + PHASE_COUNT);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = run_here(engine, pair, folding, timeline);
        memcpy(shared, timeline->phase_end, sizeof timeline->phase_end);
        copy_moments(ensemble, timeline, moments, true);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    memcpy(timeline->phase_end, shared, sizeof timeline->phase_end);
    copy_moments(ensemble, timeline, moments, false);
    munmap(shared, size);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool near(double a, double b, double step)
{
    return fabs(a - b) <= TOLERANCE * step;
}

static void compare_moments(const struct pair *pair, const char *engine, const struct timeline *whole,
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

static void add_load(struct loads *loads, uint64_t link, uint64_t bytes, struct moment moment)
{
    memory_grow(loads->items, loads->count, loads->capacity);
    loads->items[loads->count++] = (struct load){link, bytes, moment.move, moment.end};
}

static int compare_loads(const void *left, const void *right)
{
    const struct load *a = left, *b = right;
    if (a->link != b->link)
        return a->link < b->link ? -1 : 1;
    return (a->move > b->move) - (a->move < b->move);
}

/* Leaves one for each link: what it carried, and for how long. */
static void sum_loads(struct loads *loads)
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
static struct loads measure_links(const struct pair *pair, const struct folding *folding,
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

static void compare_links(const struct pair *pair, const char *engine, const struct timeline *whole_timeline,
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
        if (f == folded.count || whole.items[w].link != folded.items[f].link)
            continue;
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

static void make_report(struct report *report, const struct pair *pair, const struct folding *folding,
                        const struct timeline *timeline)
{
    struct execution *execution = execution_of(folding ? &folding->ensemble : &pair->whole);
    const struct report_input input = {.schedule = &pair->schedule,
                                       .execution = execution,
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
    execution_destroy(execution);
}

static bool ranks_equal(const struct rank_report *a, const struct rank_report *b, double step)
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

static void compare_reports(const struct pair *pair, const char *engine, const struct timeline *whole_timeline,
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
static void check_classes(const struct pair *pair)
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

static void compare(const struct pair *pair)
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

/* Folds a question whose experiment, topology, device and schedule are there. */
static void pair_fold(struct pair *pair)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = cost_init(&pair->cost, &pair->device, &pair->topology, &pair->schedule, &diag) &&
                placement_init(&pair->placement, &pair->experiment, &pair->topology, &diag);
    placement_permute(&pair->placement, pair->schedule.place_of_rank);
    pair->programs = schedule_build_all(&pair->schedule);
    pair->period = schedule_period(&pair->schedule);
    uint32_t ranks = pair->schedule.ranks, groups = pair->placement.groups;
    good = good && ensemble_init(&pair->whole, pair->programs, ranks, ranks, groups, &diag) &&
           ensemble_init(&pair->turned, pair->programs, pair->period, ranks, groups, &diag);
    pair->simulation = pair->turned_simulation =
        (struct simulation){.ensemble = &pair->whole, .cost = &pair->cost, .placement = &pair->placement};
    pair->turned_simulation.ensemble = &pair->turned;
    good = good && plan_init(&pair->plan, &pair->simulation, &diag) &&
           plan_init(&pair->turned_plan, &pair->turned_simulation, &diag);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    assert_true(good);
    fold_init(&pair->folding, &pair->turned, &pair->turned_plan);
}

static void pair_fini(struct pair *pair)
{
    folding_fini(&pair->folding);
    plan_fini(&pair->plan);
    plan_fini(&pair->turned_plan);
    ensemble_fini(&pair->whole);
    ensemble_fini(&pair->turned);
    schedule_free_programs(&pair->schedule, pair->programs);
    schedule_fini(&pair->schedule);
    device_fini(&pair->device);
    topology_fini(&pair->topology);
    random_experiment_fini(&pair->experiment);
}

/* Levels of any kinds, of few different speeds, so that some are as fast as others, with room for `ranks`. */
static void random_topology(struct dice *dice, uint32_t ranks, char *text, size_t size)
{
    static const char *const kinds[] = {"switch", "switch", "mesh", "ring"};
    static const char *const channels = "channels = 8\nchannel_bandwidth = 20 MB/s\nll_bandwidth = 9 MB/s\n"
                                        "channels_per_peer = 2\n";
    bool has_channels = dice_chance(dice, 3), has_collectives = dice_chance(dice, 3);
    size_t n = (size_t)snprintf(text, size, "[cluster]\ndevice = toy\n");
    uint32_t levels = 1 + dice_below(dice, 3), room = 1;
    for (uint32_t k = 0; k < levels; k++) {
        uint32_t members = 2 + dice_below(dice, 5), wide = 2 + dice_below(dice, 2);
        if (k + 1 == levels && room * members < ranks)
            members = (ranks + room - 1) / room;
        char kind[40];
        snprintf(kind, sizeof kind, "%s", kinds[dice_below(dice, 4)]);
        if (dice_chance(dice, 4)) {
            members = (members + wide - 1) / wide < 2 ? 2 * wide : (members + wide - 1) / wide * wide;
            snprintf(kind, sizeof kind, "torus:%ux%u", wide, members / wide);
        }
        n += (size_t)snprintf(
            text + n, size - n, "[level l%u]\nsize = %u\nkind = %s\nbandwidth = %u MB/s\nlatency = %u us\n%s%s%s%s%s",
            k, members, kind, 50 * (1 + dice_below(dice, 3)), 1 + dice_below(dice, 3),
            k > 0 && dice_chance(dice, 2) ? "attach = node\n" : "", dice_chance(dice, 4) ? "duplex = half\n" : "",
            has_channels ? channels : "", has_channels && k ? "medium = network\n" : "",
            has_collectives ? "collectives = 3 us + 1 us: 30 MB/s, 9 us: 45 MB/s\n" : "");
        room *= members;
    }
}

/* An implementation whose host, copies and transfers cost something. */
static struct implementation random_implementation(struct dice *dice)
{
    struct implementation i = {.name = "random"};
    if (dice_chance(dice, 2))
        return i;
    for (int step = 0; step < IMPLEMENTATION_STEPS; step++)
        if (dice_chance(dice, 2))
            i.steps[step] = (struct passes){true, dice_below(dice, 4), dice_below(dice, 20), dice_below(dice, 40)};
    i.fixed_sms = dice_chance(dice, 2);
    i.sms = dice_below(dice, 40);
    i.synchronizes = dice_chance(dice, 2);
    i.host_attention_seconds = 1e-6 * dice_below(dice, 3);
    i.host_kernel_seconds = 1e-6 * dice_below(dice, 3);
    i.host_message_seconds = 1e-6 * dice_below(dice, 3);
    i.waits = dice_chance(dice, 2);
    return i;
}

/* Makes the experiment one of several groups, their ranks in any order. */
static void random_layout(struct dice *dice, struct experiment *e)
{
    uint32_t tp = 1 + dice_below(dice, 3);
    e->degree[PARALLEL_TP] = e->model.kv_heads % tp ? 1 : tp;
    e->degree[PARALLEL_DP] = 1 + dice_below(dice, 256 / (e->degree[PARALLEL_CP] * e->degree[PARALLEL_TP]) < 8 ? 2 : 8);
    for (uint32_t i = PARALLEL_DIMENSIONS - 1; i > 0; i--) {
        uint32_t j = dice_below(dice, i + 1);
        enum parallel_dimension other = e->order[j];
        e->order[j] = e->order[i];
        e->order[i] = other;
    }
}

/* Now and then all ranks of a group do the same. */
static void make_alike(struct experiment *e)
{
    free(e->mask.document_starts);
    free(e->shard_counts);
    e->shard_counts = NULL;
    e->sharding = SHARDING_CONTIGUOUS;
    e->seq_len = (e->seq_len / e->degree[PARALLEL_CP] + 1) * e->degree[PARALLEL_CP];
    e->new_tokens = 0;
    e->mask = (struct mask){.kind = MASK_FULL, .seq_len = e->seq_len};
}

static bool random_machine(struct dice *dice, struct pair *pair, const char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = topology_read_text(&pair->topology, "test", text, &diag);
    char *path = good ? topology_device_path(&pair->topology, &diag) : NULL;
    good = path && device_read(&pair->device, path, &diag);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    free(path);
    pair->device.launch_seconds = 1e-6 * dice_below(dice, 8);
    pair->device.peak_flops_per_s = 100e12;
    pair->device.transfer_slowdown = dice_chance(dice, 3) ? 0.3 : 0;
    return good;
}

/* True if the experiment was accepted. */
static bool random_pair(struct dice *dice, const char *algorithm, struct pair *pair)
{
    const struct random_bounds bounds = {
        .ranks_max = dice_chance(dice, 4) ? 32 : 9, .rows_max = 12, .dtype = DTYPE_BF16};
    *pair = (struct pair){.experiment = random_experiment(dice, algorithm, &bounds)};
    struct experiment *e = &pair->experiment;
    if (dice_chance(dice, 2))
        make_alike(e);
    e->implementation = random_implementation(dice);
    random_layout(dice, e);
    struct diagnostics unused;
    diagnostics_init(&unused);
    bool accepted = schedule_init(&pair->schedule, e, &unused, &unused);
    diagnostics_fini(&unused);
    if (!accepted) {
        random_experiment_fini(e);
        return false;
    }
    char text[1500];
    random_topology(dice, e->degree[0] * e->degree[1] * e->degree[2], text, sizeof text);
    assert_true(random_machine(dice, pair, text));
    random_experiment_describe(e, pair->what, 512);
    size_t n = strlen(pair->what);
    snprintf(pair->what + n, sizeof pair->what - n, ", tp %u, dp %u, order %d %d %d (tp 0, cp 1, dp 2)\n%s",
             e->degree[PARALLEL_TP], e->degree[PARALLEL_DP], (int)e->order[0], (int)e->order[1], (int)e->order[2],
             text);
    pair_fold(pair);
    return true;
}

/* Whether SimGrid can run all ranks of it in a moment. */
static bool is_quick(const struct pair *pair)
{
#ifdef __SANITIZE_ADDRESS__
    const double work = 1e6;
#else
    const double work = 2e7;
#endif
    return (double)count_moments(&pair->whole) * (double)pair->plan.n_ways <= work;
}

static void folded_equals_whole(void **state)
{
    (void)state;
    unsigned folded = 0, turned = 0;
    for (size_t a = 0; algorithms[a]; a++) {
        struct dice dice = {.state = 3};
        unsigned accepted = 0, tried = 0;
        for (; accepted < CASES && tried < 20 * CASES; tried++) {
            struct pair pair;
            if (!random_pair(&dice, algorithms[a]->name, &pair))
                continue;
            if (is_quick(&pair)) {
                compare(&pair);
                folded += pair.folding.ensemble.n_instances < pair.whole.n_instances;
                turned += pair.folding.ensemble.n_instances < pair.schedule.ranks;
                accepted++;
            }
            pair_fini(&pair);
        }
        assert_int_equal(accepted, CASES);
    }
    assert_true(folded > 4 * CASES && turned > CASES); /* it was no comparison of equal things */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_equals_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
