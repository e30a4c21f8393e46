/* Steps of a model against recurrences worked out by hand: the compute stream, beside it that of tensor parallelism or
 * of gathered weights, and nothing else; on the toy device, whose products and passes through memory take times that
 * two lines say. Both engines: no two messages share a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "cli/worker_pool.h"
#include "tests/predict.h"

/* T tokens; hidden, columns of Q and of K as of V, of the MLP, vocabulary: of all tp ranks. Layers. */
#define T 2048.0
#define HIDDEN 1024.0
#define Q 1024.0
#define KV 512.0
#define FFN 3072.0
#define VOCAB 32768.0
#define LAYERS 3
#define ELEMENT 2.0 /* bf16 */

static char *experiment(const char *scope, const char *pass, const char *parallel, const char *step)
{
    return memory_format(
        "[model]\nq_heads = 16\nkv_heads = 8\nhead_dim = 64\nhidden = 1024\nffn = 3072\nvocab = 32768\n"
        "layers = 3\ndtype = bf16\n[workload]\nseq_len = 2048\nscope = %s\npass = %s\n[parallel]\n"
        "cp = 1\n%s\n[schedule]\nalgorithm = ring\nsharding = contiguous\n%s",
        scope, pass, parallel, step);
}

struct result {
    double forward, step;
};

struct asked {
    const char *scope, *pass, *parallel, *step, *bandwidth;
    const struct engine_ops *engine;
};

static void work(void *context, size_t task, FILE *stream)
{
    const struct asked *asked = context;
    struct prediction prediction;
    (void)task;
    if (predict(&prediction, asked->engine, toy_cluster(2, asked->bandwidth, "1 us"),
                experiment(asked->scope, asked->pass, asked->parallel, asked->step)) != PREDICTION_DONE)
        exit(1);
    const struct result result = {prediction.report.forward_seconds, prediction.report.seconds};
    fwrite(&result, sizeof result, 1, stream);
    prediction_fini(&prediction);
}

/* In a process of its own: SimGrid runs once in each. */
static struct result ask(struct asked asked)
{
    const struct worker_pool pool = {.n_tasks = 1, .jobs = 1, .work = work, .context = &asked};
    struct worker_result worker;
    struct result result;
    assert_int_equal(worker_pool_run(&pool, &worker), 0);
    assert_int_equal(worker.wait_status, 0);
    assert_int_equal(worker.size, sizeof result);
    memcpy(&result, worker.text, sizeof result);
    free(worker.text);
    return result;
}

static void expect_seconds(double found, double expected, const char *what)
{
    if (!(fabs(found - expected) <= 1e-9 * expected))
        fail_msg("%s: %.12g s, expected %.12g s", what, found, expected);
}

/* ---- what each operation takes ---- */

static double product(double rows, double columns, double depth)
{
    double bytes = (rows * depth + depth * columns + rows * columns) * ELEMENT;
    return fmax(2 * rows * columns * depth / 100e12, bytes / 1e12);
}

static double pass(double bytes)
{
    return bytes / 1e12;
}

/* A message that stands for so many steps of a ring of two, each of which waits 1 us. */
static double message(double steps, double bytes, double bytes_per_s)
{
    return steps * 1e-6 + bytes / bytes_per_s;
}

/* ---- two streams ---- */

struct streams {
    double compute, other; /* when each is free */
};

static double max3(double a, double b, double c)
{
    return fmax(a, fmax(b, c));
}

static double compute(struct streams *s, double seconds, double ready)
{
    return s->compute = fmax(s->compute, ready) + seconds;
}

static double flow(struct streams *s, double seconds, double ready)
{
    return s->other = fmax(s->other, ready) + seconds;
}

/* ---- tensor parallelism ---- */

struct tensor_ranks {
    double parts; /* of the rows between products: 2 with sequence parallelism */
    double bytes_per_s, attention_forward, attention_backward;
};

/* Rows become all: a gather, or nothing. */
static double gather(struct streams *s, const struct tensor_ranks *t, double ready)
{
    return t->parts > 1 ? flow(s, message(1, T * HIDDEN * ELEMENT / 2, t->bytes_per_s), ready) : ready;
}

/* Partial sums become whole: a reduce-scatter, or an all-reduce. */
static double sum(struct streams *s, const struct tensor_ranks *t, double ready)
{
    double bytes = T * HIDDEN * ELEMENT;
    return flow(s, t->parts > 1 ? message(1, bytes / 2, t->bytes_per_s) : message(2, bytes, t->bytes_per_s), ready);
}

static double hidden_bytes(const struct tensor_ranks *t)
{
    return T * HIDDEN * ELEMENT / t->parts;
}

static double norm_seconds(const struct tensor_ranks *t)
{
    return pass(2 * hidden_bytes(t) + HIDDEN * ELEMENT);
}

static double tensor_forward(struct streams *s, const struct tensor_ranks *t)
{
    double x = compute(s, pass(2 * T * HIDDEN * ELEMENT), 0); /* the look-up */
    x = sum(s, t, x);
    for (int layer = 0; layer < LAYERS; layer++) {
        double all = gather(s, t, compute(s, norm_seconds(t), x));
        compute(s, product(T, (Q + 2 * KV) / 2, HIDDEN), all);
        compute(s, t->attention_forward, 0);
        double middle = sum(s, t, compute(s, product(T, HIDDEN, Q / 2), 0));
        compute(s, pass(3 * hidden_bytes(t)), middle);
        all = gather(s, t, compute(s, norm_seconds(t), 0));
        compute(s, product(T, FFN, HIDDEN), all); /* gate and up, of two ranks */
        compute(s, pass(T * 3 * FFN / 2 * ELEMENT), 0);
        x = sum(s, t, compute(s, product(T, HIDDEN, FFN / 2), 0));
        x = compute(s, pass(3 * hidden_bytes(t)), x);
    }
    double all = gather(s, t, compute(s, norm_seconds(t), 0));
    compute(s, product(T, VOCAB / 2, HIDDEN), all);
    double largest = compute(s, pass(T * VOCAB / 2 * 4), 0);
    double numbers = flow(s, message(2, T * 2 * 4, t->bytes_per_s), largest);
    return compute(s, pass(2 * T * VOCAB / 2 * 4), numbers);
}

/* dY, X and the scale are read, dX and the scale's gradient written; which sequence parallelism sums later. */
static double norm_backward_seconds(const struct tensor_ranks *t)
{
    return pass(3 * hidden_bytes(t) + HIDDEN * ELEMENT + HIDDEN * 4);
}

static void tensor_backward(struct streams *s, const struct tensor_ranks *t)
{
    double normed = gather(s, t, s->compute);
    double dx = sum(s, t, compute(s, product(T, HIDDEN, VOCAB / 2), 0));
    compute(s, product(HIDDEN, VOCAB / 2, T), normed);
    double dy = compute(s, norm_backward_seconds(t), dx);
    double norms = t->parts > 1 ? flow(s, message(2, HIDDEN * 4, t->bytes_per_s), dy) : 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        double all = gather(s, t, dy);
        compute(s, product(T, FFN / 2, HIDDEN), all);
        compute(s, product(FFN / 2, HIDDEN, T), 0);
        compute(s, pass(T * 5 * FFN / 2 * ELEMENT), 0);
        normed = gather(s, t, 0);
        dx = sum(s, t, compute(s, product(T, HIDDEN, FFN), 0));
        compute(s, product(HIDDEN, FFN, T), normed);
        compute(s, norm_backward_seconds(t), dx);
        double middle = compute(s, pass(3 * hidden_bytes(t)), 0);
        all = gather(s, t, middle);
        compute(s, product(T, Q / 2, HIDDEN), all);
        compute(s, product(Q / 2, HIDDEN, T), 0);
        compute(s, t->attention_backward, 0);
        normed = gather(s, t, 0);
        dx = sum(s, t, compute(s, product(T, HIDDEN, (Q + 2 * KV) / 2), 0));
        compute(s, product(HIDDEN, (Q + 2 * KV) / 2, T), normed);
        double gradient = compute(s, norm_backward_seconds(t), dx);
        dy = compute(s, pass(3 * hidden_bytes(t)), 0);
        norms = t->parts > 1 ? flow(s, message(2, 2 * HIDDEN * 4, t->bytes_per_s), gradient) : 0;
    }
    compute(s, pass(T * HIDDEN * (ELEMENT + 2 * 4)), gather(s, t, dy)); /* into the table's gradient */
    double parameters = LAYERS * (2 * HIDDEN + HIDDEN * (Q + 2 * KV) / 2 + Q / 2 * HIDDEN + 3 * HIDDEN * FFN / 2) +
                        HIDDEN + 2 * HIDDEN * VOCAB / 2;
    compute(s, pass(parameters * (24 + 4 + ELEMENT)), norms);
}

static void tensor_parallel_steps_take_what_two_streams_do(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bytes_per_s;
    } speeds[] = {{"1000 GB/s", 1000e9}, {"100 GB/s", 100e9}, {"5 GB/s", 5e9}};
    static const struct engine_ops *const both[] = {&engine_analytic, &engine_simgrid};
    struct result alone = ask((struct asked){"attention", "train", "tp = 2", "", "100 GB/s", &engine_analytic});
    for (size_t e = 0; e < 2; e++)
        for (int sp = 0; sp < 2; sp++)
            for (size_t v = 0; v < 3; v++) {
                const char *step = sp ? "" : "[step]\nsequence_parallel = no\n";
                struct result found = ask((struct asked){"model", "train", "tp = 2", step, speeds[v].text, both[e]});
                const struct tensor_ranks tensor = {.parts = sp ? 2 : 1,
                                                    .bytes_per_s = speeds[v].bytes_per_s,
                                                    .attention_forward = alone.forward,
                                                    .attention_backward = alone.step - alone.forward};
                struct streams s = {0, 0};
                double forward = tensor_forward(&s, &tensor);
                s = (struct streams){forward, forward}; /* ranks meet between the phases */
                tensor_backward(&s, &tensor);
                char what[64];
                snprintf(what, sizeof what, "%s, sp %d, %s", both[e]->name, sp, speeds[v].text);
                expect_seconds(found.forward, forward, what);
                expect_seconds(found.step, fmax(s.compute, s.other), what);
            }
}

/* ---- weights that are shared out ---- */

/* Forward, zero = 3: first come the weights of both ends, which stay; then a layer's weights come while the layer
 * before computes, and while the one before that does not need their room any more. */
static double sharded_forward(double bytes_per_s, double attention)
{
    struct streams s = {0, 0};
    const struct tensor_ranks whole = {.parts = 1};
    double layer = 2 * HIDDEN + HIDDEN * (Q + 2 * KV) + Q * HIDDEN + 3 * HIDDEN * FFN, used[LAYERS];
    double one = message(1, layer * ELEMENT / 2, bytes_per_s);
    double table = flow(&s, message(1, VOCAB * HIDDEN * ELEMENT / 2, bytes_per_s), 0);
    double head = flow(&s, message(1, (HIDDEN + VOCAB * HIDDEN) * ELEMENT / 2, bytes_per_s), 0);
    double x = compute(&s, pass(2 * T * HIDDEN * ELEMENT), table);
    for (int i = 0; i < LAYERS; i++) {
        double there = flow(&s, one, i >= 2 ? used[i - 2] : 0);
        compute(&s, norm_seconds(&whole), max3(x, there, 0));
        compute(&s, product(T, Q + 2 * KV, HIDDEN), 0);
        compute(&s, attention, 0);
        compute(&s, product(T, HIDDEN, Q), 0);
        compute(&s, pass(3 * hidden_bytes(&whole)), 0);
        compute(&s, norm_seconds(&whole), 0);
        compute(&s, product(T, 2 * FFN, HIDDEN), 0);
        compute(&s, pass(T * 3 * FFN * ELEMENT), 0);
        used[i] = compute(&s, product(T, HIDDEN, FFN), 0);
        x = compute(&s, pass(3 * hidden_bytes(&whole)), 0);
    }
    compute(&s, norm_seconds(&whole), head);
    compute(&s, product(T, VOCAB, HIDDEN), 0);
    return compute(&s, pass(2 * T * VOCAB * 4), 0);
}

static void gathered_weights_come_one_layer_ahead(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bytes_per_s;
    } speeds[] = {{"1000 GB/s", 1000e9}, {"30 GB/s", 30e9}, {"10 GB/s", 10e9}};
    static const struct engine_ops *const both[] = {&engine_analytic, &engine_simgrid};
    struct result alone = ask((struct asked){"attention", "forward", "dp = 2", "", "100 GB/s", &engine_analytic});
    struct result whole = ask((struct asked){"model", "forward", "dp = 2", "", "100 GB/s", &engine_analytic});
    for (size_t e = 0; e < 2; e++)
        for (size_t v = 0; v < 3; v++) {
            struct result found =
                ask((struct asked){"model", "forward", "dp = 2", "[step]\nzero = 3\n", speeds[v].text, both[e]});
            expect_seconds(found.forward, sharded_forward(speeds[v].bytes_per_s, alone.forward), speeds[v].text);
            if (v == 0) { /* all but the ends and the first are hidden */
                double first = message(1, VOCAB * HIDDEN * ELEMENT / 2, 1000e9);
                double head = message(1, (HIDDEN + VOCAB * HIDDEN) * ELEMENT / 2, 1000e9);
                double layer =
                    message(1, (2 * HIDDEN + HIDDEN * (2 * Q + 2 * KV) + 3 * HIDDEN * FFN) * ELEMENT / 2, 1000e9);
                double look_up = pass(2 * T * HIDDEN * ELEMENT);
                expect_seconds(found.forward, whole.forward + first + fmax(0, head + layer - look_up), "hidden");
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_parallel_steps_take_what_two_streams_do),
        cmocka_unit_test(gathered_weights_come_one_layer_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
