/* advice_overrides.c - see advice_overrides.h. A key of the file that a candidate does not look at is taken back, since
 * a key without effect is an error.
 */
#include "cli/advice_overrides.h"

#include <stdlib.h>
#include <string.h>

#include "cli/advice_knobs.h"
#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/schedule/algorithms/algorithm.h"

/* Whether an override ("key=value") or an argument is about `key`. */
static bool is_about(const char *text, const char *key)
{
    size_t length = strlen(key);
    return strncmp(text, key, length) == 0 && text[length + strspn(text + length, " \t")] == '=';
}

/* Keys of [schedule] that the algorithm of a candidate does not look at. */
static const struct {
    const char *key;
    enum algorithm_key bit;
} schedule_uses[] = {
    {"schedule.buffers", USES_BUFFERS},           {"schedule.kv_block", USES_KV_BLOCK},
    {"schedule.kv_messages", USES_SPLIT_KV},      {"schedule.collective", USES_COLLECTIVE},
    {"schedule.gradients", USES_GRADIENTS},       {"schedule.overlap", USES_OVERLAP},
    {"schedule.gather_heads", USES_GATHER_HEADS},
};

struct override_list {
    char **items;
    size_t count, capacity;
};

static void add(struct override_list *list, char *text)
{
    memory_grow(list->items, list->count, list->capacity);
    list->items[list->count++] = text;
}

/* What the file says of `key` has no effect in the candidate. */
static bool is_idle(const struct advice_space *space, size_t candidate, const char *key)
{
    const char *algorithm = advice_value(space, candidate, KNOB_ALGORITHM);
    const struct algorithm_ops *ops = algorithm ? algorithm_find(algorithm) : NULL;
    for (size_t i = 0; ops && i < sizeof schedule_uses / sizeof *schedule_uses; i++)
        if (strcmp(schedule_uses[i].key, key) == 0)
            return !(ops->uses & schedule_uses[i].bit);
    const char *zero = advice_value(space, candidate, KNOB_ZERO);
    return strcmp(key, "step.bucket") == 0 && (!zero || strcmp(zero, "3") == 0);
}

static void add_idle(const struct advice_space *space, size_t candidate, struct override_list *list)
{
    for (size_t i = 0; i < sizeof schedule_uses / sizeof *schedule_uses; i++)
        if (advice_is_in_file(space, schedule_uses[i].key) && is_idle(space, candidate, schedule_uses[i].key))
            add(list, memory_format("%s=", schedule_uses[i].key));
    if (advice_is_in_file(space, "step.bucket") && is_idle(space, candidate, "step.bucket"))
        add(list, memory_text("step.bucket="));
}

char **advice_overrides(const struct advice_space *space, const struct question *question, size_t candidate,
                        size_t *count)
{
    struct override_list list = {.count = 0};
    for (size_t i = 0; i < question->n_overrides; i++) {
        bool knob = false;
        for (size_t k = 0; k < space->n_knobs; k++)
            knob |= is_about(question->overrides[i], space->knobs[k].key);
        for (size_t k = 0; k < sizeof schedule_uses / sizeof *schedule_uses; k++)
            knob |= is_about(question->overrides[i], schedule_uses[k].key) &&
                    is_idle(space, candidate, schedule_uses[k].key);
        if (!knob)
            add(&list, memory_text(question->overrides[i]));
    }
    for (size_t k = 0; k < space->n_knobs; k++) {
        const char *value = advice_value(space, candidate, k);
        if (value)
            add(&list, memory_format("%s=%s", space->knobs[k].key, value));
        else if (space->knobs[k].written)
            add(&list, memory_format("%s=", space->knobs[k].key));
    }
    add_idle(space, candidate, &list);
    *count = list.count;
    return list.items;
}

void advice_overrides_free(char **overrides, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(overrides[i]);
    free(overrides);
}

/* The keys of [schedule] that the candidate's algorithm does not look at in this case are taken back too. */
static void take_back_idle(const struct advice_space *space, const struct experiment *experiment,
                           struct override_list *list)
{
    struct schedule schedule;
    struct diagnostics idle, ignored;
    diagnostics_init(&idle);
    diagnostics_init(&ignored);
    bool fine = schedule_init(&schedule, experiment, &idle, &ignored);
    for (size_t i = 0; fine && i < sizeof schedule_uses / sizeof *schedule_uses; i++) {
        const char *key = schedule_uses[i].key;
        bool written = experiment_key_line(experiment, "schedule", strchr(key, '.') + 1) != 0;
        if (!written || !algorithm_ignores(&schedule, schedule_uses[i].bit))
            continue;
        size_t kept = 0;
        for (size_t k = 0; k < list->count; k++)
            if (is_about(list->items[k], key))
                free(list->items[k]);
            else
                list->items[kept++] = list->items[k];
        list->count = kept;
        if (advice_is_in_file(space, key))
            add(list, memory_format("%s=", key));
    }
    if (fine)
        schedule_fini(&schedule);
    diagnostics_fini(&idle);
    diagnostics_fini(&ignored);
}

char *advice_command(const struct advice_space *space, const struct question *question, size_t candidate)
{
    struct question asked = *question;
    struct override_list list = {0};
    list.items = advice_overrides(space, question, candidate, &list.count);
    list.capacity = list.count;
    asked.overrides = (const char *const *)list.items;
    asked.n_overrides = list.count;
    struct question_overrides mine = question_overrides(&asked, &experiment_file);
    struct experiment experiment;
    struct diagnostics ignored;
    diagnostics_init(&ignored);
    if (experiment_read(&experiment, space->base.path, mine.items, mine.count, &ignored)) {
        take_back_idle(space, &experiment, &list);
        experiment_fini(&experiment);
    }
    diagnostics_fini(&ignored);
    free(mine.items);
    asked.overrides = (const char *const *)list.items;
    asked.n_overrides = list.count;
    char *command = question_command(&asked, NULL, 0);
    advice_overrides_free(list.items, list.count);
    return command;
}
