/* scene.h - what the engine tests share: a cluster from a line of INI, hand-built programs, a cost of their own, and a
 * run of an engine, in a process of its own where the engine asks for one.
 *
 * The cost model is replaced (this header defines its functions; include it once in a program): a local operation takes
 * `pairs` times scene.device.launch_seconds, whatever its kind, its launch as many of those as it has query rows, and a
 * message the alpha of its route. Times are then exact, and so can closed forms be.
 */
#ifndef CPSIM_TESTS_SIM_SCENE_H
#define CPSIM_TESTS_SIM_SCENE_H

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "sim/engine.h"
#include "tests/models/plain_buffer.h"

double cost_message_factor(const struct cost *cost, const struct transfer_cost *transfer)
{
    (void)cost;
    (void)transfer;
    return 1;
}

double cost_op_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    (void)program;
    return (double)op->pairs * cost->device->launch_seconds;
}

double cost_op_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    (void)program;
    return (double)(op->q.count < op->pairs ? op->q.count : op->pairs) * cost->device->launch_seconds;
}

struct transfer_cost cost_transfer(const struct cost *cost, const struct route *route, const struct transfer *transfer)
{
    (void)cost;
    (void)transfer;
    return (struct transfer_cost){.delay_seconds = route->alpha_seconds, .bytes_per_s = route->bytes_per_s};
}

/* Of any message, and what each costs an operation: set by the test. */
static uint32_t scene_sms;

uint32_t cost_message_sms(const struct cost *cost, const struct transfer_cost *transfer)
{
    (void)cost;
    (void)transfer;
    return scene_sms;
}

/* Whether messages wait for SMs: set by the test. Attention then leaves none while its pairs beyond its key rows last.
 */
static bool scene_waits;

bool cost_waits(const struct cost *cost)
{
    (void)cost;
    return scene_waits;
}

double cost_fill_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    (void)program;
    bool fills = op_is_attention(op) && op->pairs > op->k.count;
    return fills ? (double)(op->pairs - op->k.count) * cost->device->launch_seconds : 0;
}

/* Whether each two ranks have a communicator: set by the test. */
static bool scene_pairs;

bool cost_has_pair_communicators(const struct cost *cost)
{
    (void)cost;
    return scene_pairs;
}

double cost_sms_share(const struct cost *cost, const struct op *op, double sms)
{
    return op_is_attention(op) && sms > 0 ? sms / cost->device->processors : 0;
}

/* Host seconds of any operation: set by the test. */
static double scene_host_seconds;

double cost_host_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    (void)cost;
    (void)program;
    (void)op;
    return scene_host_seconds;
}

static bool scene_synchronizes;

bool cost_synchronizes(const struct cost *cost)
{
    (void)cost;
    return scene_synchronizes;
}

struct scene {
    struct experiment experiment; /* of scene_ask */
    struct schedule schedule;
    struct topology topology;
    struct placement placement;
    struct device device; /* launch_seconds: of one pair */
    struct cost cost;
    struct program *programs;
    uint32_t ranks;
    bool replicas; /* they begin their phases each by itself: set by the test */
};

/* Prints what there is to complain about, and fails if there is anything. */
static inline void expect_good(bool good, struct diagnostics *diag)
{
    diagnostics_print(diag, stderr, "");
    diagnostics_fini(diag);
    assert_true(good);
}

/* A scene to fill with hand-built programs: rank (cp, tp, dp) of the layout is on GPU (dp * tp degree + tp) * cp degree
 * + cp. */
static inline void scene_init_layout(struct scene *scene, const char *topology, struct layout layout)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    *scene = (struct scene){.ranks = layout.cp};
    expect_good(topology_read_text(&scene->topology, "test", topology, &diag), &diag);
    scene->placement = (struct placement){.cp = layout.cp, .groups = layout.tp * layout.dp, .tp = layout.tp};
    scene->placement.stride[PARALLEL_CP] = 1;
    scene->placement.stride[PARALLEL_TP] = layout.cp;
    scene->placement.stride[PARALLEL_DP] = (uint64_t)layout.cp * layout.tp;
    scene->device = (struct device){.launch_seconds = 1e-9};
    scene->programs = memory_zeroed(layout.cp, sizeof *scene->programs);
    for (uint32_t r = 0; r < layout.cp; r++)
        program_init(&scene->programs[r], r);
}

/* The same of one group, or of several that do the same beside each other. */
static inline void scene_init(struct scene *scene, const char *topology, uint32_t ranks, uint32_t groups)
{
    scene_init_layout(scene, topology, (struct layout){.cp = ranks, .tp = 1, .dp = groups});
}

/* A scene whose programs are those of an experiment, given as text. */
static inline void scene_ask(struct scene *scene, const char *topology, const char *experiment)
{
    struct diagnostics diag, lenient;
    diagnostics_init(&diag);
    diagnostics_init(&lenient);
    *scene = (struct scene){.device = {.launch_seconds = 1e-9}};
    char path[] = "/tmp/cpsim-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, experiment, strlen(experiment)) == (ssize_t)strlen(experiment));
    close(fd);
    bool good = topology_read_text(&scene->topology, "test", topology, &diag);
    good = good && experiment_read(&scene->experiment, path, NULL, 0, &diag);
    unlink(path);
    good = good && placement_init(&scene->placement, &scene->experiment, &scene->topology, &diag);
    good = good && schedule_init(&scene->schedule, &scene->experiment, &lenient, &diag);
    expect_good(good, &diag);
    placement_permute(&scene->placement, scene->schedule.place_of_rank);
    diagnostics_fini(&lenient);
    scene->ranks = scene->placement.cp;
    scene->programs = schedule_build_all(&scene->schedule);
}

static inline void scene_fini(struct scene *scene)
{
    if (scene->schedule.algorithm) {
        schedule_fini(&scene->schedule);
        experiment_fini(&scene->experiment);
    }
    for (uint32_t r = 0; r < scene->ranks; r++)
        program_fini(&scene->programs[r]);
    free(scene->programs);
    placement_fini(&scene->placement);
    topology_fini(&scene->topology);
}

static inline uint32_t new_buffer(struct scene *scene, uint32_t rank)
{
    return plain_buffer(&scene->programs[rank], (struct lanes){0, 1, 0, 1}, "b", TENSOR_KV, DTYPE_FP32, ROLE_RECEIVED,
                        1, 1);
}

/* A local operation on `buffer` of so many nanoseconds (of pairs, to be exact). */
static inline void add_work(struct scene *scene, uint32_t rank, enum stream stream, uint32_t buffer, uint64_t pairs)
{
    struct op op = {.kind = OP_CAST, .stream = (uint8_t)stream, .pairs = pairs};
    program_add_op(&scene->programs[rank], op, &buffer, 1, &buffer, 1);
}

static inline void add_send(struct scene *scene, uint32_t rank, enum stream stream, uint32_t buffer, uint32_t peer,
                            uint64_t bytes)
{
    struct op op = {.kind = OP_SEND, .stream = (uint8_t)stream, .part = PART_ALL, .peer = peer, .bytes = bytes};
    program_add_op(&scene->programs[rank], op, &buffer, 1, NULL, 0);
}

static inline void add_receive(struct scene *scene, uint32_t rank, enum stream stream, uint32_t buffer, uint32_t peer,
                               uint64_t bytes)
{
    struct op op = {.kind = OP_RECEIVE, .stream = (uint8_t)stream, .part = PART_ALL, .peer = peer, .bytes = bytes};
    program_add_op(&scene->programs[rank], op, NULL, 0, &buffer, 1);
}

/* A message between new buffers, waiting for nothing but the streams of its ends. */
static inline void add_message(struct scene *scene, enum stream stream, uint32_t from, uint32_t to, uint64_t bytes)
{
    add_send(scene, from, stream, new_buffer(scene, from), to, bytes);
    add_receive(scene, to, stream, new_buffer(scene, to), from, bytes);
}

static inline void end_phase(struct scene *scene, enum phase phase)
{
    for (uint32_t r = 0; r < scene->ranks; r++)
        program_end_phase(&scene->programs[r], phase);
}

/* What an engine left: its timeline, and its messages, a line each. */
struct outcome {
    bool good;
    uint32_t ranks;
    struct timeline timeline;
    char *messages;
};

static inline struct moment moment_of(const struct outcome *outcome, uint32_t instance, uint32_t op)
{
    return outcome->timeline.moments[instance][op];
}

static inline double seconds_of(const struct outcome *outcome)
{
    return outcome->timeline.phase_end[PHASE_COUNT - 1];
}

static inline char *joined_lines(const struct diagnostics *diag)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    diagnostics_print(diag, stream, "");
    fclose(stream);
    return text;
}

static inline void outcome_run(struct outcome *outcome, const struct engine_ops *engine, struct scene *scene)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    scene->cost = (struct cost){.device = &scene->device, .topology = &scene->topology};
    struct simulation simulation = {.cost = &scene->cost, .placement = &scene->placement};
    uint32_t tp = scene->placement.tp;
    const struct layout layout = {.cp = scene->ranks, .tp = tp, .dp = scene->placement.groups / tp};
    struct ensemble ensemble;
    outcome->good = ensemble_init(&ensemble, scene->programs, scene->ranks, layout, &diag);
    if (outcome->good) {
        if (scene->replicas)
            ensemble_set_replicas(&ensemble);
        if (ensemble.n_replicas > 1)
            outcome->timeline.replica_end = memory_zeroed(ensemble.n_replicas, sizeof *outcome->timeline.replica_end);
        simulation.ensemble = &ensemble;
        outcome->good = engine->run(&simulation, &outcome->timeline, &diag);
        ensemble_fini(&ensemble);
    }
    outcome->messages = joined_lines(&diag);
    diagnostics_fini(&diag);
}

/* Writes, or reads, the moments of all operations. */
static inline bool move_moments(const struct outcome *outcome, const struct scene *scene, FILE *stream, bool write)
{
    for (uint32_t i = 0; i < outcome->timeline.n_instances; i++) {
        size_t n = scene->programs[i % scene->ranks].n_ops;
        struct moment *moments = outcome->timeline.moments[i];
        size_t moved = write ? fwrite(moments, sizeof *moments, n, stream) : fread(moments, sizeof *moments, n, stream);
        if (moved != n)
            return false;
    }
    return true;
}

/* Runs a scene whose phases have been ended. The caller calls outcome_fini. */
static inline void run_scene(struct outcome *outcome, const struct engine_ops *engine, struct scene *scene)
{
    outcome->ranks = scene->ranks;
    timeline_init(&outcome->timeline, scene->programs, scene->ranks, scene->placement.groups);
    if (!engine->once) {
        outcome_run(outcome, engine, scene);
        return;
    }
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        FILE *stream = fdopen(ends[1], "w");
        outcome_run(outcome, engine, scene);
        size_t length = strlen(outcome->messages);
        fwrite(&outcome->good, sizeof outcome->good, 1, stream);
        fwrite(outcome->timeline.phase_end, sizeof outcome->timeline.phase_end, 1, stream);
        fwrite(&length, sizeof length, 1, stream);
        fwrite(outcome->messages, 1, length, stream);
        _exit(move_moments(outcome, scene, stream, true) && fclose(stream) == 0 ? 0 : 1);
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    size_t length = 0;
    bool complete = fread(&outcome->good, sizeof outcome->good, 1, stream) == 1 &&
                    fread(outcome->timeline.phase_end, sizeof outcome->timeline.phase_end, 1, stream) == 1 &&
                    fread(&length, sizeof length, 1, stream) == 1;
    outcome->messages = memory_zeroed(length + 1, 1);
    complete = complete && fread(outcome->messages, 1, length, stream) == length;
    complete = complete && move_moments(outcome, scene, stream, false);
    fclose(stream);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(complete);
    assert_int_equal(status, 0);
}

static inline void outcome_fini(struct outcome *outcome)
{
    timeline_fini(&outcome->timeline);
    free(outcome->messages);
}

/* Runs the scene, which must succeed, and gives the seconds of the whole step. */
static inline double scene_seconds(const struct engine_ops *engine, struct scene *scene)
{
    struct outcome outcome;
    run_scene(&outcome, engine, scene);
    assert_string_equal(outcome.messages, "");
    assert_true(outcome.good);
    double seconds = seconds_of(&outcome);
    outcome_fini(&outcome);
    return seconds;
}

/* Both within `tolerance` of each other, relative to `expected`. */
static inline void assert_near(double actual, double expected, double tolerance)
{
    if (!(actual - expected <= tolerance * expected && expected - actual <= tolerance * expected))
        fail_msg("%.15g is not within %g of %.15g", actual, tolerance, expected);
}

#endif
