/* held.c - reading and writing what buffers hold. A read that finds something else is reported and then taken for
 * right, so that one mistake is not reported by everything that follows from it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "models/schedule/checker/walk.h"

static struct contents *contents_of(struct walk *w, uint32_t buffer, unsigned part)
{
    return check_contents(w->check, w->rank, buffer, part, w->cell);
}

void walk_complain(struct walk *w, const char *format, ...)
{
    char cell[112], text[384];
    if (w->quiet)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check_describe_cell(w->check, w->cell, cell, sizeof cell);
    findings_add_op(&w->check->findings, walk_program(w), w->op, "%s%s", text, cell);
}

static bool is_held(struct walk *w, uint32_t buffer, unsigned part, struct block want)
{
    struct contents run = {0};
    bool held = contents_read(contents_of(w, buffer, part), want, &run);
    contents_fini(&run);
    return held;
}

static void report_unheld(struct walk *w, uint32_t index, unsigned part, struct block want)
{
    const struct buffer *buffer = walk_buffer(w, index);
    enum tensor tensor = (enum tensor)buffer->tensor;
    const char *what = "";
    if (walk_parts(w, index) == PART_ALL && !is_held(w, index, !part, want)) {
        if (part == 1)
            return; /* said of the other part */
    } else if (tensor_goes_by_keys(tensor)) {
        what = part ? " (V part)" : " (K part)";
    }
    char wanted[96], held[320], cell[112];
    findings_describe_block(tensor, want, wanted, sizeof wanted);
    contents_describe(contents_of(w, index, part), tensor, held, sizeof held);
    check_describe_cell(w->check, w->cell, cell, sizeof cell);
    findings_add_op(&w->check->findings, walk_program(w), w->op, "reads %s in '%s'%s%s, which holds %s", wanted,
                    buffer->name, what, cell, held);
}

bool walk_read(struct walk *w, uint32_t buffer, unsigned part, struct block rows, struct contents *run)
{
    if (contents_read(contents_of(w, buffer, part), rows, run))
        return true;
    if (!w->quiet)
        report_unheld(w, buffer, part, rows);
    return false;
}

bool walk_reads(const struct walk *w, uint32_t buffer)
{
    const struct op *op = walk_op(w);
    const uint32_t *reads = program_reads(walk_program(w), op);
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (reads[i] == buffer)
            return true;
    return false;
}

uint32_t walk_find_read(const struct walk *w, enum tensor tensor)
{
    const uint32_t *reads = program_reads(walk_program(w), walk_op(w));
    while (walk_buffer(w, *reads)->tensor != tensor)
        reads++;
    return *reads;
}

/* Whether a write to a buffer leaves other rows of the same owner in place: an operation that adds to a buffer keeps
 * the rest of it, too. */
static bool keeps_other_rows(const struct walk *w, uint32_t index, uint32_t owner)
{
    return walk_reads(w, index) || check_has_place_for_all(w->check, walk_buffer(w, index), owner);
}

void walk_write(struct walk *w, uint32_t buffer, unsigned part, struct block rows, const struct contents *run)
{
    struct contents *contents = contents_of(w, buffer, part);
    if (!rows.count)
        return;
    if (!keeps_other_rows(w, buffer, rows.owner) || (contents->count && contents->pieces->owner != rows.owner))
        contents->count = 0;
    contents_write(contents, rows, run);
}
