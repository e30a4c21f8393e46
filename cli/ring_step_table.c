/* ring_step_table.c - see ring_step_table.h. */
#include "cli/ring_step_table.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/summary.h"
#include "cli/text_table.h"
#include "models/result/steps.h"

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

void ring_step_table_write(const struct prediction *prediction, const char *of_what, FILE *stream)
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
    fprintf(stream, "\nSteps (exposed, idle: waited before the attention operation, and behind it)%s\n", of_what);
    text_table_print(&table, stream);
    text_table_fini(&table);
}
