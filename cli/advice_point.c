/* advice_point.c - see advice_point.h. */
#include "cli/advice_point.h"

#include <stdlib.h>
#include <string.h>

#include "cli/advice_overrides.h"
#include "cli/prediction.h"
#include "cli/worker_pool.h"
#include "models/base/memory.h"
#include "models/result/memory.h"
#include "models/result/step_figures.h"

uint32_t advice_layers(const struct experiment *experiment, int run)
{
    uint32_t bucket = experiment->step.bucket_layers;
    if (experiment->step.scope != SCOPE_MODEL || experiment->model.layers <= 3 * (uint64_t)bucket)
        return 0;
    return run ? 2 * bucket : bucket;
}

/* ---- memory ---- */

static double memory_of_rank(const struct schedule *schedule, uint32_t rank)
{
    struct program program;
    struct stream_order order;
    struct high_water water;
    schedule_build(schedule, rank, &program);
    stream_order_init(&order, &program);
    high_water_init(&water, &order);
    double bytes = (double)water.bytes;
    high_water_fini(&water);
    stream_order_fini(&order);
    program_fini(&program);
    return bytes;
}

/* The most that a few ranks take, of all of the model's layers. */
static double memory_of(struct prediction *prediction, uint32_t layers)
{
    const uint32_t ranks = prediction->n_programs, some[] = {0, ranks / 2, ranks - 1};
    uint32_t *held = &prediction->experiment.model.layers, simulated = *held;
    double most = 0;
    *held = layers;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        if (i > 0 && some[i] == some[i - 1])
            continue;
        double bytes = memory_of_rank(&prediction->schedule, some[i]);
        most = bytes > most ? bytes : most;
    }
    *held = simulated;
    return most;
}

/* ---- times ---- */

static struct advice_times times_of(const struct report *report)
{
    struct advice_times times = {
        .seconds = report->seconds,
        .low = report->seconds_low,
        .high = report->seconds_high,
        .bound = report->compute_bound_seconds,
        .compute = report->compute_seconds,
        .exposed = report->exposed_seconds,
        .idle = report->idle_seconds,
        .recomputed = report->recomputed_seconds,
    };
    memcpy(times.waits, report->exposed_by_kind, sizeof times.waits);
    memcpy(times.parts, report->compute_by_part, sizeof times.parts);
    return times;
}

/* All are doubles. */
#define N_TIMES (sizeof(struct advice_times) / sizeof(double))

/* `first` of `a` layers and `second` of `b`, continued to `layers`. */
static struct advice_times continued(const struct advice_times *first, const struct advice_times *second, uint32_t a,
                                     uint32_t b, uint32_t layers)
{
    double from[N_TIMES], to[N_TIMES], all[N_TIMES];
    memcpy(from, first, sizeof from);
    memcpy(to, second, sizeof to);
    for (size_t i = 0; i < N_TIMES; i++) {
        all[i] = to[i] + (to[i] - from[i]) / (b - a) * (layers - b);
        all[i] = all[i] < 0 ? 0 : all[i]; /* what is too little to see may shrink with layers, not below nothing */
    }
    struct advice_times times;
    memcpy(&times, all, sizeof times);
    return times;
}

/* ---- a look ---- */

struct look {
    const struct question *question;
    struct advice_answer *answer;
    uint32_t layers; /* the model's */
    struct diagnostics lenient, diag;
};

/* FLOPs are those of all layers. */
static void take_figures(struct look *look, struct prediction *prediction)
{
    struct advice_answer *answer = look->answer;
    answer->peak_flops_per_s = prediction->device.peak_flops_per_s;
    if (prediction->experiment.step.scope == SCOPE_ATTENTION)
        return;
    prediction->experiment.model.layers = look->layers;
    answer->model_flops =
        step_figures_of(&prediction->experiment, &prediction->report, answer->peak_flops_per_s).model_flops_per_gpu_s *
        prediction->report.seconds;
}

static bool has_room(struct look *look, struct prediction *prediction)
{
    struct advice_answer *answer = look->answer;
    answer->device_bytes = prediction->device.memory_bytes;
    answer->reserve_bytes = prediction->experiment.step.reserve_bytes;
    answer->peak_bytes = memory_of(prediction, look->layers);
    return answer->device_bytes <= 0 || answer->peak_bytes + answer->reserve_bytes <= answer->device_bytes;
}

/* Runs the candidate with `layers` layers (0: all). The first of its runs looks at memory before, and at FLOPs. */
static enum advice_status run(struct look *look, uint32_t layers, bool first, struct advice_times *times)
{
    struct question question = *look->question;
    struct prediction prediction;
    question.layers = layers;
    bool room = true;
    enum prediction_status status = prediction_prepare(&prediction, &question, &look->diag);
    if (status == PREDICTION_DONE && first)
        room = has_room(look, &prediction);
    if (status == PREDICTION_DONE && room)
        status = prediction_run(&prediction, &question, &look->diag);
    if (status == PREDICTION_DONE && room) {
        *times = times_of(&prediction.report);
        room = layers || prediction.report.fits; /* of the rank that takes most */
        if (!layers)
            look->answer->peak_bytes = (double)prediction.report.peak_bytes;
        if (first)
            take_figures(look, &prediction);
    }
    prediction_fini(&prediction);
    if (status == PREDICTION_DONE)
        return room ? ADVICE_RAN : ADVICE_NO_ROOM;
    return status == PREDICTION_BAD_INPUT ? ADVICE_REFUSED : ADVICE_FAILED;
}

static void write_answer(const struct advice_answer *answer, FILE *stream);

/* A run that is made in a process of its own, for an engine that can run once in a process. */
struct apart {
    struct look *look;
    uint32_t layers;
    bool first;
};

static void work_apart(void *context, size_t task, FILE *stream)
{
    const struct apart *apart = context;
    struct advice_answer *answer = apart->look->answer;
    (void)task;
    answer->status = run(apart->look, apart->layers, apart->first, &answer->times);
    if (apart->look->diag.count)
        answer->line = apart->look->diag.lines[0];
    write_answer(answer, stream);
}

static enum advice_status run_apart(struct look *look, uint32_t layers, bool first, struct advice_times *times)
{
    if (!look->question->engine->once)
        return run(look, layers, first, times);
    struct apart apart = {look, layers, first};
    const struct worker_pool pool = {.n_tasks = 1, .jobs = 1, .work = work_apart, .context = &apart};
    struct worker_result result;
    struct advice_answer answer;
    worker_pool_run(&pool, &result);
    bool fine = result.wait_status == 0 && advice_answer_read(&answer, result.text, result.size);
    free(result.text);
    if (!fine)
        return ADVICE_FAILED;
    if (answer.line)
        diagnostics_add(&look->diag, "%s", answer.line);
    free(answer.line);
    answer.line = NULL;
    *times = answer.times;
    if (first)
        *look->answer = answer;
    return answer.status;
}

/* Layers that are run at most, if need be: from there on the slope is taken as it is. */
#define LAYERS_MAX 32

/* Whether more layers still hide more of what is waited for without them, so that each of them adds less than the next:
 * sums of the head's gradients, as large as several layers' may be. */
static bool still_hides(const struct advice_times *fewer, const struct advice_times *more)
{
    double less = fewer->waits[WAIT_DP] + fewer->idle - more->waits[WAIT_DP] - more->idle;
    return less > 1e-3 * (more->seconds - fewer->seconds);
}

static enum advice_status look_at(struct look *look, const struct experiment *experiment)
{
    uint32_t a = advice_layers(experiment, 0), b = advice_layers(experiment, 1);
    struct advice_times first = {0}, second = {0};
    enum advice_status status = run_apart(look, a, true, &first);
    look->answer->times = first;
    if (status != ADVICE_RAN || a == 0)
        return status;
    status = run_apart(look, b, false, &second);
    bool hid = false;
    while (status == ADVICE_RAN && still_hides(&first, &second) && 2 * b <= LAYERS_MAX && 2 * b < look->layers) {
        hid = true;
        first = second;
        a = b;
        b *= 2;
        status = run_apart(look, b, false, &second);
    }
    if (status == ADVICE_RAN && still_hides(&first, &second) && 2 * b >= look->layers) /* all are not many more */
        return run_apart(look, 0, false, &look->answer->times);
    if (status == ADVICE_RAN && hid) { /* somewhere between the two that ended */
        first = second;
        a = b;
        b += experiment->step.bucket_layers;
        status = run_apart(look, b, false, &second);
    }
    if (status == ADVICE_RAN)
        look->answer->times = continued(&first, &second, a, b, look->layers);
    return status;
}

/* ---- answers ---- */

static void write_answer(const struct advice_answer *answer, FILE *stream)
{
    double times[N_TIMES];
    memcpy(times, &answer->times, sizeof times);
    fprintf(stream, "%d %.17g %.17g %.17g %.17g %.17g", (int)answer->status, answer->peak_bytes, answer->device_bytes,
            answer->reserve_bytes, answer->model_flops, answer->peak_flops_per_s);
    for (size_t i = 0; i < N_TIMES; i++)
        fprintf(stream, " %.17g", times[i]);
    fprintf(stream, "\n%s", answer->line ? answer->line : "");
}

bool advice_answer_read(struct advice_answer *answer, const char *bytes, size_t size)
{
    *answer = (struct advice_answer){.status = ADVICE_FAILED};
    char *text = memory_format("%.*s", (int)size, bytes ? bytes : ""), *at = text;
    double numbers[6 + N_TIMES];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char *end;
        numbers[i] = strtod(at, &end);
        if (end == at) {
            free(text);
            return false;
        }
        at = end;
    }
    answer->status = (enum advice_status)numbers[0];
    answer->peak_bytes = numbers[1];
    answer->device_bytes = numbers[2];
    answer->reserve_bytes = numbers[3];
    answer->model_flops = numbers[4];
    answer->peak_flops_per_s = numbers[5];
    memcpy(&answer->times, numbers + 6, sizeof answer->times);
    if (*at == '\n' && at[1])
        answer->line = memory_text(at + 1);
    free(text);
    return true;
}

void advice_point_answer(const struct advice_space *space, const struct question *question, size_t candidate,
                         enum advice_depth depth, FILE *stream)
{
    size_t n_overrides;
    char **overrides = advice_overrides(space, question, candidate, &n_overrides);
    struct question asked = *question;
    asked.overrides = (const char *const *)overrides;
    asked.n_overrides = n_overrides;
    asked.progress = NULL;
    asked.phase = NULL;
    struct advice_answer answer = {.status = ADVICE_FAILED};
    struct look look = {.question = &asked, .answer = &answer, .layers = space->base.model.layers};
    diagnostics_init(&look.lenient);
    diagnostics_init(&look.diag);
    asked.lenient = &look.lenient;
    asked.spares_interval = depth == ADVICE_SCREENING;
    asked.figures_only = true;
    if (depth == ADVICE_SCREENING)
        asked.engine = &engine_analytic;
    answer.status = look_at(&look, &space->base);
    if (look.diag.count)
        answer.line = look.diag.lines[0];
    write_answer(&answer, stream);
    diagnostics_fini(&look.lenient);
    diagnostics_fini(&look.diag);
    advice_overrides_free(overrides, n_overrides);
}
