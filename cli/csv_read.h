/* csv_read.h - comma-separated values as they are written: comment lines, then records of fields (RFC 4180, one line a
 * record).
 */
#ifndef CPSIM_CLI_CSV_READ_H
#define CPSIM_CLI_CSV_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "models/base/diagnostics.h"

struct csv_record {
    int line;
    char **fields; /* without quotes, and without blanks around them */
    size_t n_fields;
};

struct csv_table {
    bool has_comment; /* the first line is a comment, '#' */
    struct csv_record *records;
    size_t n_records, capacity;
};

/* Reads the whole file. False, with every problem in `diag`, when it cannot be read, or a line is empty, no text or
 * leaves a quote open. The caller calls csv_table_fini in any case. */
bool csv_table_read(struct csv_table *table, const char *path, struct diagnostics *diag);
void csv_table_fini(struct csv_table *table);

#endif
