/* published.c - see published.h. */
#include "models/input/published.h"

#include <math.h>

#include "models/input/experiment_keys.h"

#define AT(field) offsetof(struct published, field)
#define SIZE(field) sizeof((struct published *)0)->field

static const struct bounds no_bounds = {NAN, NAN, NAN, NAN};

static const char *const kind_words[] = {"attention", "links", "steps", NULL}; /* as enum published_kind */

static const struct key_spec keys[] = {
    {.name = "title",
     .type = KEY_TEXT,
     .offset = AT(title),
     .size = SIZE(title),
     .fallback = "",
     .help = "what tables and plots call it"},
    {.name = "topology",
     .type = KEY_TEXT,
     .offset = AT(topology),
     .size = SIZE(topology),
     .form = "a name from --list topologies, or a path from this file's folder",
     .help = "where it was measured"},
    {.name = "rows",
     .type = KEY_TEXT,
     .offset = AT(rows),
     .size = SIZE(rows),
     .form = "a CSV file beside this one",
     .help = "what was measured: a row a measurement, with the keys that it overrides as columns"},
    {.name = "source",
     .type = KEY_TEXT,
     .offset = AT(source),
     .size = SIZE(source),
     .form = "text",
     .help = "where it was published"},
    {.name = "kind",
     .type = KEY_CHOICE,
     .offset = AT(kind),
     .fallback = "attention",
     .choices = kind_words,
     .help = "attention of the experiment; transfers (pattern, ranks, bytes), which need none; or its whole steps"},
    {.name = "uncertainty",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = AT(uncertainty),
     .fallback = "0",
     .minimum = 0,
     .maximum = 1,
     .form = "a share such as 0.005",
     .help = "of values whose rows state none"},
    BOUND_KEYS(AT(bounds)),
    MEMORY_BOUND_KEY(AT(bounds)),
    {.name = "doubtful",
     .type = KEY_TEXT,
     .offset = AT(doubtful),
     .size = SIZE(doubtful),
     .fallback = "",
     .form = "text",
     .help = "how the source contradicts itself: the set is shown, and counts neither for bounds nor for all sets"},
};

const struct section_spec experiment_published = {
    .name = "published",
    .aside = true,
    .help = "measurements of this setting; only --validate looks at them",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
};

const char *published_kind_name(enum published_kind kind)
{
    return kind_words[kind];
}

bool published_is_there(const struct ini_document *document)
{
    return ini_document_section(document, experiment_published.name) != NULL;
}

bool published_read(struct published *published, const struct ini_document *document, struct diagnostics *diag)
{
    *published = (struct published){.bounds = no_bounds};
    return key_table_read(&experiment_published, document, ini_document_section(document, experiment_published.name),
                          published, diag);
}

static const struct key_spec attention_keys[] = {BOUND_KEYS(offsetof(struct overall_bounds, attention))};
static const struct key_spec links_keys[] = {BOUND_KEYS(offsetof(struct overall_bounds, links))};
static const struct key_spec steps_keys[] = {BOUND_KEYS(offsetof(struct overall_bounds, steps)),
                                             MEMORY_BOUND_KEY(offsetof(struct overall_bounds, steps))};

static const struct section_spec of_attention = {
    .name = "all attention",
    .help = "what the sets of attention are to keep together",
    .keys = attention_keys,
    .n_keys = sizeof attention_keys / sizeof *attention_keys,
};

static const struct section_spec of_links = {
    .name = "all transfers",
    .help = "what the sets of transfers are to keep together",
    .keys = links_keys,
    .n_keys = sizeof links_keys / sizeof *links_keys,
};

static const struct section_spec of_steps = {
    .name = "all steps",
    .help = "what the sets of whole steps are to keep together",
    .keys = steps_keys,
    .n_keys = sizeof steps_keys / sizeof *steps_keys,
};

static const struct section_spec *const overall_sections[] = {&of_attention, &of_links, &of_steps, NULL};

const struct file_spec bounds_file = {.name = "file of bounds", .sections = overall_sections};

struct overall_bounds overall_bounds_none(void)
{
    return (struct overall_bounds){no_bounds, no_bounds, no_bounds};
}

bool overall_bounds_read(struct overall_bounds *bounds, const char *path, struct diagnostics *diag)
{
    *bounds = overall_bounds_none();
    struct ini_document *document = ini_document_read(path, diag);
    if (!document)
        return false;
    bool fine = key_table_check_sections(&bounds_file, document, diag);
    for (size_t i = 0; overall_sections[i]; i++) {
        const struct ini_section *section = ini_document_section(document, overall_sections[i]->name);
        fine &= !section || key_table_read(overall_sections[i], document, section, bounds, diag);
    }
    ini_document_destroy(document);
    return fine;
}
