/* explain_changes.c - the list, from what the topology, the device and the experiment have; and the runs. */
#include "cli/explain_changes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/summary.h"
#include "cli/worker_pool.h"
#include "models/base/memory.h"

/* ---- what can be tried ---- */

struct listing {
    struct changes *changes;
    const struct prediction *prediction;
    const struct constants *constants;
    mechanism_set without; /* already */
};

static struct change *add(struct listing *listing, struct change change)
{
    struct changes *changes = listing->changes;
    memory_grow(changes->items, changes->count, changes->capacity);
    changes->items[changes->count] = change;
    return &changes->items[changes->count++];
}

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool changes_constant(const struct change *change, const struct constant *constant)
{
    bool named =
        begins(constant->name, change->prefix) || (change->or_prefix && begins(constant->name, change->or_prefix));
    return named && constant->kind == change->kind &&
           (change->level == CONSTANT_OF_NO_LEVEL || constant->level == change->level);
}

/* Takes over the name; nothing if there is no such constant. */
static void add_constants(struct listing *listing, char *name, struct change change)
{
    change.name = name;
    change.way = CHANGE_CONSTANTS;
    for (size_t i = 0; i < listing->constants->count; i++) {
        if (!changes_constant(&change, &listing->constants->items[i]))
            continue;
        add(listing, change);
        return;
    }
    free(name);
}

/* Marks the levels of the links from an instance to each of its peers, and that which the messages go by. */
static void mark_crossed(bool *crosses, const struct prediction *prediction, const struct ensemble *ensemble,
                         uint32_t instance, struct route *route)
{
    const struct topology *topology = &prediction->topology;
    const struct instance *self = &ensemble->instances[instance];
    const struct messages *messages = &ensemble_shape(ensemble, instance)->messages;
    struct diagnostics unused; /* every message has a way: it was checked before */
    diagnostics_init(&unused);
    for (uint32_t p = 0; p < messages->n_peers; p++) {
        struct rank_place peer = ensemble_peer_place(ensemble, instance, messages->peers[p]);
        if (!topology_route(topology, placement_gpu(&prediction->placement, self->group, self->rank),
                            placement_gpu(&prediction->placement, peer.group, peer.rank), route, &unused))
            continue;
        crosses[route->level] = true;
        for (size_t i = 0; i < route->n_links; i++)
            crosses[topology_link(topology, route->links[i]).level] = true;
    }
    diagnostics_fini(&unused);
}

static void find_crossed(struct changes *changes, const struct prediction *prediction)
{
    const struct report_input input = prediction_report_input(prediction);
    const struct ensemble *ensemble = input.folding ? &input.folding->ensemble : &prediction->whole;
    changes->crosses = memory_zeroed(prediction->topology.n_levels, sizeof *changes->crosses);
    struct route route;
    route_init(&route);
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        mark_crossed(changes->crosses, prediction, ensemble, i, &route);
    route_fini(&route);
}

static void add_levels(struct listing *listing)
{
    const struct topology *topology = &listing->prediction->topology;
    find_crossed(listing->changes, listing->prediction);
    const char *what = topology->graph ? "links" : "level";
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        const char *name = topology->levels[k].name;
        if (!listing->changes->crosses[k])
            continue;
        add_constants(listing, memory_format("twice the bandwidth of %s %s", what, name),
                      (struct change){.prefix = "", .level = k, .kind = CONSTANT_RATE, .factor = 2});
        add_constants(listing, memory_format("half the latency of %s %s", what, name),
                      (struct change){.prefix = "", .level = k, .kind = CONSTANT_TIME, .factor = 0.5});
    }
    add_constants(
        listing, memory_text("twice the bandwidth of all overrides"),
        (struct change){.prefix = "override ", .level = CONSTANT_OF_NO_LEVEL, .kind = CONSTANT_RATE, .factor = 2});
}

/* Costs nothing that is there already. */
static void add_mechanisms(struct listing *listing, const char *name, mechanism_set without)
{
    without &= ~listing->without;
    if (!without)
        return;
    char *options = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&options, &size);
    if (stream) {
        question_print_without(stream, without);
        fclose(stream);
        memmove(options, options + 1, strlen(options)); /* the blank */
    }
    add(listing,
        (struct change){.name = memory_text(name), .options = options, .way = CHANGE_MECHANISMS, .without = without});
}

static void add_costs(struct listing *listing)
{
    /* And the device's peak, which they must not pass. */
    add_constants(listing, memory_text("attention kernels twice as fast"),
                  (struct change){.prefix = "attention ",
                                  .or_prefix = "device.peak",
                                  .level = CONSTANT_OF_NO_LEVEL,
                                  .kind = CONSTANT_RATE,
                                  .factor = 2});
    /* Attention alone has none, and the peak is its kernels' too. */
    if (listing->prediction->experiment.step.scope != SCOPE_ATTENTION)
        add_constants(listing, memory_text("matrix products twice as fast"),
                      (struct change){.prefix = "product ",
                                      .or_prefix = "device.peak",
                                      .level = CONSTANT_OF_NO_LEVEL,
                                      .kind = CONSTANT_RATE,
                                      .factor = 2});
    add_mechanisms(listing, "merges, sums and copies at no cost", 1U << MECHANISM_STEPS);
    add_mechanisms(listing, "transfers that take no SMs and slow nothing down",
                   1U << MECHANISM_SMS | 1U << MECHANISM_WAITING | 1U << MECHANISM_SLOWDOWN);
    add_mechanisms(listing, "kernels issued and started at no cost", 1U << MECHANISM_LAUNCH);
    add_constants(
        listing, memory_text("a host that takes no time"),
        (struct change){.prefix = "host.", .level = CONSTANT_OF_NO_LEVEL, .kind = CONSTANT_TIME, .factor = 0});
}

static void add_key(struct listing *listing, const char *name, const char *key, const char *value)
{
    char *override = memory_format("%s=%s", key, value);
    add(listing, (struct change){.name = memory_text(name),
                                 .options = memory_format("--set %s", override),
                                 .way = CHANGE_KEY,
                                 .override = override});
}

static void add_sharding(struct listing *listing)
{
    static const enum sharding_kind kinds[] = {SHARDING_CONTIGUOUS, SHARDING_ZIGZAG, SHARDING_STRIPED};
    const struct experiment *experiment = &listing->prediction->experiment;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *value = summary_sharding(kinds[i]);
        char *name = memory_format("sharding %s", value);
        if (experiment->sharding != kinds[i])
            add_key(listing, name, "schedule.sharding", value);
        free(name);
    }
    if (experiment->mask.kind == MASK_DOCUMENTS && experiment->sharding != SHARDING_PER_DOCUMENT)
        add_key(listing, "sharding per document", "schedule.sharding", "per-document");
}

static void add_rings(struct listing *listing)
{
    static const struct {
        enum ring_kind kind;
        const char *value;
    } rings[] = {
        {RING_NATURAL, "natural"}, {RING_NODE_MAJOR, "node-major"}, {RING_RAIL, "rail"}, {RING_SNAKE, "snake"}};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
        char *name = memory_format("ring order %s", rings[i].value);
        if (listing->prediction->experiment.ring != rings[i].kind)
            add_key(listing, name, "parallel.ring", rings[i].value);
        free(name);
    }
}

static void add_settings(struct listing *listing)
{
    const struct experiment *experiment = &listing->prediction->experiment;
    add_sharding(listing);
    if (!experiment->overlap)
        add_key(listing, "exchanges beside compute", "schedule.overlap", "yes");
    if (experiment->split_kv)
        add_key(listing, "K and V in one message", "schedule.kv_messages", "1");
    else
        add_key(listing, "K and V in two messages", "schedule.kv_messages", "2");
    char *buffers = memory_format("%u", 2 * experiment->buffers), *name = memory_format("%s buffers", buffers);
    add_key(listing, name, "schedule.buffers", buffers);
    free(buffers);
    free(name);
    if (experiment->skip == SKIP_NONE)
        add_key(listing, "blocks that nobody sees not computed", "schedule.skip", "compute");
    if (experiment->skip != SKIP_TRANSFER)
        add_key(listing, "blocks that nobody sees not sent", "schedule.skip", "transfer");
    if (experiment->gradient_accumulator)
        add_key(listing, "gradients in the model's dtype", "schedule.gradients", "model");
    add_rings(listing);
}

void changes_init(struct changes *changes, const struct prediction *prediction, const struct constants *constants,
                  mechanism_set without)
{
    *changes = (struct changes){0};
    struct listing listing = {changes, prediction, constants, without};
    add_costs(&listing);
    add_levels(&listing);
    add_settings(&listing);
}

void changes_fini(struct changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        free(changes->items[i].name);
        free(changes->items[i].options);
        free(changes->items[i].override);
        free(changes->items[i].why);
    }
    free(changes->items);
    free(changes->crosses);
    *changes = (struct changes){0};
}

/* ---- a run, in the child ---- */

struct work {
    const struct change_runs *runs;
    const struct changes *changes;
};

/* With the key of `change` set, whatever the question says of it. */
static enum prediction_status prepare_with_key(struct prediction *prediction, const struct question *question,
                                               const struct change *change, struct diagnostics *diag)
{
    struct question changed = *question;
    size_t key_length = strcspn(change->override, "=") + 1;
    const char **overrides = memory_zeroed(question->n_overrides + 1, sizeof *overrides);
    changed.n_overrides = 0;
    for (size_t i = 0; i < question->n_overrides; i++)
        if (strncmp(question->overrides[i], change->override, key_length) != 0)
            overrides[changed.n_overrides++] = question->overrides[i];
    overrides[changed.n_overrides++] = change->override;
    changed.overrides = overrides;
    enum prediction_status status = prediction_prepare(prediction, &changed, diag);
    free(overrides);
    return status;
}

static enum prediction_status run_change(struct prediction *prediction, const struct question *question,
                                         const struct change_runs *runs, const struct change *change,
                                         struct diagnostics *diag)
{
    if (change->way == CHANGE_KEY) {
        enum prediction_status status = prepare_with_key(prediction, question, change, diag);
        return status == PREDICTION_DONE ? prediction_run(prediction, question, diag) : status;
    }
    struct question changed = *question;
    changed.without |= change->without;
    for (size_t i = 0; change->way == CHANGE_CONSTANTS && i < runs->constants->count; i++)
        if (changes_constant(change, &runs->constants->items[i]))
            constant_scale(&runs->constants->items[i], change->factor);
    return prediction_make_costs(prediction, &changed, diag) ? prediction_run(prediction, &changed, diag)
                                                             : PREDICTION_FAILED;
}

/* Writes the seconds of the step and whether it fits, or "refused", or neither; then lines that say what was wrong. */
static void work_on_change(void *context, size_t index, FILE *stream)
{
    const struct work *work = context;
    struct question question = *work->runs->question;
    question.progress = NULL;
    question.spares_interval = question.figures_only = true;
    struct diagnostics diag;
    diagnostics_init(&diag);
    const struct change *change = &work->changes->items[index];
    struct prediction other, *prediction = change->way == CHANGE_KEY ? &other : work->runs->prediction;
    enum prediction_status status = run_change(prediction, &question, work->runs, change, &diag);
    if (status == PREDICTION_DONE)
        fprintf(stream, "%.17g %d", prediction->report.seconds, prediction->report.fits);
    else if (status == PREDICTION_BAD_INPUT)
        fputs("refused\n", stream);
    if (status != PREDICTION_DONE)
        diagnostics_print(&diag, stream, "");
    diagnostics_fini(&diag);
}

/* ---- all of them, in the parent ---- */

static bool read_result(const struct worker_result *worker, struct change *change, struct diagnostics *diag)
{
    if (worker->wait_status == -1)
        return diagnostics_add(diag, "a process could not be started: %s", strerror(worker->start_errno));
    if (WIFSIGNALED(worker->wait_status))
        return diagnostics_add(diag, "%s: the run was ended by signal %d (%s)", change->name,
                               WTERMSIG(worker->wait_status), strsignal(WTERMSIG(worker->wait_status)));
    char *text = memory_format("%.*s", (int)worker->size, worker->text ? worker->text : "");
    static const char refused[] = "refused\n";
    int fits, length = 0;
    bool fine = true;
    change->refused = strncmp(text, refused, strlen(refused)) == 0;
    if (change->refused) {
        change->why = memory_text(text + strlen(refused));
        change->why[strcspn(change->why, "\n")] = '\0';
    } else if (sscanf(text, "%lf %d%n", &change->seconds, &fits, &length) == 2 && text[length] == '\0') {
        change->fits = fits;
    } else {
        text[strcspn(text, "\n")] = '\0';
        fine = diagnostics_add(diag, "%s: %s", change->name, *text ? text : "the run ended without a result");
    }
    free(text);
    return fine;
}

bool changes_run(struct changes *changes, const struct change_runs *runs, int *signal, struct diagnostics *diag)
{
    struct work work = {runs, changes};
    const struct worker_pool pool = {
        .n_tasks = changes->count,
        .jobs = runs->jobs < changes->count ? runs->jobs : (uint32_t)changes->count,
        .work = work_on_change,
        .context = &work,
        .progress = runs->question->progress,
        .progress_context = runs->question->progress_context,
    };
    struct worker_result *workers = memory_zeroed(changes->count, sizeof *workers);
    *signal = worker_pool_run(&pool, workers);
    bool fine = *signal == 0;
    for (size_t i = 0; i < changes->count; i++) {
        if (*signal == 0)
            fine &= read_result(&workers[i], &changes->items[i], diag);
        free(workers[i].text);
    }
    free(workers);
    return fine;
}
