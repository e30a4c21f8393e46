/* compare_csv.c - a comparison as comma-separated values, in the form of csv.c. */
#include <math.h>

#include "cli/compare_writers.h"
#include "cli/writers.h"

static void write_number(double value, FILE *stream)
{
    fputc(',', stream);
    if (!isnan(value))
        fprintf(stream, "%.17g", value);
}

static void write_verdict(enum verdict verdict, FILE *stream)
{
    static const char *const words[] = {[VERDICT_NONE] = "", [VERDICT_INSIDE] = "yes", [VERDICT_OUTSIDE] = "no"};
    fprintf(stream, ",%s", words[verdict]);
}

static void write_header(const struct comparison *comparison, FILE *stream)
{
    const char *subject = comparison->subject_name, *reference = comparison->reference_name;
    fputs("pair", stream);
    for (size_t i = 0; i < comparison->n_columns; i++) {
        fputc(',', stream);
        csv_write_text(comparison->columns[i].name, stream);
    }
    fprintf(stream, ",%s_run,%s_run", subject, reference);
    for (int quantity = 0; quantity < COMPARE_QUANTITIES; quantity++) {
        const char *key = compare_quantity_key((enum compare_quantity)quantity);
        fprintf(stream, ",%s_%s,%s_%s,error_%s", subject, key, reference, key, key);
    }
    fprintf(stream, ",%s_low,%s_high,%s_low,%s_high,in_spread,in_interval\n", subject, subject, reference, reference);
}

bool compare_csv_write(const struct comparison *comparison, FILE *stream)
{
    write_header(comparison, stream);
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        const struct compared_pair *pair = &comparison->pairs[i];
        fprintf(stream, "%zu", i + 1);
        for (size_t k = 0; k < comparison->n_columns; k++) {
            fputc(',', stream);
            csv_write_text(pair->cells[k], stream);
        }
        fputc(',', stream);
        csv_write_text(pair->subject->label, stream);
        fputc(',', stream);
        csv_write_text(pair->reference->label, stream);
        for (int quantity = 0; quantity < COMPARE_QUANTITIES; quantity++) {
            write_number(pair->values[quantity].subject, stream);
            write_number(pair->values[quantity].reference, stream);
            write_number(pair->values[quantity].error, stream);
        }
        write_number(pair->subject->low, stream);
        write_number(pair->subject->high, stream);
        write_number(pair->reference->low, stream);
        write_number(pair->reference->high, stream);
        write_verdict(pair->in_spread, stream);
        write_verdict(pair->in_interval, stream);
        fputc('\n', stream);
    }
    return fflush(stream) == 0 && !ferror(stream);
}
