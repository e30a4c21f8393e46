/* The catalogue: for every algorithm, what a rank sends, computes and holds, as closed forms. One row each.
 *
 * A row's forms are those of the literature where program and literature agree; where they do not, the row's comment
 * has the term by which they differ. They are held against the programs over a grid of ranks, heads, masks, shardings
 * and types of gradients. Everything else that is tested of every algorithm (that what it accepts is proved, that it
 * runs, that it is listed) goes by the register: a new algorithm is a file, its name in algorithm.h and in the
 * register, and a row here. The tests named after algorithms have what is peculiar to them.
 *
 * Symbols: catalogue_forms.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"
#include "tests/models/catalogue_forms.h"

/* ---- the table ---- */

enum { CONTIGUOUS = 1 << SHARDING_CONTIGUOUS, ZIGZAG = 1 << SHARDING_ZIGZAG, STRIPED = 1 << SHARDING_STRIPED };
#define ANY (CONTIGUOUS | ZIGZAG | STRIPED)

struct row {
    const char *algorithm;
    const char *keys;   /* further lines of [schedule] */
    unsigned shardings; /* under the causal mask, those that the forms are for; under the full mask: any */
    bool all_to_all;    /* all ranks trade heads: u = P */
    form *sends, *messages, *returns, *return_messages; /* forward; backward */
    form *work, *work_back, *steps;
    step_form *step;
    form *holds; /* the high-water mark of a forward pass, beside Q, K, V, O and LSE */
};

static const struct row rows[] = {
    /* ring-flash-attention sends K and V apart. */
    {"ring", "kv_messages = 2", ANY, false, ring_sends, ring_messages, ring_returns, ring_return_messages,
     work_by_queries, work_by_queries, steps_of_ring, step_of_ring, ring_holds},
    /* Literature: 2 (P-1) KV backward in P messages. The same bytes with gradients = model; here KV and dKV that go
     * together are two messages of one group, 2 (P-1) in P groups: P - 2 more. Literature: P KV + (zigzag) ((r+1) +
     * (P-1-r)/2) Q of memory; that counts the own KV, a resident, once more than here, and no LSE. Contiguous, nothing
     * is returned before something is computed (ring_te_test.c). */
    {"ring-te", "", ZIGZAG | STRIPED, false, ring_sends, te_messages, te_returns, te_return_messages, work_by_queries,
     work_by_queries, steps_of_ring, step_of_ring, te_holds},
    /* In none of the sources: a ring's bytes without the way home, each from its owner and straight back. */
    {"direct", "", ANY, false, ring_sends, direct_messages, direct_returns, direct_return_messages, work_by_queries,
     work_by_queries, steps_of_ring, step_of_ring, ring_holds},
    /* Literature: 2 to 3 P KV; the third are slices for each kernel, which here reads them in place. */
    {"all-gather", "kv_messages = 2", ANY, false, ring_sends, gather_messages, gather_returns, gather_return_messages,
     work_by_queries, work_by_queries, gather_steps, gather_step, gather_holds},
    {"all-gather-heads", "kv_messages = 2", ANY, false, ring_sends, heads_messages, gather_returns,
     heads_return_messages, work_by_queries, work_by_queries, rounds, whole_step, heads_holds},
    /* Literature: (P-1)/P (2Q + KV) in 4 collectives both ways. Here LSE too, (P-1)/P L in a fifth, forward: a rank
     * ends with the LSE of its own rows. Memory there: ~2 (2Q + KV), send and receive copies of all tensors at once;
     * here tensor by tensor, less by 2Q + KV/P. */
    {"ulysses", "kv_messages = 2", ANY, true, ulysses_sends, ulysses_messages, traded, ulysses_return_messages,
     work_by_queries, work_by_queries, one_step, whole_step, ulysses_holds},
    /* Literature: as ulysses in groups and a ring of R; LSE as there, (u-1)/u L. K and V in one message. */
    {"usp", "", ANY, false, usp_sends, usp_messages, usp_returns, usp_return_messages, work_by_queries, work_by_queries,
     steps_of_ring, step_of_ring, usp_holds},
    /* Literature: (w + 2) KV: a buffer for each step in the window; here two in turn, as `buffers` says. Contiguous,
     * windows in which nothing is computed for a block have no sum of it to send. */
    {"double-ring", "", ZIGZAG | STRIPED, false, usp_sends, usp_messages, double_returns, double_return_messages,
     work_by_queries, work_by_queries, steps_of_ring, step_of_ring, double_holds},
    /* Literature, backward of a helped block: Q, dO, O and LSE there, 3Q + L, and dQ back. Here delta instead of O: 2Q
     * + 2L and Q back: Q - L less. */
    {"dist-flash", "", CONTIGUOUS, false, helping_sends, helping_messages, helping_returns, helping_return_messages,
     helping_work, helping_work, helping_steps, helping_step, helping_holds},
    {"token-ring", "", ZIGZAG, false, token_ring_sends, there_and_back, none, none, work_by_keys, none, steps_by_keys,
     step_of_ring, token_ring_holds},
    /* Literature: K and V apart forward, 2 (P-1) messages. Backward the keys stay, and the work is that of their
     * readers: the same but for the diagonals of striped shards. */
    {"burst", "", ZIGZAG | STRIPED, false, ring_sends, burst_messages, burst_returns, burst_return_messages,
     work_by_queries, work_by_keys, steps_of_ring, step_of_ring, ring_holds},
    {"pass-q", "", CONTIGUOUS | ZIGZAG, false, pass_q_sends, pass_q_messages, none, none, work_by_keys, none,
     steps_by_keys, step_of_ring, pass_q_holds},
    /* Literature: three all-reduces of T Hq, T Hq d, T Hq numbers, T all new queries: here all of the sequence, P Q and
     * P L, in fp32, each sent to all others. */
    {"tree-decode", "collective = direct", ANY, false, tree_sends, tree_messages, none, none, work_by_keys, none,
     one_step, NULL, tree_holds},
};

#define ROWS (sizeof rows / sizeof *rows)

/* ---- the grid ---- */

static const struct {
    uint32_t q, kv;
} heads[] = {{24, 24}, {24, 6}, {24, 2}, {24, 1}, {35, 35}, {35, 5}, {35, 1}};

static const char *const shardings[] = {"contiguous", "zigzag", "striped", "per-document"};

#define DIM 128
#define SHARD 12 /* rows */

static const struct algorithm_ops *ops_of(const struct row *row)
{
    const struct algorithm_ops *ops = algorithm_find(row->algorithm);
    assert_non_null(ops);
    return ops;
}

static bool can_train(const struct row *row)
{
    return ops_of(row)->can & CAN_TRAIN;
}

/* One point of the grid. */
struct point {
    uint32_t P, u, w, h, q_heads, kv_heads;
    enum sharding_kind sharding;
    bool causal, fp32;
};

static void write_keys(const struct row *row, const struct point *p, bool train, char *keys, size_t size)
{
    unsigned uses = ops_of(row)->uses;
    int n =
        snprintf(keys, size, "algorithm = %s\nsharding = %s\n%s\n", row->algorithm, shardings[p->sharding], row->keys);
    if (uses & USES_ULYSSES_DEGREE)
        n += snprintf(keys + n, size - (size_t)n, "ulysses_degree = %u\n", p->u);
    if (uses & USES_RING_WINDOW)
        n += snprintf(keys + n, size - (size_t)n, "ring_window = %u\n", p->w);
    if (uses & USES_GATHER_HEADS)
        n += snprintf(keys + n, size - (size_t)n, "gather_heads = %u\n", p->h);
    if (train && (uses & USES_GRADIENTS))
        snprintf(keys + n, size - (size_t)n, "gradients = %s\n", p->fp32 ? "fp32" : "model");
}

static struct terms terms_of(const struct point *p, uint32_t rank)
{
    uint32_t u = p->u;
    uint64_t copies = u > p->kv_heads ? u / p->kv_heads : 1, number = SHARD * (uint64_t)p->q_heads;
    uint64_t place = rank;
    if (u > 1)
        place = p->sharding == SHARDING_STRIPED ? rank % (p->P / u) : rank / u;
    return (struct terms){.P = p->P,
                          .r = rank,
                          .s = SHARD,
                          .u = u,
                          .R = p->P / u,
                          .w = p->w,
                          .W = p->P / u / p->w,
                          .place = place,
                          .Q = number * DIM * 2,
                          .KV = UINT64_C(2) * SHARD * p->kv_heads * DIM * 2 * copies,
                          .L = number * 4,
                          .g = p->fp32 ? 2 : 1,
                          .heads = p->q_heads,
                          .H = p->kv_heads,
                          .h = p->h,
                          .causal = p->causal,
                          .sharding = p->sharding};
}

struct check {
    const struct row *row;
    const struct point *point;
    uint32_t rank;
};

static void expect(const struct check *c, const char *what, uint64_t actual, uint64_t stated)
{
    const struct point *p = c->point;
    if (stated != UNSTATED && actual != stated)
        fail_msg(
            "%s: %s is %llu, the catalogue says %llu: P %u, rank %u, u %u, window %u, %u/%u heads, %u at once, %s, "
            "%s, %s gradients",
            c->row->algorithm, what, (unsigned long long)actual, (unsigned long long)stated, p->P, c->rank, p->u, p->w,
            p->q_heads, p->kv_heads, p->h, shardings[p->sharding], p->causal ? "causal" : "full",
            p->fp32 ? "fp32" : "model's");
}

static void check_steps(const struct check *c, const struct terms *t, const struct program *program)
{
    uint64_t steps = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].kind != OP_ATTEND)
            continue;
        if (c->row->step)
            expect(c, "a step's work", program->ops[i].pairs, c->row->step(t, steps));
        steps++;
    }
    expect(c, "steps", steps, c->row->steps(t));
}

/* Reports split bytes by what travels: K and V forward and again backward, gradients, all else. */
static void check_kinds(const struct check *c, const struct program *program)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind != OP_SEND)
            continue;
        enum tensor tensor = (enum tensor)program->buffers[*program_reads(program, op)].tensor;
        enum traffic kind = TRAFFIC_OTHER;
        if (tensor == TENSOR_KV)
            kind = program_phase(program, i) == PHASE_FORWARD ? TRAFFIC_FORWARD_KV : TRAFFIC_REPLAY_KV;
        else if (tensor == TENSOR_DQ || tensor == TENSOR_DKV)
            kind = TRAFFIC_GRADIENT;
        expect(c, "a message's kind", op->traffic, kind);
    }
}

static void check_point(const struct row *row, const struct point *p, bool train)
{
    char keys[256];
    write_keys(row, p, train, keys, sizeof keys);
    struct question q = {.cp = p->P,
                         .q_heads = p->q_heads,
                         .kv_heads = p->kv_heads,
                         .head_dim = DIM,
                         .batch = 1,
                         .seq_len = (uint64_t)SHARD * p->P,
                         .mask = p->causal ? "causal" : "full",
                         .pass = train ? "train" : "forward",
                         .schedule = keys};
    struct asked a;
    ask(&a, &q);
    for (uint32_t r = 0; r < p->P; r++) {
        const struct program *program = &a.programs[r];
        struct terms t = terms_of(p, r);
        struct check c = {row, p, r};
        struct sums forward = sent_in_phase(program, PHASE_FORWARD), backward = sent_in_phase(program, PHASE_BACKWARD);
        expect(&c, "bytes forward", forward.bytes, row->sends(&t));
        expect(&c, "messages forward", forward.messages, row->messages(&t));
        expect(&c, "work", lane_pairs_of(program, OP_ATTEND), row->work(&t));
        check_steps(&c, &t, program);
        check_kinds(&c, program);
        if (train) {
            expect(&c, "bytes backward", backward.bytes, row->returns(&t));
            expect(&c, "messages backward", backward.messages, row->return_messages(&t));
            expect(&c, "work backward", lane_pairs_of(program, OP_ATTEND_BACKWARD), row->work_back(&t));
            continue;
        }
        uint64_t everywhere = ops_of(row)->replicates_queries ? p->P : 1;
        uint64_t residents = everywhere * (2 * t.Q + t.L) + SHARD * UINT64_C(4) * p->kv_heads * DIM;
        expect(&c, "memory", peak_bytes(program, PHASE_FORWARD) - residents, row->holds(&t));
    }
    asked_fini(&a);
}

/* Whether `ranks` can share out the heads. */
static bool fits(uint32_t ranks, uint32_t q_heads, uint32_t kv_heads)
{
    return q_heads % ranks == 0 && (kv_heads % ranks == 0 || ranks % kv_heads == 0);
}

/* All degrees, windows and groups of heads that the row has a key for. Returns how many points there were. */
static unsigned check_variants(const struct row *row, struct point p)
{
    unsigned uses = ops_of(row)->uses, points = 0;
    for (uint32_t u = 1; u <= p.P; u++) {
        bool asked = row->all_to_all ? u == p.P : uses & USES_ULYSSES_DEGREE ? p.P % u == 0 : u == 1;
        if (!asked || !fits(u, p.q_heads, p.kv_heads))
            continue;
        for (uint32_t w = 1; w <= (uses & USES_RING_WINDOW ? p.P / u : 1); w++) {
            if (p.P / u % w)
                continue;
            for (uint32_t h = 1; h <= (uses & USES_GATHER_HEADS ? p.kv_heads : 1); h++) {
                if (p.kv_heads % h || p.kv_heads / h > 6)
                    continue;
                p.u = u, p.w = w, p.h = h;
                check_point(row, &p, false);
                if (can_train(row))
                    check_point(row, &p, true);
                points++;
            }
        }
    }
    return points;
}

static void programs_equal_the_closed_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        unsigned points = 0;
        for (uint32_t P = 2; P <= 9; P++) {
            for (unsigned n = 0; n < 7 * 3 * 2; n++) {
                struct point p = {.P = P,
                                  .q_heads = heads[n % 7].q,
                                  .kv_heads = heads[n % 7].kv,
                                  .sharding = (enum sharding_kind)(n / 7 % 3),
                                  .causal = n / 21,
                                  .fp32 = (n + P) % 2};
                if (!p.causal || rows[i].shardings >> p.sharding & 1)
                    points += check_variants(&rows[i], p);
            }
        }
        assert_true(points >= 50);
    }
}

/* ---- rows and register ---- */

static void every_algorithm_has_one_row(void **state)
{
    (void)state;
    size_t registered = 0;
    for (; algorithms[registered]; registered++) {
        unsigned found = 0;
        for (size_t i = 0; i < ROWS; i++)
            found += strcmp(rows[i].algorithm, algorithms[registered]->name) == 0;
        if (found != 1)
            fail_msg("'%s' has %u rows in the catalogue", algorithms[registered]->name, found);
    }
    assert_int_equal(registered, ROWS);
}

/* ---- masks that leave blocks out ---- */

/* Visible pairs of a mask, counted one by one. */
static uint64_t visible(const struct mask *mask)
{
    uint64_t pairs = 0, document = 0;
    for (uint64_t q = 0; q < mask->seq_len; q++) {
        while (mask->kind == MASK_DOCUMENTS && mask->document_starts[document + 1] <= q)
            document++;
        uint64_t window = mask->kind == MASK_WINDOW && q + 1 > mask->window ? mask->window : q + 1;
        pairs += mask->kind == MASK_DOCUMENTS ? q + 1 - mask->document_starts[document] : window;
    }
    return pairs;
}

/* Asks for a row's algorithm on six ranks of SHARD rows. */
static void ask_masked(struct asked *a, const struct row *row, const char *mask, const char *sharding, const char *skip)
{
    char keys[256];
    snprintf(keys, sizeof keys, "algorithm = %s\nsharding = %s\n%s\n%s%s\n", row->algorithm, sharding, row->keys,
             *skip ? "skip = " : "", skip);
    struct question q = {.cp = 6,
                         .q_heads = 24,
                         .kv_heads = 6,
                         .head_dim = 8,
                         .batch = 1,
                         .seq_len = 6 * SHARD,
                         .mask = mask,
                         .pass = can_train(row) ? "train" : "forward",
                         .schedule = keys};
    ask(a, &q);
}

/* Whether the algorithm can leave out what nobody sees, and the value of skip that asks for it. */
static bool leaves_out(const struct row *row, const char **skip)
{
    bool can = ops_of(row)->uses & USES_SKIP_TRANSFER;
    *skip = can ? "transfer" : "";
    return can || ops_of(row)->skips_always;
}

/* Bytes that all ranks send: in collectives, and one to one. */
struct traffic_bytes {
    uint64_t collective, direct;
};

static struct traffic_bytes masked_bytes(const struct row *row, const char *mask, const char *sharding,
                                         const char *skip)
{
    struct traffic_bytes bytes = {0, 0};
    struct asked a;
    ask_masked(&a, row, mask, sharding, skip);
    for (uint32_t r = 0; r < a.schedule.ranks; r++) {
        for (uint32_t i = 0; i < a.programs[r].n_ops; i++) {
            const struct op *op = &a.programs[r].ops[i];
            if (op->kind == OP_SEND)
                *(op->collective ? &bytes.collective : &bytes.direct) += op->bytes;
        }
    }
    asked_fini(&a);
    return bytes;
}

/* Whoever attends them, and however often a mask cuts the sequence: all visible pairs, each once. */
static void all_ranks_attend_the_visible_pairs_of_any_mask(void **state)
{
    (void)state;
    static const char *const masks[] = {"window:1",       "window:17",     "window:100", "documents:5,20,3,44",
                                        "documents:12*6", "documents:1,71"};
    for (size_t i = 0; i < ROWS; i++) {
        for (unsigned m = 0; m < 6; m++) {
            for (unsigned s = 0; s < (m < 3 ? 3 : 4); s++) {
                const char *skip;
                leaves_out(&rows[i], &skip);
                for (int leave = 0; leave < (*skip ? 2 : 1); leave++) {
                    struct asked a;
                    ask_masked(&a, &rows[i], masks[m], shardings[s], leave ? skip : "");
                    uint64_t forward = 0, backward = 0, all = 24 * visible(&a.experiment.mask);
                    for (uint32_t r = 0; r < 6; r++) {
                        forward += lane_pairs_of(&a.programs[r], OP_ATTEND);
                        backward += lane_pairs_of(&a.programs[r], OP_ATTEND_BACKWARD);
                    }
                    if (forward != all || backward != (can_train(&rows[i]) ? all : 0))
                        fail_msg("%s, %s, %s: %llu and %llu of %llu pairs", rows[i].algorithm, masks[m], shardings[s],
                                 (unsigned long long)forward, (unsigned long long)backward, (unsigned long long)all);
                    asked_fini(&a);
                }
            }
        }
    }
}

/* The bytes of an algorithm that leaves out what nobody sees fall with the window; those of another do not depend on
 * it. Documents as long as a shard, contiguous, need no message at all; dealt out document by document, every rank sees
 * something of every other one. What moves in collectives alone, rows for heads or whole gathers, moves for any mask.
 */
static void bytes_fall_where_blocks_are_left_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const char *skip;
        bool leaves = leaves_out(&rows[i], &skip);
        struct traffic_bytes causal = masked_bytes(&rows[i], "causal", "contiguous", skip);
        struct traffic_bytes wide = masked_bytes(&rows[i], "window:40", "contiguous", skip);
        struct traffic_bytes narrow = masked_bytes(&rows[i], "window:10", "contiguous", skip);
        struct traffic_bytes apart = masked_bytes(&rows[i], "documents:12*6", "contiguous", skip);
        struct traffic_bytes dealt = masked_bytes(&rows[i], "documents:12*6", "per-document", skip);
        uint64_t all = causal.direct + causal.collective;
        bool collective_only = causal.direct == 0;
        if (leaves && !collective_only) {
            if (!(wide.direct + wide.collective < all &&
                  narrow.direct + narrow.collective < wide.direct + wide.collective))
                fail_msg("%s: %llu bytes, %llu in a window, %llu in a narrow one", rows[i].algorithm,
                         (unsigned long long)all, (unsigned long long)(wide.direct + wide.collective),
                         (unsigned long long)(narrow.direct + narrow.collective));
            assert_int_equal(apart.direct + apart.collective, 0);
            assert_true(dealt.direct > 0);
        } else if (collective_only) {
            assert_int_equal(narrow.collective, causal.collective);
            assert_int_equal(apart.collective, causal.collective);
            assert_int_equal(dealt.collective, causal.collective);
        } else {
            assert_true(apart.direct > 0 && narrow.direct > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_has_one_row),
        cmocka_unit_test(programs_equal_the_closed_forms),
        cmocka_unit_test(all_ranks_attend_the_visible_pairs_of_any_mask),
        cmocka_unit_test(bytes_fall_where_blocks_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
