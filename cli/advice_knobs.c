/* advice_knobs.c - see advice_knobs.h. */
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

/* Whether an override ("key=value") or an argument is about `key`. */
static bool is_about(const char *text, const char *key)
{
    size_t length = strlen(key);
    return strncmp(text, key, length) == 0 && text[length + strspn(text + length, " \t")] == '=';
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

/* Whether the file itself has the key, whatever overrides make of it. */
static bool is_in_file(const struct advice_space *space, const char *key)
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
        space->knobs[i].written = is_in_file(space, space->knobs[i].key);
    return fine;
}

void advice_space_fini(struct advice_space *space)
{
    for (size_t i = 0; i < space->n_knobs; i++) {
        for (size_t v = 0; v < space->knobs[i].n_values; v++)
            free(space->knobs[i].values[v]);
        free(space->knobs[i].values);
        free(space->knobs[i].key);
    }
    free(space->candidates);
    if (space->document)
        ini_document_destroy(space->document);
    if (space->base.path)
        experiment_fini(&space->base);
    if (space->topology.path)
        topology_fini(&space->topology);
    *space = (struct advice_space){.n_knobs = 0};
}

/* ---- candidates as overrides ---- */

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
        if (is_in_file(space, schedule_uses[i].key) && is_idle(space, candidate, schedule_uses[i].key))
            add(list, memory_format("%s=", schedule_uses[i].key));
    if (is_in_file(space, "step.bucket") && is_idle(space, candidate, "step.bucket"))
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
        if (is_in_file(space, key))
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

/* ---- names ---- */

char *advice_algorithm(const struct advice_space *space, size_t candidate)
{
    const char *algorithm = advice_value(space, candidate, KNOB_ALGORITHM);
    const char *degree = advice_value(space, candidate, KNOB_ULYSSES_DEGREE);
    const char *window = advice_value(space, candidate, KNOB_RING_WINDOW);
    const char *inner = advice_value(space, candidate, KNOB_INNER);
    const char *cp = advice_value(space, candidate, KNOB_CP);
    if (cp && strcmp(cp, "1") == 0)
        return memory_text("-");
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text(algorithm);
    fputs(algorithm, stream);
    if (degree)
        fprintf(stream, " u%s", degree);
    if (window)
        fprintf(stream, " w%s", window);
    if (inner && strcmp(inner, "ring") == 0)
        fputs(" ring inside", stream);
    fclose(stream);
    return text;
}

char *advice_name(const struct advice_space *space, size_t candidate)
{
    char *text = NULL, *algorithm = advice_algorithm(space, candidate);
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return algorithm;
    fprintf(stream, "tp %s x cp %s x dp %s", advice_value(space, candidate, KNOB_TP),
            advice_value(space, candidate, KNOB_CP), advice_value(space, candidate, KNOB_DP));
    const char *sharding = advice_value(space, candidate, KNOB_SHARDING);
    if (strcmp(algorithm, "-") != 0)
        fprintf(stream, ", %s, %s", algorithm, sharding);
    static const struct {
        size_t knob;
        const char *format, *silent; /* a value that goes without saying */
    } parts[] = {{KNOB_ORDER, ", order %s", "tp,cp,dp"},
                 {KNOB_RING, ", ring %s", "natural"},
                 {KNOB_ZERO, ", ZeRO %s", NULL},
                 {KNOB_RECOMPUTE, ", recompute %s", NULL},
                 {KNOB_SEQUENCE_PARALLEL, ", sequence parallel %s", "yes"},
                 {KNOB_MICRO_BATCHES, ", %s micro-batches", "1"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *value = advice_value(space, candidate, parts[i].knob);
        if (value && !(parts[i].silent && strcmp(value, parts[i].silent) == 0))
            fprintf(stream, parts[i].format, value);
    }
    for (size_t k = KNOB_KINDS; k < space->n_knobs; k++)
        if (advice_value(space, candidate, k))
            fprintf(stream, ", %s %s", strrchr(space->knobs[k].key, '.') + 1, advice_value(space, candidate, k));
    fclose(stream);
    free(algorithm);
    return text;
}
