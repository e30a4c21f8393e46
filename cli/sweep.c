/* sweep.c - what was typed for --sweep, read: keys, their values, and the points that they make. */
#include "cli/sweep.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/base/memory.h"

/* The next value of a list; moves `*list` behind it, to NULL after the last. */
static char *next_value(const char **list, char separator)
{
    const char *begin = *list, *end = strchrnul(begin, separator);
    *list = *end ? end + 1 : NULL;
    while (begin < end && *begin == ' ')
        begin++;
    while (end > begin && end[-1] == ' ')
        end--;
    return memory_format("%.*s", (int)(end - begin), begin);
}

static int compare_values(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Lists may be long: sorted, equal values stand side by side. */
static bool check_different(const struct sweep_key *key, const char *text, struct diagnostics *diag)
{
    bool fine = true;
    char **sorted = memory_zeroed(key->n_values, sizeof *sorted);
    memcpy(sorted, key->values, key->n_values * sizeof *sorted);
    qsort(sorted, key->n_values, sizeof *sorted, compare_values);
    for (size_t i = 1; i < key->n_values; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0 && *sorted[i])
            fine = diagnostics_add(diag, "sweep '%s' has the value '%s' twice", text, sorted[i]);
    free(sorted);
    return fine;
}

static bool key_init(struct sweep_key *key, const char *text, struct diagnostics *diag)
{
    const char *equals = strchr(text, '=');
    *key = (struct sweep_key){0};
    if (!equals || equals == text || !memchr(text, '.', (size_t)(equals - text)))
        return diagnostics_add(diag, "sweep '%s', expected section.key=v1,v2,...", text);
    const char *name_end = equals;
    while (name_end > text && name_end[-1] == ' ')
        name_end--;
    key->name = memory_format("%.*s", (int)(name_end - text), text);
    key->of_experiment = key_table_owns_override(&experiment_file, text);
    const char *list = equals + 1;
    char separator = strchr(list, ';') ? ';' : ',';
    bool fine = true;
    size_t capacity = 0;
    while (list) {
        char *value = next_value(&list, separator);
        bool trailing = !list && separator == ';' && key->n_values > 0 && *value == '\0'; /* "a,b;": one value */
        if (*value == '\0' && !trailing)
            fine = diagnostics_add(diag, "sweep '%s' has an empty value", text);
        if (trailing) {
            free(value);
            break;
        }
        memory_grow(key->values, key->n_values, capacity);
        key->values[key->n_values++] = value;
    }
    return check_different(key, text, diag) && fine;
}

static bool overrides_key(const char *override, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(override, name, length) != 0)
        return false;
    const char *rest = override + length;
    return rest[strspn(rest, " ")] == '=';
}

/* A key has one list of values, and none of its own from --set. */
static bool check_unique(const struct sweep *sweep, const struct question *base, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < sweep->n_keys; i++) {
        const char *name = sweep->keys[i].name;
        for (size_t k = 0; name && k < i; k++)
            if (sweep->keys[k].name && strcmp(sweep->keys[k].name, name) == 0)
                fine = diagnostics_add(diag, "'%s' is swept twice", name);
        for (size_t k = 0; name && k < base->n_overrides; k++)
            if (overrides_key(base->overrides[k], name))
                fine = diagnostics_add(diag, "'%s' is both swept and set", name);
    }
    return fine;
}

/* Every point reads the files. */
static bool check_repeatable(const char *path, struct diagnostics *diag)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISFIFO(status.st_mode))
        return true;
    return diagnostics_at(diag, path, 0, "a pipe, which only one point of the sweep could read, expected a file");
}

/* Whether the first point is of whole layers, as far as it can be read, or the scope is swept. */
static bool has_layers(const struct sweep *sweep, const struct question *base)
{
    struct question first = *base;
    const char **overrides = memory_zeroed(base->n_overrides + sweep->n_keys, sizeof *overrides);
    char **own = memory_zeroed(sweep->n_keys, sizeof *own);
    bool layers = false;
    for (size_t i = 0; i < base->n_overrides; i++)
        overrides[i] = base->overrides[i];
    for (size_t i = 0; i < sweep->n_keys; i++) {
        layers |= strcmp(sweep->keys[i].name, "workload.scope") == 0;
        own[i] = memory_format("%s=%s", sweep->keys[i].name, sweep->keys[i].values[0]);
        overrides[base->n_overrides + i] = own[i];
    }
    first.overrides = overrides;
    first.n_overrides += sweep->n_keys;
    struct diagnostics unsaid; /* the point itself says it */
    diagnostics_init(&unsaid);
    struct question_overrides mine = question_overrides(&first, &experiment_file);
    struct experiment experiment;
    char *path = layers ? NULL : question_file("experiments", base->experiment_path, &unsaid);
    if (path && experiment_read(&experiment, path, mine.items, mine.count, &unsaid)) {
        layers = experiment.step.scope != SCOPE_ATTENTION;
        experiment_fini(&experiment);
    }
    diagnostics_fini(&unsaid);
    free(path);
    free(mine.items);
    for (size_t i = 0; i < sweep->n_keys; i++)
        free(own[i]);
    free(own);
    free(overrides);
    return layers;
}

bool sweep_init(struct sweep *sweep, const char *const *texts, size_t n_texts, const struct question *base,
                struct diagnostics *diag)
{
    *sweep = (struct sweep){
        .keys = memory_zeroed(n_texts, sizeof *sweep->keys), .n_keys = n_texts, .n_points = 1, .texts = texts};
    bool fine = true, small = true;
    for (size_t i = 0; i < n_texts; i++) {
        fine &= key_init(&sweep->keys[i], texts[i], diag);
        small = small && !__builtin_mul_overflow(sweep->n_points, sweep->keys[i].n_values, &sweep->n_points) &&
                sweep->n_points <= SWEEP_POINTS_MAX;
    }
    if (!small)
        fine = diagnostics_add(diag, "the sweep has more than %d points", SWEEP_POINTS_MAX);
    fine &= check_repeatable(base->topology_path, diag);
    fine &= check_repeatable(base->experiment_path, diag);
    fine &= check_unique(sweep, base, diag);
    sweep->layers = fine && has_layers(sweep, base);
    return fine;
}

void sweep_fini(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->n_keys; i++) {
        for (size_t k = 0; k < sweep->keys[i].n_values; k++)
            free(sweep->keys[i].values[k]);
        free(sweep->keys[i].values);
        free(sweep->keys[i].name);
    }
    free(sweep->keys);
}

/* The index of the value of key `key` at point `point`. */
static size_t value_at(const struct sweep *sweep, size_t point, size_t key)
{
    size_t below = 1; /* points between two neighbouring values of this key */
    for (size_t i = key + 1; i < sweep->n_keys; i++)
        below *= sweep->keys[i].n_values;
    return point / below % sweep->keys[key].n_values;
}

const char *sweep_value(const struct sweep *sweep, size_t point, size_t key)
{
    return sweep->keys[key].values[value_at(sweep, point, key)];
}

size_t sweep_experiment(const struct sweep *sweep, size_t point)
{
    size_t experiment = 0;
    for (size_t i = 0; i < sweep->n_keys; i++)
        if (sweep->keys[i].of_experiment)
            experiment = experiment * sweep->keys[i].n_values + value_at(sweep, point, i);
    return experiment;
}
