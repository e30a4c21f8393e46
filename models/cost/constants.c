/* constants.c - walks the key tables for rates, times and shares; what they cannot show, lists in one key, is named
 * here. */
#include "models/cost/constants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/cost/product_cost.h"
#include "models/input/device_keys.h"
#include "models/input/graph.h"
#include "models/input/key_table.h"

static enum constant_kind kind_of(enum dimension dimension)
{
    return dimension == DIMENSION_NUMBER    ? CONSTANT_SHARE
           : dimension == DIMENSION_SECONDS ? CONSTANT_TIME
                                            : CONSTANT_RATE;
}

static struct constant *add(struct constants *constants, char *name, enum dimension dimension)
{
    memory_grow(constants->items, constants->count, constants->capacity);
    struct constant *constant = &constants->items[constants->count++];
    *constant = (struct constant){
        .name = name, .kind = kind_of(dimension), .level = CONSTANT_OF_NO_LEVEL, .dimension = dimension};
    return constant;
}

static void add_place(struct constant *constant, double *place)
{
    memory_grow(constant->places, constant->n_places, constant->capacity);
    constant->places[constant->n_places++] = place;
    constant->value = fmax(constant->value, *place);
}

/* A constant that has no number above 0 says nothing. */
static void drop_if_nothing(struct constants *constants)
{
    struct constant *last = &constants->items[constants->count - 1];
    if (last->value > 0)
        return;
    free(last->name);
    free(last->places);
    constants->count--;
}

static bool has_time(const struct key_spec *key)
{
    return key->type == KEY_QUANTITY && (key->dimension == DIMENSION_RATE || key->dimension == DIMENSION_SECONDS ||
                                         key->dimension == DIMENSION_FLOPS);
}

/* The rates and times of `target`, which was read by the table `spec`. */
static void add_keys(struct constants *constants, const struct section_spec *spec, const char *section, void *target)
{
    for (size_t i = 0; i < spec->n_keys; i++) {
        const struct key_spec *key = &spec->keys[i];
        if (!has_time(key))
            continue;
        double *place = (void *)((char *)target + key->offset);
        add_place(add(constants, memory_format("%s.%s", section, key->name), key->dimension), place);
        drop_if_nothing(constants);
    }
}

static void add_lists(struct constants *constants, const char *section, struct level *level)
{
    struct constant *curve = add(constants, memory_format("%s.curve", section), DIMENSION_RATE);
    for (size_t i = 0; i < level->n_curve; i++)
        add_place(curve, &level->curve[i].bytes_per_s);
    drop_if_nothing(constants);
    struct constant *rates = add(constants, memory_format("%s.collectives (rates)", section), DIMENSION_RATE);
    for (size_t i = 0; i < level->n_protocols; i++)
        add_place(rates, &level->protocols[i].bytes_per_s);
    drop_if_nothing(constants);
    struct constant *starts = add(constants, memory_format("%s.collectives (starts)", section), DIMENSION_SECONDS);
    for (size_t i = 0; i < level->n_protocols; i++) {
        add_place(starts, &level->protocols[i].start_seconds);
        add_place(starts, &level->protocols[i].member_seconds);
    }
    drop_if_nothing(constants);
}

static const struct section_spec *section_of(const struct file_spec *file, const char *name)
{
    size_t i = 0;
    while (strcmp(file->sections[i]->name, name) != 0)
        i++;
    return file->sections[i];
}

/* Numbers of several links. */
struct link_numbers {
    struct constant rates, latencies;
};

static void add_link(void *context, double *bytes_per_s, double *latency_seconds)
{
    struct link_numbers *numbers = context;
    add_place(&numbers->rates, bytes_per_s);
    add_place(&numbers->latencies, latency_seconds);
}

/* Takes the places of `numbers`. */
static void add_links(struct constants *constants, const struct link_numbers *numbers, const char *section,
                      uint32_t level)
{
    const struct constant *of_kind[] = {&numbers->rates, &numbers->latencies};
    for (int i = 0; i < 2; i++) {
        char *name = memory_format("%s.%s", section, i ? "latency" : "bandwidth");
        struct constant *constant = add(constants, name, i ? DIMENSION_SECONDS : DIMENSION_RATE);
        constant->level = level;
        constant->value = of_kind[i]->value;
        constant->places = of_kind[i]->places;
        constant->n_places = of_kind[i]->n_places;
        drop_if_nothing(constants);
    }
}

/* A graph's links by their classes. */
static void add_graph(struct constants *constants, struct topology *topology)
{
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        struct link_numbers numbers = {0};
        char section[64];
        snprintf(section, sizeof section, "links %s", topology->levels[k].name);
        graph_each_link(topology->graph, k, add_link, &numbers);
        add_links(constants, &numbers, section, k);
    }
}

/* One [override NAME]. */
struct overridden {
    struct override_set *set;
    const struct ini_section *section;
    uint32_t number;
    uint32_t level; /* of all of its links; CONSTANT_OF_NO_LEVEL: they are of several */
};

static struct overridden overridden_by(struct topology *topology, uint32_t number)
{
    struct overridden by = {.set = &topology->overrides,
                            .section = ini_document_section(topology->document, overrides_name(topology, number)),
                            .number = number,
                            .level = CONSTANT_OF_NO_LEVEL};
    bool several = false;
    for (size_t i = 0; i < by.set->n_links; i++) {
        if (by.set->links[i].number != number)
            continue;
        uint32_t level = topology_link(topology, by.set->links[i].link).level;
        several = several || (by.level != CONSTANT_OF_NO_LEVEL && by.level != level);
        by.level = level;
    }
    by.level = several ? CONSTANT_OF_NO_LEVEL : by.level;
    return by;
}

/* What an override says of links outright. */
static void add_overridden_links(struct constants *constants, const struct overridden *by)
{
    struct link_numbers numbers = {0};
    for (size_t i = 0; i < by->set->n_links; i++) {
        struct link_override *link = &by->set->links[i];
        if (link->number == by->number && link->bytes_per_s > 0)
            add_place(&numbers.rates, &link->bytes_per_s);
        if (link->number == by->number && link->latency_seconds > 0)
            add_place(&numbers.latencies, &link->latency_seconds);
    }
    add_links(constants, &numbers, by->section->name, by->level);
}

/* A factor by which links differ, and a speed of GPUs. */
static void add_overridden_shares(struct constants *constants, const struct overridden *by, double growth)
{
    if (ini_section_entry(by->section, "factor")) {
        struct constant *factor = add(constants, memory_format("%s.factor", by->section->name), DIMENSION_NUMBER);
        factor->level = by->level;
        for (size_t i = 0; i < by->set->n_links; i++)
            if (by->set->links[i].number == by->number && by->set->links[i].factor * growth <= OVERRIDE_FACTOR_MAX)
                add_place(factor, &by->set->links[i].factor);
        drop_if_nothing(constants);
    }
    if (ini_section_entry(by->section, "speed")) {
        struct constant *speed = add(constants, memory_format("%s.speed", by->section->name), DIMENSION_NUMBER);
        for (size_t i = 0; i < by->set->n_gpus; i++)
            if (by->set->gpus[i].number == by->number && by->set->gpus[i].speed * growth <= OVERRIDE_SPEED_MAX)
                add_place(speed, &by->set->gpus[i].speed);
        drop_if_nothing(constants);
    }
}

static void add_overrides(struct constants *constants, struct topology *topology, double growth)
{
    const struct override_set *set = &topology->overrides;
    uint32_t n = 0;
    for (size_t i = 0; i < set->n_links; i++)
        n = set->links[i].number >= n ? set->links[i].number + 1 : n;
    for (size_t i = 0; i < set->n_gpus; i++)
        n = set->gpus[i].number >= n ? set->gpus[i].number + 1 : n;
    for (uint32_t number = 0; number < n; number++) {
        const struct overridden by = overridden_by(topology, number);
        add_overridden_links(constants, &by);
        add_overridden_shares(constants, &by, growth);
    }
}

static struct constant *find(const struct constants *constants, size_t first, const char *key)
{
    for (size_t i = first; i < constants->count; i++)
        if (strcmp(strrchr(constants->items[i].name, '.') + 1, key) == 0)
            return &constants->items[i];
    return NULL;
}

/* A dragonfly's cables between groups have the latency of the others where the file does not say theirs; levels of
 * other kinds have none. */
static void settle_global_latency(struct constants *constants, size_t first, struct level *level, bool said)
{
    struct constant *latency = find(constants, first, "latency"), *global = find(constants, first, "global_latency");
    if (!global || (level->kind == LEVEL_DRAGONFLY && said))
        return;
    if (level->kind == LEVEL_DRAGONFLY && latency)
        add_place(latency, &level->global_latency_seconds);
    free(global->name);
    free(global->places);
    size_t after = (size_t)(constants->items + constants->count - global) - 1;
    memmove(global, global + 1, after * sizeof *global);
    constants->count--;
}

static void add_levels(struct constants *constants, struct topology *topology)
{
    const struct section_spec *spec = section_of(&topology_file, "level");
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        char section[64];
        snprintf(section, sizeof section, "level %s", topology->levels[k].name);
        size_t first = constants->count;
        add_keys(constants, spec, section, &topology->levels[k]);
        const struct ini_section *written = ini_document_section(topology->document, section);
        settle_global_latency(constants, first, &topology->levels[k], ini_section_entry(written, "global_latency"));
        add_lists(constants, section, &topology->levels[k]);
        for (size_t i = first; i < constants->count; i++)
            constants->items[i].level = k;
    }
}

/* The rates of a table by what multiplies them all; what is shown is the largest. */
static void add_table(struct constants *constants, struct attention_table *table)
{
    char head_dim[16] = "any", dtype[16] = "";
    if (table->head_dim)
        snprintf(head_dim, sizeof head_dim, "%u", table->head_dim);
    if (table->named_dtype >= 0)
        snprintf(dtype, sizeof dtype, " %s", dtype_name((enum dtype)table->named_dtype));
    struct constant *rates = add(constants,
                                 memory_format("attention %s %s %s%s.rates", table->kernel,
                                               table->pass == PASS_FORWARD ? "forward" : "backward", head_dim, dtype),
                                 DIMENSION_FLOPS);
    add_place(rates, &table->rate_scale);
    double largest = 0;
    for (size_t i = 0; i < table->n_full; i++)
        largest = fmax(largest, table->full[i].flops_per_s);
    for (size_t i = 0; i < table->n_causal; i++)
        largest = fmax(largest, table->causal[i].flops_per_s);
    rates->value = largest * table->rate_scale;
}

/* Matrix products of whole layers, in the types that they are computed in; likewise. */
static void add_products(struct constants *constants, struct device *device, const struct cost *cost)
{
    const struct experiment *experiment = cost->schedule->experiment;
    if (experiment->step.scope == SCOPE_ATTENTION)
        return;
    enum dtype type = dtype_output(experiment->dtype);
    bool in_fp8 = experiment->step.linear == LINEAR_FP8;
    const struct product_table *linear = product_table_of(device, in_fp8 ? DTYPE_FP8 : type),
                               *head = product_table_of(device, type);
    for (size_t i = 0; i < device->n_products; i++) {
        struct product_table *table = &device->products[i];
        if (table != linear && (table != head || experiment->step.scope != SCOPE_MODEL))
            continue;
        const char *dtype = table->named_dtype < 0 ? "any" : dtype_name((enum dtype)table->named_dtype);
        struct constant *rates = add(constants, memory_format("product %s.rates", dtype), DIMENSION_FLOPS);
        add_place(rates, &table->rate_scale);
        if (table->peak_flops_per_s > 0)
            add_place(rates, &table->peak_flops_per_s);
        double largest = 0;
        for (size_t k = 0; k < table->n_rates; k++)
            largest = fmax(largest, table->rates[k].flops_per_s);
        rates->value = largest * table->rate_scale;
    }
}

/* A share is a plain number of the device; those of other sections say how far something varies, or of which runs. */
static void add_shares(struct constants *constants, struct device *device, double growth)
{
    for (size_t i = 0; i < device_section.n_keys; i++) {
        const struct key_spec *key = &device_section.keys[i];
        double *place = (void *)((char *)device + key->offset);
        if (key->type != KEY_QUANTITY || key->dimension != DIMENSION_NUMBER || *place * growth > key->maximum)
            continue;
        add_place(add(constants, memory_format("%s.%s", device_section.name, key->name), key->dimension), place);
        drop_if_nothing(constants);
    }
}

static void add_device(struct constants *constants, struct device *device, const struct cost *cost)
{
    add_keys(constants, &device_section, device_section.name, device);
    add_keys(constants, &device_steps_section, device_steps_section.name, device);
    for (size_t i = 0; i < device->n_tables; i++)
        if (cost->fit[PASS_FORWARD].table == &device->tables[i] || cost->fit[PASS_BACKWARD].table == &device->tables[i])
            add_table(constants, &device->tables[i]);
    add_products(constants, device, cost);
}

void constants_init(struct constants *constants, const struct constant_holders *holders, const struct cost *cost,
                    double growth)
{
    *constants = (struct constants){0};
    if (holders->topology->graph)
        add_graph(constants, holders->topology);
    else
        add_levels(constants, holders->topology);
    add_overrides(constants, holders->topology, growth);
    add_device(constants, holders->device, cost);
    add_shares(constants, holders->device, growth);
    add_keys(constants, section_of(&implementation_file, "host"), "host", holders->implementation);
}

void constants_fini(struct constants *constants)
{
    for (size_t i = 0; i < constants->count; i++) {
        free(constants->items[i].name);
        free(constants->items[i].places);
    }
    free(constants->items);
    *constants = (struct constants){0};
}

void constant_scale(const struct constant *constant, double factor)
{
    for (size_t i = 0; i < constant->n_places; i++)
        *constant->places[i] *= factor;
}
