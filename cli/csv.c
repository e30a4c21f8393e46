/* csv.c - a run or a sweep as comma-separated values (RFC 4180, but with plain newlines): one header, then rows. */
#include <inttypes.h>
#include <string.h>

#include "cli/sweep_json.h"
#include "cli/writers.h"

void csv_write_text(const char *text, FILE *stream)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
    fputc('"', stream);
}

static bool finished(FILE *stream)
{
    return fflush(stream) == 0 && !ferror(stream);
}

static void write_rank(const struct rank_report *rank, bool layers, FILE *stream)
{
    fprintf(stream, "%" PRIu32 ",%" PRIu32 ",%" PRIu64, rank->rank, rank->group, rank->gpu);
    const double seconds[] = {
        rank->seconds,         rank->compute_seconds, rank->communication_seconds, rank->overlapped_seconds,
        rank->exposed_seconds, rank->idle_seconds};
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        fprintf(stream, ",%.17g", seconds[i]);
    fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, rank->bytes_sent, rank->bytes_received,
            rank->messages_sent, rank->messages_received);
    for (int kind = 0; kind < (layers ? TRAFFIC_COUNT : TRAFFIC_ATTENTION_COUNT); kind++)
        fprintf(stream, ",%" PRIu64, rank->sent_bytes_by_kind[kind]);
    fprintf(stream, ",%" PRIu64 ",%.17g,%" PRIu64 ",%" PRIu64, rank->visible_pairs, rank->flops, rank->peak_bytes,
            rank->resident_bytes);
    for (int role = 0; role < (layers ? ROLE_COUNT : ROLE_ATTENTION_COUNT); role++)
        fprintf(stream, ",%" PRIu64, rank->peak_by_role[role]);
    for (int kind = 0; layers && kind < WAIT_KINDS; kind++)
        fprintf(stream, ",%.17g", rank->exposed_by_kind[kind]);
    for (int part = 0; layers && part < COMPUTE_PARTS; part++)
        fprintf(stream, ",%.17g", rank->compute_by_part[part]);
    if (layers)
        fprintf(stream, ",%.17g", rank->recomputed_seconds);
    fputc('\n', stream);
}

bool csv_write_run(const struct prediction *prediction, FILE *stream)
{
    bool layers = prediction->experiment.step.scope != SCOPE_ATTENTION;
    fputs(
        "rank,group,gpu,seconds,compute_seconds,communication_seconds,overlapped_seconds,exposed_seconds,idle_seconds,"
        "bytes_sent,bytes_received,messages_sent,messages_received",
        stream);
    for (int kind = 0; kind < (layers ? TRAFFIC_COUNT : TRAFFIC_ATTENTION_COUNT); kind++)
        fprintf(stream, ",sent_%s_bytes", traffic_name((enum traffic)kind));
    fputs(",visible_pairs,flops,peak_bytes,resident_bytes", stream);
    for (int role = 0; role < (layers ? ROLE_COUNT : ROLE_ATTENTION_COUNT); role++)
        fprintf(stream, ",peak_%s_bytes", buffer_role_name((enum buffer_role)role));
    for (int kind = 0; layers && kind < WAIT_KINDS; kind++)
        fprintf(stream, ",exposed_%s_seconds", wait_kind_key((enum wait_kind)kind));
    for (int part = 0; layers && part < COMPUTE_PARTS; part++)
        fprintf(stream, ",compute_%s_seconds", compute_part_name((enum compute_part)part));
    if (layers)
        fputs(",recomputed_seconds", stream);
    fputc('\n', stream);
    for (uint32_t i = 0; i < prediction->report.n_ranks; i++)
        write_rank(&prediction->report.ranks[i], layers, stream);
    return finished(stream);
}

/* Any JSON scalar as a field; nothing for null and for what is not there. */
static void write_value(const json_t *value, FILE *stream)
{
    if (json_is_string(value))
        csv_write_text(json_string_value(value), stream);
    else if (json_is_integer(value))
        fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        fprintf(stream, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", stream);
}

static void write_errors(const json_t *errors, FILE *stream)
{
    char text[1024] = "";
    size_t i, used = 0;
    json_t *line;
    json_array_foreach(errors, i, line)
    {
        int n = snprintf(text + used, sizeof text - used, "%s%s", i ? "; " : "",
                         json_is_string(line) ? json_string_value(line) : "");
        if (n < 0 || (size_t)n >= sizeof text - used)
            break;
        used += (size_t)n;
    }
    csv_write_text(text, stream);
}

static const char *const step_columns[] = {
    "seconds",
    "forward_seconds",
    "backward_seconds",
    "compute_seconds",
    "communication_seconds",
    "exposed_seconds",
    "idle_seconds",
    "overlap_efficiency",
    "tflops_per_rank",
    "imbalance",
    "compute_bound_seconds",
    "wire_bound_seconds",
    "bytes_sent",
    "messages_sent",
    "peak_bytes",
    "device_bytes",
    "fits",
};

#define N_STEP_COLUMNS (sizeof step_columns / sizeof *step_columns)

/* Of whole layers, behind them: members of the step, or of an object of it. */
static const struct layer_column {
    const char *object, *key, *name;
} layer_columns[] = {
    {NULL, "tokens_per_second_per_gpu", "tokens_per_second_per_gpu"},
    {NULL, "model_tflops_per_gpu", "model_tflops_per_gpu"},
    {NULL, "mfu", "mfu"},
    {NULL, "hfu", "hfu"},
    {"exposed_by_kind", "cp", "exposed_cp_seconds"},
    {"exposed_by_kind", "tp", "exposed_tp_seconds"},
    {"exposed_by_kind", "dp", "exposed_dp_seconds"},
    {"compute_by_part", "attention", "compute_attention_seconds"},
    {"compute_by_part", "products", "compute_products_seconds"},
    {"compute_by_part", "optimizer", "compute_optimizer_seconds"},
    {"compute_by_part", "other", "compute_other_seconds"},
    {"compute_by_part", "recomputed", "recomputed_seconds"},
};

#define N_LAYER_COLUMNS (sizeof layer_columns / sizeof *layer_columns)

void csv_write_sweep_head(const char *const *keys, size_t n_keys, bool layers, FILE *stream)
{
    for (size_t i = 0; i < n_keys; i++) {
        csv_write_text(keys[i], stream);
        fputc(',', stream);
    }
    for (size_t n = 0; n < N_STEP_COLUMNS; n++)
        fprintf(stream, "%s,", step_columns[n]);
    for (size_t n = 0; layers && n < N_LAYER_COLUMNS; n++)
        fprintf(stream, "%s,", layer_columns[n].name);
    fputs("error\n", stream);
}

void csv_write_sweep_point(const json_t *point, bool layers, FILE *stream)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(point, "set"), key, value)
    {
        write_value(value, stream);
        fputc(',', stream);
    }
    const json_t *step = sweep_step(point);
    for (size_t n = 0; n < N_STEP_COLUMNS; n++) {
        write_value(json_object_get(step, step_columns[n]), stream);
        fputc(',', stream);
    }
    for (size_t n = 0; layers && n < N_LAYER_COLUMNS; n++) {
        const struct layer_column *column = &layer_columns[n];
        write_value(json_object_get(column->object ? json_object_get(step, column->object) : step, column->key),
                    stream);
        fputc(',', stream);
    }
    write_errors(json_object_get(point, "error"), stream);
    fputc('\n', stream);
}
