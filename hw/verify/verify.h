/* verify.h - holds what ranks ended with against attention in double precision (kernels/reference.h).
 *
 * Every rank's outputs are checked, of the queries and keys that it owns (schedule.h), also where several own the same.
 * Small problems in full; long ones on sampled rows, each exact: some queries' O, LSE and dQ and some keys' dK and dV
 * of every rank, of random heads, its first and last row among them. (The keys' gradients take all queries' LSE and
 * delta from the run itself; the run's LSE and O are what the query samples check.)
 *
 * The error of a value is its distance from the reference over the scale of its row: the row's largest magnitude, but
 * at least the root mean square of the tensor (a row may cancel to nothing, and its rounding errors with it do not),
 * and for dQ and dK at least what an error in delta is measured in, scale * |dO_ik O_ik| * |K| (or |Q|): where a
 * softmax has all its weight on one key, gradients vanish but for rounding. For LSE over max(1, |LSE|). The error must
 * be at most the tolerance; what is not a finite number never passes.
 *
 * Tolerances: inputs are the rounded ones on both sides, so fp32 sees only its own rounding, grown by the length of
 * sums and by exponentials of scores of some ten units: up to 2e-6 over thousands of random cases, held to
 * FP32_TOLERANCE. LSE is fp32 in every run.
 *
 * In types of 16 bits, a value is rounded wherever it is stored, by at most u of its size, u being 2^-8 in bf16 (8
 * bits) and 2^-11 in fp16 (11 bits): a block's partial O, then O; a block's gradient, then the sum; and at each
 * addition where sums are kept, or travel, so narrow (roundings.h); and O's rounding comes back in delta: so dQ and dK
 * have that of O on top of their own. GPU kernels also round what they multiply by V, dO, K or Q: P, and dS = P (dP -
 * delta). Each weight is then off by a random part of its size, 0.43 u in the mean square, and a sum of weights times
 * numbers by 0.43 u sqrt(sum of (weight times number)^2), which is 0.43 u of the root mean square of such sums. The
 * largest of 10^9 such errors is 6 of these, 2.6 u; and the error's scale, the row's largest number, is over twice its
 * root mean square: 1.3 u. (Where few keys have the weight there is nothing random: the error is at most u of the
 * largest V, which O then has the size of.) Together 3.3 u: so OWN_ROUNDINGS + additions, of u each.
 *
 * fp16 is fixed-point below 2^-14, in steps of 2^-24, and P of long rows is as small: (2^-24 / sqrt 12) sqrt(rows), by
 * which a gradient's sum is then off at random, is 2^-28.7 rows of its root mean square, where scores have the spread
 * that QUERY_GAIN makes (P = e^(s - 2) / rows, s normal of deviation 2, so that sum P^2 = 55 / rows); 2.4 times that
 * for the largest of many, as above: FP16_STEP for each row, of gradients. (In the forward pass P is measured by the
 * largest of its row, and loses nothing.)
 *
 * Faults of a schedule are of order one.
 */
#ifndef CPSIM_HW_VERIFY_VERIFY_H
#define CPSIM_HW_VERIFY_VERIFY_H

#include "hw/run/executor.h"

#define FP32_TOLERANCE 2e-5
#define OWN_ROUNDINGS 4
#define FP16_STEP 0x1p-27 /* of a tolerance, for each position of the sequence */

enum check_kind { CHECK_NONE, CHECK_FULL, CHECK_SAMPLED };

struct tensor_check {
    bool present; /* the run makes this tensor */
    double max_error, tolerance;
    uint64_t values;            /* compared */
    uint64_t non_finite, wrong; /* wrong: finite, but beyond the tolerance */
    uint32_t rank;              /* of the worst value, the first that is not finite if there is one */
    uint64_t position;          /* of a gradient of a layer's weight: its row */
};

struct verification {
    enum check_kind kind;
    bool passed;
    struct tensor_check tensors[OUTPUT_COUNT];
};

/* Query times key times lane times dim work up to which a problem is checked in full. */
#define VERIFY_FULL_WORK_MAX 3e8
/* The same for keys times lanes times dim, which are kept: few queries may have very many. */
#define VERIFY_FULL_NUMBERS_MAX 1e7

/* What there is to verify: the outputs of ranks [first_rank, first_rank + n_ranks). */
struct verify_input {
    const struct schedule *schedule;
    const struct program *programs; /* of all ranks: what roundings they do */
    uint64_t seed;
    uint32_t first_rank, n_ranks;
    const struct outputs *outputs;
    /* of all ranks: [position][batch * q_heads]; sampled checks with a backward pass only */
    const float *all_lse, *all_delta;
    bool sampled; /* else in full; as verify_is_sampled says, unless a test wants the other */
};

bool verify_is_sampled(const struct schedule *schedule);
/* Bytes that verifying takes in each process beside what the ranks end with. */
double verify_bytes(const struct schedule *schedule);
void verify_ranks(const struct verify_input *input, struct verification *verification);

/* Joins what another process found. */
void verification_join(struct verification *verification, const struct verification *other);

/* Sets `passed`; adds a message for each tensor that failed. */
bool verification_judge(struct verification *verification, struct diagnostics *diag);

/* delta_i = sum_k dO_ik O_ik of one rank's queries, from its O: [row][item * q_heads]. The caller frees it. */
float *verify_delta(const struct schedule *schedule, uint64_t seed, uint32_t rank, const float *o);

const char *check_kind_name(enum check_kind kind); /* "none", "full", "sampled" */

#endif
