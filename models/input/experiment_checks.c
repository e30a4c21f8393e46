/* experiment_checks.c - each rule between keys, by the key that can be changed. */
#include "models/input/experiment_checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/base/divisors.h"
#include "models/base/memory.h"
#include "models/input/experiment_values.h"

static bool check_heads(const struct experiment *experiment, struct diagnostics *diag)
{
    uint32_t tp = experiment->degree[PARALLEL_TP];
    uint32_t q_heads = experiment->model.q_heads, kv_heads = experiment->model.kv_heads;
    if (tp == 0 || (q_heads % tp == 0 && kv_heads % tp == 0))
        return true;
    char nearest[NEAREST_SIZE];
    divisors_nearest(divisors_greatest_common(q_heads, kv_heads), tp, nearest, sizeof nearest);
    return experiment_complain(experiment, "parallel", "tp", diag,
                               "'tp' = %" PRIu32 " does not divide q_heads = %" PRIu32 " and kv_heads = %" PRIu32
                               ", expected a divisor of both, nearest: %s",
                               tp, q_heads, kv_heads, nearest);
}

static bool check_zigzag(const struct experiment *experiment, struct diagnostics *diag)
{
    uint64_t cp = experiment->degree[PARALLEL_CP], divisor = 2 * cp;
    const char *key = experiment->new_tokens ? "new_tokens" : "seq_len";
    if (!experiment_knows(experiment, "workload", "new_tokens"))
        return true; /* which of the two is sharded */
    uint64_t tokens = experiment->new_tokens ? experiment->new_tokens : experiment->seq_len;
    if (tokens % divisor == 0)
        return true;
    uint64_t below = tokens / divisor * divisor, above = below + divisor;
    uint64_t most = experiment->new_tokens ? experiment->seq_len : SEQ_LEN_MAX; /* new ones are some of all */
    char nearest[96];
    if (below == 0 && above > most)
        snprintf(nearest, sizeof nearest, "which seq_len = %" PRIu64 " has no room for", most);
    else if (below == 0)
        snprintf(nearest, sizeof nearest, "the nearest: %" PRIu64, above);
    else if (above > most)
        snprintf(nearest, sizeof nearest, "the nearest: %" PRIu64, below);
    else
        snprintf(nearest, sizeof nearest, "the nearest: %" PRIu64 " or %" PRIu64, below, above);
    return experiment_complain(experiment, "workload", key, diag,
                               "'%s' = %" PRIu64 " with cp = %" PRIu64
                               " and zigzag, expected a multiple of 2 x cp = %" PRIu64 ", %s%s",
                               key, tokens, cp, divisor, nearest,
                               !experiment->new_tokens ? ""
                               : tokens < cp           ? "; to decode, contiguous or striped"
                               : below == 0            ? "; else contiguous or striped"
                                                       : "");
}

static bool check_counts(const struct experiment *experiment, struct diagnostics *diag)
{
    size_t n = 0;
    uint64_t sum = 0; /* at most 2^20 counts of at most 2^31 each */
    for (; experiment->shard_counts[n] != SHARD_COUNTS_END; n++)
        sum += experiment->shard_counts[n];
    bool ok = true;
    if (experiment->degree[PARALLEL_CP] > 0 && n != experiment->degree[PARALLEL_CP])
        ok = experiment_complain(experiment, "schedule", "sharding", diag,
                                 "'sharding' has %zu counts, expected one a rank: cp = %" PRIu32, n,
                                 experiment->degree[PARALLEL_CP]);
    if (experiment->seq_len > 0 && sum != experiment->seq_len)
        ok = experiment_complain(experiment, "schedule", "sharding", diag,
                                 "'sharding' counts sum to %" PRIu64 ", expected seq_len = %" PRIu64, sum,
                                 experiment->seq_len);
    return ok;
}

/* Documents to shard, and not so many that a shard would fall into splinters. */
static bool check_per_document(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct mask *mask = &experiment->mask;
    if (!experiment_knows(experiment, "workload", "mask"))
        return true;
    if (mask->kind != MASK_DOCUMENTS)
        return experiment_complain(
            experiment, "schedule", "sharding", diag,
            "'sharding' = per-document without documents, expected mask = documents:... beside it");
    if (mask->n_documents <= SHARDING_DOCUMENTS_MAX)
        return true;
    return experiment_complain(experiment, "schedule", "sharding", diag,
                               "'sharding' = per-document with %zu documents, expected at most %d, or another sharding",
                               mask->n_documents, SHARDING_DOCUMENTS_MAX);
}

static bool check_sharding(const struct experiment *experiment, struct diagnostics *diag)
{
    if (experiment->sharding == SHARDING_EXPLICIT)
        return check_counts(experiment, diag);
    if (experiment->sharding == SHARDING_PER_DOCUMENT)
        return check_per_document(experiment, diag);
    if (experiment->sharding == SHARDING_ZIGZAG && experiment->seq_len > 0 && experiment->degree[PARALLEL_CP] > 0)
        return check_zigzag(experiment, diag);
    return true;
}

/* A cached prefix is what earlier passes left: there is something new, and nothing goes back into it. */
static bool check_new_tokens(const struct experiment *experiment, struct diagnostics *diag)
{
    if (experiment->new_tokens == 0)
        return true;
    bool ok = true;
    if (experiment->seq_len > 0 && experiment->new_tokens > experiment->seq_len)
        ok = experiment_complain(experiment, "workload", "new_tokens", diag,
                                 "'new_tokens' = %" PRIu64 ", expected at most seq_len = %" PRIu64
                                 ", the cached ones included",
                                 experiment->new_tokens, experiment->seq_len);
    if (experiment->train && experiment_knows(experiment, "workload", "pass"))
        ok = experiment_complain(
            experiment, "workload", "new_tokens", diag,
            "'new_tokens' with pass = train, expected pass = forward: a cached prefix has no gradients");
    if (experiment->sharding == SHARDING_EXPLICIT || experiment->sharding == SHARDING_PER_DOCUMENT)
        ok = experiment_complain(
            experiment, "schedule", "sharding", diag,
            "'sharding' by counts or documents with new_tokens, expected contiguous, zigzag or striped");
    return ok;
}

static bool check_documents(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct mask *mask = &experiment->mask;
    if (mask->kind != MASK_DOCUMENTS || experiment->seq_len == 0 ||
        mask->document_starts[mask->n_documents] == experiment->seq_len)
        return true;
    return experiment_complain(experiment, "workload", "mask", diag,
                               "'mask' documents sum to %" PRIu64 ", expected seq_len = %" PRIu64,
                               mask->document_starts[mask->n_documents], experiment->seq_len);
}

/* Every count of bytes, over all ranks and the passes of a step, must fit 63 bits. In fp64 the largest are the tensors
 * of a sequence, when ranks trade rows for heads, and the keys and values that cp ranks see from all others: forward,
 * again backward, and their gradients. (Where queries travel to all, schedule.c has more to add up.) Doubles do to find
 * out, the limit need not be sharp. */
static bool check_overflow(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct transformer *model = &experiment->model;
    double rows = (double)experiment->seq_len * experiment->batch * model->head_dim * 8;
    double sequence = rows * model->q_heads * 16 * experiment->degree[PARALLEL_DP];
    double traffic = rows * model->kv_heads * 2 * 3 * experiment->degree[PARALLEL_CP] * experiment->degree[PARALLEL_DP];
    if (sequence < 0x1p62 && traffic < 0x1p62)
        return true;
    return experiment_complain(experiment, "workload", "seq_len", diag,
                               "'seq_len' = %" PRIu64 " with batch = %" PRIu32 ", q_heads = %" PRIu32
                               ", kv_heads = %" PRIu32 ", head_dim = %" PRIu32 ", cp = %" PRIu32 " and dp = %" PRIu32
                               " moves more bytes than 63 bits can count, expected a smaller product",
                               experiment->seq_len, experiment->batch, model->q_heads, model->kv_heads, model->head_dim,
                               experiment->degree[PARALLEL_CP], experiment->degree[PARALLEL_DP]);
}

static bool check_layout(const struct experiment *experiment, struct diagnostics *diag)
{
    uint64_t ranks = 1; /* at most 2^60 */
    for (int d = 0; d < PARALLEL_DIMENSIONS; d++)
        ranks *= experiment->degree[d];
    if (ranks <= INT32_MAX)
        return true;
    return experiment_complain(experiment, "parallel", "cp", diag,
                               "tp x cp x dp = %" PRIu64 " ranks, expected at most %" PRId32, ranks, INT32_MAX);
}

/* A list of cp indices names each of them once. */
static bool check_ring(const struct experiment *experiment, struct diagnostics *diag)
{
    uint64_t cp = experiment->degree[PARALLEL_CP];
    if (experiment->ring != RING_EXPLICIT || cp == 0)
        return true;
    bool *seen = memory_zeroed(cp, sizeof *seen), ok = true;
    size_t n = 0;
    for (const uint64_t *index = experiment->ring_indices; ok && *index != RING_INDICES_END; index++, n++) {
        if (*index >= cp)
            ok = experiment_complain(experiment, "parallel", "ring", diag,
                                     "'ring' has %" PRIu64 ", expected each of 0 to cp - 1 = %" PRIu64 " once", *index,
                                     cp - 1);
        else if (seen[*index])
            ok = experiment_complain(experiment, "parallel", "ring", diag,
                                     "'ring' has %" PRIu64 " twice, expected each of 0 to cp - 1 = %" PRIu64 " once",
                                     *index, cp - 1);
        else
            seen[*index] = true;
    }
    free(seen);
    if (ok && n != cp)
        ok = experiment_complain(experiment, "parallel", "ring", diag,
                                 "'ring' has %zu indices, expected each of 0 to cp - 1 = %" PRIu64 " once", n, cp - 1);
    return ok;
}

bool experiment_check(const struct experiment *experiment, struct diagnostics *diag)
{
    bool ok = check_heads(experiment, diag);
    bool fits = check_new_tokens(experiment, diag);
    ok &= fits && check_sharding(experiment, diag);
    ok &= check_documents(experiment, diag);
    ok &= check_overflow(experiment, diag);
    ok &= check_layout(experiment, diag);
    ok &= check_ring(experiment, diag);
    return ok;
}
