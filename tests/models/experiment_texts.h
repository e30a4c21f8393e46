/* experiment_texts.h - for tests: experiments read from texts, and how they are refused. Include after cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_EXPERIMENT_TEXTS_H
#define CPSIM_TESTS_MODELS_EXPERIMENT_TEXTS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/input/experiment.h"
#include "tests/models/expect_lines.h"

static struct diagnostics diag;
static struct experiment experiment;

/* A file in which every test changes something: its lines are numbered here so that messages can be read. */
static const char base[] = "[model]\n"            /* 1 */
                           "preset = llama3-8b\n" /* 2 */
                           "[workload]\n"         /* 3 */
                           "seq_len = 1Mi\n"      /* 4 */
                           "[parallel]\n"         /* 5 */
                           "cp = 8\n"             /* 6 */
                           "[schedule]\n"         /* 7 */
                           "algorithm = ring\n";  /* 8 */

static const char small[] = "[model]\nq_heads = 6\nkv_heads = 2\nhead_dim = 2\n"
                            "[workload]\nseq_len = 6\n[parallel]\ncp = 2\n[schedule]\nalgorithm = ring\n";

/* Reads a text as the file "e.ini" in a fresh folder, with the overrides that follow it (NULL-terminated). */
static inline bool read_texts(const char *const *texts)
{
    const char *const *overrides = texts + 1;
    char folder[] = "/tmp/cpsim-experiment-XXXXXX", here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    FILE *file = fopen("e.ini", "w");
    assert_non_null(file);
    fputs(texts[0], file);
    fclose(file);
    size_t n = 0;
    while (overrides[n])
        n++;
    bool ok = experiment_read(&experiment, "e.ini", overrides, n, &diag);
    assert_int_equal(ok, diag.count == 0);
    unlink("e.ini");
    assert_int_equal(chdir(here), 0);
    rmdir(folder);
    return ok;
}

#define READ(...) read_texts((const char *const[]){__VA_ARGS__, NULL})

#define ACCEPTED(...)                                                                                                  \
    do {                                                                                                               \
        if (!READ(__VA_ARGS__))                                                                                        \
            fail_msg("refused: %s", diag.lines[0]);                                                                    \
    } while (0)

/* The file with one override must be refused with exactly this message behind "--set OVERRIDE: ". */
static inline void refused(const char *text, const char *override, const char *message)
{
    assert_false(READ(text, override));
    char *expected = memory_format("--set %s: %s", override, message);
    EXPECT_LINES(&diag, expected);
    free(expected);
}

#endif
