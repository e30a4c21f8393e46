/* plot_run.c - the words that stand above a run's plots, and which plot is which. */
#include "cli/plot_run.h"

#include <inttypes.h>

#include "cli/plot_style.h"
#include "cli/summary.h"

void plot_run_title(const struct prediction *prediction, const char *lead, char *text, size_t size)
{
    char experiment[256], topology[128];
    summary_experiment(&prediction->experiment, experiment, sizeof experiment);
    summary_name(prediction->topology_name, topology, sizeof topology);
    snprintf(text, size, "%s%s, on %s", lead, experiment, topology);
}

void plot_run_answer(const struct prediction *prediction, char *text, size_t size)
{
    const struct report *report = &prediction->report;
    double exposed_seconds = report->ranks[report->critical_rank].exposed_seconds; /* as drawn */
    bool rounding = report->idle_seconds < 1e-9 * report->seconds;
    double share = report->seconds > 0 ? 100 * exposed_seconds / report->seconds : 0;
    char group[32] = "";
    if (report->ranks[report->n_ranks - 1].group > 0)
        snprintf(group, sizeof group, " of group %" PRIu32, report->ranks[report->critical_rank].group);
    snprintf(text, size,
             "Step %s; on its critical rank %" PRIu32 "%s: compute %s, exposed communication %s (%.1f%%), idle %s",
             text_of_seconds(report->seconds).text, report->ranks[report->critical_rank].rank, group,
             text_of_seconds(report->compute_seconds).text, text_of_seconds(exposed_seconds).text, share,
             text_of_seconds(rounding ? 0 : report->idle_seconds).text);
}

bool plot_script_run(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream)
{
    switch (target->kind) {
    case PLOT_TIMELINE:
        plot_timeline(prediction, target, width, stream);
        break;
    case PLOT_MEMORY:
        plot_memory(prediction, target, width, stream);
        break;
    case PLOT_TIME:
        plot_time(prediction, target, width, stream);
        break;
    default:
        return false;
    }
    plot_end(stream);
    return !ferror(stream);
}
