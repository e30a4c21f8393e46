/* asked.h - for tests: the schedule of an experiment given as text, with all its programs. Include after cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_ASKED_H
#define CPSIM_TESTS_MODELS_ASKED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/checker.h"
#include "models/schedule/execution.h"
#include "tests/models/program_sums.h"
#include "tests/models/schedule_text.h"

struct asked {
    struct experiment experiment;
    struct schedule schedule;
    struct program *programs;
};

/* What is asked; every text is a list of lines. */
struct question {
    uint32_t cp, q_heads, kv_heads, head_dim, batch;
    uint64_t seq_len;
    const char *mask, *pass; /* NULL: causal, train */
    const char *workload;    /* further lines of [workload], or NULL */
    const char *schedule;    /* those of [schedule] */
};

/* An experiment as text, of `question`; the functions below free it. */
static inline char *question_text(const struct question *q)
{
    return memory_format("[model]\nq_heads = %u\nkv_heads = %u\nhead_dim = %u\ndtype = bf16\n[workload]\n"
                         "seq_len = %llu\nbatch = %u\nmask = %s\npass = %s\n%s\n[parallel]\ncp = %u\n[schedule]\n%s\n",
                         q->q_heads, q->kv_heads, q->head_dim, (unsigned long long)q->seq_len, q->batch,
                         q->mask ? q->mask : "causal", q->pass ? q->pass : "train", q->workload ? q->workload : "",
                         q->cp, q->schedule);
}

/* Another: 32 query and 8 KV heads of 128 in bf16; `workload` and `schedule` are lines of their sections. */
static inline char *asked_text(unsigned cp, unsigned seq_len, const char *workload, const char *schedule)
{
    return memory_format("[model]\nq_heads = 32\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n[workload]\nseq_len = %u\n"
                         "%s\n[parallel]\ncp = %u\n[schedule]\n%s\n",
                         seq_len, workload, cp, schedule);
}

/* False with messages when the experiment, or the algorithm, is refused. Every key must have an effect. */
static inline bool asked_try(struct asked *a, char *text, struct diagnostics *diag)
{
    memset(a, 0, sizeof *a);
    bool good = schedule_of_text(&a->experiment, &a->schedule, text, diag);
    if (good)
        a->programs = schedule_build_all(&a->schedule);
    return good;
}

static inline void ask_text(struct asked *a, char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = asked_try(a, text, &diag);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    assert_true(good);
}

static inline void ask(struct asked *a, const struct question *question)
{
    ask_text(a, question_text(question));
}

static inline void asked_fini(struct asked *a)
{
    schedule_free_programs(&a->schedule, a->programs);
    schedule_fini(&a->schedule);
    experiment_fini(&a->experiment);
}

/* The one message with which `text` is refused has `words` in it. */
static inline void expect_refusal(char *text, const char *words)
{
    struct asked a;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_false(asked_try(&a, text, &diag));
    expect_one_message(&diag, words);
}

static inline void expect_refused(const struct question *question, const char *words)
{
    expect_refusal(question_text(question), words);
}

/* The checker proves the programs, and they run to their end in rendezvous. */
static inline void expect_proved(const struct asked *a, const char *what)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = checker_check(&a->schedule, a->programs, &diag);
    struct execution *execution = good ? execution_create(a->programs, a->schedule.ranks, 1, &diag) : NULL;
    struct activity activity;
    while (execution && execution_next(execution, &activity))
        execution_finish(execution, activity);
    if (execution && !execution_done(execution))
        execution_explain(execution, &diag);
    execution_destroy(execution);
    if (diag.count) {
        print_error("%s\n", what);
        diagnostics_print(&diag, stderr, "  ");
    }
    assert_int_equal(diag.count, 0);
    diagnostics_fini(&diag);
}

static inline void asked_check(const struct asked *a)
{
    expect_proved(a, a->experiment.algorithm);
}

#endif
