/* agreement.c - each process sends all others a note; everybody reads the same notes and comes to the same conclusion.
 */
#include "hw/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"

/* What each process tells the others. */
struct note {
    uint64_t question; /* hash of all that must be the same everywhere */
    char host[64];
    char problem[512]; /* why this process cannot, or "" */
};

static void hash_text(uint64_t *hash, const char *text)
{
    for (; *text; text++)
        *hash = (*hash ^ (unsigned char)*text) * UINT64_C(1099511628211); /* FNV-1a */
}

static void hash_value(void *context, const char *section, const char *key, const char *value)
{
    const char *const parts[] = {section, ".", key, "=", value, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash_text(context, parts[i]);
}

static struct note note_of(const struct agreement_side *side)
{
    struct note mine = {.question = UINT64_C(14695981039346656037)};
    if (side->experiment)
        experiment_each_value(side->experiment, hash_value, &mine.question);
    hash_text(&mine.question, side->options);
    gethostname(mine.host, sizeof mine.host - 1);
    if (side->own->count)
        snprintf(mine.problem, sizeof mine.problem, "%s", side->own->lines[0]);
    return mine;
}

/* Whether every process has the same problem: it is then not the matter of one rank. */
static bool all_have_problem(const struct note *all, uint32_t ranks)
{
    uint32_t alike = 1;
    while (all[0].problem[0] && alike < ranks && strcmp(all[alike].problem, all[0].problem) == 0)
        alike++;
    return alike == ranks;
}

bool agreement_reach(const struct agreement_side *side, struct diagnostics *diag)
{
    const struct diagnostics *own = side->own;
    const uint32_t ranks = side->ranks;
    struct note mine = note_of(side), *all = memory_zeroed(ranks, sizeof *all);
    bool good = side->transport->all_gather(side->end, &mine, sizeof mine, all);
    if (!good)
        transport_complain(side->transport, side->end, diag);
    if (good && all[0].problem[0] && all_have_problem(all, ranks)) {
        for (size_t i = 0; i < own->count; i++)
            diagnostics_add(diag, "%s", own->lines[i]);
        good = false;
    }
    for (uint32_t r = 0; r < ranks && good; r++) {
        if (all[r].problem[0])
            diagnostics_add(diag, "rank %" PRIu32 " on host '%s': %s", r, all[r].host, all[r].problem);
        else if (all[r].question != all[0].question && !all[0].problem[0])
            diagnostics_add(diag, "rank %" PRIu32 " on host '%s' was given another experiment than rank 0 on host '%s'",
                            r, all[r].host, all[0].host);
    }
    free(all);
    return good && diag->count == 0;
}
