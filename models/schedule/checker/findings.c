/* findings.c - formatting, and the limit on how many are shown. */
#include "models/schedule/checker/findings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static bool is_shown(struct findings *findings)
{
    bool shown = findings->shown < FINDINGS_SHOWN;
    findings->count++;
    findings->shown += shown;
    return shown;
}

void findings_add(struct findings *findings, const char *format, ...)
{
    if (!is_shown(findings))
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    diagnostics_add(findings->diag, "%s", text);
}

void findings_add_op(struct findings *findings, const struct program *program, uint32_t op, const char *format, ...)
{
    if (!is_shown(findings))
        return;
    char text[512], what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    program_describe_op(program, op, what, sizeof what);
    diagnostics_add(findings->diag, "rank %" PRIu32 ", operation %" PRIu32 " (%s) %s", program->rank, op, what, text);
}

void findings_add_all(struct findings *findings, const struct diagnostics *diag)
{
    for (size_t i = 0; i < diag->count && i < FINDINGS_SHOWN; i++, findings->shown++)
        diagnostics_add(findings->diag, "%s", diag->lines[i]);
    findings->count += diag->count;
}

void findings_end(struct findings *findings)
{
    if (findings->count > findings->shown)
        diagnostics_add(findings->diag, "and %" PRIu64 " more problems", findings->count - findings->shown);
}

void findings_describe_block(enum tensor tensor, struct block block, char *text, size_t size)
{
    char rows[64];
    block_describe(block, rows, sizeof rows);
    snprintf(text, size, "%s of %s", tensor_goes_by_keys(tensor) ? "keys" : "queries", rows);
}

void findings_describe_owner(uint32_t owner, char *text, size_t size)
{
    snprintf(text, size, "%s %" PRIu32, block_is_joined(owner) ? "group" : "rank", owner & ~BLOCK_JOINED);
}

/* "heads 4-7", "head 4" or "no heads" */
static void describe_run(const char *what, uint32_t first, uint32_t count, char *text, size_t size)
{
    if (count == 0)
        snprintf(text, size, "no %ss", what);
    else if (count == 1)
        snprintf(text, size, "%s %" PRIu32, what, first);
    else
        snprintf(text, size, "%ss %" PRIu32 "-%" PRIu64, what, first, (uint64_t)first + count - 1);
}

void findings_describe_lanes(struct lanes lanes, char *text, size_t size)
{
    char heads[40], items[40];
    describe_run("head", lanes.head, lanes.heads, heads, sizeof heads);
    describe_run("item", lanes.item, lanes.items, items, sizeof items);
    snprintf(text, size, "%s of %s", heads, items);
}
