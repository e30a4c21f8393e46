/* table.c - a prediction for people: the question, the answer, then tables of ranks, memory, accounting, links, steps.
 *
 * With many ranks the tables show the first, the critical, the one with the highest memory mark and the last, and say
 * how many are left out; `details` shows all, and the step table.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measured.h"
#include "cli/step_table.h"
#include "cli/summary.h"
#include "cli/text_table.h"
#include "cli/writers.h"
#include "models/base/memory.h"
#include "models/result/steps.h"

#define RANKS_SHOWN 8 /* so many are shown whole */
#define RANKS_FIRST 3 /* of more, so many from the front */
#define RUNS_SHOWN 3  /* blocks of the accounting table */

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

/* Marks the ranks to show; returns how many are left out. */
static uint32_t choose_ranks(const struct report *report, bool details, bool *shown)
{
    uint32_t left_out = 0;
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        shown[i] = details || report->n_ranks <= RANKS_SHOWN || i < RANKS_FIRST || i == report->critical_rank ||
                   i == report->peak_rank || i + 1 == report->n_ranks;
        left_out += !shown[i];
    }
    return left_out;
}

static void add_rank_columns(struct text_table *table, const struct report *report)
{
    text_table_column(table, false, "rank");
    if (report->ranks[report->n_ranks - 1].group) {
        text_table_column(table, false, "group");
        text_table_column(table, false, "gpu");
    }
}

static void add_rank_cells(struct text_table *table, const struct report *report, const struct rank_report *rank)
{
    text_table_cell(table, "%" PRIu32, rank->rank);
    if (report->ranks[report->n_ranks - 1].group) {
        text_table_cell(table, "%" PRIu32, rank->group);
        text_table_cell(table, "%" PRIu64, rank->gpu);
    }
}

static void write_left_out(uint32_t left_out, FILE *stream)
{
    if (left_out)
        fprintf(stream, "(%" PRIu32 " more rank%s not shown)\n", left_out, left_out == 1 ? "" : "s");
}

static void write_ranks(const struct report *report, const bool *shown, uint32_t left_out, FILE *stream)
{
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < report->n_ranks; i++)
        if (report->ranks[i].bytes_sent > most_bytes)
            most_bytes = report->ranks[i].bytes_sent;
    struct unit seconds = fine_unit_of_seconds(report->seconds), bytes = unit_of_bytes((double)most_bytes);
    struct text_table table;
    text_table_init(&table);
    add_rank_columns(&table, report);
    text_table_column(&table, false, "ends\n%s", seconds.name);
    text_table_column(&table, false, "compute\n%s", seconds.name);
    text_table_column(&table, false, "transfers\n%s", seconds.name);
    text_table_column(&table, false, "exposed\n%s", seconds.name);
    text_table_column(&table, false, "idle\n%s", seconds.name);
    text_table_column(&table, false, "sent\n%s", bytes.name);
    text_table_column(&table, false, "received\n%s", bytes.name);
    text_table_column(&table, false, "messages");
    text_table_column(&table, false, "visible pairs");
    text_table_column(&table, true, "%s", "");
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        if (!shown[i])
            continue;
        const struct rank_report *rank = &report->ranks[i];
        add_rank_cells(&table, report, rank);
        text_table_number(&table, rank->seconds, seconds);
        text_table_number(&table, rank->compute_seconds, seconds);
        text_table_number(&table, rank->communication_seconds, seconds);
        text_table_number(&table, rank->exposed_seconds, seconds);
        text_table_number(&table, rank->idle_seconds, seconds);
        text_table_number(&table, (double)rank->bytes_sent, bytes);
        text_table_number(&table, (double)rank->bytes_received, bytes);
        text_table_count(&table, rank->messages_sent);
        text_table_count(&table, rank->visible_pairs);
        text_table_cell(&table, "%s", i == report->critical_rank ? "critical" : "");
    }
    fputs("\nTime and traffic per rank\n", stream);
    text_table_print(&table, stream);
    write_left_out(left_out, stream);
    text_table_fini(&table);
}

static void write_memory(const struct report *report, const bool *shown, uint32_t left_out, FILE *stream)
{
    struct unit unit = unit_of_memory((double)report->peak_bytes), seconds = fine_unit_of_seconds(report->seconds);
    struct text_table table;
    text_table_init(&table);
    add_rank_columns(&table, report);
    text_table_column(&table, false, "peak\n%s", unit.name);
    for (int role = 0; role < ROLE_ATTENTION_COUNT; role++)
        text_table_column(&table, false, "%s\n%s", buffer_role_name((enum buffer_role)role), unit.name);
    text_table_column(&table, false, "Q, K, V, O, LSE\n%s", unit.name);
    text_table_column(&table, false, "at\n%s", seconds.name);
    text_table_column(&table, true, "%s", "");
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        if (!shown[i])
            continue;
        const struct rank_report *rank = &report->ranks[i];
        add_rank_cells(&table, report, rank);
        text_table_number(&table, (double)rank->peak_bytes, unit);
        for (int role = 0; role < ROLE_ATTENTION_COUNT; role++)
            text_table_number(&table, (double)rank->peak_by_role[role], unit);
        text_table_number(&table, (double)rank->resident_bytes, unit);
        text_table_number(&table, rank->peak_at_seconds, seconds);
        text_table_cell(&table, "%s", i == report->peak_rank ? "highest" : "");
    }
    fputs("\nMemory at the high-water mark\n", stream);
    text_table_print(&table, stream);
    write_left_out(left_out, stream);
    text_table_fini(&table);
}

static bool same_accounting(const struct rank_report *a, const struct rank_report *b)
{
    return memcmp(a->sent_elements_by_kind, b->sent_elements_by_kind, sizeof a->sent_elements_by_kind) == 0 &&
           memcmp(a->received_elements_by_kind, b->received_elements_by_kind, sizeof a->sent_elements_by_kind) == 0 &&
           memcmp(a->sent_bytes_by_kind, b->sent_bytes_by_kind, sizeof a->sent_bytes_by_kind) == 0 &&
           memcmp(a->received_bytes_by_kind, b->received_bytes_by_kind, sizeof a->sent_bytes_by_kind) == 0 &&
           a->q_bytes == b->q_bytes && a->kv_bytes == b->kv_bytes && a->block_bytes == b->block_bytes &&
           a->state_bytes == b->state_bytes;
}

static void add_accounting_row(struct text_table *table, const char *ranks, const char *what, uint64_t elements,
                               uint64_t bytes)
{
    text_table_cell(table, "%s", ranks);
    text_table_cell(table, "%s", what);
    text_table_count(table, elements);
    text_table_count(table, bytes);
}

/* What ranks `first` to `last`, all alike, send, receive and hold. */
static void add_accounting(struct text_table *table, const struct rank_report *rank, uint32_t first, uint32_t last)
{
    static const char *const sent[] = {"sent: forward KV", "sent: replayed KV", "sent: returned gradients",
                                       "sent: other"};
    static const char *const received[] = {"received: forward KV", "received: replayed KV",
                                           "received: returned gradients", "received: other"};
    char ranks[32];
    if (first == last)
        snprintf(ranks, sizeof ranks, "%" PRIu32, first);
    else
        snprintf(ranks, sizeof ranks, "%" PRIu32 "-%" PRIu32, first, last);
    for (int kind = 0; kind < TRAFFIC_ATTENTION_COUNT; kind++)
        if (kind != TRAFFIC_OTHER || rank->sent_bytes_by_kind[kind])
            add_accounting_row(table, ranks, sent[kind], rank->sent_elements_by_kind[kind],
                               rank->sent_bytes_by_kind[kind]);
    for (int kind = 0; kind < TRAFFIC_ATTENTION_COUNT; kind++)
        if (kind != TRAFFIC_OTHER || rank->received_bytes_by_kind[kind])
            add_accounting_row(table, ranks, received[kind], rank->received_elements_by_kind[kind],
                               rank->received_bytes_by_kind[kind]);
    add_accounting_row(table, ranks, "resident Q", rank->q_elements, rank->q_bytes);
    add_accounting_row(table, ranks, "resident K, V", rank->kv_elements, rank->kv_bytes);
    add_accounting_row(table, ranks, "received block", rank->block_elements, rank->block_bytes);
    add_accounting_row(table, ranks, "online state m, l, a", rank->state_elements, rank->state_bytes);
}

/* Groups of a layout do the same, so the first one's ranks are shown; neighbours that are alike share their rows. */
static void write_accounting(const struct report *report, uint32_t cp, bool details, FILE *stream)
{
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, false, "rank");
    text_table_column(&table, true, "what");
    text_table_column(&table, false, "elements");
    text_table_column(&table, false, "bytes");
    uint32_t runs = 0, left_out = 0;
    for (uint32_t first = 0, last; first < cp; first = last + 1, runs++) {
        for (last = first; last + 1 < cp && same_accounting(&report->ranks[first], &report->ranks[last + 1]);)
            last++;
        if (details || runs < RUNS_SHOWN)
            add_accounting(&table, &report->ranks[first], first, last);
        else
            left_out += last - first + 1;
    }
    fputs("\nAccounting per rank\n", stream);
    text_table_print(&table, stream);
    write_left_out(left_out, stream);
    text_table_fini(&table);
}

static void write_links(const struct report *report, FILE *stream)
{
    if (report->n_links == 0)
        return;
    double most = 0;
    for (uint32_t i = 0; i < report->n_links; i++) {
        most = (double)report->links[i].bytes > most ? (double)report->links[i].bytes : most;
    }
    struct unit seconds = fine_unit_of_seconds(report->seconds), bytes = unit_of_bytes(most);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "class");
    text_table_column(&table, false, "GB/s\neach way");
    text_table_column(&table, false, "links used");
    text_table_column(&table, false, "carried\n%s", bytes.name);
    text_table_column(&table, false, "busiest link\n%s", seconds.name);
    text_table_column(&table, false, "utilization\n%%");
    for (uint32_t i = 0; i < report->n_links; i++) {
        const struct link_class_report *link = &report->links[i];
        text_table_cell(&table, "%s", link->name);
        text_table_number(&table, link->bytes_per_s, (struct unit){"GB/s", 1e9});
        text_table_count(&table, link->links_used);
        text_table_number(&table, (double)link->bytes, bytes);
        text_table_number(&table, link->busy_seconds, seconds);
        text_table_cell(&table, "%.1f", 100 * link->utilization);
    }
    fputs("\nLinks\n", stream);
    text_table_print(&table, stream);
    text_table_fini(&table);
}

static void write_users(const struct report *report, const struct hot_link *link, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t u = 0; u < link->n_users && used < size; u++) {
        const struct link_user *user = &link->users[u];
        bool groups = report->ranks[report->n_ranks - 1].group > 0;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%" PRIu32 ">%" PRIu32, u ? " " : "", user->from, user->to);
        if (groups && used < size)
            used += (size_t)snprintf(text + used, size - used, " (g%" PRIu32, user->group);
        if (user->to_group != user->group && used < size)
            used += (size_t)snprintf(text + used, size - used, ">g%" PRIu32, user->to_group);
        if (groups && used < size)
            used += (size_t)snprintf(text + used, size - used, ")");
    }
    if (link->ways > link->n_users && used < size)
        snprintf(text + used, size - used, " and %s more", text_of_count(link->ways - link->n_users).text);
}

/* What is not of the whole step is of its last pass. */
static const char *of_last_pass(const struct prediction *prediction)
{
    return prediction->pass_seconds > 0 ? ", in the last micro-batch" : "";
}

static void write_hot_links(const struct prediction *prediction, FILE *stream)
{
    const struct report *report = &prediction->report;
    if (report->n_hot_links == 0)
        return;
    struct unit seconds = fine_unit_of_seconds(report->seconds);
    struct unit bytes = unit_of_bytes((double)report->hot_links[0].bytes);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "link");
    text_table_column(&table, false, "links\nlike it");
    text_table_column(&table, false, "carried\n%s", bytes.name);
    text_table_column(&table, false, "busy\n%s", seconds.name);
    text_table_column(&table, false, "utilization\n%%");
    text_table_column(&table, true, "from > to");
    for (uint32_t i = 0; i < report->n_hot_links; i++) {
        const struct hot_link *link = &report->hot_links[i];
        char name[80], users[160];
        topology_link_name(&prediction->topology, link->link, name, sizeof name);
        write_users(report, link, users, sizeof users);
        text_table_cell(&table, "%s", name);
        text_table_count(&table, link->stands_for - 1);
        text_table_number(&table, (double)link->bytes, bytes);
        text_table_number(&table, link->busy_seconds, seconds);
        text_table_cell(&table, "%.1f", 100 * link->utilization);
        text_table_cell(&table, "%s", users);
    }
    fprintf(stream, "\nHottest links, and the ranks that use them%s\n", of_last_pass(prediction));
    text_table_print(&table, stream);
    text_table_fini(&table);
}

static void add_step(struct text_table *table, const struct step_row *step, struct unit seconds)
{
    text_table_cell(table, "%" PRIu32, step->rank);
    text_table_cell(table, "%s", phase_name(step->phase));
    text_table_cell(table, "%" PRIu32, step->step);
    if (step->key_owner == BLOCK_ALL)
        text_table_cell(table, "all");
    else if (block_is_joined(step->key_owner))
        text_table_cell(table, "group %" PRIu32, step->key_owner & ~BLOCK_JOINED);
    else
        text_table_cell(table, "%" PRIu32, step->key_owner);
    text_table_count(table, step->query_rows);
    text_table_count(table, step->key_rows);
    text_table_count(table, step->pairs);
    text_table_number(table, step->begin, seconds);
    text_table_number(table, step->exposed_seconds, seconds);
    text_table_number(table, step->idle_seconds, seconds);
    text_table_number(table, step->attend_seconds, seconds);
    text_table_number(table, step->other_seconds, seconds);
    text_table_number(table, step->exposed_after_seconds, seconds);
    text_table_number(table, step->idle_after_seconds, seconds);
}

static void write_steps(const struct prediction *prediction, FILE *stream)
{
    struct unit seconds = fine_unit_of_seconds(prediction->report.seconds);
    const struct report_input input = prediction_report_input(prediction);
    struct step_list steps;
    steps_of(&steps, &input);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, false, "rank");
    text_table_column(&table, true, "phase");
    text_table_column(&table, false, "step");
    text_table_column(&table, false, "keys of");
    text_table_column(&table, false, "query rows");
    text_table_column(&table, false, "key rows");
    text_table_column(&table, false, "visible pairs");
    text_table_column(&table, false, "begins\n%s", seconds.name);
    text_table_column(&table, false, "exposed\n%s", seconds.name);
    text_table_column(&table, false, "idle\n%s", seconds.name);
    text_table_column(&table, false, "attention\n%s", seconds.name);
    text_table_column(&table, false, "other\n%s", seconds.name);
    text_table_column(&table, false, "exposed after\n%s", seconds.name);
    text_table_column(&table, false, "idle after\n%s", seconds.name);
    for (size_t i = 0; i < steps.count; i++)
        add_step(&table, &steps.rows[i], seconds);
    free(steps.rows);
    fprintf(stream, "\nSteps (exposed, idle: waited before the attention operation, and behind it)%s\n",
            of_last_pass(prediction));
    text_table_print(&table, stream);
    text_table_fini(&table);
}

bool table_write(const struct prediction *prediction, bool details, FILE *stream)
{
    const struct report *report = &prediction->report;
    bool *shown = memory_zeroed(report->n_ranks, sizeof *shown);
    uint32_t left_out = choose_ranks(report, details, shown);
    write_question(prediction, stream);
    fputc('\n', stream);
    write_answer(prediction, stream);
    if (prediction->measured)
        measured_write_timing(prediction->measured, shown, stream);
    write_ranks(report, shown, left_out, stream);
    if (has_layers(prediction)) {
        step_table_write_roles(prediction, shown, stream);
        step_table_write_traffic(prediction, shown, stream);
    } else {
        write_memory(report, shown, left_out, stream);
        write_accounting(report, prediction->placement.cp, details, stream);
    }
    write_links(report, stream);
    write_hot_links(prediction, stream);
    if (details)
        write_steps(prediction, stream);
    free(shown);
    return fflush(stream) == 0 && !ferror(stream);
}
