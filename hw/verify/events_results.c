/* events_results.c - what `--events` says before anything happens, and in the end: the case and its inputs; outputs and
 * gradients beside the full reference. Where every rank ends with all outputs, each of them is judged alone. */
#include <inttypes.h>
#include <math.h>

#include "hw/verify/events_text.h"

#define TOLERANCE 1e-12 /* of the largest number of a tensor */

/* ---- before ---- */

static void print_mask(FILE *stream, const struct mask *mask)
{
    switch (mask->kind) {
    case MASK_FULL:
        fputs("full mask", stream);
        break;
    case MASK_CAUSAL:
        fputs("causal mask", stream);
        break;
    case MASK_WINDOW:
        fprintf(stream, "window of %" PRIu64, mask->window);
        break;
    case MASK_DOCUMENTS:
        fputs("documents of ", stream);
        for (size_t d = 0; d < mask->n_documents; d++)
            fprintf(stream, "%s%" PRIu64, d ? "," : "", mask->document_starts[d + 1] - mask->document_starts[d]);
        break;
    }
}

/* Two whole tensors side by side, from position `first` on; `right` may be NULL. */
static void print_inputs(const struct events *events, uint64_t first, size_t heads, const char *left_title,
                         const double *left, const char *right_title, const double *right)
{
    size_t dim = events->walk.head_dim, rows = events->walk.schedule->experiment->seq_len, items = events->walk.items;
    print_row_titles(events, "position");
    print_title(events->stream, left_title, right ? dim : 0);
    if (right)
        print_title(events->stream, right_title, 0);
    fputc('\n', events->stream);
    for (size_t i = first * items * heads; i < rows * items * heads; i++) {
        print_row_name(events, i / heads / items, i / heads % items, i % heads);
        print_vector(events->stream, left + i * dim, dim, 1);
        if (right)
            print_vector(events->stream, right + i * dim, dim, 1);
        fputc('\n', events->stream);
    }
}

/* What each rank owns; which queries of it, where that is not all. */
static void print_owners(const struct events *events)
{
    const struct schedule *schedule = events->walk.schedule;
    for (uint32_t rank = 0; rank < events->ranks; rank++) {
        struct block keys = sharding_keys(&schedule->sharding, rank), queries = schedule_queries(schedule, rank);
        struct lanes lanes = schedule_query_lanes(schedule, rank);
        fprintf(events->stream, "rank %" PRIu32 " owns positions %s", rank, block_text(events, keys).text);
        if (lanes_count(lanes) == 0)
            fputs(", no queries", events->stream);
        else if (queries.owner != rank || queries.count != keys.count)
            fprintf(events->stream, ", queries of positions %s%s", block_text(events, queries).text,
                    lanes_text(events, lanes).text);
        fputc('\n', events->stream);
    }
}

void events_print_case(const struct events *events)
{
    const struct walk *walk = &events->walk;
    const struct experiment *experiment = walk->schedule->experiment;
    FILE *stream = events->stream;
    uint64_t cached = experiment_cached(experiment);
    fprintf(stream, "cp %" PRIu32 ", seq_len %" PRIu64 ", ", events->ranks, experiment->seq_len);
    if (cached)
        fprintf(stream, "the first %" PRIu64 " cached, ", cached);
    if (walk->items > 1)
        fprintf(stream, "batch %zu, ", walk->items);
    print_mask(stream, &experiment->mask);
    fprintf(stream, ", q_heads %zu, kv_heads %zu, head_dim %zu, scale %.6f\n", walk->q_heads, walk->kv_heads,
            walk->head_dim, walk->scale);
    print_owners(events);
    fputs("\ninputs\n", stream);
    print_inputs(events, cached, walk->q_heads, "Q", walk->input.q, "dO = G / seq_len",
                 experiment->train ? walk->input.d_o : NULL);
    print_inputs(events, 0, walk->kv_heads, "K", walk->input.k, "V", walk->input.v);
    fputs("\nm: running maximum of the scores; l: sum of e^(score - m); a / l: the output so far\n", stream);
}

/* ---- after ---- */

/* One result beside the reference: [position][item][head][dim], from position `first` on. */
struct result {
    const char *name;
    const double *found, *expected;
    uint64_t first;
    size_t heads, dim;
};

/* What a row is off by: NaN if either is. */
static double difference_of(const struct result *result, size_t row, double *largest)
{
    double difference = 0;
    for (size_t d = row * result->dim; d < (row + 1) * result->dim; d++) {
        double off = fabs(result->found[d] - result->expected[d]);
        difference = isnan(off) || off > difference ? off : difference;
        *largest = fmax(*largest, fabs(result->expected[d]));
    }
    return difference;
}

static bool judge(const struct events *events, const struct result *result, double worst, size_t row, double largest,
                  struct diagnostics *diag)
{
    if (worst <= TOLERANCE * fmax(largest, 1e-3)) /* false for NaN; the floor is for a gradient that is 0 throughout */
        return true;
    size_t items = events->walk.items;
    char item[32] = "";
    if (items > 1)
        snprintf(item, sizeof item, ", item %zu", row / result->heads % items);
    return diagnostics_add(diag,
                           "%s of position %zu%s, head %zu is off by %.1e from the full reference, expected at most %g "
                           "of its largest number %.6f",
                           result->name, row / result->heads / items, item, row % result->heads, worst, TOLERANCE,
                           largest);
}

/* `table`: every row is printed, else the verdict alone. */
static bool print_result(const struct events *events, const struct result *result, bool table, struct diagnostics *diag)
{
    FILE *stream = events->stream;
    size_t items = events->walk.items, heads = result->heads, dim = result->dim, worst_row = 0;
    double worst = 0, largest = 0;
    if (table) {
        print_row_titles(events, "position");
        print_title(stream, result->name, dim);
        print_title(stream, "reference", dim);
        fputs("  difference\n", stream);
    }
    size_t end = events->walk.schedule->experiment->seq_len * items * heads;
    for (size_t i = result->first * items * heads; i < end; i++) {
        double difference = difference_of(result, i, &largest);
        if (table) {
            print_row_name(events, i / heads / items, i / heads % items, i % heads);
            print_vector(stream, result->found + i * dim, dim, 1);
            print_vector(stream, result->expected + i * dim, dim, 1);
            fprintf(stream, "  %.1e\n", difference);
        }
        if (!isnan(worst) && !(difference <= worst)) {
            worst = difference;
            worst_row = i;
        }
    }
    fprintf(stream, "  largest difference of %s: %.1e\n", result->name, worst);
    return judge(events, result, worst, worst_row, largest, diag);
}

/* The results that `rank`, or all ranks together, end with. */
static bool print_whole(const struct events *events, uint32_t rank, const struct whole *expected, bool table,
                        struct diagnostics *diag)
{
    const struct walk *walk = &events->walk;
    uint64_t cached = experiment_cached(walk->schedule->experiment);
    size_t q = walk->q_heads, kv = walk->kv_heads, dim = walk->head_dim;
    struct whole found;
    walk_collect(walk, rank, &found);
    const struct result results[] = {
        {"O", found.o, expected->o, cached, q, dim}, {"LSE", found.lse, expected->lse, cached, q, 1},
        {"dQ", found.dq, expected->dq, 0, q, dim},   {"dK", found.dk, expected->dk, 0, kv, dim},
        {"dV", found.dv, expected->dv, 0, kv, dim},
    };
    bool passed = true;
    for (size_t i = 0; i < (walk->schedule->experiment->train ? 5 : 2); i++)
        passed &= print_result(events, &results[i], table, diag);
    walk_free_whole(&found);
    return passed;
}

bool events_print_results(const struct events *events, struct diagnostics *diag)
{
    struct whole expected;
    walk_reference(&events->walk, &expected);
    fputs("\nresults beside the full reference\n", events->stream);
    bool passed = true;
    if (events->walk.schedule->queries != QUERIES_REPLICATED)
        passed = print_whole(events, BLOCK_ALL, &expected, true, diag);
    for (uint32_t rank = 0; events->walk.schedule->queries == QUERIES_REPLICATED && rank < events->ranks; rank++) {
        fprintf(events->stream, "rank %" PRIu32 " ends with all of them%s\n", rank, rank ? ", too" : "");
        passed &= print_whole(events, rank, &expected, rank == 0, diag);
    }
    walk_free_whole(&expected);
    return passed;
}
