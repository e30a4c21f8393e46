/* plot_compare.c - which plot of a comparison is meant, and what a pair is called in all of them. */
#include "cli/plot_compare.h"

#include <stdlib.h>

#include "cli/plot_style.h"
#include "models/base/memory.h"

char *plot_pair_label(const struct comparison *comparison, size_t pair)
{
    char *label = memory_text("");
    for (size_t i = 0; i < comparison->n_columns; i++) {
        const struct compare_column *column = &comparison->columns[i];
        char *longer = memory_format("%s%s%s%s%s", label, i ? ", " : "", column->number ? column->name : "",
                                     column->number ? " " : "", comparison->pairs[pair].cells[i]);
        free(label);
        label = longer;
    }
    if (*label)
        return label;
    free(label);
    return memory_format("pair %zu", pair + 1);
}

bool plot_script_compare(const struct comparison *comparison, const struct plot_target *target, int width, FILE *stream)
{
    switch (target->kind) {
    case PLOT_SCATTER:
        plot_scatter(comparison, target, width, stream);
        break;
    case PLOT_PHASES:
        plot_phases(comparison, target, width, stream);
        break;
    case PLOT_TIMELINES:
        plot_timelines(comparison, target, width, stream);
        break;
    default:
        return false;
    }
    plot_end(stream);
    return !ferror(stream);
}
