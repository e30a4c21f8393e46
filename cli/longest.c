/* longest.c - a search over lengths, each of which is an experiment read anew with another seq_len. */
#include "cli/longest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_set.h"
#include "cli/quantity.h"
#include "cli/step_table.h"
#include "cli/writers.h"
#include "models/base/memory.h"
#include "models/result/memory.h"

enum verdict { FITS, TOO_LONG, REFUSED };

struct search {
    struct longest *longest;
    const struct question *question;
    double room_bytes;   /* for tensors */
    uint32_t worst_rank; /* of the last length: most likely the worst of the next */
};

/* ---- one length ---- */

static void measure_rank(const struct schedule *schedule, uint32_t rank, struct length_memory *memory)
{
    struct program program;
    struct stream_order order;
    struct high_water water;
    schedule_build(schedule, rank, &program);
    stream_order_init(&order, &program);
    high_water_init(&water, &order);
    if (water.bytes > memory->bytes) {
        memory->bytes = water.bytes;
        memory->rank = rank;
        memcpy(memory->by_role, water.by_role, sizeof memory->by_role);
    }
    high_water_fini(&water);
    stream_order_fini(&order);
    program_fini(&program);
}

/* All ranks, the most likely worst one first; `whole` goes on when one has too much already. */
static void measure_ranks(struct search *search, const struct schedule *schedule, bool whole,
                          struct length_memory *memory)
{
    uint32_t n = schedule_period(schedule), first = search->worst_rank < n ? search->worst_rank : 0;
    for (uint32_t i = 0; i < n && (whole || (double)memory->bytes <= search->room_bytes); i++)
        measure_rank(schedule, (first + i) % n, memory);
    search->worst_rank = memory->rank;
}

static bool read_with_length(struct experiment *experiment, const struct search *search, uint64_t seq_len,
                             struct diagnostics *diag)
{
    struct question_overrides mine = question_overrides(search->question, &experiment_file);
    const char **overrides = memory_zeroed(mine.count + 1, sizeof *overrides);
    char *length = memory_format("workload.seq_len=%" PRIu64, seq_len);
    for (size_t i = 0; i < mine.count; i++)
        overrides[i] = mine.items[i];
    overrides[mine.count] = length;
    bool fine =
        experiment_read(experiment, search->longest->prediction.experiment.path, overrides, mine.count + 1, diag);
    free(length);
    free(overrides);
    free(mine.items);
    return fine;
}

static enum verdict try(struct search *search, uint64_t seq_len, bool whole, struct length_memory *memory)
{
    struct longest *longest = search->longest;
    struct diagnostics why, unsaid; /* keys without effect were said */
    diagnostics_init(&why);
    diagnostics_init(&unsaid);
    struct experiment experiment;
    struct schedule schedule;
    *memory = (struct length_memory){.seq_len = seq_len};
    longest->tried++;
    bool read = read_with_length(&experiment, search, seq_len, &why);
    bool fine = read && schedule_init(&schedule, &experiment, &unsaid, &why);
    if (fine) {
        schedule.node_gpus = longest->prediction.schedule.node_gpus;
        measure_ranks(search, &schedule, whole, memory);
        schedule_fini(&schedule);
    } else {
        free(longest->refused);
        longest->refused = memory_text(why.count ? why.lines[0] : "");
    }
    if (read)
        experiment_fini(&experiment);
    diagnostics_fini(&unsaid);
    diagnostics_fini(&why);
    return !fine ? REFUSED : (double)memory->bytes <= search->room_bytes ? FITS : TOO_LONG;
}

/* ---- the search ---- */

/* Tries `count` units: all that fit are at most `*below`, none from `*above` on does. */
static void note(struct search *search, uint64_t count, uint64_t *below, uint64_t *above)
{
    struct length_memory memory;
    enum verdict verdict = try(search, count * search->longest->unit, false, &memory);
    if (search->question->phase)
        search->question->phase(search->question->progress_context, "trying lengths");
    if (verdict == FITS) {
        search->longest->fits = memory;
        *below = count;
        return;
    }
    search->longest->too_long = memory;
    *above = count;
}

static void bisect(struct search *search, uint64_t first)
{
    uint64_t most = SEQ_LEN_MAX / search->longest->unit, below = 0, above = most + 1;
    uint64_t count = first < most ? first : most;
    note(search, count, &below, &above);
    while (below == count && count < most) {
        count = count > most / 2 ? most : 2 * count;
        note(search, count, &below, &above);
    }
    while (below == 0 && above > 1)
        note(search, above / 2, &below, &above);
    while (above - below > 1)
        note(search, below + (above - below) / 2, &below, &above);
}

/* What the next length takes in all; or that there is none. */
static void judge_next(struct search *search)
{
    struct longest *longest = search->longest;
    uint64_t next = longest->fits.seq_len + longest->unit;
    free(longest->refused);
    longest->refused = NULL;
    if (next > SEQ_LEN_MAX)
        longest->refused = memory_format("a sequence has at most %" PRIu64 " tokens", SEQ_LEN_MAX);
    else if (try(search, next, true, &longest->too_long) != REFUSED)
        return;
    longest->too_long = (struct length_memory){.seq_len = 0};
}

/* Lengths that stand in more than one place cannot be tried. */
static bool check_question(const struct question *question, const struct experiment *experiment,
                           struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < question->n_overrides; i++) {
        size_t key = strcspn(question->overrides[i], " =");
        if (key == strlen("workload.seq_len") && strncmp(question->overrides[i], "workload.seq_len", key) == 0)
            fine = diagnostics_add(diag, "--set %s has no effect with --longest, which tries lengths",
                                   question->overrides[i]);
    }
    if (experiment->mask.kind == MASK_DOCUMENTS)
        fine = experiment_complain(experiment, "workload", "mask", diag,
                                   "'mask' lists documents of one seq_len, expected another mask with --longest");
    if (experiment->sharding == SHARDING_EXPLICIT)
        fine = experiment_complain(experiment, "schedule", "sharding", diag,
                                   "'sharding' lists shards of one seq_len, expected another sharding with --longest");
    return fine;
}

enum prediction_status longest_find(struct longest *longest, const struct question *question, struct diagnostics *diag)
{
    *longest = (struct longest){.unit = 0};
    struct prediction *prediction = &longest->prediction;
    enum prediction_status status = prediction_prepare_schedule(prediction, question, diag);
    if (status != PREDICTION_DONE)
        return status;
    const struct experiment *experiment = &prediction->experiment;
    if (!check_question(question, experiment, diag))
        return PREDICTION_BAD_INPUT;
    longest->device_bytes = prediction->device.memory_bytes / prediction->topology.ranks_per_device;
    longest->reserve_bytes = experiment->step.reserve_bytes;
    if (longest->device_bytes <= 0) {
        topology_complain(&prediction->topology, "device", diag,
                          "device '%s' states no memory, which --longest is to fill", prediction->device.name);
        return PREDICTION_BAD_INPUT;
    }
    longest->unit = (uint64_t)2 * experiment->degree[PARALLEL_CP] * experiment->degree[PARALLEL_TP];
    struct search search = {longest, question, longest->device_bytes - longest->reserve_bytes, 0};
    uint64_t first = experiment->seq_len / longest->unit;
    bisect(&search, first > 0 ? first : 1);
    judge_next(&search);
    return PREDICTION_DONE;
}

void longest_fini(struct longest *longest)
{
    free(longest->refused);
    prediction_fini(&longest->prediction);
    *longest = (struct longest){.unit = 0};
}

/* ---- what is said ---- */

bool longest_table_write(const struct longest *longest, FILE *stream)
{
    const struct length_memory *fits = &longest->fits, *next = &longest->too_long;
    const struct experiment *experiment = &longest->prediction.experiment;
    double reserve = longest->reserve_bytes;
    if (fits->seq_len) {
        double taken = (double)fits->bytes + reserve;
        fprintf(stream, "longest   %s tokens fit", text_of_count(fits->seq_len).text);
        fprintf(stream, ": %s of the device's %s, on rank %" PRIu32 "\n", text_of_memory(taken).text,
                text_of_memory(longest->device_bytes).text, fits->rank);
        step_table_write_made_of(fits->by_role, reserve, unit_of_memory(taken), stream);
    } else {
        fprintf(stream, "longest   none fits the device's %s\n", text_of_memory(longest->device_bytes).text);
    }
    if (next->seq_len)
        fprintf(stream, "next      %s tokens take %s, %s too much\n", text_of_count(next->seq_len).text,
                text_of_memory((double)next->bytes + reserve).text,
                text_of_memory((double)next->bytes + reserve - longest->device_bytes).text);
    else
        fprintf(stream, "next      %s\n", longest->refused);
    fprintf(stream,
            "tried     %" PRIu32 " lengths, multiples of %s (2 x cp x tp); cp %" PRIu32 ", tp %" PRIu32 ", dp %" PRIu32
            ", batch %" PRIu32 "\n",
            longest->tried, text_of_count(longest->unit).text, experiment->degree[PARALLEL_CP],
            experiment->degree[PARALLEL_TP], experiment->degree[PARALLEL_DP], experiment->batch);
    return fflush(stream) == 0 && !ferror(stream);
}

static json_t *length_to_json(const struct length_memory *memory)
{
    if (!memory->seq_len)
        return json_null();
    json_t *json = json_object(), *roles = json_object();
    json_set_count(json, "seq_len", memory->seq_len);
    json_set_count(json, "peak_bytes", memory->bytes);
    json_set_count(json, "peak_rank", memory->rank);
    for (int role = 0; role < ROLE_COUNT; role++)
        json_set_count(roles, buffer_role_name((enum buffer_role)role), memory->by_role[role]);
    json_object_set_new(json, "peak_bytes_by_role", roles);
    return json;
}

json_t *longest_to_json(const struct longest *longest)
{
    json_t *json = json_object();
    json_set_asked(json, "cpsim.longest/1", "--longest", &longest->prediction);
    json_set_count(json, "unit", longest->unit);
    json_set_real(json, "device_bytes", longest->device_bytes);
    json_set_real(json, "reserve_bytes", longest->reserve_bytes);
    json_object_set_new(json, "fits", length_to_json(&longest->fits));
    json_object_set_new(json, "next", length_to_json(&longest->too_long));
    if (longest->refused)
        json_set_text(json, "next_refused", longest->refused);
    json_set_count(json, "tried", longest->tried);
    return json;
}
