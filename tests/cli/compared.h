/* compared.h - for tests: comparisons of runs made by hand, and what was said about them. Include after cmocka.h. */
#ifndef CPSIM_TESTS_CLI_COMPARED_H
#define CPSIM_TESTS_CLI_COMPARED_H

#include <math.h>

#include "cli/compare.h"
#include "tests/cli/command.h"

/* ---- runs made by hand ---- */

struct run {
    const char *kind, *topology;
    int cp;
    const char *algorithm;
    double seconds;
    const char *step; /* more of the step: ", 'peak_bytes': 3" */
    const char *more; /* more of the run */
};

static inline char *with_double_quotes(char *text)
{
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return text;
}

static inline char *run_text(const struct run *run)
{
    return with_double_quotes(memory_format(
        "{'schema': 'cpsim.run/1', 'kind': '%s', 'topology': {'path': '%s', 'level node': {'bandwidth': '%s link'}}, "
        "'experiment': {'path': '%s.ini', 'model': {'name': '%s', 'q_heads': 8}, "
        "'workload': {'seq_len': 65536, 'mask': 'causal', 'pass': 'train'}, "
        "'parallel': {'cp': %d}, 'schedule': {'algorithm': '%s'}}, "
        "'step': {'seconds': %.17g%s}%s}\n",
        run->kind, run->topology, run->topology, run->kind, run->kind, run->cp, run->algorithm, run->seconds,
        run->step ? run->step : "", run->more ? run->more : ""));
}

/* Writes `text` to a file of the test's folder; returns its path, which stays valid. */
static inline const char *write_file(const char *name, const char *text)
{
    static char *paths[256];
    static size_t n_paths;
    assert_true(n_paths < sizeof paths / sizeof *paths);
    char *path = paths[n_paths++] = memory_format("%s/%s", test_folder(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static inline const char *write_run(const char *name, const struct run *run)
{
    char *text = run_text(run);
    const char *path = write_file(name, text);
    free(text);
    return path;
}

static inline const char *write_sweep(const char *name, const struct run *runs, size_t count)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    fputs("{\"schema\": \"cpsim.sweep/1\", \"points\": [", stream);
    for (size_t i = 0; i < count; i++) {
        char *run = run_text(&runs[i]);
        fprintf(stream, "%s{\"set\": {}, \"run\": %s}", i ? ", " : "", run);
        free(run);
    }
    fputs("]}", stream);
    fclose(stream);
    const char *path = write_file(name, text);
    free(text);
    return path;
}

/* ---- a comparison and what was said ---- */

struct result {
    struct comparison comparison;
    const char *files[3];
    struct diagnostics notes, diag;
    bool fine;
};

static inline void compare(struct result *result, const char *const *files, size_t n_files)
{
    assert_true(n_files <= sizeof result->files / sizeof *result->files);
    memcpy(result->files, files, n_files * sizeof *files); /* the comparison keeps the array */
    diagnostics_init(&result->notes);
    diagnostics_init(&result->diag);
    result->fine = comparison_init(&result->comparison, result->files, n_files, &result->notes, &result->diag);
}

static inline void compare_fini(struct result *result)
{
    comparison_fini(&result->comparison);
    diagnostics_fini(&result->notes);
    diagnostics_fini(&result->diag);
}

static inline void compare_two(struct result *result, const struct run *a, const struct run *b)
{
    const char *const files[] = {write_run("a.json", a), write_run("b.json", b)};
    compare(result, files, 2);
}

static inline bool said(const struct diagnostics *diag, const char *text)
{
    for (size_t i = 0; i < diag->count; i++)
        if (strstr(diag->lines[i], text))
            return true;
    for (size_t i = 0; i < diag->count; i++)
        print_message("said: %s\n", diag->lines[i]);
    return false;
}

static inline void expect_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-12))
        fail_msg("%.17g, expected %.17g", value, expected);
}

static inline double error_of(const struct result *result, size_t pair, enum compare_quantity quantity)
{
    return result->comparison.pairs[pair].values[quantity].error;
}

static inline int remove_folder(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

#endif
