/* run_tree.h - for tests: a run as it is written, read back. Include after cmocka.h. */
#ifndef CPSIM_TESTS_CLI_RUN_TREE_H
#define CPSIM_TESTS_CLI_RUN_TREE_H

#include <jansson.h>
#include <stdlib.h>

#include "cli/writers.h"

/* The caller owns the reference. */
static inline json_t *run_tree(const struct prediction *prediction, bool operations)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_true(run_json_write(prediction, operations, stream));
    fclose(stream);
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

#endif
