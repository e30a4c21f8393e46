/* advice_probes.c - the second round: the most promising layouts with one algorithm of each kind; where these are near
 * the best, with every sharing out, then with every way to do attention.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/advice_rounds.h"

/* Of attention's kernels, what another algorithm may save by larger blocks. */
#define ATTENTION_TOLERANCE 0.25

/* What the step takes at least with any attention: products, what the ranks of a layer wait for, most of attention's
 * kernels. All other waiting may be spared, and what goes element by element, merges of attention among it. */
static double least_seconds(const struct search *search, const struct layout_block *block)
{
    const struct advice_answer *answer = search_screened(search, block_candidate(block, block->lead, block->setting));
    const struct advice_times *times = &answer->times;
    double products = times->parts[COMPUTE_PRODUCTS] + times->parts[COMPUTE_OPTIMIZER];
    double attention = products > 0 ? times->parts[COMPUTE_ATTENTION] : times->compute;
    return products + times->waits[WAIT_TP] + (1 - ATTENTION_TOLERANCE) * attention;
}

/* Of a layout whose sharing out has not been varied: without what waits for weights and their gradients. */
static double seconds_but_for_weights(const struct search *search, size_t candidate)
{
    const struct advice_answer *answer = search_screened(search, candidate);
    return answer->status == ADVICE_RAN ? answer->times.seconds - answer->times.waits[WAIT_DP] - answer->times.idle
                                        : (double)INFINITY;
}

/* The most promising of the layouts that are not probed; n_blocks: none may be among the best. */
static size_t next_block(const struct search *search, double limit)
{
    size_t next = search->n_blocks;
    double least = INFINITY;
    for (size_t b = 0; b < search->n_blocks; b++) {
        const struct layout_block *block = &search->blocks[b];
        if (block->dead || block->probed)
            continue;
        double seconds = seconds_but_for_weights(search, block_candidate(block, block->lead, block->setting));
        if (least_seconds(search, block) <= limit && seconds < least) {
            least = seconds;
            next = b;
        }
    }
    return next;
}

static void choose_attention(const struct search *search, struct layout_block *block)
{
    double least = INFINITY;
    for (size_t a = 0; a < block->n_attentions; a++) {
        double seconds = search_seconds(search, block_candidate(block, a, block->setting));
        if (seconds < least) {
            least = seconds;
            block->attention = a;
        }
    }
}

/* Of those that recompute as little as the first that fits, the fastest. */
static void choose_setting(const struct search *search, struct layout_block *block)
{
    size_t end, fastest = block->setting;
    for (size_t s = block_row(search, block, block->setting, &end); s < end; s++)
        if (search_seconds(search, block_candidate(block, block->attention, s)) <
            search_seconds(search, block_candidate(block, block->attention, fastest)))
            fastest = s;
    block->setting = fastest;
}

static bool trades_more(const char *degree, const char *than)
{
    return !than || strtoul(degree, NULL, 10) > strtoul(than, NULL, 10);
}

/* The attentions that stand for their kin: one that gathers; one that trades heads, as many as may be. Returns how
 * many there are. */
static size_t representatives(const struct search *search, const struct layout_block *block, size_t chosen[2])
{
    const struct advice_space *space = &search->advice->space;
    size_t gathers = block->n_attentions, trades = block->n_attentions, n = 0;
    const char *widest = NULL;
    for (size_t a = 0; a < block->n_attentions; a++) {
        size_t candidate = block_candidate(block, a, 0);
        const char *algorithm = advice_value(space, candidate, KNOB_ALGORITHM);
        const char *degree = advice_value(space, candidate, KNOB_ULYSSES_DEGREE);
        if (gathers == block->n_attentions && strcmp(algorithm, "all-gather") == 0)
            gathers = a;
        if (strcmp(algorithm, "ulysses") == 0 && !widest)
            trades = a;
        if (strcmp(algorithm, "usp") == 0 && degree && degree != widest && trades_more(degree, widest)) {
            trades = a;
            widest = degree;
        }
    }
    if (gathers < block->n_attentions)
        chosen[n++] = gathers;
    if (trades < block->n_attentions)
        chosen[n++] = trades;
    return n;
}

#define BLOCKS_AT_ONCE 3

/* How far the kin of an algorithm may be from it. */
#define KIN_TOLERANCE 0.25

/* Whether the fastest attention that was looked at is near enough to the best that others may be among these. */
static bool is_near(const struct search *search, struct layout_block *block, bool but_for_weights, double limit)
{
    choose_attention(search, block);
    size_t candidate = block_candidate(block, block->attention, block->setting);
    double seconds = but_for_weights ? seconds_but_for_weights(search, candidate) : search_seconds(search, candidate);
    return isfinite(seconds) && seconds * (1 - KIN_TOLERANCE) <= limit;
}

/* Looks closer at some layouts: at one attention of each kind; how weights are shared out; then at every attention. */
static bool probe_blocks(struct search *search, struct layout_block *const *blocks, size_t n)
{
    static const char what[] = "trying algorithms";
    for (size_t i = 0; i < n; i++) {
        size_t chosen[2];
        for (size_t k = representatives(search, blocks[i], chosen); k > 0; k--)
            search_add(search, block_candidate(blocks[i], chosen[k - 1], blocks[i]->setting));
    }
    if (!search_look(search, ADVICE_SCREENING, what))
        return false;
    double limit = search_worst_of_best(search, ADVICE_SCREENING);
    for (size_t i = 0; i < n; i++) {
        size_t end, s = block_row(search, blocks[i], blocks[i]->setting, &end);
        for (bool near = is_near(search, blocks[i], true, limit); near && s < end; s++)
            search_add(search, block_candidate(blocks[i], blocks[i]->attention, s));
    }
    if (!search_look(search, ADVICE_SCREENING, what))
        return false;
    limit = search_worst_of_best(search, ADVICE_SCREENING);
    for (size_t i = 0; i < n; i++) {
        choose_setting(search, blocks[i]);
        bool near = is_near(search, blocks[i], false, limit);
        for (size_t a = 0; a < blocks[i]->n_attentions && near; a++)
            search_add(search, block_candidate(blocks[i], a, blocks[i]->setting));
    }
    if (!search_look(search, ADVICE_SCREENING, what))
        return false;
    for (size_t i = 0; i < n; i++)
        choose_attention(search, blocks[i]);
    return true;
}

void search_probe(struct search *search)
{
    for (;;) {
        double limit = search_worst_of_best(search, ADVICE_SCREENING);
        struct layout_block *chosen[BLOCKS_AT_ONCE];
        size_t n = 0, b;
        while (n < BLOCKS_AT_ONCE && (b = next_block(search, limit)) < search->n_blocks) {
            search->blocks[b].probed = true;
            chosen[n++] = &search->blocks[b];
        }
        if (n == 0 || !probe_blocks(search, chosen, n))
            return;
    }
}
