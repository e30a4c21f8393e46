/* contents.c - contents as sorted lists of pieces; every change is one splice. */
#include "models/schedule/checker/contents.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/checker/findings.h"
#include "models/schedule/checker/sums.h"

void contents_fini(struct contents *contents)
{
    free(contents->pieces);
    memset(contents, 0, sizeof *contents);
}

static void append(struct contents *contents, struct piece piece)
{
    if (!piece.count)
        return;
    memory_grow(contents->pieces, contents->count, contents->capacity);
    contents->pieces[contents->count++] = piece;
}

void contents_set(struct contents *run, struct block rows, uint32_t sum)
{
    run->count = 0;
    append(run, (struct piece){rows.owner, rows.first, rows.count, sum});
}

void contents_append(struct contents *run, struct block rows, uint32_t sum)
{
    struct piece *last = run->count ? &run->pieces[run->count - 1] : NULL;
    if (last && last->owner == rows.owner && last->first + last->count == rows.first && last->sum == sum)
        last->count += rows.count;
    else
        append(run, (struct piece){rows.owner, rows.first, rows.count, sum});
}

void contents_extend(struct contents *run, const struct contents *more)
{
    for (uint32_t i = 0; i < more->count; i++) {
        const struct piece *piece = &more->pieces[i];
        contents_append(run, (struct block){piece->owner, piece->first, piece->count}, piece->sum);
    }
}

/* Index of the first piece of `owner` that ends after `row`, or of whatever follows such a piece's place. */
static uint32_t find(const struct contents *contents, uint32_t owner, uint32_t row)
{
    uint32_t low = 0, high = contents->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct piece *piece = &contents->pieces[middle];
        if (piece->owner < owner || (piece->owner == owner && piece->first + piece->count <= row))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool contents_read(const struct contents *contents, struct block rows, struct contents *run)
{
    run->count = 0;
    bool held = true;
    uint32_t row = rows.first, end = rows.first + rows.count;
    for (uint32_t i = find(contents, rows.owner, row); row < end; i++) {
        const struct piece *piece = i < contents->count ? &contents->pieces[i] : NULL;
        if (!piece || piece->owner != rows.owner || piece->first >= end) {
            append(run, (struct piece){rows.owner, row, end - row, SUM_EMPTY});
            return false;
        }
        if (piece->first > row) {
            append(run, (struct piece){rows.owner, row, piece->first - row, SUM_EMPTY});
            row = piece->first;
            held = false;
        }
        uint32_t piece_end = piece->first + piece->count;
        uint32_t stop = piece_end < end ? piece_end : end;
        append(run, (struct piece){rows.owner, row, stop - row, piece->sum});
        row = stop;
    }
    return held;
}

/* Replaces pieces [from, to) by the `count` given. */
static void splice(struct contents *contents, uint32_t from, uint32_t to, const struct piece *pieces, uint32_t count)
{
    uint32_t tail = contents->count - to;
    uint32_t needed = from + count + tail;
    if (needed > contents->capacity) {
        contents->capacity = needed;
        contents->pieces = memory_resized(contents->pieces, needed, sizeof *contents->pieces);
    }
    if (tail)
        memmove(contents->pieces + from + count, contents->pieces + to, tail * sizeof *pieces);
    if (count)
        memcpy(contents->pieces + from, pieces, count * sizeof *pieces);
    contents->count = needed;
}

void contents_write(struct contents *contents, struct block rows, const struct contents *run)
{
    if (!rows.count)
        return;
    uint32_t end = rows.first + rows.count;
    uint32_t from = find(contents, rows.owner, rows.first), to = from;
    struct piece before = {0}, after = {0};
    for (; to < contents->count && contents->pieces[to].owner == rows.owner && contents->pieces[to].first < end; to++) {
        struct piece piece = contents->pieces[to];
        if (piece.first < rows.first)
            before = (struct piece){piece.owner, piece.first, rows.first - piece.first, piece.sum};
        if (piece.first + piece.count > end)
            after = (struct piece){piece.owner, end, piece.first + piece.count - end, piece.sum};
    }
    splice(contents, from, to, run->pieces, run->count);
    if (after.count)
        splice(contents, from + run->count, from + run->count, &after, 1);
    if (before.count)
        splice(contents, from, from, &before, 1);
}

void contents_describe(const struct contents *contents, enum tensor tensor, char *text, size_t size)
{
    snprintf(text, size, "nothing");
    size_t length = 0;
    for (uint32_t i = 0, shown = 0; i < contents->count && shown < 3; shown++) {
        struct piece piece = contents->pieces[i];
        struct block block = {piece.owner, piece.first, piece.count};
        for (i++; i < contents->count && contents->pieces[i].owner == block.owner &&
                  contents->pieces[i].first == block.first + block.count;
             i++)
            block.count += contents->pieces[i].count;
        char words[96];
        findings_describe_block(tensor, block, words, sizeof words);
        length +=
            (size_t)snprintf(text + length, size - length, "%s%s", shown ? " and " : "", shown < 2 ? words : "more");
        if (length >= size)
            return;
    }
}
