/* table.c - a prediction for people: the question, the answer, then tables of ranks, memory, accounting, links, steps.
 *
 * `details` shows all ranks, and the table of steps.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/link_table.h"
#include "cli/measured.h"
#include "cli/rank_table.h"
#include "cli/ring_step_table.h"
#include "cli/step_table.h"
#include "cli/summary.h"
#include "cli/writers.h"
#include "models/base/memory.h"

static bool has_layers(const struct prediction *p)
{
    return p->experiment.step.scope != SCOPE_ATTENTION;
}

static void write_attention(const struct prediction *p, FILE *stream)
{
    const struct experiment *x = &p->experiment;
    char shape[96], mask[64], tokens[96];
    summary_transformer(&x->model, shape, sizeof shape);
    summary_mask(&x->mask, mask, sizeof mask);
    fprintf(stream, "model     %s: %s, %s\n", x->model.name, shape, dtype_name(x->dtype));
    summary_tokens(x, tokens, sizeof tokens);
    fprintf(stream, "workload  %s, batch %" PRIu32 ", %s, attention of one layer %s\n", tokens, x->batch, mask,
            x->train ? "forward and backward" : "forward");
}

static void write_question(const struct prediction *p, FILE *stream)
{
    const struct experiment *x = &p->experiment;
    if (has_layers(p))
        step_table_write_question(p, stream);
    else
        write_attention(p, stream);
    fprintf(stream, "schedule  %s, ", x->algorithm);
    if (p->schedule.sharding.joined > 1 && p->schedule.sharding.joined < p->schedule.ranks)
        fprintf(stream, "heads traded in groups of %" PRIu32 ", ", p->schedule.sharding.joined);
    fprintf(stream, "%s, overlap %s; cp %" PRIu32 ", tp %" PRIu32 ", dp %" PRIu32 "%s%s\n",
            summary_sharding(x->sharding), x->overlap ? "on" : "off", x->degree[PARALLEL_CP], x->degree[PARALLEL_TP],
            x->degree[PARALLEL_DP], x->ring == RING_NATURAL ? "" : ", ring ", summary_ring(x->ring));
    if (p->measured) {
        measured_write_machine(p->measured, stream);
        measured_write_verification(p->measured, stream);
        return;
    }
    fprintf(stream, "cluster   %s: %" PRIu32 " of %" PRIu64 " GPUs, %s; %s engine\n", p->topology_name,
            p->report.n_ranks, p->topology.n_gpus, p->device.name, p->engine->name);
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* "rank 3", or "rank 3 of group 1" where there are several groups. */
static struct short_text rank_text(const struct report *report, uint32_t index)
{
    struct short_text out;
    const struct rank_report *rank = &report->ranks[index];
    if (report->ranks[report->n_ranks - 1].group)
        snprintf(out.text, sizeof out.text, "rank %" PRIu32 "/%" PRIu32, rank->rank, rank->group);
    else
        snprintf(out.text, sizeof out.text, "rank %" PRIu32, rank->rank);
    return out;
}

static void write_memory_answer(const struct report *r, FILE *stream)
{
    double spare = r->device_bytes - (double)r->peak_bytes;
    fprintf(stream, "memory    %s at most (%s)", text_of_memory((double)r->peak_bytes).text,
            rank_text(r, r->peak_rank).text);
    if (r->device_bytes <= 0)
        fputs("; the device's is not stated\n", stream);
    else if (r->fits)
        fprintf(stream, "; fits the device's %s with %s to spare\n", text_of_memory(r->device_bytes).text,
                text_of_memory(spare).text);
    else
        fprintf(stream, "; DOES NOT FIT the device's %s: %s too much\n", text_of_memory(r->device_bytes).text,
                text_of_memory(-spare).text);
}

/* "computing 12.3 ms (45.6%)": all parts of a step in the step's unit, so that they can be added by eye. */
static void write_share(const char *what, double seconds, double step, FILE *stream)
{
    fprintf(stream, "%s %s (%.1f%%)", what, text_in_unit(seconds, fine_unit_of_seconds(step)).text,
            percent(seconds, step));
}

static void write_time(const struct report *r, FILE *stream)
{
    fputs("time      ", stream);
    write_share("computing", r->compute_seconds, r->seconds, stream);
    write_share(" + exposed communication", r->exposed_seconds, r->seconds, stream);
    write_share(" + idle", r->idle_seconds, r->seconds, stream);
    fprintf(stream, ", on the critical %s\n", rank_text(r, r->critical_rank).text);
    fprintf(stream, "overlap   %.1f%% of what could be hidden is; there is communication for %s\n",
            100 * r->overlap_efficiency, text_of_seconds(r->communication_seconds).text);
}

/* What a reader of so large a result should know of how it came about. */
static void write_simulated(const struct prediction *p, FILE *stream)
{
    uint32_t simulated = prediction_simulated_ranks(p);
    if (simulated < p->report.n_ranks)
        fprintf(stream, "folded    %s of %s ranks simulated: each stands for all that behave like it\n",
                text_of_count(simulated).text, text_of_count(p->report.n_ranks).text);
    if (!p->proved)
        fputs("proved    no: too many operations; smaller schedules of the algorithm are, before they run\n", stream);
}

static void write_speed(const struct prediction *p, FILE *stream)
{
    const struct report *r = &p->report;
    double peak = p->device.peak_flops_per_s;
    fprintf(stream, "speed     %s per %s", text_of_flop_rate(r->tflops_per_rank * 1e12).text,
            p->measured ? "rank" : "GPU");
    if (peak > 0)
        fprintf(stream, ", %.1f%% of the device's 16-bit peak", percent(r->tflops_per_rank * 1e12, peak));
    fputc('\n', stream);
}

static void write_answer(const struct prediction *p, FILE *stream)
{
    const struct report *r = &p->report;
    fprintf(stream, "step      %s", text_of_seconds(r->seconds).text);
    if (r->seconds_high > r->seconds_low)
        fprintf(stream, " (%s to %s)", text_of_seconds(r->seconds_low).text, text_of_seconds(r->seconds_high).text);
    if (p->experiment.train)
        fprintf(stream, ": forward %s, backward %s", text_of_seconds(r->forward_seconds).text,
                text_of_seconds(r->backward_seconds).text);
    fputc('\n', stream);
    if (has_layers(p))
        step_table_write_speed(p, stream);
    else
        write_speed(p, stream);
    if (p->measured)
        measured_write_overlap(p->measured, stream);
    else
        write_time(r, stream);
    if (has_layers(p))
        step_table_write_time(p, stream);
    fprintf(stream, "balance   the most computing rank computes %.3f times the mean\n", r->imbalance);
    if (has_layers(p))
        step_table_write_memory(p, stream);
    else
        write_memory_answer(r, stream);
    if (!p->measured)
        fprintf(stream, "bounds    compute %s, wire %s: %s\n", text_of_seconds(r->compute_bound_seconds).text,
                text_of_seconds(r->wire_bound_seconds).text,
                p->timeline.unshared ? "but this engine lets every transfer have its links to itself"
                                     : "the step cannot be shorter than either");
    if (!p->measured)
        write_simulated(p, stream);
}

/* What is not of the whole step is of its last pass. */
static const char *of_last_pass(const struct prediction *prediction)
{
    return prediction->pass_seconds > 0 ? ", in the last micro-batch" : "";
}

bool table_write(const struct prediction *prediction, bool details, FILE *stream)
{
    const struct report *report = &prediction->report;
    bool *shown = memory_zeroed(report->n_ranks, sizeof *shown);
    uint32_t left_out = rank_table_choose(report, details, shown);
    write_question(prediction, stream);
    fputc('\n', stream);
    write_answer(prediction, stream);
    if (prediction->measured)
        measured_write_timing(prediction->measured, shown, stream);
    rank_table_write_time(report, shown, left_out, stream);
    if (has_layers(prediction)) {
        step_table_write_roles(prediction, shown, stream);
        step_table_write_traffic(prediction, shown, stream);
    } else {
        rank_table_write_memory(report, shown, left_out, stream);
        rank_table_write_accounting(report, prediction->placement.cp, details, stream);
    }
    link_table_write_classes(report, stream);
    link_table_write_hottest(prediction, of_last_pass(prediction), stream);
    if (details)
        ring_step_table_write(prediction, of_last_pass(prediction), stream);
    free(shown);
    return fflush(stream) == 0 && !ferror(stream);
}
