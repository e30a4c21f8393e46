/* sensitivity_json.c - elasticities as cpsim.sensitivity/1 and as comma-separated values. */
#include "cli/json_set.h"
#include "cli/sensitivity.h"
#include "cli/writers.h"

static const char *kind_name(enum constant_kind kind)
{
    static const char *const names[] = {[CONSTANT_RATE] = "rate", [CONSTANT_TIME] = "time", [CONSTANT_SHARE] = "share"};
    return names[kind];
}

/* Of the number that is written, in base units. */
static const char *unit_name(enum dimension dimension)
{
    return dimension == DIMENSION_NUMBER    ? ""
           : dimension == DIMENSION_SECONDS ? "s"
           : dimension == DIMENSION_FLOPS   ? "FLOP/s"
                                            : "B/s";
}

static json_t *row_to_json(const struct sensitivity_row *row)
{
    json_t *json = json_object();
    json_set_text(json, "constant", row->constant->name);
    json_set_text(json, "kind", kind_name(row->constant->kind));
    json_set_real(json, "value", row->constant->value);
    json_set_text(json, "unit", unit_name(row->constant->dimension));
    if (row->left) {
        json_set_flag(json, "left", true);
        return json;
    }
    json_set_flag(json, "has_effect", row->has_effect);
    json_set_real(json, "elasticity", row->elasticity.both);
    json_set_real(json, "elasticity_lowered", row->elasticity.lowered);
    json_set_real(json, "elasticity_raised", row->elasticity.raised);
    json_set_flag(json, "kink", row->kink);
    json_set_real(json, "lowered_seconds", row->elasticity.lowered_seconds);
    json_set_real(json, "raised_seconds", row->elasticity.raised_seconds);
    return json;
}

json_t *sensitivity_to_json(const struct sensitivity *sensitivity)
{
    const struct prediction *prediction = &sensitivity->prediction;
    json_t *json = json_object(), *rows = json_array();
    json_set_asked(json, "cpsim.sensitivity/1", "--sensitivity", prediction);
    json_set_real(json, "relative_step", SENSITIVITY_STEP);
    json_set_real(json, "seconds", sensitivity->seconds);
    json_set_real(json, "sum", sensitivity->sum);
    json_set_real(json, "all_at_once", sensitivity->all.both);
    json_t *idle = json_array();
    for (uint32_t k = 0; k < prediction->topology.n_levels; k++)
        if (!sensitivity->crosses[k])
            json_array_append_new(idle, json_text(prediction->topology.levels[k].name));
    json_object_set_new(json, "idle_levels", idle);
    json_t *idle_overrides = json_array();
    for (uint32_t number = 0; number < sensitivity->n_overrides; number++)
        if (sensitivity->idle_overrides[number])
            json_array_append_new(idle_overrides, json_text(overrides_name(&prediction->topology, number)));
    json_object_set_new(json, "idle_overrides", idle_overrides);
    for (size_t i = 0; i < sensitivity->n_rows; i++)
        json_array_append_new(rows, row_to_json(&sensitivity->rows[i]));
    json_object_set_new(json, "constants", rows);
    if (sensitivity->n_left)
        json_set_flag(json, "complete", false);
    return json;
}

bool sensitivity_csv_write(const struct sensitivity *sensitivity, FILE *stream)
{
    fputs("constant,kind,value,unit,has_effect,elasticity,elasticity_lowered,elasticity_raised,kink,lowered_seconds,"
          "raised_seconds\n",
          stream);
    for (size_t i = 0; i < sensitivity->n_rows; i++) {
        const struct sensitivity_row *row = &sensitivity->rows[i];
        const struct elasticity *elasticity = &row->elasticity;
        csv_write_text(row->constant->name, stream);
        if (row->left) {
            fprintf(stream, ",%s,%.17g,%s,,,,,,,\n", kind_name(row->constant->kind), row->constant->value,
                    unit_name(row->constant->dimension));
            continue;
        }
        fprintf(stream, ",%s,%.17g,%s,%s,%.17g,%.17g,%.17g,%s,%.17g,%.17g\n", kind_name(row->constant->kind),
                row->constant->value, unit_name(row->constant->dimension), row->has_effect ? "yes" : "no",
                elasticity->both, elasticity->lowered, elasticity->raised, row->kink ? "yes" : "no",
                elasticity->lowered_seconds, elasticity->raised_seconds);
    }
    return fflush(stream) == 0 && !ferror(stream);
}
