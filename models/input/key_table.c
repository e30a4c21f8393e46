/* key_table.c - reads sections against their tables, and says what is wrong in the words of the table. */
#include "models/input/key_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

/* --- did you mean ------------------------------------------------------------------------------------------------- */

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#define NEAREST_WORD_MAX 64

/* Edits (insert, delete, replace, swap neighbours) from a to b, without regard to case; both at most NEAREST_WORD_MAX
 * long. Three rows of the usual table suffice: a swap looks two rows back. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_WORD_MAX + 1];
    size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = j;
    size_t i = 0;
    for (; a[i]; i++) {
        const size_t *above = rows[i % 3], *two_above = rows[(i + 2) % 3];
        size_t *row = rows[(i + 1) % 3];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t replace = above[j] + (lower(a[i]) != lower(b[j]));
            row[j + 1] = smaller(replace, smaller(above[j + 1], row[j]) + 1);
            if (i > 0 && j > 0 && lower(a[i]) == lower(b[j - 1]) && lower(a[i - 1]) == lower(b[j]))
                row[j + 1] = smaller(row[j + 1], two_above[j - 1] + 1);
        }
    }
    return rows[i % 3][n];
}

const char *key_table_nearest(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    size_t length = strlen(word);
    size_t best = length < 3 ? 1 : length / 3 + 1; /* so many edits or fewer look like a slip of the fingers */
    if (length > NEAREST_WORD_MAX)
        return NULL;
    for (; *words; words++) {
        if (strlen(*words) > NEAREST_WORD_MAX)
            continue;
        size_t distance = edit_distance(word, *words);
        if (distance < best || (distance == best && !nearest)) {
            best = distance;
            nearest = *words;
        }
    }
    return best < length ? nearest : NULL; /* nothing in common is no likeness */
}

char *key_table_suggestion(const char *word, const char *const *words)
{
    const char *nearest = key_table_nearest(word, words);
    if (nearest)
        return memory_format(", did you mean '%s'?", nearest);
    char *list = memory_text(words[0] ? ", expected" : "");
    for (size_t i = 0; words[i]; i++) {
        const char *joint = i == 0 ? "" : words[i + 1] ? "," : " or";
        char *longer = memory_format("%s%s %s", list, joint, words[i]);
        free(list);
        list = longer;
    }
    return list;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* One value to be stored, and where to complain about it. */
struct reading {
    const struct ini_document *document;
    const struct ini_section *section;
    const struct ini_entry *entry; /* NULL: the default */
    const struct key_spec *key;
    struct diagnostics *diag;
};

static bool bad_value(const struct reading *reading, const char *text, const char *expected)
{
    return ini_document_complain(reading->document, reading->section, reading->entry, reading->diag,
                                 "'%s' is '%s', expected %s", reading->key->name, text, expected);
}

static void print_bound(const struct key_spec *key, double bound, char *text, size_t size)
{
    if (key->type == KEY_QUANTITY)
        units_print(text, size, key->dimension, bound);
    else
        snprintf(text, size, "%.0f", bound);
}

static bool in_range(const struct reading *reading, const char *text, double value)
{
    const struct key_spec *key = reading->key;
    bool any = fabs(key->minimum) + fabs(key->maximum) == 0;
    if (any || (value >= key->minimum && value <= key->maximum))
        return true;
    char minimum[40], maximum[40], expected[100];
    print_bound(key, key->minimum, minimum, sizeof minimum);
    print_bound(key, key->maximum, maximum, sizeof maximum);
    if (isinf(key->maximum))
        snprintf(expected, sizeof expected, "at least %s", minimum);
    else
        snprintf(expected, sizeof expected, "%s to %s", minimum, maximum);
    return bad_value(reading, text, expected);
}

static bool read_count(const struct reading *reading, const char *text, uint64_t *count)
{
    if (!units_parse_count(text, count))
        return bad_value(reading, text, "a whole number such as 131072 or 128Ki");
    if (!in_range(reading, text, (double)*count))
        return false;
    if (reading->key->type == KEY_COUNT32 && *count > UINT32_MAX)
        return bad_value(reading, text, "at most 4294967295");
    return true;
}

static const char *const no_yes[] = {"no", "yes", NULL};

static const char *const *words_of(const struct key_spec *key)
{
    return key->type == KEY_YES_NO && !key->choices ? no_yes : key->choices;
}

static bool read_choice(const struct reading *reading, const char *text, int *index)
{
    const char *const *choices = words_of(reading->key);
    for (int i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *index = i;
            return true;
        }
    }
    char *hint = key_table_suggestion(text, choices);
    ini_document_complain(reading->document, reading->section, reading->entry, reading->diag, "'%s' is '%s'%s",
                          reading->key->name, text, hint);
    free(hint);
    return false;
}

static bool read_text(const struct reading *reading, const char *text, char *target)
{
    size_t size = reading->key->size;
    if (strlen(text) < size) {
        strcpy(target, text);
        return true;
    }
    char expected[40];
    snprintf(expected, sizeof expected, "at most %zu characters", size - 1);
    return bad_value(reading, text, expected);
}

static bool read_value(const struct reading *reading, const char *text, void *target)
{
    const struct key_spec *key = reading->key;
    char *place = (char *)target + key->offset;
    uint64_t count;
    double quantity;
    int index;
    const char *expected = key->form;
    switch (key->type) {
    case KEY_TEXT:
        return read_text(reading, text, place);
    case KEY_COUNT32:
        if (!read_count(reading, text, &count))
            return false;
        memcpy(place, &(uint32_t){(uint32_t)count}, sizeof(uint32_t));
        return true;
    case KEY_COUNT64:
        if (!read_count(reading, text, &count))
            return false;
        memcpy(place, &count, sizeof count);
        return true;
    case KEY_QUANTITY:
        if (!units_parse(text, key->dimension, &quantity))
            return bad_value(reading, text, units_expected(key->dimension));
        if (!in_range(reading, text, quantity))
            return false;
        memcpy(place, &quantity, sizeof quantity);
        return true;
    case KEY_CHOICE:
        if (!read_choice(reading, text, &index))
            return false;
        memcpy(place, &index, sizeof index);
        return true;
    case KEY_YES_NO:
        if (!read_choice(reading, text, &index))
            return false;
        memcpy(place, &(bool){index != 0}, sizeof(bool));
        return true;
    case KEY_CUSTOM:
        return key->parse(place, text, &expected) || bad_value(reading, text, expected);
    }
    return false;
}

/* The names of the section's keys, NULL behind them; the caller frees the array. */
static const char **key_names(const struct section_spec *spec)
{
    const char **names = memory_zeroed(spec->n_keys + 1, sizeof *names);
    for (size_t i = 0; i < spec->n_keys; i++)
        names[i] = spec->keys[i].name;
    return names;
}

static bool unknown_key(const struct section_spec *spec, const struct reading *reading)
{
    const char **names = key_names(spec);
    char *hint = key_table_suggestion(reading->entry->key, names);
    ini_document_complain(reading->document, reading->section, reading->entry, reading->diag,
                          "unknown key '%s' in [%s]%s", reading->entry->key, reading->section->name, hint);
    free(hint);
    free(names);
    return false;
}

static const struct key_spec *find_key(const struct section_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_keys; i++) {
        if (strcmp(spec->keys[i].name, name) == 0)
            return &spec->keys[i];
    }
    return NULL;
}

/* Whether a key that is none looks like `key`, mistyped. */
static bool is_mistyped(const struct section_spec *spec, const struct ini_section *section, const char *key)
{
    bool mistyped = false;
    const char **names = key_names(spec);
    for (size_t i = 0; i < section->n_entries && !mistyped; i++) {
        const char *nearest =
            find_key(spec, section->entries[i].key) ? NULL : key_table_nearest(section->entries[i].key, names);
        mistyped = nearest && strcmp(nearest, key) == 0;
    }
    free(names);
    return mistyped;
}

bool key_table_read(const struct section_spec *spec, const struct ini_document *document,
                    const struct ini_section *section, void *target, struct diagnostics *diag)
{
    bool ok = true;
    struct reading reading = {.document = document, .section = section, .diag = diag};
    for (size_t i = 0; section && i < section->n_entries; i++) { /* in the order of the file, and so are the messages */
        reading.entry = &section->entries[i];
        reading.key = find_key(spec, reading.entry->key);
        if (!reading.key)
            ok = unknown_key(spec, &reading);
        else if (!read_value(&reading, reading.entry->value, target)) {
            ini_section_refuse(section, reading.key->name);
            ok = false;
        }
    }
    reading.entry = NULL;
    for (size_t i = 0; i < spec->n_keys; i++) {
        reading.key = &spec->keys[i];
        const char *fallback = reading.key->fallback;
        if (section && ini_section_entry(section, reading.key->name))
            continue;
        if (fallback && *fallback) {
            if (!read_value(&reading, fallback, target))
                ok = false;
        } else if (!fallback) {
            ok = false;
            bool refused = document->incomplete || (section && is_mistyped(spec, section, reading.key->name));
            if (!refused) /* the line that was may have been that key's */
                ini_document_complain(document, section, NULL, diag, "[%s] has no key '%s', expected %s",
                                      section ? section->name : spec->name, reading.key->name,
                                      reading.key->form ? reading.key->form : reading.key->help);
        }
    }
    return ok;
}

bool key_table_knows(const struct section_spec *spec, const struct ini_document *document, const char *key)
{
    const struct ini_section *section = ini_document_section(document, spec->name);
    const struct ini_entry *entry = section ? ini_section_entry(section, key) : NULL;
    if (entry)
        return !entry->refused;
    if (document->incomplete)
        return false;
    return section ? !is_mistyped(spec, section, key) : !spec->required;
}

void key_table_print_value(const struct key_spec *key, const void *target, char *text, size_t size)
{
    const char *place = (const char *)target + key->offset;
    switch (key->type) {
    case KEY_TEXT:
        snprintf(text, size, "%s", place);
        break;
    case KEY_COUNT32:
        snprintf(text, size, "%" PRIu32, *(const uint32_t *)(const void *)place);
        break;
    case KEY_COUNT64:
        snprintf(text, size, "%" PRIu64, *(const uint64_t *)(const void *)place);
        break;
    case KEY_QUANTITY:
        units_print_exact(text, size, key->dimension, *(const double *)(const void *)place);
        break;
    case KEY_CHOICE:
        snprintf(text, size, "%s", key->choices[*(const int *)(const void *)place]);
        break;
    case KEY_YES_NO:
        snprintf(text, size, "%s", words_of(key)[*(const bool *)(const void *)place ? 1 : 0]);
        break;
    case KEY_CUSTOM:
        key->print(place, text, size);
        break;
    }
}
