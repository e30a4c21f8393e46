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
