/* experiment_values.c - values that only an experiment has: lists of counts, masks, shardings, order of dimensions. */
#include "models/input/experiment_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/experiment.h"
#include "models/input/key_table.h"

/* --- lists of counts: "4096*32,1024" ------------------------------------------------------------------------------ */

#define LIST_MAX (UINT64_C(1) << 20)

struct counts {
    uint64_t *values;
    size_t n, capacity;
};

/* One item, "4096" or "4096*32". Works in place. */
static bool parse_item(char *item, struct counts *counts)
{
    item += strspn(item, " \t");
    char *times = strchr(item, '*');
    uint64_t value, repeat = 1;
    if (times) {
        *times++ = '\0';
        times += strspn(times, " \t");
    }
    for (char *part = item; part; part = part == item ? times : NULL) {
        for (size_t length = strlen(part); length > 0 && (part[length - 1] == ' ' || part[length - 1] == '\t');)
            part[--length] = '\0';
    }
    if (!units_parse_count(item, &value) || (times && !units_parse_count(times, &repeat)))
        return false;
    if (repeat == 0 || repeat > LIST_MAX - counts->n || value > SEQ_LEN_MAX)
        return false;
    for (uint64_t i = 0; i < repeat; i++) {
        memory_grow(counts->values, counts->n, counts->capacity);
        counts->values[counts->n++] = value;
    }
    return true;
}

/* False when `text` is no list of counts; the caller frees counts->values either way. */
static bool parse_counts(const char *text, struct counts *counts)
{
    char *copy = memory_text(text);
    bool ok = true;
    for (char *item = copy; item && ok;) {
        char *comma = strchr(item, ',');
        if (comma)
            *comma++ = '\0';
        ok = parse_item(item, counts);
        item = comma;
    }
    free(copy);
    return ok;
}

/* Writes a list of counts behind `prefix`, runs of equal ones as "4096*32"; what does not fit is cut. */
static void print_counts(char *text, size_t size, const char *prefix, const uint64_t *values, size_t n)
{
    size_t used = (size_t)snprintf(text, size, "%s", prefix);
    for (size_t i = 0, run; i < n && used < size; i += run) {
        for (run = 1; i + run < n && values[i + run] == values[i];)
            run++;
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i ? "," : "", values[i]);
        if (run > 1 && used < size)
            used += (size_t)snprintf(text + used, size - used, "*%zu", run);
    }
}

/* --- values with a grammar of their own --------------------------------------------------------------------------- */

/* The expectation to go with an unknown word: `forms` is parallel to `words`, and ends with the one for no likeness. */
static const char *expectation(const char *text, const char *const *words, const char *const *forms)
{
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ":"), text);
    const char *nearest = key_table_nearest(word, words);
    size_t i = 0;
    while (words[i] && words[i] != nearest)
        i++;
    return forms[i];
}

static bool parse_documents(struct mask *mask, const char *list)
{
    struct counts counts = {0};
    uint64_t *starts = NULL;
    bool ok = parse_counts(list, &counts);
    if (ok) {
        starts = memory_zeroed(counts.n + 1, sizeof *starts);
        for (size_t i = 0; i < counts.n && ok; i++) {
            starts[i + 1] = starts[i] + counts.values[i];
            ok = counts.values[i] > 0 && starts[i + 1] <= SEQ_LEN_MAX;
        }
    }
    if (ok) {
        mask->kind = MASK_DOCUMENTS;
        mask->document_starts = starts;
        mask->n_documents = counts.n;
    } else {
        free(starts);
    }
    free(counts.values);
    return ok;
}

bool experiment_parse_mask(void *place, const char *text, const char **expected)
{
    static const char *const words[] = {"full", "causal", "window", "documents", NULL};
    static const char *const forms[] = {
        MASK_FORM ", did you mean 'full'?",
        MASK_FORM ", did you mean 'causal'?",
        "window:N with N keys from 1 to 2147483648, such as window:4096",
        "lengths of 1 or more that sum to seq_len, at most 1048576 of them, such as " DOCUMENTS_FORM,
        MASK_FORM,
    };
    struct mask *mask = place;
    uint64_t window;
    if (strcmp(text, "full") == 0) {
        mask->kind = MASK_FULL;
    } else if (strcmp(text, "causal") == 0) {
        mask->kind = MASK_CAUSAL;
    } else if (strncmp(text, "window:", 7) == 0 && units_parse_count(text + 7, &window) && window > 0 &&
               window <= SEQ_LEN_MAX) {
        mask->kind = MASK_WINDOW;
        mask->window = window;
    } else if (strncmp(text, "documents:", 10) != 0 || !parse_documents(mask, text + 10)) {
        *expected = expectation(text, words, forms);
        return false;
    }
    return true;
}

void experiment_print_mask(const void *place, char *text, size_t size)
{
    const struct mask *mask = place;
    switch (mask->kind) {
    case MASK_FULL:
        snprintf(text, size, "full");
        break;
    case MASK_CAUSAL:
        snprintf(text, size, "causal");
        break;
    case MASK_WINDOW:
        snprintf(text, size, "window:%" PRIu64, mask->window);
        break;
    case MASK_DOCUMENTS: {
        uint64_t *lengths = memory_zeroed(mask->n_documents, sizeof *lengths);
        for (size_t i = 0; i < mask->n_documents; i++)
            lengths[i] = mask->document_starts[i + 1] - mask->document_starts[i];
        print_counts(text, size, "documents:", lengths, mask->n_documents);
        free(lengths);
        break;
    }
    }
}

static const char *const sharding_words[] = {"contiguous", "zigzag", "striped", "per-document", NULL};

/* Either one of `words`, whose index goes to `*word`; or counts, which go to `*list` with `end` behind them, and
 * `*word` is that of the NULL behind the words. `forms`: what was expected, for a text that looks like each word, and
 * for others. */
static bool parse_word_or_counts(const char *text, const char *const *words, const char *const *forms, uint64_t end,
                                 size_t *word, uint64_t **list, const char **expected)
{
    for (*word = 0; words[*word]; ++*word)
        if (strcmp(text, words[*word]) == 0)
            return true;
    struct counts counts = {0};
    if (!parse_counts(text, &counts)) {
        free(counts.values);
        *expected = expectation(text, words, forms);
        return false;
    }
    memory_grow(counts.values, counts.n, counts.capacity);
    counts.values[counts.n] = end;
    *list = counts.values;
    return true;
}

bool experiment_parse_sharding(void *place, const char *text, const char **expected)
{
    static const char *const forms[] = {
        SHARDING_FORM ", did you mean 'contiguous'?",
        SHARDING_FORM ", did you mean 'zigzag'?",
        SHARDING_FORM ", did you mean 'striped'?",
        SHARDING_FORM ", did you mean 'per-document'?",
        SHARDING_FORM,
    };
    struct experiment *experiment = place;
    size_t word;
    if (!parse_word_or_counts(text, sharding_words, forms, SHARD_COUNTS_END, &word, &experiment->shard_counts,
                              expected))
        return false;
    experiment->sharding = sharding_words[word] ? (enum sharding_kind)word : SHARDING_EXPLICIT;
    return true;
}

void experiment_print_sharding(const void *place, char *text, size_t size)
{
    const struct experiment *experiment = place;
    if (experiment->sharding != SHARDING_EXPLICIT) {
        snprintf(text, size, "%s", sharding_words[experiment->sharding]);
        return;
    }
    print_counts(text, size, "", experiment->shard_counts, experiment->degree[PARALLEL_CP]);
}

static const char *const collective_words[] = {"ring", "direct", "hierarchical", NULL}; /* as enum collective_kind */

bool experiment_parse_collective(void *place, const char *text, const char **expected)
{
    static const char *const forms[] = {
        COLLECTIVE_FORM ", did you mean 'ring'?",
        COLLECTIVE_FORM ", did you mean 'direct'?",
        "hierarchical:N with N ranks of a node, at least 1, such as hierarchical:8",
        COLLECTIVE_FORM,
    };
    struct experiment *experiment = place;
    uint64_t node;
    if (strcmp(text, "ring") == 0) {
        experiment->collective = COLLECTIVE_RING;
    } else if (strcmp(text, "direct") == 0) {
        experiment->collective = COLLECTIVE_DIRECT;
    } else if (strncmp(text, "hierarchical:", 13) == 0 && units_parse_count(text + 13, &node) && node > 0 &&
               node <= UINT32_MAX) {
        experiment->collective = COLLECTIVE_HIERARCHICAL;
        experiment->collective_node = (uint32_t)node;
    } else {
        *expected = expectation(text, collective_words, forms);
        return false;
    }
    return true;
}

void experiment_print_collective(const void *place, char *text, size_t size)
{
    const struct experiment *experiment = place;
    if (experiment->collective == COLLECTIVE_HIERARCHICAL)
        snprintf(text, size, "hierarchical:%" PRIu32, experiment->collective_node);
    else
        snprintf(text, size, "%s", collective_words[experiment->collective]);
}

static const char *const dimension_words[] = {
    [PARALLEL_TP] = "tp", [PARALLEL_CP] = "cp", [PARALLEL_DP] = "dp", [PARALLEL_DIMENSIONS] = NULL};

bool experiment_parse_order(void *place, const char *text, const char **expected)
{
    (void)expected;
    enum parallel_dimension *order = place, found[PARALLEL_DIMENSIONS];
    bool seen[PARALLEL_DIMENSIONS] = {false};
    for (int i = 0; i < PARALLEL_DIMENSIONS; i++) {
        text += strspn(text, " \t");
        int d = 0;
        while (d < PARALLEL_DIMENSIONS && strncmp(text, dimension_words[d], 2) != 0)
            d++;
        if (d == PARALLEL_DIMENSIONS || seen[d])
            return false;
        seen[d] = true;
        found[i] = (enum parallel_dimension)d;
        text += 2;
        text += strspn(text, " \t");
        if (*text != (i + 1 < PARALLEL_DIMENSIONS ? ',' : '\0'))
            return false;
        text += *text != '\0';
    }
    memcpy(order, found, sizeof found);
    return true;
}

void experiment_print_order(const void *place, char *text, size_t size)
{
    const enum parallel_dimension *order = place;
    snprintf(text, size, "%s,%s,%s", dimension_words[order[0]], dimension_words[order[1]], dimension_words[order[2]]);
}

static const char *const ring_words[] = {"natural", "node-major", "rail", "snake", NULL}; /* as enum ring_kind */

bool experiment_parse_ring(void *place, const char *text, const char **expected)
{
    static const char *const forms[] = {
        RING_FORM ", did you mean 'natural'?",
        RING_FORM ", did you mean 'node-major'?",
        RING_FORM ", did you mean 'rail'?",
        RING_FORM ", did you mean 'snake'?",
        RING_FORM,
    };
    struct experiment *experiment = place;
    size_t word;
    if (!parse_word_or_counts(text, ring_words, forms, RING_INDICES_END, &word, &experiment->ring_indices, expected))
        return false;
    experiment->ring = ring_words[word] ? (enum ring_kind)word : RING_EXPLICIT;
    return true;
}

void experiment_print_ring(const void *place, char *text, size_t size)
{
    const struct experiment *experiment = place;
    if (experiment->ring != RING_EXPLICIT) {
        snprintf(text, size, "%s", ring_words[experiment->ring]);
        return;
    }
    size_t n = 0;
    while (experiment->ring_indices[n] != RING_INDICES_END)
        n++;
    print_counts(text, size, "", experiment->ring_indices, n);
}

/* The preset's name is a path or a file's name: experiment.c looks it up in the document. */
bool experiment_parse_preset(void *place, const char *text, const char **expected)
{
    (void)place, (void)text, (void)expected;
    return true;
}

void experiment_print_preset(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%s", ((const struct experiment *)place)->model.name);
}
