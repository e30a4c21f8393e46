/* catalogue_forms.h - the closed forms of the catalogue (catalogue_test.c), each a function of the terms of one rank.
 *
 * Symbols: P ranks, r this one, s rows of a shard; Q, KV, L bytes of a shard's queries, of its K and V, of one fp32
 * number per row and head. All to all inside groups of u ranks, R = P/u places of a ring, in W windows of w.
 * "Literature" is the source that the algorithm's own file names.
 */
#ifndef CPSIM_TESTS_MODELS_CATALOGUE_FORMS_H
#define CPSIM_TESTS_MODELS_CATALOGUE_FORMS_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/experiment.h"

/* ---- terms ---- */

struct terms {
    uint64_t P, r, s, u, R, w, W;
    uint64_t place;       /* of r, or of its group, in the ring */
    uint64_t Q, KV, L;    /* KV: with the copies of KV heads that u > H makes */
    uint64_t g;           /* a gradient on its way is so many times as wide as the model's type: 1, or 2 in fp32 */
    uint64_t heads, H, h; /* query heads, KV heads, KV heads gathered at once */
    bool causal;
    enum sharding_kind sharding;
};

typedef uint64_t form(const struct terms *t);

#define UNSTATED UINT64_MAX /* the form is not written down for this case */

static inline uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t none(const struct terms *t)
{
    (void)t;
    return 0;
}

static inline bool causal_runs(const struct terms *t)
{
    return t->causal && t->sharding == SHARDING_CONTIGUOUS;
}

/* Other ranks' keys that the own queries see something of; other ranks' queries that see something of the own keys. */
static inline uint64_t seen(const struct terms *t)
{
    return causal_runs(t) ? t->r : t->P - 1;
}

static inline uint64_t readers(const struct terms *t)
{
    return causal_runs(t) ? t->P - 1 - t->r : t->P - 1;
}

/* ---- work: visible (query, key) pairs, forward, times heads. In the literature's unit, U = half a shard's square,
 * with s/2 pairs more because the diagonal is in. ---- */

/* Of the queries of place `i` of n, with `rows` rows each, all their keys: causal, P U zigzag, (1 + 2i) U contiguous.
 */
static inline uint64_t pairs_of_place(const struct terms *t, uint64_t i, uint64_t n, uint64_t rows)
{
    if (!t->causal)
        return n * rows * rows;
    if (t->sharding == SHARDING_CONTIGUOUS)
        return ((1 + 2 * i) * rows * rows + rows) / 2;
    if (t->sharding == SHARDING_ZIGZAG)
        return (n * rows * rows + rows) / 2;
    return (i + 1) * (rows * (rows + 1) / 2) + (n - 1 - i) * (rows * (rows - 1) / 2);
}

static inline uint64_t work_by_queries(const struct terms *t)
{
    return pairs_of_place(t, t->place, t->R, t->u * t->s) * t->heads / t->u;
}

/* Where the keys stay: a place's keys are seen by those behind it as its queries see those before it. */
static inline uint64_t work_by_keys(const struct terms *t)
{
    return pairs_of_place(t, t->P - 1 - t->r, t->P, t->s) * t->heads;
}

/* Steps: attention operations, and the pairs of each. */
typedef uint64_t step_form(const struct terms *t, uint64_t step);

/* The own block, then U (zigzag) or 2U (contiguous) a step: of u times the rows in 1/u of the heads. */
static inline uint64_t step_of_ring(const struct terms *t, uint64_t step)
{
    uint64_t rows = t->u * t->s;
    if (!t->causal)
        return rows * rows;
    if (t->sharding == SHARDING_STRIPED)
        return UNSTATED; /* rows (rows + 1) / 2 or rows (rows - 1) / 2, as the work says */
    return step == 0 ? rows * (rows + 1) / 2 : t->sharding == SHARDING_ZIGZAG ? rows * rows / 2 : rows * rows;
}

static inline uint64_t steps_of_ring(const struct terms *t)
{
    return causal_runs(t) ? t->place + 1 : t->R;
}

static inline uint64_t steps_by_keys(const struct terms *t)
{
    return 1 + readers(t);
}

static inline uint64_t one_step(const struct terms *t)
{
    (void)t;
    return 1;
}

/* All keys at once, in one kernel. */
static inline uint64_t whole_step(const struct terms *t, uint64_t step)
{
    (void)step;
    return pairs_of_place(t, t->place, t->R, t->u * t->s);
}

/* ---- ring ---- */

/* Forms of a ring of R places inside of which u ranks have traded heads; u = 1: of all ranks. */
static inline uint64_t traded(const struct terms *t)
{
    return (t->u - 1) * (2 * t->Q + t->KV) / t->u;
}

static inline uint64_t ring_sends(const struct terms *t)
{
    return (t->R - 1) * t->KV;
}

/* (3P-1) KV with fp32 gradients. */
static inline uint64_t ring_returns(const struct terms *t)
{
    return (t->R - 1) * t->KV + (t->R > 1 ? t->R : 0) * t->g * t->KV;
}

static inline uint64_t ring_messages(const struct terms *t)
{
    return 2 * (t->R - 1);
}

static inline uint64_t ring_return_messages(const struct terms *t)
{
    return 2 * (t->R - 1) + 2 * t->R;
}

/* fp32 output, its m and l; a block's output and LSE. */
static inline uint64_t merging(const struct terms *t)
{
    return 3 * (t->Q + t->L);
}

/* Literature: 2KV + 3Q. It leaves out 3L, and that of two ranks only one block is received. Contiguous and causal, rank
 * 0 has nothing to merge. */
static inline uint64_t ring_holds(const struct terms *t)
{
    uint64_t merges = causal_runs(t) && t->r == 0 ? 0 : merging(t);
    return less(t->P - 1, 2) * t->KV + merges;
}

/* ---- ring-te ---- */

static inline uint64_t te_messages(const struct terms *t)
{
    return t->P - 1;
}

static inline uint64_t te_returns(const struct terms *t)
{
    return (t->P - 1) * (1 + t->g) * t->KV;
}

static inline uint64_t te_return_messages(const struct terms *t)
{
    return 2 * (t->P - 1);
}

/* The output of every step, of exactly the rows that it computed. */
static inline uint64_t te_holds(const struct terms *t)
{
    uint64_t halves = t->causal ? 2 * (t->r + 1) + (t->P - 1 - t->r) : 2 * t->P;
    return t->sharding == SHARDING_STRIPED && t->causal ? UNSTATED : (t->P - 1) * t->KV + halves * (t->Q + t->L) / 2;
}

/* ---- direct ---- */

static inline uint64_t direct_messages(const struct terms *t)
{
    return t->P - 1;
}

static inline uint64_t direct_returns(const struct terms *t)
{
    return (t->P - 1) * t->KV + seen(t) * t->g * t->KV;
}

static inline uint64_t direct_return_messages(const struct terms *t)
{
    return t->P - 1 + seen(t);
}

/* ---- gathers ---- */

static inline uint64_t gather_messages(const struct terms *t)
{
    return 2 * (t->P - 1);
}

static inline uint64_t gather_returns(const struct terms *t)
{
    return (t->P - 1) * (1 + t->g) * t->KV;
}

static inline uint64_t gather_return_messages(const struct terms *t)
{
    return 4 * (t->P - 1);
}

static inline uint64_t gather_steps(const struct terms *t)
{
    return t->sharding == SHARDING_ZIGZAG ? 2 : 1;
}

/* Zigzag: chunk r of 2P sees r + 1 chunks of keys, chunk 2P - 1 - r sees 2P - r. */
static inline uint64_t gather_step(const struct terms *t, uint64_t step)
{
    uint64_t half = t->s / 2, keys = (step ? 2 * t->P - t->r : t->r + 1) * half;
    if (t->sharding != SHARDING_ZIGZAG)
        return whole_step(t, step);
    return t->causal ? half * keys - half * (half - 1) / 2 : half * t->P * t->s;
}

static inline uint64_t gather_holds(const struct terms *t)
{
    return (t->sharding == SHARDING_ZIGZAG ? 2 : 1) * t->P * t->KV;
}

static inline uint64_t rounds(const struct terms *t)
{
    return t->H / t->h;
}

static inline uint64_t heads_messages(const struct terms *t)
{
    return 2 * (t->P - 1) * rounds(t);
}

static inline uint64_t heads_return_messages(const struct terms *t)
{
    return 4 * (t->P - 1) * rounds(t);
}

static inline uint64_t heads_holds(const struct terms *t)
{
    return less(rounds(t), 2) * t->P * t->KV * t->h / t->H;
}

/* ---- all-to-all, alone and with rings ---- */

static inline uint64_t ulysses_sends(const struct terms *t)
{
    return traded(t) + (t->u - 1) * t->L / t->u;
}

static inline uint64_t ulysses_messages(const struct terms *t)
{
    return 5 * (t->u - 1);
}

static inline uint64_t ulysses_return_messages(const struct terms *t)
{
    return 4 * (t->u - 1);
}

/* Joined Q and KV, and on their way in KV's slices, beside Q's that have been split for it; or O and LSE, computed. */
static inline uint64_t ulysses_holds(const struct terms *t)
{
    return 2 * t->Q + t->KV + more((t->u - 1) * t->KV / t->u, t->L);
}

static inline uint64_t usp_sends(const struct terms *t)
{
    return ulysses_sends(t) + ring_sends(t);
}

static inline uint64_t usp_returns(const struct terms *t)
{
    return traded(t) + ring_returns(t);
}

static inline uint64_t usp_messages(const struct terms *t)
{
    return 4 * (t->u - 1) + t->R - 1;
}

static inline uint64_t usp_return_messages(const struct terms *t)
{
    return 3 * (t->u - 1) + t->R - 1 + (t->R > 1 ? t->R : 0);
}

/* Beside joined Q and KV, as many received blocks as `turns` asks for. */
static inline uint64_t joined_ring_holds(const struct terms *t, uint64_t turns)
{
    if (t->R == 1)
        return ulysses_holds(t);
    if (causal_runs(t) && t->place == 0)
        return UNSTATED; /* nothing to merge; the end of the trade may be the larger moment */
    return (t->u > 1 ? t->Q + t->KV : 0) + turns * t->KV + merging(t);
}

static inline uint64_t usp_holds(const struct terms *t)
{
    return joined_ring_holds(t, less(t->R - 1, 2));
}

/* dKV goes home in each window, w messages; the sums over windows go from window to window, W. Literature: as a ring;
 * with one level only, that is. */
static inline uint64_t double_gradients(const struct terms *t)
{
    return (t->w > 1 ? t->W * t->w : 0) + (t->W > 1 ? t->W : 0);
}

static inline uint64_t double_returns(const struct terms *t)
{
    return traded(t) + ring_sends(t) + double_gradients(t) * t->g * t->KV;
}

static inline uint64_t double_return_messages(const struct terms *t)
{
    return 3 * (t->u - 1) + t->R - 1 + double_gradients(t);
}

static inline uint64_t double_holds(const struct terms *t)
{
    return joined_ring_holds(t, less(t->W * (t->w - 1), 2) + less(t->W - 1, 2));
}

/* ---- dist-flash: the own block, then steps t = 1 ... P/2 ---- */

/* Steps in which this rank fetches keys, is fetched from, helps, is helped. Causal, contiguous: at step t rank r >= t
 * fetches and the others help, but in the last of an even P. */
static inline uint64_t fetches(const struct terms *t)
{
    return t->causal ? less(t->r, t->P / 2) : t->P / 2;
}

static inline uint64_t fetched(const struct terms *t)
{
    return t->causal ? less(t->P - 1 - t->r, t->P / 2) : t->P / 2;
}

static inline uint64_t helps(const struct terms *t)
{
    uint64_t steps = (t->P - 1) / 2;
    return t->causal ? steps - less(t->r, steps) : steps;
}

static inline uint64_t helped(const struct terms *t)
{
    uint64_t steps = (t->P - 1) / 2;
    return t->causal ? steps - less(t->P - 1 - t->r, steps) : steps;
}

static inline uint64_t helping_sends(const struct terms *t)
{
    return fetched(t) * t->KV + helped(t) * t->Q + helps(t) * (t->Q + t->L);
}

static inline uint64_t helping_messages(const struct terms *t)
{
    return fetched(t) + helped(t) + helps(t);
}

static inline uint64_t helping_returns(const struct terms *t)
{
    return fetched(t) * t->KV + helped(t) * 2 * (t->Q + t->L) + helps(t) * t->Q + fetches(t) * t->g * t->KV;
}

static inline uint64_t helping_return_messages(const struct terms *t)
{
    return fetched(t) + 4 * helped(t) + helps(t) + fetches(t);
}

static inline uint64_t helping_steps(const struct terms *t)
{
    return 1 + fetches(t) + helps(t);
}

static inline uint64_t helping_step(const struct terms *t, uint64_t step)
{
    return t->causal && step == 0 ? t->s * (t->s + 1) / 2 : t->s * t->s;
}

static inline uint64_t helping_work(const struct terms *t)
{
    uint64_t pairs = 0;
    for (uint64_t step = 0; step < helping_steps(t); step++)
        pairs += helping_step(t, step);
    return pairs * t->heads;
}

/* Literature: 2 (KV + 2Q), pairs of everything. Here those who need them have them: the first rank of a causal mask
 * only helps (two Q, two results), the last only fetches (two KV, two results of its helpers, and merges). With a full
 * mask all do both: 2KV + 2Q + 4 (Q + L), and the 3 (Q + L) of merging. */
static inline uint64_t helping_holds(const struct terms *t)
{
    if (t->causal && t->r == 0 && t->P >= 7)
        return 2 * t->Q + 2 * (t->Q + t->L);
    if (t->causal && t->r == t->P - 1 && t->P >= 7)
        return 2 * t->KV + 2 * (t->Q + t->L) + merging(t);
    if (!t->causal && t->P >= 9)
        return 2 * t->KV + 2 * t->Q + 4 * (t->Q + t->L) + merging(t);
    return UNSTATED;
}

/* ---- token-ring ---- */

/* Zigzag and causal: rank r > 0 passes P - r whole queries on and r - 1 second halves, rank 0 halves only; it returns
 * whole results to those behind it and halves to those before it. Literature: "(P-1) (0.5 to 1) (2Q + L)". */
static inline uint64_t token_ring_sends(const struct terms *t)
{
    uint64_t whole = !t->causal ? t->P - 1 : t->r ? t->P - t->r : 0, back = t->causal ? t->P - 1 - t->r : t->P - 1;
    return (t->P - 1 + whole) * t->Q / 2 + (t->P - 1 + back) * (t->Q + t->L) / 2;
}

/* Literature: 2Q + 2Q, what arrives. Beside it: results that leave, and the state. */
static inline uint64_t token_ring_holds(const struct terms *t)
{
    uint64_t state = 2 * (t->Q + t->L), results = 2 * less(t->P - 1, 2) * (t->Q + t->L);
    return state + results + (t->P > 3 ? 2 * t->Q : 0);
}

static inline uint64_t there_and_back(const struct terms *t)
{
    return 2 * (t->P - 1);
}

/* ---- burst ---- */

static inline uint64_t burst_messages(const struct terms *t)
{
    return t->P - 1;
}

/* Literature: (3P-2) Q + 2 (P-1) L, dQ in the model's type. */
static inline uint64_t burst_returns(const struct terms *t)
{
    return (t->P - 1) * 2 * (t->Q + t->L) + t->P * t->g * t->Q;
}

static inline uint64_t burst_return_messages(const struct terms *t)
{
    return 4 * (t->P - 1) + t->P;
}

/* ---- pass-q ---- */

/* Literature: (P-1) Q + (P-1) (Q + L): of rows that see nothing of the own keys, nothing returns. */
static inline uint64_t pass_q_sends(const struct terms *t)
{
    uint64_t halves = 2 * readers(t);
    if (t->causal && t->sharding == SHARDING_ZIGZAG)
        halves = 2 * (t->P - 1) - t->r;
    return (t->P - 1) * t->Q + halves * (t->Q + t->L) / 2;
}

static inline uint64_t pass_q_messages(const struct terms *t)
{
    return t->P - 1 + readers(t);
}

/* Literature: P Q. That is the results to be returned; as many arrive, before the first can be merged. */
static inline uint64_t pass_q_holds(const struct terms *t)
{
    uint64_t state = 2 * (t->Q + t->L);
    if (!t->causal)
        return state + 2 * (t->P - 1) * (t->Q + t->L);
    return t->sharding == SHARDING_ZIGZAG && t->P > 2 ? state + 3 * (t->P - 1) * (t->Q + t->L) / 2 : UNSTATED;
}

/* ---- tree-decode ---- */

static inline uint64_t tree_sends(const struct terms *t)
{
    return (t->P - 1) * t->P * 2 * (t->Q + t->L);
}

static inline uint64_t tree_messages(const struct terms *t)
{
    return 3 * (t->P - 1);
}

/* N, D and top, and all others' N before the sum. */
static inline uint64_t tree_holds(const struct terms *t)
{
    return t->P * 2 * t->P * t->Q + (t->P + 1) * t->P * t->L;
}

#endif
