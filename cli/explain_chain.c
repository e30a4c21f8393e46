/* explain_chain.c - finds repeats greedily: from each piece on, the pattern that covers most pieces, unless a better
 * one begins with the next piece.
 */
#include "cli/explain_chain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quantity.h"
#include "models/base/memory.h"
#include "models/schedule/layer_names.h"

#define PERIOD_MAX 12
#define PERIOD_OF_LAYERS_MAX 100 /* what repeats is a layer */
#define ROWS_STRICT_MAX 24
#define RANKS_LISTED 3

const struct op *piece_op(const struct prediction *prediction, const struct path_piece *piece)
{
    if (piece->activity.op == PATH_NO_OP)
        return NULL;
    return &ensemble_program(&prediction->whole, piece->activity.instance)->ops[piece->activity.op];
}

/* ---- where messages went ---- */

static uint64_t gpu_of(const struct prediction *prediction, uint32_t place)
{
    const struct instance *rank = &prediction->whole.instances[place];
    return placement_gpu(&prediction->placement, rank->group, rank->rank);
}

static void find_way(struct piece_way *way, const struct prediction *prediction, struct route *route)
{
    const struct topology *topology = &prediction->topology;
    struct diagnostics unused; /* every message has a way: it was checked before */
    diagnostics_init(&unused);
    topology_route(topology, gpu_of(prediction, way->from), gpu_of(prediction, way->to), route, &unused);
    diagnostics_fini(&unused);
    way->level = route->level;
    double narrowest = 0;
    for (size_t i = 0; i < route->n_links; i++) {
        double bytes_per_s = topology_link(topology, route->links[i]).bytes_per_s;
        if (i > 0 && bytes_per_s >= narrowest)
            continue;
        narrowest = bytes_per_s;
        way->link = route->links[i];
    }
}

struct piece_way *piece_ways(const struct step_path *path, const struct prediction *prediction)
{
    struct piece_way *ways = memory_zeroed(path->count, sizeof *ways);
    struct route route;
    route_init(&route);
    for (size_t i = 0; i < path->count; i++) {
        const struct path_piece *piece = &path->pieces[i];
        const struct op *op = piece_op(prediction, piece);
        if (!op || !op_is_message(op))
            continue;
        uint32_t here = piece->activity.instance,
                 there = ensemble_other_end(&prediction->whole, piece->activity).instance;
        ways[i].is_message = true;
        ways[i].from = op->kind == OP_SEND ? here : there;
        ways[i].to = op->kind == OP_SEND ? there : here;
        find_way(&ways[i], prediction, &route);
    }
    route_fini(&route);
    return ways;
}

/* ---- what repeats ---- */

struct search {
    const struct step_path *path;
    const struct piece_way *ways;
    const struct prediction *prediction;
    bool any_rank; /* ranks are not looked at */
    size_t period_max;
};

static uint32_t ahead(uint32_t from, uint32_t to, uint32_t n)
{
    return (to + n - from) % n;
}

/* How far the path goes on from piece i - 1 to piece i, in each dimension round its ring: as a peer's number. */
static uint32_t hop(const struct search *search, size_t i)
{
    const struct ensemble *whole = &search->prediction->whole;
    const struct layout *layout = &whole->layout;
    const struct instance *from = &whole->instances[search->path->pieces[i - 1].activity.instance];
    const struct instance *to = &whole->instances[search->path->pieces[i].activity.instance];
    uint32_t tp = layout->tp;
    return peer_number(layout, (struct peer_place){ahead(from->rank, to->rank, layout->cp),
                                                   ahead(from->group % tp, to->group % tp, tp),
                                                   ahead(from->group / tp, to->group / tp, layout->dp)});
}

static const struct program *program_of(const struct prediction *prediction, const struct path_piece *piece)
{
    return ensemble_program(&prediction->whole, piece->activity.instance);
}

/* Whether both do the same, in whatever layer. */
static bool is_same_kind(const struct prediction *prediction, const struct path_piece *first,
                         const struct path_piece *second)
{
    const struct op *op = piece_op(prediction, first), *other = piece_op(prediction, second);
    if (op->kind != other->kind || op->kind != OP_PRODUCT)
        return op->kind == other->kind;
    const struct layer_work *work = program_work(program_of(prediction, first), op);
    const struct layer_work *its = program_work(program_of(prediction, second), other);
    return work->part == its->part && work->form == its->form && work->columns == its->columns &&
           work->depth == its->depth;
}

static bool are_alike(const struct search *search, size_t a, size_t b)
{
    const struct path_piece *first = &search->path->pieces[a], *second = &search->path->pieces[b];
    const struct op *op = piece_op(search->prediction, first), *other = piece_op(search->prediction, second);
    if (first->phase != second->phase || !op || !other || !is_same_kind(search->prediction, first, second))
        return false;
    return !op_is_message(op) || (search->ways[a].level == search->ways[b].level && op->traffic == other->traffic);
}

/* How many times the `period` pieces from `first` on come one after the other. */
static size_t count_times(const struct search *search, size_t first, size_t period)
{
    size_t i = first + period;
    while (i < search->path->count && are_alike(search, i, i - period) &&
           (search->any_rank || i == first + period || hop(search, i) == hop(search, i - period)))
        i++;
    return (i - first) / period;
}

static struct chain_row best_row(const struct search *search, size_t first)
{
    struct chain_row best = {.first = first, .period = 1, .times = 1};
    for (size_t period = 1; period <= search->period_max && first + 2 * period <= search->path->count; period++) {
        size_t times = count_times(search, first, period);
        if (times > 1 && times * period > best.times * best.period)
            best = (struct chain_row){.first = first, .period = period, .times = times};
    }
    return best;
}

static void add_row(struct chain *chain, const struct step_path *path, struct chain_row row)
{
    size_t last = row.first + row.period * row.times - 1;
    row.seconds = path->pieces[last].end - path->pieces[row.first].begin;
    memory_grow(chain->rows, chain->count, chain->capacity);
    chain->rows[chain->count++] = row;
}

static void find_rows(struct chain *chain, const struct search *search)
{
    chain->count = 0;
    size_t count = search->path->count;
    for (size_t i = 0; i < count;) {
        struct chain_row here = best_row(search, i);
        if (i + 1 < count) {
            struct chain_row next = best_row(search, i + 1);
            if (next.period * next.times > here.period * here.times)
                here = (struct chain_row){.first = i, .period = 1, .times = 1};
        }
        add_row(chain, search->path, here);
        i += here.period * here.times;
    }
}

void chain_init(struct chain *chain, const struct step_path *path, const struct piece_way *ways,
                const struct prediction *prediction)
{
    *chain = (struct chain){0};
    bool layers = prediction->experiment.step.scope != SCOPE_ATTENTION;
    struct search search = {path, ways, prediction, false, layers ? PERIOD_OF_LAYERS_MAX : PERIOD_MAX};
    find_rows(chain, &search);
    search.any_rank = true;
    if (chain->count > ROWS_STRICT_MAX)
        find_rows(chain, &search);
}

void chain_fini(struct chain *chain)
{
    free(chain->rows);
    *chain = (struct chain){0};
}

/* ---- in words ---- */

static void print_number(const struct prediction *prediction, uint32_t place, FILE *stream)
{
    const struct instance *rank = &prediction->whole.instances[place];
    fprintf(stream, "%" PRIu32, rank->rank);
    if (prediction->whole.groups > 1)
        fprintf(stream, "/%" PRIu32, rank->group);
}

void chain_print_rank(const struct prediction *prediction, uint32_t place, FILE *stream)
{
    fputs("rank ", stream);
    print_number(prediction, place, stream);
}

/* "rank 3", "ranks 3, 4", "ranks 3, 4, 5, ..., 31": as the path goes. */
static void print_ranks(const struct chain_row *row, const struct step_path *path, const struct prediction *prediction,
                        FILE *stream)
{
    const struct path_piece *pieces = &path->pieces[row->first];
    size_t count = row->period * row->times, changes = 0, listed = 1;
    for (size_t i = 1; i < count; i++)
        changes += pieces[i].activity.instance != pieces[i - 1].activity.instance;
    fputs(changes ? "ranks " : "rank ", stream);
    print_number(prediction, pieces->activity.instance, stream);
    bool whole = changes <= RANKS_LISTED;
    for (size_t i = 1; i < count && (whole || listed < RANKS_LISTED); i++) {
        if (pieces[i].activity.instance == pieces[i - 1].activity.instance)
            continue;
        fputs(", ", stream);
        print_number(prediction, pieces[i].activity.instance, stream);
        listed++;
    }
    if (!whole) {
        fputs(", ..., ", stream);
        print_number(prediction, pieces[count - 1].activity.instance, stream);
    }
}

/* What a message carries. */
static const char *message_word(const struct op *op)
{
    switch ((enum traffic)op->traffic) {
    case TRAFFIC_FORWARD_KV:
    case TRAFFIC_REPLAY_KV:
        return op->part == PART_K ? "keys" : op->part == PART_V ? "values" : "keys and values";
    case TRAFFIC_GRADIENT:
        return "gradients";
    case TRAFFIC_TENSOR:
        return "activations";
    case TRAFFIC_WEIGHTS:
        return "weights";
    case TRAFFIC_WEIGHT_GRADIENT:
        return "weight gradients";
    default:
        return "message";
    }
}

/* Of a row, the pieces at one place of its period. */
struct strand {
    size_t first, period, times;
    double seconds[PATH_KIND_COUNT], total; /* of all */
};

static struct strand strand_of(const struct chain_row *row, size_t place, const struct step_path *path)
{
    struct strand strand = {.first = row->first + place, .period = row->period, .times = row->times};
    for (size_t t = 0; t < row->times; t++) {
        const struct path_piece *piece = &path->pieces[strand.first + t * row->period];
        for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
            strand.seconds[kind] += piece->seconds[kind];
        strand.total += piece->end - piece->begin;
    }
    return strand;
}

/* "keys and values received from rank 3 over `node: gpu 3 up`": rank and link if they are the same every time, else the
 * level. */
static void print_message(const struct strand *strand, const struct op *op, const struct piece_way *ways,
                          const struct prediction *prediction, FILE *stream)
{
    const struct topology *topology = &prediction->topology;
    const struct piece_way *first = &ways[strand->first];
    bool sent = op->kind == OP_SEND, same_link = true, same_peer = true;
    for (size_t t = 1; t < strand->times; t++) {
        const struct piece_way *way = &ways[strand->first + t * strand->period];
        same_link &= way->link == first->link;
        same_peer &= sent ? way->to == first->to : way->from == first->from;
    }
    fprintf(stream, "%s %s ", message_word(op), sent ? "sent" : "received");
    if (same_peer) {
        fputs(sent ? "to " : "from ", stream);
        chain_print_rank(prediction, sent ? first->to : first->from, stream);
        fputc(' ', stream);
    }
    char name[LINK_NAME_SIZE];
    topology_link_name(topology, first->link, name, sizeof name);
    fprintf(stream, "over `%s`", same_link ? name : topology->levels[first->level].name);
}

/* What a person would not expect a piece to be: at least a tenth of it. */
static void print_remarks(const struct strand *strand, FILE *stream)
{
    static const struct {
        enum path_kind kind;
        const char *text;
    } remarks[] = {
        {PATH_WAITING, "waiting for SMs"}, {PATH_SHARED, "sharing links"}, {PATH_SLOWED, "slowed by transfers"}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++) {
        double seconds = strand->seconds[remarks[i].kind];
        if (!(seconds > 0.1 * strand->total))
            continue;
        fprintf(stream, "%s%s %s", count++ ? ", " : " (", text_of_seconds(seconds / (double)strand->times).text,
                remarks[i].text);
    }
    fputs(count ? ")" : "", stream);
}

/* How many places of the period from `place` on are one and the same kind of kernel. */
static size_t count_kernels(const struct chain_row *row, size_t place, const struct step_path *path,
                            const struct prediction *prediction)
{
    const struct path_piece *pieces = &path->pieces[row->first + place];
    const struct op *op = piece_op(prediction, pieces);
    size_t count = 1;
    for (; op && !op_is_message(op) && place + count < row->period; count++)
        if (!piece_op(prediction, &pieces[count]) || !is_same_kind(prediction, pieces, &pieces[count]))
            break;
    return count;
}

/* "MLP up dX", "attend x 4". */
static void print_kernel(const struct program *program, const struct op *op, size_t count, FILE *stream)
{
    char name[48];
    layer_op_name(program, op, name, sizeof name);
    fprintf(stream, count > 1 ? "%s x %zu" : "%s", name, count);
}

/* What a long period has in it, each kind of it once. */
struct kind_sum {
    char name[64];
    size_t count;
    double seconds;
};

static void name_kind(const struct prediction *prediction, const struct path_piece *piece, const struct piece_way *way,
                      char *text, size_t size)
{
    const struct op *op = piece_op(prediction, piece);
    if (!op)
        snprintf(text, size, "its host issues");
    else if (op_is_message(op))
        snprintf(text, size, "%s over `%.20s`", message_word(op), prediction->topology.levels[way->level].name);
    else
        layer_op_name(program_of(prediction, piece), op, text, size);
}

static void describe_sums(const struct chain_row *row, const struct step_path *path, const struct piece_way *ways,
                          const struct prediction *prediction, FILE *stream)
{
    struct kind_sum *sums = memory_zeroed(row->period, sizeof *sums);
    size_t n_sums = 0;
    for (size_t place = 0; place < row->period; place++) {
        size_t first = row->first + place, at = 0;
        char name[64];
        name_kind(prediction, &path->pieces[first], &ways[first], name, sizeof name);
        while (at < n_sums && strcmp(sums[at].name, name) != 0)
            at++;
        if (at == n_sums)
            snprintf(sums[n_sums++].name, sizeof sums[at].name, "%s", name);
        sums[at].count++;
        sums[at].seconds += strand_of(row, place, path).total / (double)row->times;
    }
    for (size_t i = 0; i < n_sums; i++) {
        fprintf(stream, "%s%s", i ? ", " : "", sums[i].name);
        if (sums[i].count > 1)
            fprintf(stream, " x %zu", sums[i].count);
        fprintf(stream, " %s", text_of_seconds(sums[i].seconds).text);
    }
    free(sums);
}

void chain_describe(const struct chain_row *row, const struct step_path *path, const struct piece_way *ways,
                    const struct prediction *prediction, FILE *stream)
{
    print_ranks(row, path, prediction, stream);
    fputs(": ", stream);
    if (row->period > PERIOD_MAX) {
        describe_sums(row, path, ways, prediction, stream);
        return;
    }
    for (size_t place = 0, count; place < row->period; place += count) {
        const struct op *op = piece_op(prediction, &path->pieces[row->first + place]);
        count = count_kernels(row, place, path, prediction);
        struct strand strand = strand_of(row, place, path);
        for (size_t i = 1; i < count; i++)
            strand.total += strand_of(row, place + i, path).total;
        fputs(place ? ", " : "", stream);
        if (!op)
            fputs("its host issues", stream);
        else if (op_is_message(op))
            print_message(&strand, op, ways, prediction, stream);
        else
            print_kernel(program_of(prediction, &path->pieces[row->first + place]), op, count, stream);
        fprintf(stream, " %s", text_of_seconds(strand.total / (double)row->times).text);
        if (count == 1)
            print_remarks(&strand, stream);
    }
}
