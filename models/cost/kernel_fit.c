/* kernel_fit.c - fits t = a + b x rows + c x pairs to a table of rates, and evaluates it for a block.
 *
 * The fit minimises sum ((a + b x_i + c y_i) / t_i - 1)^2 with a, b, c >= 0. Three unknowns: the minimum is found by
 * trying the sets of unknowns that may be above zero, each by its normal equations, and keeping the best that came out
 * non-negative. c is always among them (work that costs nothing per pair is no attention), and a larger set has to be
 * better than a smaller one by more than rounding, so a constant rate gives a = b = 0 and c exactly.
 *
 * Table times follow the convention of rates (causal: S^2/2 pairs), the fit uses the S (S + 1) / 2 pairs that a causal
 * block really has and that a program passes, so evaluating the fit at a table's point gives back the table's time.
 *
 * The longest tile: a query sees at most all keys, and in a triangle the last one sees twice the average, so the
 * longest row of a block with p pairs is taken as min(keys, 2 p / queries); a tile of such rows runs on one processor,
 * at the device's rate per pair divided by the number of processors. Backward kernels give each processor a tile of
 * keys instead (Dao, FlashAttention-2, arXiv:2307.08691, section 3.2).
 */
#include "models/cost/kernel_fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#define TERMS 3 /* a, b, c */
#define TERM_A 1U
#define TERM_B 2U
#define TERM_C 4U

/* One point of a table divided by its time: what the terms should add up to. */
struct equation {
    double term[TERMS];
    double sum; /* 1, less what of it is known */
};

/* Solves the n x n system in place by elimination with pivoting; false when it is singular. */
static bool solve(double matrix[TERMS][TERMS], double rhs[TERMS], int n)
{
    for (int column = 0; column < n; column++) {
        int pivot = column;
        for (int row = column + 1; row < n; row++)
            if (fabs(matrix[row][column]) > fabs(matrix[pivot][column]))
                pivot = row;
        if (fabs(matrix[pivot][column]) < 1e-12) /* columns have length 1 */
            return false;
        for (int k = 0; k < n; k++) {
            double swap = matrix[column][k];
            matrix[column][k] = matrix[pivot][k];
            matrix[pivot][k] = swap;
        }
        double swap = rhs[column];
        rhs[column] = rhs[pivot];
        rhs[pivot] = swap;
        for (int row = column + 1; row < n; row++) {
            double factor = matrix[row][column] / matrix[column][column];
            for (int k = column; k < n; k++)
                matrix[row][k] -= factor * matrix[column][k];
            rhs[row] -= factor * rhs[column];
        }
    }
    for (int row = n - 1; row >= 0; row--) {
        for (int k = row + 1; k < n; k++)
            rhs[row] -= matrix[row][k] * rhs[k];
        rhs[row] /= matrix[row][row];
    }
    return true;
}

/* Least squares over the unknowns in `set`; the others are 0. False when undetermined or when one is negative. */
static bool fit_set(const struct equation *equations, size_t count, unsigned set, double solution[TERMS])
{
    int index[TERMS], n = 0;
    double length[TERMS]; /* columns are scaled to length 1: they differ by ten orders of magnitude */
    for (int k = 0; k < TERMS; k++) {
        solution[k] = 0.0;
        if (!(set >> k & 1U))
            continue;
        double squares = 0.0;
        for (size_t i = 0; i < count; i++)
            squares += equations[i].term[k] * equations[i].term[k];
        length[n] = sqrt(squares);
        index[n++] = k;
    }
    if (count < (size_t)n)
        return false;

    double matrix[TERMS][TERMS] = {{0.0}}, rhs[TERMS] = {0.0};
    for (size_t i = 0; i < count; i++) {
        for (int j = 0; j < n; j++) {
            double left = equations[i].term[index[j]] / length[j];
            for (int k = 0; k < n; k++)
                matrix[j][k] += left * equations[i].term[index[k]] / length[k];
            rhs[j] += left * equations[i].sum;
        }
    }
    if (!solve(matrix, rhs, n))
        return false;
    for (int j = 0; j < n; j++) {
        if (!(rhs[j] >= 0.0))
            return false;
        solution[index[j]] = rhs[j] / length[j];
    }
    return true;
}

static double relative_error(const struct equation *equation, const double solution[TERMS])
{
    double value = -equation->sum;
    for (int k = 0; k < TERMS; k++)
        value += equation->term[k] * solution[k];
    return value;
}

static double sum_of_squares(const struct equation *equations, size_t count, const double solution[TERMS])
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        double error = relative_error(&equations[i], solution);
        sum += error * error;
    }
    return sum;
}

/* The best of the sets of unknowns, none of which is large unless that is worth more than rounding. */
static void fit_sets(const struct equation *equations, size_t count, const unsigned sets[4], double best[TERMS])
{
    const double rounding = 1e-18; /* per point: errors below 1e-9 are none */
    double best_sum = INFINITY;
    for (int s = 0; s < 4; s++) {
        double solution[TERMS];
        if (!fit_set(equations, count, sets[s], solution))
            continue;
        double sum = sum_of_squares(equations, count, solution);
        if (sum + rounding * (double)count < best_sum) {
            best_sum = sum;
            memcpy(best, solution, TERMS * sizeof *best);
        }
    }
}

/* With c no less than `least`: where the best c would be, the best of the others for that c. */
static struct kernel_terms fit_equations(struct equation *equations, size_t count, double least)
{
    static const unsigned with_c[] = {TERM_C, TERM_B | TERM_C, TERM_A | TERM_C, TERM_A | TERM_B | TERM_C};
    static const unsigned others[] = {0, TERM_B, TERM_A, TERM_A | TERM_B};
    double best[TERMS] = {0.0};
    fit_sets(equations, count, with_c, best);
    if (best[2] < least) {
        for (size_t i = 0; i < count; i++)
            equations[i].sum -= least * equations[i].term[2];
        fit_sets(equations, count, others, best);
        for (size_t i = 0; i < count; i++)
            equations[i].sum += least * equations[i].term[2];
        best[2] = least;
    }
    struct kernel_terms terms = {.seconds = best[0], .seconds_per_row = best[1], .seconds_per_pair = best[2]};
    for (size_t i = 0; i < count; i++)
        terms.worst_error = fmax(terms.worst_error, fabs(relative_error(&equations[i], best)));
    return terms;
}

/* --- work -----------------------------------------------------------------------------------------------------------
 */

/* What b and c are multiplied with: rows and pairs of all heads. */
struct work {
    double rows, pairs;
};

/* Pairs of the longest tile that one processor is given whole. */
static double longest_tile_pairs(const struct kernel_fit *fit, const struct kernel_block *block, double pairs)
{
    bool forward = fit->table->pass == PASS_FORWARD;
    double split = forward ? block->query_rows : block->key_rows;
    double across = forward ? block->key_rows : block->query_rows;
    return fmin(pairs, fmin(fit->device->tile_rows, split) * fmin(across, 2.0 * pairs / split));
}

static bool schedule_is_known(const struct kernel_fit *fit, mechanism_set without)
{
    return fit->table->persistent != PERSISTENT_UNKNOWN && mechanism_counts(without, MECHANISM_WAVES);
}

static struct work level_work(const struct kernel_fit *fit, const struct kernel_block *block, double pairs)
{
    double rows = fit->table->pass == PASS_FORWARD ? block->query_rows : (block->query_rows + block->key_rows) / 2.0;
    return (struct work){block->heads * rows, block->heads * pairs};
}

/* Lengths rise evenly from the first row to the last, which sees everything unless there are too few pairs for that; of
 * a block with two edges they are one length. */
static struct work scheduled_work(const struct kernel_fit *fit, const struct kernel_block *block, double pairs)
{
    bool forward = fit->table->pass == PASS_FORWARD;
    double split = forward ? block->query_rows : block->key_rows;
    double across = forward ? block->key_rows : block->query_rows;
    double mean = pairs / split, length = block->edges > 1 ? mean : fmin(across, 2.0 * mean);
    const struct tile_schedule schedule = {.heads = block->heads,
                                           .rows = split,
                                           .tile_rows = kernel_fit_tile_rows(fit),
                                           .slots = kernel_fit_slots(fit),
                                           .first_row = 2.0 * mean - length,
                                           .length = length,
                                           .longest_first = fit->table->persistent == PERSISTENT_YES,
                                           .descending = !forward};
    double rows = tile_schedule_rows(&schedule);
    if (!forward) /* rows of queries are no tiles of this kernel's, but what it reads and writes */
        rows = (block->heads * block->query_rows + rows) / 2.0;
    return (struct work){rows, tile_schedule_work_kept(&schedule, block->memo)};
}

static struct work work_of(const struct kernel_fit *fit, const struct kernel_block *block, double pairs)
{
    return schedule_is_known(fit, block->without) ? scheduled_work(fit, block, pairs) : level_work(fit, block, pairs);
}

double kernel_fit_tile_rows(const struct kernel_fit *fit)
{
    return fit->table->tile_rows ? fit->table->tile_rows : fit->device->tile_rows;
}

double kernel_fit_slots(const struct kernel_fit *fit)
{
    return (double)fit->device->processors * fmax(1.0, fit->table->blocks);
}

/* Fits a mask's points, with c no less than `least`. */
static struct kernel_terms fit_points(const struct kernel_fit *fit, const struct rate_point *points, size_t count,
                                      bool causal, mechanism_set without, double least, struct tile_memo *memo)
{
    const struct attention_table *table = fit->table;
    struct equation equations[RATE_POINTS_MAX] = {{{0.0}, 0.0}};
    for (size_t i = 0; i < count; i++) {
        double seq_len = points[i].seq_len;
        double batch = table->batch > 0.0 ? table->batch : table->tokens / seq_len;
        double heads = table->heads * batch;
        double convention_pairs = causal ? seq_len * seq_len / 2.0 : seq_len * seq_len;
        double pairs = causal ? seq_len * (seq_len + 1.0) / 2.0 : seq_len * seq_len;
        double seconds = heads * convention_pairs * fit->flops_per_pair / (points[i].flops_per_s * table->rate_scale);
        const struct kernel_block block = {heads, seq_len, seq_len, pairs, 1, without, memo};
        struct work work = work_of(fit, &block, pairs);
        equations[i] = (struct equation){{1.0 / seconds, work.rows / seconds, work.pairs / seconds}, 1.0};
    }
    return fit_equations(equations, count, least);
}

/* The rate that no block is taken to exceed: the table's best, or what its last two points rise to where time goes by b
 * and c alone, and the table's spread beyond that. */
static double fastest_rate(const struct attention_table *table, const struct rate_point *points, size_t count)
{
    double best = 0.0;
    for (size_t i = 0; i < count; i++)
        best = fmax(best, points[i].flops_per_s);
    if (count > 1) {
        const struct rate_point *last = &points[count - 1], *before = &points[count - 2];
        double time = last->seq_len / last->flops_per_s - before->seq_len / before->flops_per_s;
        if (time > 0.0)
            best = fmax(best, (last->seq_len - before->seq_len) / time);
    }
    return best * table->rate_scale * (1.0 + table->spread);
}

/* A pair seen through a mask is as much work as any other, so it is no cheaper, beyond what the rates vary. */
static struct kernel_fit_masks fit_masks(const struct kernel_fit *fit, mechanism_set without, struct tile_memo *memo)
{
    const struct attention_table *table = fit->table;
    struct kernel_fit_masks masks = {0};
    if (table->n_full)
        masks.full = fit_points(fit, table->full, table->n_full, false, without, 0.0, memo);
    if (table->n_causal)
        masks.causal = fit_points(fit, table->causal, table->n_causal, true, without,
                                  masks.full.seconds_per_pair / (1.0 + table->spread), memo);
    if (!table->n_full)
        masks.full = masks.causal;
    if (!table->n_causal)
        masks.causal = masks.full;
    return masks;
}

/* All that the terms follow from. */
static void fit_key(const struct kernel_fit *fit, uint64_t key[2])
{
    const struct attention_table *table = fit->table;
    const double numbers[] = {
        fit->flops_per_pair,       table->heads,          table->batch,          table->tokens,
        table->rate_scale,         table->spread,         (double)table->pass,   (double)table->persistent,
        kernel_fit_tile_rows(fit), kernel_fit_slots(fit), (double)table->n_full, (double)table->n_causal};
    XXH64_hash_t points = XXH3_64bits(table->full, table->n_full * sizeof *table->full);
    points = XXH3_64bits_withSeed(table->causal, table->n_causal * sizeof *table->causal, points);
    XXH128_hash_t hash = XXH3_128bits_withSeed(numbers, sizeof numbers, points);
    key[0] = hash.low64;
    key[1] = hash.high64;
}

static void fit_terms(struct kernel_fit *fit, struct kernel_memo *memo)
{
    uint64_t key[2];
    struct tile_memo *tiles = memo ? &memo->tiles : NULL;
    fit_key(fit, key);
    for (size_t i = 0; memo && i < KERNEL_MEMO_FITS; i++) {
        if (memcmp(memo->fits[i].key, key, sizeof key) != 0)
            continue;
        fit->fitted = memo->fits[i].fitted;
        fit->level = memo->fits[i].level;
        return;
    }
    fit->fitted = fit_masks(fit, 0, tiles);
    fit->level = fit_masks(fit, 1U << MECHANISM_WAVES, tiles);
    if (!memo)
        return;
    size_t place = memo->next_fit++ % KERNEL_MEMO_FITS;
    memcpy(memo->fits[place].key, key, sizeof key);
    memo->fits[place].fitted = fit->fitted;
    memo->fits[place].level = fit->level;
}

static double lesser_bound(double one, double other)
{
    return one > 0.0 && (other <= 0.0 || one < other) ? one : other;
}

/* What bounds the rate of blocks of either mask; the one without rates has the other's bound. */
static void set_bounds(struct kernel_fit *fit, double peak)
{
    const struct attention_table *table = fit->table;
    double full = fastest_rate(table, table->full, table->n_full);
    double causal = fastest_rate(table, table->causal, table->n_causal);
    fit->fastest_full = lesser_bound(table->n_full ? full : causal, peak);
    fit->fastest_causal = lesser_bound(table->n_causal ? causal : full, peak);
}

/* --- the table that serves ------------------------------------------------------------------------------------------
 */

/* Adds `word` to the list in `text` ("'fa2', 'fa3'") unless it is there. */
static void list_add(char *text, size_t size, const char *word, const char *quote)
{
    char item[64];
    snprintf(item, sizeof item, "%s%s%s", quote, word, quote);
    size_t length = strlen(text), item_length = strlen(item);
    for (const char *at = strstr(text, item); at; at = strstr(at + 1, item)) {
        char after = at[item_length];
        if ((at == text || at[-1] == ' ') && (after == '\0' || after == ','))
            return;
    }
    snprintf(text + length, size - length, "%s%s", length ? ", " : "", item);
}

static const char *pass_word(enum attention_pass pass)
{
    return pass == PASS_FORWARD ? "forward" : "backward";
}

static bool table_serves(const struct attention_table *table, const char *kernel, enum attention_pass pass,
                         enum dtype dtype, uint32_t head_dim)
{
    return strcmp(table->kernel, kernel) == 0 && table->pass == pass && (table->dtypes >> dtype & 1U) &&
           (table->head_dim == head_dim || table->head_dim == 0);
}

/* Says which of kernel, pass, dtype, head dim is the one that the profile lacks, and what it has instead. */
static enum kernel_lack report_missing(const struct device *device, const char *kernel, enum attention_pass pass,
                                       enum dtype dtype, uint32_t head_dim, struct diagnostics *diag)
{
    char kernels[256] = "", dtypes[128] = "", head_dims[256] = "";
    bool kernel_found = false, pass_found = false, dtype_found = false;
    for (size_t i = 0; i < device->n_tables; i++) {
        const struct attention_table *table = &device->tables[i];
        list_add(kernels, sizeof kernels, table->kernel, "'");
        if (strcmp(table->kernel, kernel) != 0)
            continue;
        kernel_found = true;
        if (table->pass != pass)
            continue;
        pass_found = true;
        for (int d = 0; d < DTYPE_COUNT; d++)
            if (table->dtypes >> d & 1U)
                list_add(dtypes, sizeof dtypes, dtype_name((enum dtype)d), "");
        if (!(table->dtypes >> dtype & 1U))
            continue;
        dtype_found = true;
        char number[16] = "any";
        if (table->head_dim)
            snprintf(number, sizeof number, "%u", table->head_dim);
        list_add(head_dims, sizeof head_dims, number, "");
    }
    if (!kernel_found) {
        diagnostics_at(diag, device->path, 0, "no attention kernel '%s' in this profile, which has %s", kernel,
                       kernels);
        return LACKS_KERNEL;
    }
    if (!pass_found) {
        diagnostics_at(diag, device->path, 0, "kernel '%s' has no %s rates, expected a [attention %s %s %u]", kernel,
                       pass_word(pass), kernel, pass_word(pass), head_dim);
        return LACKS_PASS;
    }
    if (!dtype_found) {
        diagnostics_at(diag, device->path, 0, "kernel '%s' has no %s rates in dtype '%s', only in %s", kernel,
                       pass_word(pass), dtype_name(dtype), dtypes);
        return LACKS_DTYPE;
    }
    diagnostics_at(diag, device->path, 0, "kernel '%s' has no %s rates in %s for head_dim '%u', only for %s", kernel,
                   pass_word(pass), dtype_name(dtype), head_dim, head_dims);
    return LACKS_HEAD_DIM;
}

bool kernel_fit_init_kept(struct kernel_fit *fit, const struct device *device, const char *kernel,
                          enum attention_pass pass, enum dtype dtype, uint32_t head_dim, struct kernel_memo *memo,
                          struct diagnostics *diag)
{
    if (!*kernel)
        kernel = device->default_kernel;
    const struct attention_table *found = NULL;
    for (size_t i = 0; i < device->n_tables; i++) {
        const struct attention_table *table = &device->tables[i];
        if (table_serves(table, kernel, pass, dtype, head_dim) && (!found || table->head_dim == head_dim))
            found = table;
    }
    if (!found) {
        *fit = (struct kernel_fit){.lack = report_missing(device, kernel, pass, dtype, head_dim, diag)};
        return false;
    }

    *fit = (struct kernel_fit){.device = device, .table = found};
    fit->flops_per_pair = (pass == PASS_FORWARD ? 4.0 : 10.0) * head_dim;
    /* The peak is that of 16-bit types, which 8-bit types exceed. */
    set_bounds(fit, dtype == DTYPE_FP8 ? 0.0 : device->peak_flops_per_s);
    fit_terms(fit, memo);
    return true;
}

bool kernel_fit_init(struct kernel_fit *fit, const struct device *device, const char *kernel, enum attention_pass pass,
                     enum dtype dtype, uint32_t head_dim, struct diagnostics *diag)
{
    return kernel_fit_init_kept(fit, device, kernel, pass, dtype, head_dim, NULL, diag);
}

/* --- evaluation -----------------------------------------------------------------------------------------------------
 */

static const struct kernel_fit_masks *masks_of(const struct kernel_fit *fit, mechanism_set without)
{
    return mechanism_counts(without, MECHANISM_WAVES) ? &fit->fitted : &fit->level;
}

static double fixed_seconds(const struct kernel_fit *fit, const struct kernel_terms *terms, mechanism_set without)
{
    return mechanism_counts(without, MECHANISM_LAUNCH) ? fmax(terms->seconds, fit->device->launch_seconds) : 0.0;
}

/* Nor is the block faster than `fastest`, unless that is 0. */
static double seconds_with(const struct kernel_fit *fit, const struct kernel_terms *terms,
                           const struct kernel_block *block, double pairs, double fastest)
{
    struct work amount = work_of(fit, block, pairs);
    double work = terms->seconds_per_row * amount.rows + terms->seconds_per_pair * amount.pairs, tile = 0.0;
    if (mechanism_counts(block->without, MECHANISM_WAVES) && !schedule_is_known(fit, block->without))
        tile = longest_tile_pairs(fit, block, pairs) * terms->seconds_per_pair * fit->device->processors;
    double seconds = fixed_seconds(fit, terms, block->without) + fmax(work, tile);
    return fastest > 0.0 ? fmax(seconds, block->heads * pairs * fit->flops_per_pair / fastest) : seconds;
}

/* The causal fit, with the price of as many edges as the block has. */
static struct kernel_terms masked_terms(const struct kernel_fit *fit, const struct kernel_block *block)
{
    const struct kernel_fit_masks *masks = masks_of(fit, block->without);
    struct kernel_terms masked = masks->causal;
    double edge = fmax(0.0, masks->causal.seconds_per_row - masks->full.seconds_per_row);
    if (!mechanism_counts(block->without, MECHANISM_EDGES))
        masked.seconds_per_row -= edge;
    else
        masked.seconds_per_row += (block->edges - 1) * edge;
    return masked;
}

/* What a block takes with the terms that serve it best. */
struct best {
    double seconds, fixed;
};

static struct best best_terms(const struct kernel_fit *fit, const struct kernel_block *block)
{
    double rectangle = block->query_rows * block->key_rows, pairs = block->pairs;
    const struct kernel_terms *full = &masks_of(fit, block->without)->full;
    double fixed = fixed_seconds(fit, full, block->without);
    if (rectangle <= 0.0)
        return (struct best){fixed, fixed};
    struct best best = {seconds_with(fit, full, block, rectangle, fit->fastest_full), fixed};
    if (pairs <= 0.0 || pairs >= rectangle)
        return best;
    struct kernel_terms masked = masked_terms(fit, block);
    bool edges = mechanism_counts(block->without, MECHANISM_EDGES);
    double seconds = seconds_with(fit, &masked, block, pairs, edges ? fit->fastest_causal : fit->fastest_full);
    if (seconds < best.seconds)
        best = (struct best){seconds, fixed_seconds(fit, &masked, block->without)};
    return best;
}

double kernel_fit_block_seconds(const struct kernel_fit *fit, const struct kernel_block *block)
{
    return best_terms(fit, block).seconds;
}

double kernel_fit_fixed_seconds(const struct kernel_fit *fit, const struct kernel_block *block)
{
    return best_terms(fit, block).fixed;
}

double kernel_fit_seconds(const struct kernel_fit *fit, double heads, double query_rows, double key_rows, double pairs)
{
    const struct kernel_block block = {heads, query_rows, key_rows, pairs, 1, 0, NULL};
    return kernel_fit_block_seconds(fit, &block);
}
