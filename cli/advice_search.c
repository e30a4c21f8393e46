/* advice_search.c - see advice.h for the rounds.
 *
 * A layout's candidates stand together in the list: attention by attention, each with all settings of the step around
 * it (recomputation, from none on, and within that the stages of ZeRO). Times are taken to add up: what a setting costs
 * with one attention it costs about with another; so each is screened once with the other at its best, and a sum says
 * which pairs are worth a screening of their own. That recomputing more is never faster is taken for granted, and that
 * sums are right within a few percent; all else that is left out cannot be among the best.
 */
#include "cli/advice_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

/* Of an estimate that a sum made; of a screening's time, which is a lower bound but for what few layers say of all. */
#define SUM_TOLERANCE 0.05
#define SCREENING_TOLERANCE 0.002
/* Another attention may need so much less memory than the one that did not fit. */
#define MEMORY_TOLERANCE 0.25

#define ROUND 32
#define TRIALS_MAX 96

struct layout_block {
    size_t first, n_attentions, n_settings;
    size_t setting;   /* the first that fits; n_settings: none does */
    size_t attention; /* the fastest */
    size_t tried;     /* settings that were looked at with the first attention that is not refused */
    size_t lead;      /* that attention */
    bool dead, probed;
};

struct search {
    struct advice *advice;
    advice_look_function *look;
    void *context;
    struct layout_block *blocks;
    size_t n_blocks;
    size_t *round, n_round, round_capacity;
    int signal;
};

static size_t candidate_of(const struct layout_block *block, size_t attention, size_t setting)
{
    return block->first + attention * block->n_settings + setting;
}

static const struct advice_answer *screened(const struct search *search, size_t candidate)
{
    return &search->advice->entries[candidate].answer[ADVICE_SCREENING];
}

static double seconds_of(const struct search *search, size_t candidate)
{
    const struct advice_answer *answer = screened(search, candidate);
    return answer->status == ADVICE_RAN ? answer->times.seconds : (double)INFINITY;
}

/* ---- rounds ---- */

static void add(struct search *search, size_t candidate)
{
    if (screened(search, candidate)->status != ADVICE_NOT_SEEN)
        return;
    memory_grow(search->round, search->n_round, search->round_capacity);
    search->round[search->n_round++] = candidate;
}

/* Looks at what was added. False when a signal ended that. */
static bool look(struct search *search, enum advice_depth depth, const char *what)
{
    if (search->n_round && !search->signal)
        search->signal = search->look(search->context, search->round, search->n_round, depth, what);
    search->n_round = 0;
    return !search->signal;
}

/* ---- layouts ---- */

static bool same_values(const struct advice_candidate *a, const struct advice_candidate *b, size_t from, size_t to)
{
    return memcmp(a->value + from, b->value + from, (to - from) * sizeof *a->value) == 0;
}

static void find_blocks(struct search *search)
{
    const struct advice_space *space = &search->advice->space;
    size_t capacity = 0;
    for (size_t i = 0; i < space->n_candidates;) {
        const struct advice_candidate *first = &space->candidates[i];
        size_t n = 0, n_settings = 0;
        while (i + n < space->n_candidates && same_values(first, first + n, KNOB_TP, KNOB_RING))
            n++;
        while (n_settings < n && same_values(first, first + n_settings, KNOB_RING, KNOB_SEQUENCE_PARALLEL))
            n_settings++;
        memory_grow(search->blocks, search->n_blocks, capacity);
        search->blocks[search->n_blocks++] = (struct layout_block){
            .first = i, .n_attentions = n / n_settings, .n_settings = n_settings, .setting = n_settings};
        i += n;
    }
}

/* The time that the last of the best has; what may not come below that is left. */
static double worst_of_best(const struct search *search, enum advice_depth depth)
{
    const struct advice *advice = search->advice;
    size_t n = advice->settings.best, count = 0;
    double *best = memory_zeroed(n + 1, sizeof *best);
    for (size_t i = 0; i < advice->space.n_candidates; i++) {
        const struct advice_answer *answer = &advice->entries[i].answer[depth];
        if (answer->status != ADVICE_RAN)
            continue;
        size_t at = count < n ? count++ : n;
        for (; at > 0 && best[at - 1] > answer->times.seconds; at--)
            if (at < n)
                best[at] = best[at - 1];
        if (at < n)
            best[at] = answer->times.seconds;
    }
    double worst = count == n ? best[n - 1] : (double)INFINITY;
    free(best);
    return worst;
}

/* ---- what fits ---- */

/* The settings that recompute as much as `setting`: up to `*end`, from the result on. */
static size_t row_of(const struct search *search, const struct layout_block *block, size_t setting, size_t *end)
{
    const struct advice_candidate *candidates = search->advice->space.candidates + block->first;
    size_t begin = setting;
    *end = setting;
    while (begin > 0 && same_values(&candidates[begin - 1], &candidates[setting], KNOB_RING, KNOB_ZERO))
        begin--;
    while (*end < block->n_settings && same_values(&candidates[*end], &candidates[setting], KNOB_RING, KNOB_ZERO))
        (*end)++;
    return begin;
}

/* Takes in what the last round said; false when it is known from where on settings fit, or that none does. */
static bool goes_on_fitting(const struct search *search, struct layout_block *block)
{
    while (!block->dead && block->setting == block->n_settings && block->tried < block->n_settings) {
        const struct advice_answer *answer = screened(search, candidate_of(block, block->lead, block->tried));
        if (answer->status == ADVICE_NOT_SEEN)
            return true;
        if (answer->status == ADVICE_RAN)
            block->setting = block->tried;
        else if (answer->status == ADVICE_NO_ROOM)
            block->tried++;
        else if (block->tried + 1 < block->n_settings && block->lead + 1 == block->n_attentions)
            block->tried++; /* it is this setting that is refused, perhaps */
        else if (block->lead + 1 < block->n_attentions)
            block->lead++;
        else
            block->dead = true;
    }
    return false;
}

/* Of those that recompute as little as the first that fits, the fastest. */
static void choose_setting(const struct search *search, struct layout_block *block)
{
    size_t end, fastest = block->setting;
    for (size_t s = row_of(search, block, block->setting, &end); s < end; s++)
        if (seconds_of(search, candidate_of(block, block->attention, s)) <
            seconds_of(search, candidate_of(block, block->attention, fastest)))
            fastest = s;
    block->setting = fastest;
}

static void find_fitting(struct search *search)
{
    bool any = true;
    while (any && !search->signal) {
        any = false;
        for (size_t b = 0; b < search->n_blocks; b++) {
            struct layout_block *block = &search->blocks[b];
            if (!goes_on_fitting(search, block))
                continue;
            any = true;
            add(search, candidate_of(block, block->lead, block->tried));
        }
        look(search, ADVICE_SCREENING, "finding what fits");
    }
    for (size_t b = 0; b < search->n_blocks; b++)
        search->blocks[b].dead |= search->blocks[b].setting == search->blocks[b].n_settings;
}

/* ---- attention ---- */

/* Of attention's kernels, what another algorithm may save by larger blocks. */
#define ATTENTION_TOLERANCE 0.25

/* What the step takes at least with any attention: products, what the ranks of a layer wait for, most of attention's
 * kernels. All other waiting may be spared, and what goes element by element, merges of attention among it. */
static double least_seconds(const struct search *search, const struct layout_block *block)
{
    const struct advice_answer *answer = screened(search, candidate_of(block, block->lead, block->setting));
    const struct advice_times *times = &answer->times;
    double products = times->parts[COMPUTE_PRODUCTS] + times->parts[COMPUTE_OPTIMIZER];
    double attention = products > 0 ? times->parts[COMPUTE_ATTENTION] : times->compute;
    return products + times->waits[WAIT_TP] + (1 - ATTENTION_TOLERANCE) * attention;
}

/* Of a layout whose sharing out has not been varied: without what waits for weights and their gradients. */
static double seconds_but_for_weights(const struct search *search, size_t candidate)
{
    const struct advice_answer *answer = screened(search, candidate);
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
        double seconds = seconds_but_for_weights(search, candidate_of(block, block->lead, block->setting));
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
        double seconds = seconds_of(search, candidate_of(block, a, block->setting));
        if (seconds < least) {
            least = seconds;
            block->attention = a;
        }
    }
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
        size_t candidate = candidate_of(block, a, 0);
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
    size_t candidate = candidate_of(block, block->attention, block->setting);
    double seconds = but_for_weights ? seconds_but_for_weights(search, candidate) : seconds_of(search, candidate);
    return isfinite(seconds) && seconds * (1 - KIN_TOLERANCE) <= limit;
}

/* Looks closer at some layouts: at one attention of each kind; how weights are shared out; then at every attention. */
static bool probe_blocks(struct search *search, struct layout_block *const *blocks, size_t n)
{
    static const char what[] = "trying algorithms";
    for (size_t i = 0; i < n; i++) {
        size_t chosen[2];
        for (size_t k = representatives(search, blocks[i], chosen); k > 0; k--)
            add(search, candidate_of(blocks[i], chosen[k - 1], blocks[i]->setting));
    }
    if (!look(search, ADVICE_SCREENING, what))
        return false;
    double limit = worst_of_best(search, ADVICE_SCREENING);
    for (size_t i = 0; i < n; i++) {
        size_t end, s = row_of(search, blocks[i], blocks[i]->setting, &end);
        for (bool near = is_near(search, blocks[i], true, limit); near && s < end; s++)
            add(search, candidate_of(blocks[i], blocks[i]->attention, s));
    }
    if (!look(search, ADVICE_SCREENING, what))
        return false;
    limit = worst_of_best(search, ADVICE_SCREENING);
    for (size_t i = 0; i < n; i++) {
        choose_setting(search, blocks[i]);
        bool near = is_near(search, blocks[i], false, limit);
        for (size_t a = 0; a < blocks[i]->n_attentions && near; a++)
            add(search, candidate_of(blocks[i], a, blocks[i]->setting));
    }
    if (!look(search, ADVICE_SCREENING, what))
        return false;
    for (size_t i = 0; i < n; i++)
        choose_attention(search, blocks[i]);
    return true;
}

static void probe(struct search *search)
{
    for (;;) {
        double limit = worst_of_best(search, ADVICE_SCREENING);
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

/* ---- settings ---- */

static double best_of(const struct search *search, const struct layout_block *block)
{
    return block->probed && !block->dead ? seconds_of(search, candidate_of(block, block->attention, block->setting))
                                         : (double)INFINITY;
}

static bool competes(const struct search *search, const struct layout_block *block, double limit)
{
    double seconds = best_of(search, block);
    return isfinite(seconds) && seconds * (1 - SUM_TOLERANCE) <= limit;
}

static void try_settings(struct search *search)
{
    double limit = worst_of_best(search, ADVICE_SCREENING);
    for (size_t b = 0; b < search->n_blocks; b++) {
        struct layout_block *block = &search->blocks[b];
        if (!competes(search, block, limit))
            continue;
        size_t end;
        for (size_t s = row_of(search, block, block->setting, &end); s < block->n_settings; s++)
            add(search, candidate_of(block, block->attention, s));
    }
    look(search, ADVICE_SCREENING, "trying recomputation and ZeRO");
}

/* ---- pairs ---- */

/* What a candidate may take, by what was screened; infinite: it will not fit, or was looked at. */
static double estimate(const struct search *search, const struct layout_block *block, size_t a, size_t s)
{
    size_t candidate = candidate_of(block, a, s);
    if (screened(search, candidate)->status != ADVICE_NOT_SEEN)
        return INFINITY;
    const struct advice_answer *with_best = screened(search, candidate_of(block, block->attention, s));
    const struct advice_answer *at_best = screened(search, candidate_of(block, a, block->setting));
    const struct advice_answer *best = screened(search, candidate_of(block, block->attention, block->setting));
    const struct advice_answer *lead = screened(search, candidate_of(block, block->lead, s));
    size_t end;
    if (s < row_of(search, block, block->setting, &end)) { /* did not fit; what is computed again there is less */
        bool may_fit = lead->status == ADVICE_NO_ROOM &&
                       lead->peak_bytes + lead->reserve_bytes <= lead->device_bytes * (1 + MEMORY_TOLERANCE);
        if (!may_fit || at_best->status != ADVICE_RAN)
            return INFINITY;
        return at_best->times.seconds - at_best->times.recomputed;
    }
    if (at_best->status == ADVICE_REFUSED || at_best->status == ADVICE_FAILED || with_best->status == ADVICE_REFUSED)
        return INFINITY;
    double waits = best->times.exposed - best->times.waits[WAIT_TP] + best->times.idle;
    double setting = with_best->status == ADVICE_RAN ? with_best->times.seconds : best->times.seconds;
    if (at_best->status != ADVICE_RAN)
        return setting - waits; /* it may wait for nothing */
    return at_best->times.seconds + setting - best->times.seconds;
}

struct promise {
    double seconds;
    size_t candidate;
};

static int compare_promises(const void *a, const void *b)
{
    const struct promise *first = a, *second = b;
    if (first->seconds != second->seconds)
        return first->seconds < second->seconds ? -1 : 1;
    return first->candidate < second->candidate ? -1 : 1;
}

static void try_pairs(struct search *search)
{
    struct advice *advice = search->advice;
    struct promise *promises = memory_zeroed(advice->space.n_candidates, sizeof *promises);
    size_t n = 0;
    double limit = worst_of_best(search, ADVICE_SCREENING);
    for (size_t b = 0; b < search->n_blocks; b++) {
        const struct layout_block *block = &search->blocks[b];
        if (!competes(search, block, limit))
            continue;
        for (size_t a = 0; a < block->n_attentions; a++)
            for (size_t s = 0; s < block->n_settings; s++) {
                double seconds = estimate(search, block, a, s);
                advice->entries[candidate_of(block, a, s)].estimate = isfinite(seconds) ? seconds : 0;
                if (isfinite(seconds))
                    promises[n++] = (struct promise){seconds, candidate_of(block, a, s)};
            }
    }
    qsort(promises, n, sizeof *promises, compare_promises);
    for (size_t i = 0; i < n && !search->signal;) {
        limit = worst_of_best(search, ADVICE_SCREENING);
        for (; i < n && search->n_round < ROUND && promises[i].seconds * (1 - SUM_TOLERANCE) <= limit; i++)
            add(search, promises[i].candidate);
        if (search->n_round == 0)
            break;
        look(search, ADVICE_SCREENING, "trying combinations");
    }
    free(promises);
}

/* ---- trials ---- */

static void try_best(struct search *search)
{
    struct advice *advice = search->advice;
    struct promise *promises = memory_zeroed(advice->space.n_candidates, sizeof *promises);
    size_t n = 0, n_tried = 0;
    for (size_t i = 0; i < advice->space.n_candidates; i++)
        if (screened(search, i)->status == ADVICE_RAN)
            promises[n++] = (struct promise){screened(search, i)->times.seconds, i};
    qsort(promises, n, sizeof *promises, compare_promises);
    for (size_t i = 0; i < n && n_tried < TRIALS_MAX && !search->signal;) {
        double limit = worst_of_best(search, ADVICE_TRIAL);
        for (; i < n && search->n_round < advice->settings.best && n_tried < TRIALS_MAX &&
               promises[i].seconds * (1 - SCREENING_TOLERANCE) <= limit;
             i++, n_tried++) {
            memory_grow(search->round, search->n_round, search->round_capacity);
            search->round[search->n_round++] = promises[i].candidate;
        }
        if (search->n_round == 0)
            break;
        look(search, ADVICE_TRIAL, "simulating the best");
    }
    advice->trials_ran_out = n_tried == TRIALS_MAX && n > TRIALS_MAX;
    free(promises);
}

static void try_all(struct search *search)
{
    for (size_t i = 0; i < search->advice->space.n_candidates; i++)
        add(search, i);
    look(search, ADVICE_TRIAL, "simulating all");
}

int advice_search(struct advice *advice, advice_look_function *look_at, void *context)
{
    struct search search = {.advice = advice, .look = look_at, .context = context};
    if (advice->settings.exhaustive) {
        try_all(&search);
    } else {
        find_blocks(&search);
        find_fitting(&search);
        probe(&search);
        try_settings(&search);
        try_pairs(&search);
        try_best(&search);
    }
    free(search.blocks);
    free(search.round);
    return search.signal;
}
