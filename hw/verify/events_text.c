/* events_text.c - positions, rows and lanes in words; numbers with as many digits as tell them apart. */
#include "hw/verify/events_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "models/schedule/mask.h"

/* ---- words ---- */

static int compare_positions(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct text positions_text(uint64_t *positions, size_t count)
{
    struct text text = {"nothing"};
    size_t length = 0;
    qsort(positions, count, sizeof *positions, compare_positions);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && positions[end] == positions[end - 1] + 1;)
            end++;
        const char *comma = i > 0 ? "," : "";
        char *at = text.text + length;
        size_t room = sizeof text.text - length;
        length += (size_t)(end == i + 1
                               ? snprintf(at, room, "%s%" PRIu64, comma, positions[i])
                               : snprintf(at, room, "%s%" PRIu64 "-%" PRIu64, comma, positions[i], positions[end - 1]));
    }
    return text;
}

struct text block_text(const struct events *events, struct block block)
{
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    return positions_text(positions, walk_positions(&events->walk, block, positions));
}

struct text owner_text(uint32_t owner)
{
    struct text text = {"all ranks"};
    if (block_is_joined(owner))
        snprintf(text.text, sizeof text.text, "group %" PRIu32, owner & ~BLOCK_JOINED);
    else if (owner != BLOCK_ALL)
        snprintf(text.text, sizeof text.text, "rank %" PRIu32, owner);
    return text;
}

/* ", heads 2-3" */
static size_t run_text(struct text *text, size_t length, const char *one, uint32_t first, uint32_t count)
{
    char *at = text->text + length;
    size_t room = sizeof text->text - length;
    if (count == 1)
        return (size_t)snprintf(at, room, ", %s %" PRIu32, one, first);
    return (size_t)snprintf(at, room, ", %ss %" PRIu32 "-%" PRIu32, one, first, first + count - 1);
}

struct text lanes_text(const struct events *events, struct lanes lanes)
{
    const struct lanes all = events->walk.schedule->lanes;
    struct text text = {""};
    size_t length = 0;
    if (lanes_count(lanes) && (lanes.head != all.head || lanes.heads != all.heads))
        length = run_text(&text, 0, "head", lanes.head, lanes.heads);
    if (lanes_count(lanes) && (lanes.item != all.item || lanes.items != all.items))
        run_text(&text, length, "item", lanes.item, lanes.items);
    return text;
}

const char *tensor_text(enum tensor tensor, unsigned part)
{
    static const char *const kv[] = {"", [PART_K] = "K", [PART_V] = "V", [PART_ALL] = "K,V"};
    static const char *const dkv[] = {"", [PART_K] = "dK", [PART_V] = "dV", [PART_ALL] = "dK,dV"};
    return tensor == TENSOR_KV    ? kv[part & PART_ALL]
           : tensor == TENSOR_DKV ? dkv[part & PART_ALL]
                                  : tensor_name(tensor);
}

/* ---- numbers ---- */

void print_number(FILE *stream, double value)
{
    fprintf(stream, "%9.6f", fabs(value) < 0.5e-6 ? 0.0 : value);
}

void print_vector(FILE *stream, const double *numbers, size_t count, double divisor)
{
    for (size_t i = 0; i < count; i++) {
        fputs(i ? " " : "  [", stream);
        print_number(stream, numbers[i] / divisor);
    }
    fputc(']', stream);
}

void print_title(FILE *stream, const char *title, size_t count)
{
    fprintf(stream, "  %-*s", (int)(count ? 10 * count + 1 : 0), title);
}

void print_row_titles(const struct events *events, const char *what)
{
    fprintf(events->stream, "  %8s%s  head", what, events->walk.items > 1 ? "  item" : "");
}

void print_row_name(const struct events *events, uint64_t position, size_t item, size_t head)
{
    fprintf(events->stream, "  %8" PRIu64, position);
    if (events->walk.items > 1)
        fprintf(events->stream, "  %4zu", item);
    fprintf(events->stream, "  %4zu", head);
}

/* ---- tables ---- */

void print_rows(const struct events *events, const struct view *view, bool header)
{
    static const char *const titles[TENSOR_COUNT][2] = {
        [TENSOR_Q] = {"Q"},
        [TENSOR_KV] = {"K", "V"},
        [TENSOR_O] = {"O"},
        [TENSOR_LSE] = {"LSE"},
        [TENSOR_PARTIAL] = {"m l a"},
        [TENSOR_STATE] = {"m l a"},
        [TENSOR_DO] = {"dO"},
        [TENSOR_DELTA] = {"delta"},
        [TENSOR_DQ] = {"dQ"},
        [TENSOR_DKV] = {"dK", "dV"},
        [TENSOR_TOP] = {"top"},
        [TENSOR_NUMERATOR] = {"numerator"},
        [TENSOR_DENOMINATOR] = {"denominator"},
    };
    const struct walk *walk = &events->walk;
    enum tensor tensor = (enum tensor)walk->programs[view->rank].buffers[view->buffer].tensor;
    bool by_keys = tensor_goes_by_keys(tensor);
    size_t parts = by_keys ? 2 : 1, dim = walk_numbers(walk, tensor) / parts;
    if (header) {
        print_row_titles(events, by_keys ? "key" : "query");
        for (size_t part = 0; part < parts; part++)
            print_title(events->stream, titles[tensor][part], part + 1 < parts ? dim : 0);
        fputc('\n', events->stream);
    }
    for (size_t i = 0; i < view->count; i++) {
        for (uint32_t lane = 0; lane < lanes_count(view->lanes); lane++) {
            print_row_name(events, view->positions[i], view->lanes.item + lane / view->lanes.heads,
                           view->lanes.head + lane % view->lanes.heads);
            for (size_t part = 0; part < parts; part++)
                print_vector(events->stream, walk_lane(walk, view, i, lane) + part * dim, dim, 1);
            fputc('\n', events->stream);
        }
    }
}

void print_states(const struct events *events, struct block queries, struct lanes lanes, const double *states,
                  struct block keys)
{
    const struct walk *walk = &events->walk;
    size_t dim = walk->head_dim;
    uint64_t positions[EVENTS_SEQ_LEN_MAX], all[EVENTS_SEQ_LEN_MAX], seen[EVENTS_SEQ_LEN_MAX];
    size_t n_queries = walk_positions(walk, queries, positions), n_all = walk_positions(walk, keys, all);
    print_row_titles(events, "query");
    fprintf(events->stream, "  %9s  %9s", "m", "l");
    print_title(events->stream, "a / l", dim);
    fputs("  sees keys\n", events->stream);
    for (size_t i = 0; i < n_queries; i++) {
        size_t n_seen = 0;
        for (size_t j = 0; j < n_all; j++)
            if (mask_visible(&walk->schedule->experiment->mask, positions[i], all[j]))
                seen[n_seen++] = all[j];
        struct text text = positions_text(seen, n_seen);
        for (uint32_t lane = 0; lane < lanes_count(lanes); lane++, states += 2 + dim) {
            print_row_name(events, positions[i], lanes.item + lane / lanes.heads, lanes.head + lane % lanes.heads);
            fputs("  ", events->stream);
            print_number(events->stream, states[0]);
            fputs("  ", events->stream);
            print_number(events->stream, states[1]);
            print_vector(events->stream, states + 2, dim, states[1] == 0 ? 1 : states[1]);
            fprintf(events->stream, "  %s\n", text.text);
        }
    }
}
