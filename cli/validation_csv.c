/* validation_csv.c - a validation as comma-separated values, in the form of csv.c: a row a measurement. */
#include <math.h>
#include <stdlib.h>

#include "cli/validation.h"
#include "cli/writers.h"

static void write_number(double value, bool there, FILE *stream)
{
    fputc(',', stream);
    if (there)
        fprintf(stream, "%.17g", value);
}

static void write_row(const struct validation_set *set, const struct validation_row *row,
                      const struct validated_row *result, FILE *stream)
{
    char *label = validation_row_label(set, row);
    csv_write_text(set->name, stream);
    fprintf(stream, ",%d,", row->line);
    csv_write_text(label, stream);
    fputc(',', stream);
    csv_write_text(row->group, stream);
    fprintf(stream, ",%s", metric_name(row->metric));
    write_number(row->value, true, stream);
    write_number(row->uncertainty, true, stream);
    write_number(result->predicted, result->done, stream);
    write_number(result->low, result->has_interval, stream);
    write_number(result->high, result->has_interval, stream);
    bool timed = result->done && !metric_is_memory(row->metric);
    write_number(result->measured_seconds, timed, stream);
    write_number(result->prediction.seconds, timed, stream);
    write_number(result->error, result->done, stream);
    fprintf(stream, ",%s\n", !result->has_interval ? "" : result->inside ? "yes" : "no");
    free(label);
}

bool validation_csv_write(const struct validation *validation, FILE *stream)
{
    fputs("set,line,row,group,metric,measured,uncertainty,predicted,predicted_low,predicted_high,measured_seconds,"
          "predicted_seconds,error,inside\n",
          stream);
    for (size_t i = 0; i < validation->sets.count; i++) {
        const struct validation_set *set = &validation->sets.sets[i];
        for (size_t k = 0; k < set->n_rows; k++)
            write_row(set, &set->rows[k], &validation->rows[i][k], stream);
    }
    return fflush(stream) == 0 && !ferror(stream);
}
