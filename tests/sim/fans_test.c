/* What a rank sends to several others at once over a root complex: the closed form of sim/transfers.h in whole
 * predictions, by both engines, and what no fan is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <sys/wait.h>

#include "tests/predict.h"

#define FAN 8e9
#define LINK 1e12
#define ALPHA 1e-6

/* Two sockets of two pairs; only the pairs' switches let what stays below them past the root complex. Links so wide
 * that they do not limit a fan. */
static char *box(void)
{
    return memory_format("[cluster]\ndevice = toy\n"
                         "[level pair]\nsize = 2\nkind = switch\nbandwidth = 1000 GB/s\nlatency = 1 us\n"
                         "[level socket]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 1000 GB/s\n"
                         "latency = 0 us\nfan_bandwidth = 8 GB/s\n"
                         "[level box]\nsize = 2\nkind = mesh\nattach = node\nbandwidth = 1000 GB/s\nlatency = 0 us\n");
}

static struct toy shape = {
    .q_heads = 8, .kv_heads = 8, .head_dim = 128, .seq_len = 65536, .mask = "full", .pass = "forward", .cp = 8};

static bool judged(bool good, const char *what, double is, double expected)
{
    if (!good)
        fprintf(stderr, "%s: %.9g, expected %.9g\n", what, is, expected);
    return good;
}

/* 0: of the same pair, 1: of the same socket, 2: of another. */
static int distance(uint32_t a, uint32_t b)
{
    return a / 2 == b / 2 ? 0 : a / 4 == b / 4 ? 1 : 2;
}

/* Whether every message takes alpha, and its bytes at the rate expected of its distance; 0: not judged, for the engines
 * differ where links are shared. */
static bool judge(const struct prediction *p, const double rates[3])
{
    bool good = true;
    uint32_t seen = 0;
    for (uint32_t rank = 0; rank < 8; rank++) {
        for (uint32_t i = 0; i < ensemble_program(&p->whole, rank)->n_ops; i++) {
            const struct op turned = ensemble_op(&p->whole, rank, i), *op = &turned;
            double rate = rates[distance(rank, op->peer)];
            if (op->kind != OP_SEND || rate <= 0)
                continue;
            struct moment moment = p->timeline.moments[prediction_instance(p, rank)][i];
            double seconds = moment.end - moment.begin, expected = ALPHA + (double)op->bytes / rate;
            double slack = rate < FAN ? 1e-6 : 2e-3; /* beside a fan a link is not free */
            good &= judged(fabs(seconds - expected) <= slack * expected, "seconds of a message", seconds, expected);
            seen++;
        }
    }
    return judged(seen > 0, "messages", seen, 1) && good;
}

static void expect(const char *schedule, const double rates[3])
{
    for (int e = 0; engines[e]; e++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct prediction prediction;
            shape.schedule = schedule;
            bool good = predict(&prediction, engines[e], box(), toy_experiment(&shape)) == PREDICTION_DONE &&
                        judge(&prediction, rates);
            _exit(good ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("%s by %s", schedule, engines[e]->name);
    }
}

/* Of 8 ranks each sends one piece to its mate, which is quick, two within its socket and four beyond: 4 (2 + 2 x 4)
 * pieces pass the root complex. In groups of 4 there are 4 x 2; in groups of 2 nothing is a fan. */
static void an_all_to_all_shares_the_root_complex(void **state)
{
    (void)state;
    expect("algorithm = ulysses\nsharding = contiguous\ncollective = direct",
           (const double[]){LINK, FAN / 40, FAN / 40});
    expect("algorithm = usp\nulysses_degree = 4\nsharding = contiguous\ncollective = direct",
           (const double[]){LINK, FAN / 8, 0});
    expect("algorithm = usp\nulysses_degree = 2\nsharding = contiguous\ncollective = direct",
           (const double[]){LINK, 0, 0});
}

/* One peer at a time has the links to itself. */
static void a_ring_is_no_fan(void **state)
{
    (void)state;
    expect("algorithm = ring\nsharding = contiguous", (const double[]){LINK, LINK, LINK});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_all_to_all_shares_the_root_complex),
        cmocka_unit_test(a_ring_is_no_fan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
