/* run_json.c - a run as cpsim.run/1: the names that other tools (and --compare) rely on.
 *
 * Names and nesting are the contract; new names may be added, none changed. Whole numbers are written whole, and
 * doubles with 17 significant digits, so that reading them back gives the same bits. Ranks and operations, of which
 * there may be a hundred thousand and hundreds of millions, are written one by one.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/json_set.h"
#include "cli/json_writer.h"
#include "cli/measured.h"
#include "cli/step_table.h"
#include "cli/writers.h"
#include "models/base/memory.h"
#include "models/input/units.h"
#include "models/result/step_figures.h"

/* Visitor of topology_each_value and experiment_each_value: {"section": {"key": value}}; counts as numbers, all else as
 * an INI file would have it. */
static void set_value(void *context, const char *section, const char *key, const char *value)
{
    json_t *sections = context, *keys = json_object_get(sections, section);
    if (!keys) {
        keys = json_object();
        json_object_set_new(sections, section, keys);
    }
    uint64_t count;
    if (strspn(value, "0123456789") == strlen(value) && units_parse_count(value, &count))
        json_set_count(keys, key, count);
    else
        json_set_text(keys, key, value);
}

static json_t *topology_to_json(const struct prediction *prediction)
{
    json_t *json = json_object();
    json_set_text(json, "path", prediction->topology_name);
    json_set_text(json, "device", prediction->topology.device);
    json_set_text(json, "kernel", prediction->cost.fit[PASS_FORWARD].table->kernel);
    json_set_count(json, "n_gpus", prediction->topology.n_gpus);
    topology_each_value(&prediction->topology, set_value, json);
    return json;
}

static json_t *experiment_to_json(const struct prediction *prediction)
{
    json_t *json = json_object();
    json_set_text(json, "path", prediction->experiment_name);
    experiment_each_value(&prediction->experiment, set_value, json);
    return json;
}

static bool has_layers(const struct prediction *prediction)
{
    return prediction->experiment.step.scope != SCOPE_ATTENTION;
}

/* What a step of whole layers has beside. */
static void set_figures(json_t *json, const struct prediction *prediction)
{
    const struct report *report = &prediction->report;
    const struct step_figures figures =
        step_figures_of(&prediction->experiment, report, prediction->device.peak_flops_per_s);
    json_t *exposed = json_object(), *compute = json_object();
    json_set_count(json, "parameters", figures.parameters);
    json_set_real(json, "tokens", figures.tokens);
    json_set_real(json, "tokens_per_second_per_gpu", figures.tokens_per_s_per_gpu);
    json_set_real(json, "model_tflops_per_gpu", figures.model_flops_per_gpu_s / 1e12);
    if (figures.mfu > 0) {
        json_set_real(json, "mfu", figures.mfu);
        json_set_real(json, "hfu", figures.hfu);
    }
    if (figures.mfu_palm > 0)
        json_set_real(json, "mfu_palm", figures.mfu_palm);
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        json_set_real(exposed, wait_kind_key((enum wait_kind)kind), report->exposed_by_kind[kind]);
    json_object_set_new(json, "exposed_by_kind", exposed);
    for (int part = 0; part < COMPUTE_PARTS; part++)
        json_set_real(compute, compute_part_name((enum compute_part)part), report->compute_by_part[part]);
    json_set_real(compute, "recomputed", report->recomputed_seconds);
    json_object_set_new(json, "compute_by_part", compute);
    if (prediction->pass_seconds > 0)
        json_set_real(json, "accumulating_pass_seconds", prediction->pass_seconds);
}

/* Of the rank whose peak is highest. */
static json_t *memory_to_json(const struct prediction *prediction)
{
    const struct report *report = &prediction->report;
    const struct rank_report *rank = &report->ranks[report->peak_rank];
    json_t *json = json_object();
    char moment[128];
    step_peak_describe(prediction, report->peak_rank, moment, sizeof moment);
    json_set_count(json, "peak_bytes", rank->peak_bytes);
    for (int role = 0; role < ROLE_COUNT; role++)
        json_set_count(json, buffer_role_name((enum buffer_role)role), rank->peak_by_role[role]);
    json_set_real(json, "reserve", report->reserve_bytes);
    json_set_real(json, "spare_bytes", report->device_bytes - (double)rank->peak_bytes - report->reserve_bytes);
    json_set_real(json, "at_seconds", rank->peak_at_seconds);
    json_set_text(json, "at", moment);
    return json;
}

static json_t *step_to_json(const struct prediction *prediction, bool measured)
{
    const struct report *report = &prediction->report;
    json_t *json = json_object();
    json_set_real(json, "seconds", report->seconds);
    if (measured || report->seconds_high > report->seconds_low) {
        json_set_real(json, "seconds_low", report->seconds_low);
        json_set_real(json, "seconds_high", report->seconds_high);
    }
    json_set_real(json, "forward_seconds", report->forward_seconds);
    json_set_real(json, "backward_seconds", report->backward_seconds);
    json_set_real(json, "compute_seconds", report->compute_seconds);
    json_set_real(json, "communication_seconds", report->communication_seconds);
    json_set_real(json, "exposed_seconds", report->exposed_seconds);
    json_set_real(json, "idle_seconds", report->idle_seconds);
    json_set_real(json, "overlap_efficiency", report->overlap_efficiency);
    json_set_count(json, "critical_rank", report->critical_rank);
    json_set_real(json, "tflops_per_rank", report->tflops_per_rank);
    json_set_real(json, "imbalance", report->imbalance);
    json_set_real(json, "compute_bound_seconds", report->compute_bound_seconds);
    json_set_real(json, "wire_bound_seconds", report->wire_bound_seconds);
    json_set_count(json, "visible_pairs", report->visible_pairs);
    json_set_real(json, "flops", report->flops);
    json_set_count(json, "bytes_sent", report->bytes_sent);
    json_set_count(json, "messages_sent", report->messages_sent);
    json_set_count(json, "peak_bytes", report->peak_bytes);
    json_set_count(json, "peak_rank", report->peak_rank);
    json_set_real(json, "device_bytes", report->device_bytes);
    json_set_flag(json, "fits", report->fits);
    if (has_layers(prediction))
        set_figures(json, prediction);
    return json;
}

static void write_traffic(struct json_writer *writer, const char *key, const uint64_t by_kind[TRAFFIC_COUNT], bool all)
{
    json_writer_object(writer, key);
    for (int kind = 0; kind < (all ? TRAFFIC_COUNT : TRAFFIC_ATTENTION_COUNT); kind++)
        json_writer_count(writer, traffic_name((enum traffic)kind), by_kind[kind]);
    json_writer_end_object(writer);
}

static void write_roles(struct json_writer *writer, const char *key, const uint64_t by_role[ROLE_COUNT], bool all)
{
    json_writer_object(writer, key);
    for (int role = 0; role < (all ? ROLE_COUNT : ROLE_ATTENTION_COUNT); role++)
        json_writer_count(writer, buffer_role_name((enum buffer_role)role), by_role[role]);
    json_writer_end_object(writer);
}

static void write_parts(struct json_writer *writer, const struct rank_report *rank)
{
    json_writer_object(writer, "exposed_by_kind");
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        json_writer_real(writer, wait_kind_key((enum wait_kind)kind), rank->exposed_by_kind[kind]);
    json_writer_end_object(writer);
    json_writer_object(writer, "compute_by_part");
    for (int part = 0; part < COMPUTE_PARTS; part++)
        json_writer_real(writer, compute_part_name((enum compute_part)part), rank->compute_by_part[part]);
    json_writer_real(writer, "recomputed", rank->recomputed_seconds);
    json_writer_end_object(writer);
}

static void write_rank(struct json_writer *writer, const struct rank_report *rank, bool layers)
{
    json_writer_object(writer, NULL);
    json_writer_count(writer, "rank", rank->rank);
    json_writer_count(writer, "group", rank->group);
    json_writer_count(writer, "gpu", rank->gpu);
    json_writer_real(writer, "seconds", rank->seconds);
    json_writer_real(writer, "compute_seconds", rank->compute_seconds);
    json_writer_real(writer, "communication_seconds", rank->communication_seconds);
    json_writer_real(writer, "overlapped_seconds", rank->overlapped_seconds);
    json_writer_real(writer, "exposed_seconds", rank->exposed_seconds);
    json_writer_real(writer, "idle_seconds", rank->idle_seconds);
    if (layers)
        write_parts(writer, rank);
    json_writer_count(writer, "bytes_sent", rank->bytes_sent);
    json_writer_count(writer, "bytes_received", rank->bytes_received);
    json_writer_count(writer, "messages_sent", rank->messages_sent);
    json_writer_count(writer, "messages_received", rank->messages_received);
    json_writer_count(writer, "visible_pairs", rank->visible_pairs);
    json_writer_real(writer, "flops", rank->flops);
    json_writer_count(writer, "peak_bytes", rank->peak_bytes);
    write_roles(writer, "peak_bytes_by_role", rank->peak_by_role, layers);
    json_writer_real(writer, "peak_at_seconds", rank->peak_at_seconds);
    json_writer_count(writer, "resident_bytes", rank->resident_bytes);
    write_traffic(writer, "sent_bytes_by_kind", rank->sent_bytes_by_kind, layers);
    write_traffic(writer, "received_bytes_by_kind", rank->received_bytes_by_kind, layers);
    write_traffic(writer, "sent_elements_by_kind", rank->sent_elements_by_kind, layers);
    write_traffic(writer, "received_elements_by_kind", rank->received_elements_by_kind, layers);
    json_writer_count(writer, "q_elements", rank->q_elements);
    json_writer_count(writer, "q_bytes", rank->q_bytes);
    json_writer_count(writer, "kv_elements", rank->kv_elements);
    json_writer_count(writer, "kv_bytes", rank->kv_bytes);
    json_writer_count(writer, "block_elements", rank->block_elements);
    json_writer_count(writer, "block_bytes", rank->block_bytes);
    json_writer_count(writer, "state_elements", rank->state_elements);
    json_writer_count(writer, "state_bytes", rank->state_bytes);
    json_writer_end_object(writer);
}

static json_t *link_to_json(const struct link_class_report *link)
{
    json_t *json = json_object();
    json_set_text(json, "class", link->name);
    json_set_count(json, "links_used", link->links_used);
    json_set_count(json, "bytes", link->bytes);
    json_set_real(json, "busy_seconds", link->busy_seconds);
    json_set_real(json, "utilization", link->utilization);
    json_set_real(json, "bytes_per_s", link->bytes_per_s);
    return json;
}

static json_t *hot_link_to_json(const struct prediction *prediction, const struct hot_link *link)
{
    json_t *json = json_object(), *users = json_array();
    char name[80];
    topology_link_name(&prediction->topology, link->link, name, sizeof name);
    json_set_text(json, "link", name);
    json_set_text(json, "class",
                  prediction->topology.levels[topology_link(&prediction->topology, link->link).level].name);
    json_set_count(json, "stands_for", link->stands_for);
    json_set_count(json, "bytes", link->bytes);
    json_set_count(json, "messages", link->messages);
    json_set_real(json, "busy_seconds", link->busy_seconds);
    json_set_real(json, "utilization", link->utilization);
    json_set_count(json, "pairs", link->ways);
    for (uint32_t u = 0; u < link->n_users; u++) {
        json_t *user = json_object();
        json_set_count(user, "group", link->users[u].group);
        json_set_count(user, "from", link->users[u].from);
        json_set_count(user, "to", link->users[u].to);
        json_set_count(user, "to_group", link->users[u].to_group);
        json_set_count(user, "bytes", link->users[u].bytes);
        json_array_append_new(users, user);
    }
    json_object_set_new(json, "users", users);
    return json;
}

static json_t *engine_to_json(const struct prediction *prediction)
{
    json_t *json = json_object();
    json_set_text(json, "name", prediction->measured ? "hardware" : prediction->engine->name);
    if (prediction->cost.without)
        json_object_set_new(json, "without", json_mechanisms(prediction->cost.without));
    if (!prediction->measured) {
        json_set_count(json, "simulated_ranks", prediction_simulated_ranks(prediction));
        json_set_flag(json, "proved", prediction->proved);
    }
    return json;
}

static json_t *links_to_json(const struct report *report)
{
    json_t *links = json_array();
    for (uint32_t i = 0; i < report->n_links; i++)
        json_array_append_new(links, link_to_json(&report->links[i]));
    return links;
}

static json_t *hot_links_to_json(const struct prediction *prediction)
{
    json_t *links = json_array();
    for (uint32_t i = 0; i < prediction->report.n_hot_links; i++)
        json_array_append_new(links, hot_link_to_json(prediction, &prediction->report.hot_links[i]));
    return links;
}

/* Many: written one by one, and no further than the stream takes them. */
static void write_ranks(struct json_writer *writer, const struct prediction *prediction)
{
    const struct report *report = &prediction->report;
    bool layers = has_layers(prediction);
    json_writer_array(writer, "ranks");
    for (uint32_t i = 0; i < report->n_ranks && !ferror(writer->stream); i++)
        write_rank(writer, &report->ranks[i], layers);
    json_writer_end_array(writer);
}

void run_json_write_in(struct json_writer *writer, const char *key, const struct prediction *prediction,
                       bool operations)
{
    const struct measured_run *measured = prediction->measured;
    json_writer_object(writer, key);
    json_writer_text(writer, "schema", "cpsim.run/1");
    json_writer_text(writer, "kind", measured ? "measured" : "simulated");
    json_writer_text(writer, "cpsim_version", CPSIM_VERSION);
    json_writer_text(writer, "command", prediction->command);
    json_writer_tree(writer, "engine", engine_to_json(prediction));
    json_writer_tree(writer, "topology", measured ? measured_topology_to_json(measured) : topology_to_json(prediction));
    json_writer_tree(writer, "experiment", experiment_to_json(prediction));
    json_writer_tree(writer, "step", step_to_json(prediction, measured));
    if (has_layers(prediction))
        json_writer_tree(writer, "memory", memory_to_json(prediction));
    write_ranks(writer, prediction);
    json_writer_tree(writer, "links", links_to_json(&prediction->report));
    if (measured)
        measured_run_write_json(measured, writer);
    else
        json_writer_tree(writer, "hot_links", hot_links_to_json(prediction));
    if (operations)
        operations_json_write_in(writer, prediction);
    json_writer_end_object(writer);
}

bool run_json_write(const struct prediction *prediction, bool operations, FILE *stream)
{
    struct json_writer writer;
    json_writer_init(&writer, stream, 0);
    run_json_write_in(&writer, NULL, prediction, operations);
    fputc('\n', stream);
    return fflush(stream) == 0 && !ferror(stream);
}

json_t *run_to_json_summary(const struct prediction *prediction, bool common)
{
    const struct report *report = &prediction->report;
    json_t *json = json_object();
    json_set_count(json, "n_ranks", report->n_ranks);
    if (common) {
        json_object_set_new(json, "topology", topology_to_json(prediction));
        json_object_set_new(json, "experiment", experiment_to_json(prediction));
    } else {
        const json_int_t cp = prediction->placement.cp;
        json_object_set_new(json, "experiment", json_pack("{s:{s:I}}", "parallel", "cp", cp));
    }
    json_object_set_new(json, "step", step_to_json(prediction, false));
    if (has_layers(prediction))
        json_object_set_new(json, "memory", memory_to_json(prediction));
    json_object_set_new(json, "links", links_to_json(report));
    return json;
}

void json_set_asked(json_t *json, const char *schema, const char *option, const struct prediction *prediction)
{
    char *command = memory_format("%s %s", prediction->command, option);
    json_set_text(json, "schema", schema);
    json_set_text(json, "cpsim_version", CPSIM_VERSION);
    json_set_text(json, "command", command);
    json_set_text(json, "topology", prediction->topology_name);
    json_set_text(json, "experiment", prediction->experiment_name);
    json_set_text(json, "engine", prediction->engine->name);
    json_object_set_new(json, "without", json_mechanisms(prediction->cost.without));
    free(command);
}

bool json_print(const json_t *json, FILE *stream)
{
    if (json_dumpf(json, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0)
        return false;
    fputc('\n', stream);
    return fflush(stream) == 0 && !ferror(stream);
}
