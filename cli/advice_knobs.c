/* advice_knobs.c - see advice_knobs.h. What every candidate would be refused for is refused here. */
#include "cli/advice_knobs.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/input/units.h"
#include "models/schedule/algorithms/algorithm.h"

static const char *const keys[KNOB_KINDS] = {
    [KNOB_TP] = "parallel.tp",
    [KNOB_CP] = "parallel.cp",
    [KNOB_DP] = "parallel.dp",
    [KNOB_BATCH] = "workload.batch",
    [KNOB_MICRO_BATCHES] = "step.micro_batches",
    [KNOB_ORDER] = "parallel.order",
    [KNOB_RING] = "parallel.ring",
    [KNOB_ALGORITHM] = "schedule.algorithm",
    [KNOB_SHARDING] = "schedule.sharding",
    [KNOB_ULYSSES_DEGREE] = "schedule.ulysses_degree",
    [KNOB_RING_WINDOW] = "schedule.ring_window",
    [KNOB_INNER] = "schedule.inner",
    [KNOB_SEQUENCE_PARALLEL] = "step.sequence_parallel",
    [KNOB_RECOMPUTE] = "step.recompute",
    [KNOB_ZERO] = "step.zero",
};

uint16_t advice_knob_intern(struct advice_knob *knob, const char *value)
{
    for (size_t i = 0; i < knob->n_values; i++)
        if (strcmp(knob->values[i], value) == 0)
            return (uint16_t)(1 + i);
    memory_grow(knob->values, knob->n_values, knob->capacity);
    knob->values[knob->n_values++] = memory_text(value);
    return (uint16_t)knob->n_values;
}

bool advice_knob_allows(const struct advice_knob *knob, uint64_t value)
{
    if (!knob->typed && !knob->fixed)
        return true;
    for (size_t i = 0; i < knob->n_values; i++) {
        uint64_t count;
        if (units_parse_count(knob->values[i], &count) && count == value)
            return true;
    }
    return false;
}

static struct advice_knob *find_knob(struct advice_space *space, const char *key)
{
    for (size_t i = 0; i < space->n_knobs; i++)
        if (strcmp(space->knobs[i].key, key) == 0)
            return &space->knobs[i];
    return NULL;
}

static const struct key_spec *find_key(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t s = 0; dot && experiment_file.sections[s]; s++) {
        const struct section_spec *section = experiment_file.sections[s];
        bool same =
            strlen(section->name) == (size_t)(dot - name) && strncmp(section->name, name, (size_t)(dot - name)) == 0;
        for (size_t k = 0; same && !section->aside && k < section->n_keys; k++)
            if (strcmp(section->keys[k].name, dot + 1) == 0)
                return &section->keys[k];
    }
    return NULL;
}

/* ---- --vary ---- */

/* The next value of a list; moves `*list` behind it, to NULL after the last. */
static char *next_value(const char **list, char separator)
{
    const char *begin = *list, *end = strchrnul(begin, separator);
    *list = *end ? end + 1 : NULL;
    begin += strspn(begin, " ");
    while (end > begin && end[-1] == ' ')
        end--;
    return memory_format("%.*s", (int)(end - begin), begin);
}

static bool take_values(struct advice_knob *knob, const char *text, const char *list, struct diagnostics *diag)
{
    bool fine = true;
    char separator = strchr(list, ';') ? ';' : ',';
    while (list && fine) {
        char *value = next_value(&list, separator);
        size_t before = knob->n_values;
        bool trailing = !list && separator == ';' && before > 0 && *value == '\0';
        if (*value == '\0' && !trailing)
            fine = diagnostics_add(diag, "--vary '%s' has an empty value", text);
        else if (!trailing && advice_knob_intern(knob, value) <= before)
            fine = diagnostics_add(diag, "--vary '%s' has the value '%s' twice", text, value);
        else if (knob->key == NULL)
            fine = false;
        free(value);
    }
    return fine;
}

/* What the reader of an experiment would refuse in every candidate is refused here. */
static bool check_values(const struct advice_knob *knob, const char *text, struct diagnostics *diag)
{
    bool fine = true;
    bool counts = knob->key && (strcmp(knob->key, keys[KNOB_TP]) == 0 || strcmp(knob->key, keys[KNOB_CP]) == 0 ||
                                strcmp(knob->key, keys[KNOB_DP]) == 0 || strcmp(knob->key, keys[KNOB_BATCH]) == 0 ||
                                strcmp(knob->key, keys[KNOB_MICRO_BATCHES]) == 0);
    for (size_t i = 0; i < knob->n_values; i++) {
        uint64_t count;
        if (counts && !(units_parse_count(knob->values[i], &count) && count > 0))
            fine = diagnostics_add(diag, "--vary '%s': '%s', expected a count from 1 on", text, knob->values[i]);
        if (strcmp(knob->key, keys[KNOB_ALGORITHM]) == 0 && !algorithm_find(knob->values[i]))
            fine = diagnostics_add(diag, "--vary '%s': no algorithm '%s' (see cpsim --list algorithms)", text,
                                   knob->values[i]);
    }
    return fine;
}

/* What is asked: candidates that differ there answer different questions, and their times cannot be compared. */
static bool is_of_the_question(const char *key)
{
    return (strncmp(key, "model.", 6) == 0 && strcmp(key, "model.dtype") != 0) ||
           (strncmp(key, "workload.", 9) == 0 && strcmp(key, "workload.batch") != 0);
}

static bool take_vary(struct advice_space *space, const char *text, struct diagnostics *diag)
{
    const char *equals = strchr(text, '=');
    char *key = memory_format("%.*s", equals ? (int)(equals - text) : 0, text);
    key[strcspn(key, " ")] = '\0';
    struct advice_knob *knob = find_knob(space, key);
    bool fine = true;
    if (!equals || !find_key(key))
        fine = diagnostics_add(diag,
                               "--vary '%s', expected a key of an experiment, section.key=v1,v2,... (see cpsim "
                               "--list keys)",
                               text);
    else if (is_of_the_question(key))
        fine = diagnostics_add(diag,
                               "--vary %s: what is asked and not how it is done, expected another key, or an advice "
                               "for each with --set %s=...",
                               key, key);
    else if (knob && knob->typed)
        fine = diagnostics_add(diag, "--vary %s is given twice", key);
    else if (!knob && space->n_knobs == ADVICE_KNOBS_MAX)
        fine = diagnostics_add(diag, "--vary %s: more than %d keys beyond those that are varied anyway", key,
                               ADVICE_KNOBS_MAX - KNOB_KINDS);
    if (fine && !knob) {
        knob = &space->knobs[space->n_knobs++];
        *knob = (struct advice_knob){.key = memory_text(key)};
    }
    if (fine) {
        knob->typed = true;
        fine = take_values(knob, text, equals + 1, diag) && check_values(knob, text, diag);
    }
    free(key);
    return fine;
}

/* ---- --fix ---- */

struct asked_value {
    const char *key;
    char *text;
};

static void take_effective(void *context, const char *section, const char *key, const char *value)
{
    struct asked_value *asked = context;
    size_t length = strlen(section);
    if (strncmp(asked->key, section, length) == 0 && asked->key[length] == '.' &&
        strcmp(asked->key + length + 1, key) == 0)
        asked->text = memory_text(value);
}

static bool take_fix(struct advice_space *space, const char *key, struct diagnostics *diag)
{
    struct advice_knob *knob = find_knob(space, key);
    if (!knob) {
        const char *names[KNOB_KINDS + 1] = {NULL};
        memcpy(names, keys, sizeof keys);
        char *hint = key_table_suggestion(key, names);
        diagnostics_add(diag, "--fix %s: no key that is varied%s", key, hint);
        free(hint);
        return false;
    }
    if (knob->typed || knob->fixed)
        return diagnostics_add(diag, "--fix %s: the key is given twice", key);
    struct asked_value asked = {.key = key};
    experiment_each_value(&space->base, take_effective, &asked);
    knob->fixed = true;
    if (asked.text)
        advice_knob_intern(knob, asked.text);
    free(asked.text);
    return true;
}

/* ---- the files ---- */

static bool read_base(struct advice_space *space, const struct question *question, struct diagnostics *diag)
{
    struct question_overrides mine = question_overrides(question, &experiment_file);
    char *path = question_file("experiments", question->experiment_path, diag);
    bool fine = path && experiment_read(&space->base, path, mine.items, mine.count, diag);
    if (fine)
        space->document = ini_document_read(path, diag);
    free(path);
    free(mine.items);
    return fine;
}

static bool read_cluster(struct advice_space *space, const struct question *question, struct diagnostics *diag)
{
    struct question_overrides mine = question_overrides(question, &topology_file);
    char *path = question_file("topologies", question->topology_path, diag);
    bool fine = path && topology_read(&space->topology, path, mine.items, mine.count, diag);
    free(path);
    free(mine.items);
    return fine;
}

static void name_knobs(struct advice_space *space)
{
    for (size_t i = 0; i < KNOB_KINDS; i++)
        space->knobs[i] = (struct advice_knob){.key = memory_text(keys[i])};
    space->n_knobs = KNOB_KINDS;
}

bool advice_is_in_file(const struct advice_space *space, const char *key)
{
    char *name = memory_text(key), *dot = strrchr(name, '.');
    *dot = '\0';
    const struct ini_section *section = space->document ? ini_document_section(space->document, name) : NULL;
    bool found = section && ini_section_entry(section, dot + 1);
    free(name);
    return found;
}

bool advice_knobs_read(struct advice_space *space, const struct question *question, const struct advice_wish *wish,
                       struct diagnostics *diag)
{
    name_knobs(space);
    bool fine = question_check_overrides(question, diag);
    bool base = read_base(space, question, diag);
    fine &= base;
    fine &= read_cluster(space, question, diag);
    for (size_t i = 0; i < wish->n_vary; i++)
        fine &= take_vary(space, wish->vary[i], diag);
    for (size_t i = 0; base && i < wish->n_fix; i++)
        fine &= take_fix(space, wish->fix[i], diag);
    for (size_t i = 0; base && i < space->n_knobs; i++)
        space->knobs[i].written = advice_is_in_file(space, space->knobs[i].key);
    return fine;
}
