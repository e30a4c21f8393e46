/* gpu_kernels.c - how fast the CUDA kernels are on this machine's GPU.
 *
 *   gpu_kernels [--json FILE] [--device N] [--seconds S] [--tiny]
 *
 * Attention in bf16, 64 query and 8 KV heads as in the published cuDNN table for H200, forward and backward, full and
 * causal: TFLOP/s by FLOPs = 4 x visible pairs x head dim x heads, 2.5 times that backward; pairs = S^2 / 2 causal, as
 * the published ones count. Then the steps around it, in bytes read and written per second, beside a copy. Each case
 * runs for S seconds (0.2 unless given) after as long a warm-up; times are by events, several calls between two of
 * them; printed are the median and the 10th and 90th percentile. Inputs are random: zeros would run faster.
 */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/runtime.h"
#include "kernels/runs.h"
#include "models/base/memory.h"
#include "models/base/statistics.h"
#include "models/schedule/mask.h"

#define Q_HEADS 64
#define KV_HEADS 8
#define SAMPLES_MAX 200

struct settings {
    const char *json;
    int device;
    double seconds;
    bool tiny;
};

/* Every call has to work: there is nothing to go on with. */
#define MUST(call) must(call, #call, __LINE__)

static void must(int error, const char *what, int line)
{
    if (!error)
        return;
    fprintf(stderr, "gpu_kernels.c:%d: %s: %s\n", line, what, cuda_error_text(error));
    exit(1);
}

/* ---- what is timed ---- */

struct attention_problem {
    const struct kernel_family *family;
    struct cuda_call call;
    struct cuda_keys keys;
    void *q, *k, *v, *o, *d_o, *dq, *dk, *dv, *lse, *delta, *from, *to, *device_keys, *workspace;
    double pairs; /* as published tables count */
};

struct bench {
    struct settings settings;
    void *stream, *before, *after;
    json_t *rows;
};

typedef void timed(struct bench *bench, void *context);

struct rate {
    double low, median, high; /* seconds of one call */
    size_t samples;
};

static double time_calls(struct bench *bench, timed *call, void *context, int calls)
{
    double seconds;
    MUST(cuda_event_record(bench->before, bench->stream));
    for (int i = 0; i < calls; i++)
        call(bench, context);
    MUST(cuda_event_record(bench->after, bench->stream));
    MUST(cuda_stream_wait(bench->stream));
    MUST(cuda_event_seconds(bench->before, bench->after, &seconds));
    return seconds / calls;
}

/* Several calls between two events, at least a millisecond or so, and at least five such samples. */
static struct rate measure(struct bench *bench, timed *call, void *context)
{
    double samples[SAMPLES_MAX], once = time_calls(bench, call, context, 1);
    once = time_calls(bench, call, context, 1);
    const int calls = once < 1e-3 && !bench->settings.tiny ? (int)(1e-3 / once) + 1 : 1;
    for (double warm = 0; warm < bench->settings.seconds; warm += once * calls)
        time_calls(bench, call, context, calls);
    size_t n = 0;
    for (double spent = 0; n < SAMPLES_MAX && (n < 5 || spent < bench->settings.seconds); n++) {
        samples[n] = time_calls(bench, call, context, calls);
        spent += samples[n] * calls;
    }
    sort_ascending(samples, n);
    return (struct rate){samples[n / 10], samples[(n - 1) / 2], samples[n - 1 - n / 10], n};
}

/* ---- attention ---- */

static void *random_numbers(size_t count)
{
    uint16_t *host = memory_zeroed(count, sizeof *host);
    void *memory;
    uint32_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const float number = (float)(int32_t)state * 0x1p-31f;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        host[i] = (uint16_t)(bits >> 16);
    }
    MUST(cuda_allocate(&memory, count * sizeof *host));
    MUST(cuda_write(memory, host, count * sizeof *host));
    free(host);
    return memory;
}

static void *empty(size_t bytes)
{
    void *memory;
    MUST(cuda_allocate(&memory, bytes));
    return memory;
}

static void *device_copy(const void *host, size_t bytes)
{
    void *memory = empty(bytes);
    MUST(cuda_write(memory, host, bytes));
    return memory;
}

static void run_forward(struct bench *bench, void *context)
{
    struct attention_problem *p = context;
    MUST(p->family->forward(&p->call, p->o, p->lse, bench->stream));
}

static void run_backward(struct bench *bench, void *context)
{
    struct attention_problem *p = context;
    MUST(p->family->backward(&p->call, p->d_o, p->lse, p->delta, p->dq, bench->stream));
}

static void attention_init(struct bench *bench, struct attention_problem *p, const struct kernel_family *family,
                           uint32_t rows, uint32_t dim, bool causal)
{
    const uint64_t q_row = (uint64_t)Q_HEADS * dim, kv_row = (uint64_t)KV_HEADS * dim;
    const struct mask mask = {.kind = causal ? MASK_CAUSAL : MASK_FULL, .seq_len = rows};
    const struct attention_rows all = {.spans = {{0, 1, rows}}, .n_spans = 1, .rows = rows};
    int32_t *runs = memory_zeroed(2 * (size_t)rows, sizeof *runs);
    attention_runs(&mask, &all, &all, runs, runs + rows);
    *p = (struct attention_problem){.family = family};
    p->q = random_numbers(rows * q_row);
    p->k = random_numbers(rows * kv_row);
    p->v = random_numbers(rows * kv_row);
    p->d_o = random_numbers(rows * q_row);
    p->o = empty(rows * q_row * 2);
    p->dq = empty(rows * q_row * 2);
    p->dk = empty(rows * kv_row * 2);
    p->dv = empty(rows * kv_row * 2);
    p->lse = empty((size_t)rows * Q_HEADS * 4);
    p->delta = empty((size_t)rows * Q_HEADS * 4);
    p->from = device_copy(runs, rows * sizeof *runs);
    p->to = device_copy(runs + rows, rows * sizeof *runs);
    free(runs);
    p->keys = (struct cuda_keys){.k = p->k,
                                 .v = p->v,
                                 .dk = p->dk,
                                 .dv = p->dv,
                                 .strides = {kv_row, 0},
                                 .gradient = {kv_row, 0},
                                 .from = p->from,
                                 .to = p->to,
                                 .rows = rows};
    p->device_keys = device_copy(&p->keys, sizeof p->keys);
    p->call = (struct cuda_call){.items = 1,
                                 .q_heads = Q_HEADS,
                                 .kv_heads = KV_HEADS,
                                 .head_dim = dim,
                                 .group = Q_HEADS / KV_HEADS,
                                 .scale = (float)(1 / sqrt((double)dim)),
                                 .dtype = DTYPE_BF16,
                                 .dkv_dtype = DTYPE_BF16,
                                 .rows = rows,
                                 .q = p->q,
                                 .strides = {.q = {q_row, 0},
                                             .o = {q_row, 0},
                                             .lse = {Q_HEADS, 0},
                                             .d_o = {q_row, 0},
                                             .delta = {Q_HEADS, 0},
                                             .dq = {q_row, 0}},
                                 .keys = &p->keys,
                                 .device_keys = p->device_keys,
                                 .n_keys = 1};
    uint64_t bytes = 0;
    for (int backward = 0; backward < 2; backward++) {
        const uint64_t needed = family->workspace(&p->call, backward);
        bytes = needed > bytes ? needed : bytes;
    }
    if (bytes)
        p->call.workspace = p->workspace = empty(bytes);
    p->pairs = causal ? 0.5 * rows * rows : (double)rows * rows;
    run_forward(bench, p); /* LSE for the backward pass, and delta from O */
    const struct cuda_extent extent = {.rows = rows, .items = 1, .heads = Q_HEADS, .dim = dim};
    const struct cuda_strides wide = {q_row, 0}, narrow = {Q_HEADS, 0};
    MUST(cuda_delta(extent, (struct cuda_array){p->o, wide, DTYPE_BF16}, (struct cuda_array){p->d_o, wide, DTYPE_BF16},
                    (struct cuda_array){p->delta, narrow, DTYPE_FP32}, bench->stream));
    MUST(cuda_stream_wait(bench->stream));
}

static void attention_fini(struct attention_problem *p)
{
    void *const all[] = {p->q,  p->k,   p->v,     p->o,    p->d_o, p->dq,          p->dk,
                         p->dv, p->lse, p->delta, p->from, p->to,  p->device_keys, p->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            MUST(cuda_release(all[i]));
}

static void print_rate(struct bench *bench, const char *name, const char *pass, uint32_t rows, uint32_t dim,
                       const char *mask, double work, const char *unit, double scale, struct rate rate)
{
    printf("%-10s %-10s %6u %4u  %-6s %9.3f ms  %8.1f %s  (%.1f to %.1f)\n", name, pass, rows, dim, mask,
           rate.median * 1e3, work / rate.median / scale, unit, work / rate.high / scale, work / rate.low / scale);
    fflush(stdout);
    json_array_append_new(bench->rows,
                          json_pack("{s:s, s:s, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:s, s:i}", "kernel", name, "pass",
                                    pass, "rows", (int)rows, "head_dim", (int)dim, "mask", mask, "seconds", rate.median,
                                    "rate", work / rate.median, "low", work / rate.high, "high", work / rate.low,
                                    "unit", unit, "samples", (int)rate.samples));
}

static void bench_attention(struct bench *bench, const struct kernel_family *family, uint32_t rows, uint32_t dim,
                            bool causal)
{
    struct attention_problem p;
    attention_init(bench, &p, family, rows, dim, causal);
    const double flops = 4 * p.pairs * dim * Q_HEADS;
    const char *mask = causal ? "causal" : "full";
    print_rate(bench, family->name, "forward", rows, dim, mask, flops, "TFLOP/s", 1e12,
               measure(bench, run_forward, &p));
    print_rate(bench, family->name, "backward", rows, dim, mask, 2.5 * flops, "TFLOP/s", 1e12,
               measure(bench, run_backward, &p));
    attention_fini(&p);
}

/* ---- the steps around it ---- */

struct step_problem {
    struct cuda_extent extent;
    struct cuda_array o, lse, a, m, l, d_o;
};

static void run_copy(struct bench *bench, void *context)
{
    const struct step_problem *p = context;
    const size_t bytes = p->extent.rows * p->extent.heads * p->extent.dim * 2;
    MUST(cuda_copy(p->o.first, p->d_o.first, bytes, bench->stream));
}

static void run_merge(struct bench *bench, void *context)
{
    const struct step_problem *p = context;
    MUST(cuda_merge(p->extent, p->o, p->lse, p->a, p->m, p->l, 0, bench->stream));
}

static void run_accumulate(struct bench *bench, void *context)
{
    const struct step_problem *p = context;
    MUST(cuda_accumulate(p->extent, p->a, p->o, 0, bench->stream));
}

static void bench_steps(struct bench *bench)
{
    const uint32_t dim = 128, rows = bench->settings.tiny ? 16 : 16384;
    const size_t lanes = (size_t)rows * Q_HEADS, numbers = lanes * dim;
    const struct cuda_strides wide = {(uint64_t)Q_HEADS * dim, 0}, narrow = {Q_HEADS, 0};
    struct step_problem p = {.extent = {.rows = rows, .items = 1, .heads = Q_HEADS, .dim = dim},
                             .o = {random_numbers(numbers), wide, DTYPE_BF16},
                             .d_o = {random_numbers(numbers), wide, DTYPE_BF16},
                             .lse = {empty(lanes * 4), narrow, DTYPE_FP32},
                             .a = {empty(numbers * 4), wide, DTYPE_FP32},
                             .m = {empty(lanes * 4), narrow, DTYPE_FP32},
                             .l = {empty(lanes * 4), narrow, DTYPE_FP32}};
    const struct {
        const char *name;
        timed *call;
        double bytes;
    } steps[] = {{"copy", run_copy, 4.0 * (double)numbers},
                 {"merge", run_merge, 10.0 * (double)numbers + 20.0 * (double)lanes},
                 {"accumulate", run_accumulate, 10.0 * (double)numbers}};
    void *const arrays[] = {p.lse.first, p.m.first, p.l.first};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        MUST(cuda_fill(arrays[i], 0x3c, lanes * 4, bench->stream));
    MUST(cuda_fill(p.a.first, 0x3c, numbers * 4, bench->stream));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        print_rate(bench, "steps", steps[i].name, rows, dim, "-", steps[i].bytes, "GB/s   ", 1e9,
                   measure(bench, steps[i].call, &p));
    void *const all[] = {p.o.first, p.d_o.first, p.lse.first, p.a.first, p.m.first, p.l.first};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        MUST(cuda_release(all[i]));
}

/* ---- the command ---- */

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct settings *settings = state->input;
    switch (key) {
    case 'j':
        settings->json = text;
        return 0;
    case 'd':
        settings->device = atoi(text);
        return 0;
    case 's':
        settings->seconds = strtod(text, NULL);
        return 0;
    case 't':
        settings->tiny = true;
        settings->seconds = 0;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void bench_all(struct bench *bench)
{
    static const uint32_t dims[] = {128, 64, 256}, sizes[] = {2048, 4096, 8192, 16384}, tiny_sizes[] = {40};
    const uint32_t *of = bench->settings.tiny ? tiny_sizes : sizes;
    const size_t n_sizes = bench->settings.tiny ? 1 : sizeof sizes / sizeof *sizes;
    for (size_t f = 0; kernel_families[f]; f++) {
        char reason[128];
        if (!kernel_families[f]->able(bench->settings.device, reason, sizeof reason)) {
            printf("%-10s not here: %s\n", kernel_families[f]->name, reason);
            continue;
        }
        for (size_t d = 0; d < (bench->settings.tiny ? 1 : 3); d++) /* other head dims than 128 at one size */
            for (size_t s = d == 0 ? 0 : n_sizes - 2; s < (d == 0 ? n_sizes : n_sizes - 1); s++)
                for (int causal = 0; causal < 2; causal++)
                    bench_attention(bench, kernel_families[f], of[s], dims[d], causal);
    }
    bench_steps(bench);
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', "FILE", 0, "Write the rows to FILE too", 0},
        {"device", 'd', "N", 0, "GPU to use (default: 0)", 0},
        {"seconds", 's', "S", 0, "Seconds for each case, and for warming up (default: 0.2)", 0},
        {"tiny", 't', NULL, 0, "Sizes that an emulated GPU can do", 0},
        {0},
    };
    struct bench bench = {.settings = {.seconds = 0.2}};
    argp_parse(&(struct argp){options, parse, NULL, "Times the CUDA kernels.", NULL, NULL, NULL}, argc, argv, 0, NULL,
               &bench.settings);
    char reason[128];
    if (cuda_devices(reason, sizeof reason) <= bench.settings.device) {
        fprintf(stderr, "there is no GPU %d: %s\n", bench.settings.device, reason);
        return 77;
    }
    struct cuda_device device;
    MUST(cuda_use(bench.settings.device));
    MUST(cuda_describe(bench.settings.device, &device));
    MUST(cuda_stream_create(&bench.stream, false));
    MUST(cuda_event_create(&bench.before, true));
    MUST(cuda_event_create(&bench.after, true));
    bench.rows = json_array();
    printf("%s, compute capability %d.%d, %u SMs\n", device.name, device.major, device.minor, device.processors);
    bench_all(&bench);
    json_t *root = json_pack("{s:s, s:i, s:o}", "device", device.name, "driver", device.driver, "rows", bench.rows);
    bool good = !bench.settings.json || json_dump_file(root, bench.settings.json, JSON_INDENT(1)) == 0;
    if (!good)
        fprintf(stderr, "cannot write %s\n", bench.settings.json);
    json_decref(root);
    MUST(cuda_event_destroy(bench.before));
    MUST(cuda_event_destroy(bench.after));
    MUST(cuda_stream_destroy(bench.stream));
    return good ? 0 : 1;
}
