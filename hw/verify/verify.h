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
 * FP32_TOLERANCE. LSE is fp32 in every run. In bf16, a value is rounded to 8 bits (2^-9 relative) wherever it is
 * stored: a block's partial O, then O; a block's gradient, then the sum; and at each addition where sums are kept, or
 * travel, in bf16 (roundings.h); and O's rounding comes back in delta: so dQ and dK have that of O on top of their own.
 * So BF16_ROUNDINGS + additions, 2^-8 each. Faults of a schedule are of order one.
 */
#ifndef CPSIM_HW_VERIFY_VERIFY_H
#define CPSIM_HW_VERIFY_VERIFY_H

#include "hw/run/executor.h"

#define FP32_TOLERANCE 2e-5
#define BF16_ROUNDINGS 4

enum check_kind { CHECK_NONE, CHECK_FULL, CHECK_SAMPLED };

struct tensor_check {
    bool present; /* the run makes this tensor */
    double max_error, tolerance;
    uint64_t values;            /* compared */
    uint64_t non_finite, wrong; /* wrong: finite, but beyond the tolerance */
    uint32_t rank;              /* of the worst value, the first that is not finite if there is one */
    uint64_t position;
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
