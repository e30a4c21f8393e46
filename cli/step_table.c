/* step_table.c - see step_table.h. Where things are done in the words of the experiment's keys, so that a reader finds
 * what to change.
 */
#include "cli/step_table.h"

#include <inttypes.h>
#include <string.h>

#include "cli/quantity.h"
#include "cli/summary.h"
#include "cli/text_table.h"
#include "models/result/step_figures.h"
#include "models/schedule/layer_names.h"

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static struct step_figures figures_of(const struct prediction *p)
{
    return step_figures_of(&p->experiment, &p->report, p->device.peak_flops_per_s);
}

/* ---- the question ---- */

static void write_model(const struct prediction *p, FILE *stream)
{
    const struct transformer *model = &p->experiment.model;
    char heads[96];
    summary_transformer(model, heads, sizeof heads);
    fprintf(stream, "model     %s: %s layer%s, hidden %s, MLP %s, ", model->name, text_of_count(model->layers).text,
            model->layers == 1 ? "" : "s", text_of_count(model->hidden).text, text_of_count(model->ffn).text);
    fprintf(stream, "vocabulary %s; %s; %s; %s parameters%s\n", text_of_count(model->vocab).text, heads,
            dtype_name(p->experiment.dtype), text_of_count(figures_of(p).parameters).text,
            p->experiment.step.scope == SCOPE_LAYER ? " a layer" : "");
}

static void write_workload(const struct experiment *x, FILE *stream)
{
    char mask[64], tokens[96];
    summary_tokens(x, tokens, sizeof tokens);
    summary_mask(&x->mask, mask, sizeof mask);
    fprintf(stream, "workload  %s, batch %" PRIu32, tokens, x->batch);
    if (x->step.micro_batches > 1)
        fprintf(stream, " x %" PRIu32 " micro-batches", x->step.micro_batches);
    bool layer = x->step.scope == SCOPE_LAYER;
    fprintf(stream, ", %s, %s\n", mask,
            layer      ? x->train ? "one layer forward and backward" : "one layer forward"
            : x->train ? "a whole training step"
                       : "the whole model forward");
}

/* Only what has an effect in this run. */
static void write_settings(const struct experiment *x, FILE *stream)
{
    static const char *const recomputed[] = {[RECOMPUTE_NONE] = "nothing recomputed",
                                             [RECOMPUTE_SELECTIVE] = "attention recomputed",
                                             [RECOMPUTE_ALTERNATE] = "every second product recomputed",
                                             [RECOMPUTE_AROUND] = "all but attention recomputed",
                                             [RECOMPUTE_FULL] = "layers recomputed"};
    static const char *const shared[] = {"nothing", "optimizer states", "optimizer states and gradients",
                                         "optimizer states, gradients and weights"};
    const struct step_setting *step = &x->step;
    const uint32_t *degree = x->degree;
    fprintf(stream, "step      products in %s", step->linear == LINEAR_FP8 ? "fp8" : dtype_name(x->dtype));
    if (degree[PARALLEL_TP] > 1)
        fprintf(stream, ", %s", step->sequence_parallel ? "sequence parallel" : "not sequence parallel");
    if (x->train)
        fprintf(stream, ", %s, gradients in %s", recomputed[step->recomputation],
                step->weight_gradients_fp32 ? "fp32" : dtype_name(x->dtype));
    if (degree[PARALLEL_DP] * degree[PARALLEL_CP] > 1)
        fprintf(stream, "; %s shared by dp x cp (zero %" PRIu32 ")", shared[step->zero], step->zero);
    if (x->train && step->scope == SCOPE_MODEL)
        fprintf(stream, "; %s", step->optimizer == OPTIMIZER_ADAM ? "Adam" : "no optimizer");
    fputc('\n', stream);
}

void step_table_write_question(const struct prediction *prediction, FILE *stream)
{
    write_model(prediction, stream);
    write_workload(&prediction->experiment, stream);
    write_settings(&prediction->experiment, stream);
}

/* ---- the answer ---- */

void step_table_write_speed(const struct prediction *p, FILE *stream)
{
    struct step_figures figures = figures_of(p);
    uint32_t passes = p->experiment.step.micro_batches;
    if (passes > 1)
        fprintf(stream, "passes    %" PRIu32 " x %s, which only add to the gradients, and the last %s: run apart\n",
                passes - 1, text_of_seconds(p->pass_seconds).text,
                text_of_seconds(p->report.seconds - (passes - 1) * p->pass_seconds).text);
    const char *each = p->measured ? "rank" : "GPU"; /* measured on CPUs too */
    fprintf(stream, "speed     %s tokens/s per %s%s; the model's products and attention at %s per %s\n",
            text_of_number(figures.tokens_per_s_per_gpu).text, each,
            p->experiment.step.scope == SCOPE_LAYER ? " through the layer" : "",
            text_of_flop_rate(figures.model_flops_per_gpu_s).text, each);
    if (figures.mfu <= 0)
        return;
    fprintf(stream, "use       MFU %.1f%%, HFU %.1f%% of the devices' 16-bit peak", 100 * figures.mfu,
            100 * figures.hfu);
    if (figures.mfu_palm > 0)
        fprintf(stream, "; MFU as PaLM counts %.1f%%", 100 * figures.mfu_palm);
    fputc('\n', stream);
}

static void write_part(const char *lead, const char *name, double seconds, double step, FILE *stream)
{
    fprintf(stream, "%s%s %s (%.1f%%)", lead, name, text_in_unit(seconds, fine_unit_of_seconds(step)).text,
            percent(seconds, step));
}

static bool has_messages(const struct experiment *x, enum wait_kind kind)
{
    const uint32_t *degree = x->degree;
    return degree[kind == WAIT_TP ? PARALLEL_TP : PARALLEL_CP] > 1 || (kind == WAIT_DP && degree[PARALLEL_DP] > 1);
}

void step_table_write_time(const struct prediction *p, FILE *stream)
{
    const struct report *r = &p->report;
    const char *lead = "computing ";
    for (int part = 0; part < COMPUTE_PARTS; part++) {
        if (r->compute_by_part[part] <= 0)
            continue;
        write_part(lead, compute_part_name((enum compute_part)part), r->compute_by_part[part], r->seconds, stream);
        lead = " + ";
    }
    if (r->recomputed_seconds > 0)
        write_part("; of it ", "recomputed", r->recomputed_seconds, r->seconds, stream);
    lead = "\nexposed   ";
    for (int kind = 0; kind < WAIT_KINDS; kind++) {
        if (!has_messages(&p->experiment, (enum wait_kind)kind))
            continue;
        write_part(lead, wait_kind_name((enum wait_kind)kind), r->exposed_by_kind[kind], r->seconds, stream);
        lead = " + ";
    }
    fputc('\n', stream);
}

void step_peak_describe(const struct prediction *p, uint32_t place, char *text, size_t size)
{
    const struct water_moment *moment = &p->report.ranks[place].peak_moment;
    if (moment->op != NO_OPERATION)
        layer_describe_op(ensemble_program(&p->whole, place), moment->op, text, size);
    else if (moment->phase < PHASE_COUNT)
        snprintf(text, size, "the %s pass's begin", phase_name((enum phase)moment->phase));
    else
        snprintf(text, size, "the step's end");
}

void step_table_write_made_of(const uint64_t by_role[ROLE_COUNT], double reserve_bytes, struct unit unit, FILE *stream)
{
    const char *lead = "of which  ";
    for (int i = 0; i < ROLE_COUNT; i++) {
        int role = (i + ROLE_ATTENTION_COUNT) % ROLE_COUNT; /* a layer's first */
        if (by_role[role] == 0)
            continue;
        fprintf(stream, "%s%s %s", lead, buffer_role_name((enum buffer_role)role),
                text_of_number((double)by_role[role] / unit.size).text);
        lead = " + ";
    }
    if (reserve_bytes > 0)
        fprintf(stream, "%sreserve %s", lead, text_of_number(reserve_bytes / unit.size).text);
    fprintf(stream, " %s\n", unit.name);
}

void step_table_write_memory(const struct prediction *p, FILE *stream)
{
    const struct report *r = &p->report;
    double taken = (double)r->peak_bytes + r->reserve_bytes, spare = r->device_bytes - taken;
    char moment[128];
    step_peak_describe(p, r->peak_rank, moment, sizeof moment);
    fprintf(stream, "memory    %s at most (rank %" PRIu32, text_of_memory(taken).text, r->ranks[r->peak_rank].rank);
    if (r->ranks[r->n_ranks - 1].group)
        fprintf(stream, "/%" PRIu32, r->ranks[r->peak_rank].group);
    fputc(')', stream);
    if (r->device_bytes <= 0)
        fputs("; the device's is not stated\n", stream);
    else if (r->fits)
        fprintf(stream, "; fits the device's %s with %s to spare\n", text_of_memory(r->device_bytes).text,
                text_of_memory(spare).text);
    else
        fprintf(stream, "; DOES NOT FIT the device's %s: %s too much\n", text_of_memory(r->device_bytes).text,
                text_of_memory(-spare).text);
    step_table_write_made_of(r->ranks[r->peak_rank].peak_by_role, r->reserve_bytes, unit_of_memory(taken), stream);
    fprintf(stream, "peak      %s %s\n", r->ranks[r->peak_rank].peak_moment.finish ? "behind" : "at", moment);
}

/* ---- tables ---- */

static void add_rank_columns(struct text_table *table, const struct report *report)
{
    text_table_column(table, false, "rank");
    if (report->ranks[report->n_ranks - 1].group)
        text_table_column(table, false, "group");
}

static void add_rank_cells(struct text_table *table, const struct report *report, const struct rank_report *rank)
{
    text_table_cell(table, "%" PRIu32, rank->rank);
    if (report->ranks[report->n_ranks - 1].group)
        text_table_cell(table, "%" PRIu32, rank->group);
}

static void add_roles(struct text_table *table, const struct prediction *p, uint32_t place, const bool *used,
                      struct unit unit)
{
    const struct report *report = &p->report;
    const struct rank_report *rank = &report->ranks[place];
    struct unit seconds = fine_unit_of_seconds(report->seconds);
    char moment[128];
    step_peak_describe(p, place, moment, sizeof moment);
    add_rank_cells(table, report, rank);
    text_table_number(table, (double)rank->peak_bytes + report->reserve_bytes, unit);
    for (int i = 0; i < ROLE_COUNT; i++)
        if (used[(i + ROLE_ATTENTION_COUNT) % ROLE_COUNT])
            text_table_number(table, (double)rank->peak_by_role[(i + ROLE_ATTENTION_COUNT) % ROLE_COUNT], unit);
    if (report->reserve_bytes > 0)
        text_table_number(table, report->reserve_bytes, unit);
    text_table_number(table, rank->peak_at_seconds, seconds);
    text_table_cell(table, "%s%s", moment, place == report->peak_rank ? " (highest)" : "");
}

void step_table_write_roles(const struct prediction *p, const bool *shown, FILE *stream)
{
    const struct report *report = &p->report;
    struct unit unit = unit_of_memory((double)report->peak_bytes + report->reserve_bytes);
    struct unit seconds = fine_unit_of_seconds(report->seconds);
    bool used[ROLE_COUNT] = {false};
    for (uint32_t i = 0; i < report->n_ranks; i++)
        for (int role = 0; role < ROLE_COUNT; role++)
            used[role] |= report->ranks[i].peak_by_role[role] > 0;
    struct text_table table;
    text_table_init(&table);
    add_rank_columns(&table, report);
    text_table_column(&table, false, "peak\n%s", unit.name);
    for (int i = 0; i < ROLE_COUNT; i++)
        if (used[(i + ROLE_ATTENTION_COUNT) % ROLE_COUNT])
            text_table_column(&table, false, "%s\n%s",
                              buffer_role_name((enum buffer_role)((i + ROLE_ATTENTION_COUNT) % ROLE_COUNT)), unit.name);
    if (report->reserve_bytes > 0)
        text_table_column(&table, false, "reserve\n%s", unit.name);
    text_table_column(&table, false, "at\n%s", seconds.name);
    text_table_column(&table, true, "when");
    for (uint32_t i = 0; i < report->n_ranks; i++)
        if (shown[i])
            add_roles(&table, p, i, used, unit);
    fputs("\nMemory at the high-water mark\n", stream);
    text_table_print(&table, stream);
    text_table_fini(&table);
}

void step_table_write_traffic(const struct prediction *p, const bool *shown, FILE *stream)
{
    static const char *const words[TRAFFIC_COUNT] = {"CP: forward KV",      "CP: replayed KV", "CP: gradients",
                                                     "CP: other",           "TP: activations", "DP: weights",
                                                     "DP: weight gradients"};
    const struct report *report = &p->report;
    double most = 0;
    bool used[TRAFFIC_COUNT] = {false}, any = false;
    for (uint32_t i = 0; i < report->n_ranks; i++)
        for (int kind = 0; kind < TRAFFIC_COUNT; kind++) {
            uint64_t bytes = report->ranks[i].sent_bytes_by_kind[kind];
            used[kind] |= bytes > 0;
            any |= used[kind];
            most = (double)bytes > most ? (double)bytes : most;
        }
    if (!any)
        return;
    struct unit unit = unit_of_bytes(most);
    struct text_table table;
    text_table_init(&table);
    add_rank_columns(&table, report);
    for (int kind = 0; kind < TRAFFIC_COUNT; kind++)
        if (used[kind])
            text_table_column(&table, false, "%s\n%s", words[kind], unit.name);
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        if (!shown[i])
            continue;
        add_rank_cells(&table, report, &report->ranks[i]);
        for (int kind = 0; kind < TRAFFIC_COUNT; kind++)
            if (used[kind])
                text_table_number(&table, (double)report->ranks[i].sent_bytes_by_kind[kind], unit);
    }
    fputs("\nSent, by kind\n", stream);
    text_table_print(&table, stream);
    text_table_fini(&table);
}
