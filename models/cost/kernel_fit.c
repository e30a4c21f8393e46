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

#define TERMS 3 /* a, b, c */
#define TERM_A 1U
#define TERM_B 2U
#define TERM_C 4U

/* One point of a table divided by its time: a sum of the terms that should be 1. */
struct equation {
    double term[TERMS];
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
            rhs[j] += left;
        }
    }
    if (!solve(matrix, rhs, n))
        return false;
    for (int j = 0; j < n; j++) {
        if (!(rhs[j] >= 0.0))
            return false;
        solution[index[j]] = rhs[j] / length[j];
    }
    return solution[2] > 0.0;
}

static double relative_error(const struct equation *equation, const double solution[TERMS])
{
    double value = -1.0;
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

static struct kernel_terms fit_equations(const struct equation *equations, size_t count)
{
    static const unsigned sets[] = {TERM_C, TERM_B | TERM_C, TERM_A | TERM_C, TERM_A | TERM_B | TERM_C};
    const double rounding = 1e-18; /* per point: errors below 1e-9 are none */
    double best[TERMS] = {0.0}, best_sum = INFINITY;
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        double solution[TERMS];
        if (!fit_set(equations, count, sets[s], solution))
            continue;
        double sum = sum_of_squares(equations, count, solution);
        if (sum + rounding * (double)count < best_sum) {
            best_sum = sum;
            memcpy(best, solution, sizeof best);
        }
    }
    struct kernel_terms terms = {.seconds = best[0], .seconds_per_row = best[1], .seconds_per_pair = best[2]};
    for (size_t i = 0; i < count; i++)
        terms.worst_error = fmax(terms.worst_error, fabs(relative_error(&equations[i], best)));
    return terms;
}

static struct kernel_terms fit_points(const struct kernel_fit *fit, const struct rate_point *points, size_t count,
                                      bool causal)
{
    const struct attention_table *table = fit->table;
    struct equation equations[RATE_POINTS_MAX];
    for (size_t i = 0; i < count; i++) {
        double seq_len = points[i].seq_len;
        double batch = table->batch > 0.0 ? table->batch : table->tokens / seq_len;
        double heads = table->heads * batch;
        double convention_pairs = causal ? seq_len * seq_len / 2.0 : seq_len * seq_len;
        double pairs = causal ? seq_len * (seq_len + 1.0) / 2.0 : seq_len * seq_len;
        double seconds = heads * convention_pairs * fit->flops_per_pair / (points[i].flops_per_s * table->rate_scale);
        equations[i] = (struct equation){{1.0 / seconds, heads * seq_len / seconds, heads * pairs / seconds}};
    }
    return fit_equations(equations, count);
}

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

bool kernel_fit_init(struct kernel_fit *fit, const struct device *device, const char *kernel, enum attention_pass pass,
                     enum dtype dtype, uint32_t head_dim, struct diagnostics *diag)
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
    if (dtype != DTYPE_FP8) /* the peak is that of 16-bit types, which 8-bit types exceed */
        fit->peak_flops_per_s = device->peak_flops_per_s;
    if (found->n_full)
        fit->full = fit_points(fit, found->full, found->n_full, false);
    if (found->n_causal)
        fit->causal = fit_points(fit, found->causal, found->n_causal, true);
    if (!found->n_full)
        fit->full = fit->causal;
    if (!found->n_causal)
        fit->causal = fit->full;
    return true;
}

/* Pairs of the longest tile that one processor is given whole. */
static double longest_tile_pairs(const struct kernel_fit *fit, double query_rows, double key_rows, double pairs)
{
    double split = fit->table->pass == PASS_FORWARD ? query_rows : key_rows;
    double across = fit->table->pass == PASS_FORWARD ? key_rows : query_rows;
    return fmin(pairs, fmin(fit->device->tile_rows, split) * fmin(across, 2.0 * pairs / split));
}

static double fixed_seconds(const struct kernel_fit *fit, const struct kernel_terms *terms)
{
    return fmax(terms->seconds, fit->device->launch_seconds);
}

static double seconds_with(const struct kernel_fit *fit, const struct kernel_terms *terms, double heads,
                           double query_rows, double key_rows, double pairs)
{
    double rows = fit->table->pass == PASS_FORWARD ? query_rows : (query_rows + key_rows) / 2.0;
    double work = heads * (terms->seconds_per_row * rows + terms->seconds_per_pair * pairs);
    double tile =
        longest_tile_pairs(fit, query_rows, key_rows, pairs) * terms->seconds_per_pair * fit->device->processors;
    return fixed_seconds(fit, terms) + fmax(work, tile);
}

/* What a block takes with the terms that serve it best, before the peak bounds it. */
struct best {
    double seconds, fixed, pairs; /* pairs: those computed */
};

static struct best best_terms(const struct kernel_fit *fit, double heads, double query_rows, double key_rows,
                              double pairs, int edges)
{
    double rectangle = query_rows * key_rows;
    if (rectangle <= 0.0)
        return (struct best){fixed_seconds(fit, &fit->full), fixed_seconds(fit, &fit->full), 0.0};
    struct best best = {seconds_with(fit, &fit->full, heads, query_rows, key_rows, rectangle),
                        fixed_seconds(fit, &fit->full), rectangle};
    if (pairs <= 0.0 || pairs >= rectangle)
        return best;
    struct kernel_terms masked = fit->causal;
    masked.seconds_per_row += (edges - 1) * fmax(0.0, fit->causal.seconds_per_row - fit->full.seconds_per_row);
    double seconds = seconds_with(fit, &masked, heads, query_rows, key_rows, pairs);
    best.pairs = pairs;
    if (seconds < best.seconds) {
        best.seconds = seconds;
        best.fixed = fixed_seconds(fit, &masked);
    }
    return best;
}

double kernel_fit_seconds_edged(const struct kernel_fit *fit, double heads, double query_rows, double key_rows,
                                double pairs, int edges)
{
    struct best best = best_terms(fit, heads, query_rows, key_rows, pairs, edges);
    if (fit->peak_flops_per_s > 0.0)
        return fmax(best.seconds, heads * best.pairs * fit->flops_per_pair / fit->peak_flops_per_s);
    return best.seconds;
}

double kernel_fit_fixed_seconds(const struct kernel_fit *fit, double heads, double query_rows, double key_rows,
                                double pairs, int edges)
{
    return best_terms(fit, heads, query_rows, key_rows, pairs, edges).fixed;
}

double kernel_fit_seconds(const struct kernel_fit *fit, double heads, double query_rows, double key_rows, double pairs)
{
    return kernel_fit_seconds_edged(fit, heads, query_rows, key_rows, pairs, 1);
}
