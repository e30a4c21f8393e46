/* sweep_tally.c - see sweep_tally.h. */
#include "cli/sweep_tally.h"

#include <stdlib.h>
#include <string.h>

#include "cli/sweep_point.h"
#include "models/base/memory.h"

#define TALLY_MAX 32

static void add_line(struct sweep_tally *tally, const char *line, const struct sweep *sweep, size_t point)
{
    for (size_t i = 0; i < tally->count; i++) {
        if (strcmp(tally->lines[i], line) == 0) {
            tally->counts[i]++;
            return;
        }
    }
    if (tally->count == TALLY_MAX) {
        tally->others++;
        return;
    }
    tally->lines = memory_resized(tally->lines, tally->count + 1, sizeof *tally->lines);
    tally->counts = memory_resized(tally->counts, tally->count + 1, sizeof *tally->counts);
    tally->first = memory_resized(tally->first, tally->count + 1, sizeof *tally->first);
    tally->lines[tally->count] = memory_text(line);
    tally->counts[tally->count] = 1;
    tally->first[tally->count++] = sweep_point_name(sweep, point);
}

void sweep_tally_add(struct sweep_tally *tally, const json_t *lines, const struct sweep *sweep, size_t point)
{
    size_t index;
    const json_t *line;
    json_array_foreach(lines, index, line) add_line(tally, json_string_value(line), sweep, point);
}

/* Says each line once: alone when every point said it, else with the (first) point that did. */
void sweep_tally_report(const struct sweep_tally *tally, size_t n_points, struct diagnostics *diag)
{
    for (size_t i = 0; i < tally->count; i++) {
        if (tally->counts[i] == n_points)
            diagnostics_add(diag, "%s", tally->lines[i]);
        else if (tally->counts[i] == 1)
            diagnostics_add(diag, "point %s: %s", tally->first[i], tally->lines[i]);
        else
            diagnostics_add(diag, "point %s and %zu more: %s", tally->first[i], tally->counts[i] - 1, tally->lines[i]);
    }
    if (tally->others)
        diagnostics_add(diag, "and %zu more messages of other points", tally->others);
}

void sweep_tally_fini(struct sweep_tally *tally)
{
    for (size_t i = 0; i < tally->count; i++) {
        free(tally->lines[i]);
        free(tally->first[i]);
    }
    free(tally->lines);
    free(tally->counts);
    free(tally->first);
}

/* A key that no point has a use for is as wrong as in a single run. */
bool sweep_tally_any_at_all(const struct sweep_tally *tally, size_t n_points)
{
    for (size_t i = 0; i < tally->count; i++)
        if (tally->counts[i] == n_points)
            return true;
    return false;
}
