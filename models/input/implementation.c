/* implementation.c - the keys of an implementation, and its values with a grammar: what a step passes through memory.
 *
 * [implementation] says what it is and what it chooses, [steps] what its steps are made of, [host] what the host takes
 * to issue them. Each names its source, by the file and function that it was read from.
 */
#include "models/input/implementation.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/ini_document.h"
#include "models/input/key_table.h"

#define AT(member) offsetof(struct implementation, member)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const char passes_form[] = "KERNELS kernels, BYTES B/element, BYTES B/row, such as 1 kernels, 10 B/element, "
                                  "12 B/row; or none";

/* Reads "NUMBER UNIT" at *text and steps over it and a comma behind it. */
static bool read_term(const char **text, const char *unit, double most, double *value)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    *value = strtod(*text, &end);
    end += strspn(end, " \t");
    size_t length = strlen(unit);
    if (strncmp(end, unit, length) != 0 || !(*value >= 0.0 && *value <= most))
        return false;
    end += length;
    if (*end == ',')
        end += 1 + strspn(end + 1, " \t");
    else if (*end)
        return false;
    *text = end;
    return true;
}

static bool parse_passes(void *place, const char *text, const char **expected)
{
    struct passes passes = {.given = true};
    *expected = passes_form;
    if (strcmp(text, "none") != 0 && (!read_term(&text, "kernels", 1e3, &passes.kernels) ||
                                      !read_term(&text, "B/element", 1e4, &passes.bytes_per_element) ||
                                      !read_term(&text, "B/row", 1e6, &passes.bytes_per_row) || *text))
        return false;
    *(struct passes *)place = passes;
    return true;
}

static void print_passes(const void *place, char *text, size_t size)
{
    const struct passes *passes = place;
    if (!passes->given)
        snprintf(text, size, "%s", "");
    else if (passes->kernels <= 0.0 && passes->bytes_per_element <= 0.0 && passes->bytes_per_row <= 0.0)
        snprintf(text, size, "none");
    else
        snprintf(text, size, "%.10g kernels, %.10g B/element, %.10g B/row", passes->kernels, passes->bytes_per_element,
                 passes->bytes_per_row);
}

static bool parse_sms(void *target, const char *text, const char **expected)
{
    struct implementation *implementation = target;
    char *end;
    *expected = "channels, or a count from 0 to 1024";
    implementation->fixed_sms = strcmp(text, "channels") != 0;
    if (!implementation->fixed_sms)
        return true;
    unsigned long value = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 1025;
    if (value > 1024 || *end)
        return false;
    implementation->sms = (uint32_t)value;
    return true;
}

static void print_sms(const void *target, char *text, size_t size)
{
    const struct implementation *implementation = target;
    if (implementation->fixed_sms)
        snprintf(text, size, "%u", implementation->sms);
    else
        snprintf(text, size, "channels");
}

/* Sources are for the reader of the file; here they only have to be there. */
static bool parse_source(void *target, const char *text, const char **expected)
{
    (void)target;
    *expected = "where it was read: repository, file, function, version";
    return *text != '\0';
}

static void print_source(const void *target, char *text, size_t size)
{
    (void)target;
    if (size)
        text[0] = '\0';
}

#define SOURCE_KEY                                                                                                     \
    {                                                                                                                  \
        .name = "source", .type = KEY_CUSTOM, .form = "text", .parse = parse_source, .print = print_source,            \
        .help = "where it was read: repository, file, function, version"                                               \
    }

static const char *const communicator_words[] = {"group", "pair", NULL}; /* as enum communicator */
static const char *const messages_words[] = {"1", "2", NULL};
static const char *const streams_words[] = {"2", "1", NULL};
static const char *const gradients_words[] = {"fp32", "model", NULL};

static const struct key_spec implementation_keys[] = {
    {.name = "name",
     .type = KEY_TEXT,
     .offset = AT(name),
     .size = sizeof((struct implementation *)0)->name,
     .form = "the file's name without .ini",
     .help = "what reports call it"},
    {.name = "kernel",
     .type = KEY_TEXT,
     .offset = AT(kernel),
     .size = sizeof((struct implementation *)0)->kernel,
     .fallback = "",
     .form = "a KERNEL of the device profile",
     .help = "its attention kernel, unless [cluster] kernel names another; absent: the profile's default"},
    {.name = "communicator",
     .type = KEY_CHOICE,
     .offset = AT(communicator),
     .fallback = "group",
     .choices = communicator_words,
     .help = "whose NCCL communicator carries a message: that of all ranks of the group, or of the two alone"},
    {.name = "kv_messages",
     .type = KEY_YES_NO,
     .offset = AT(split_kv),
     .fallback = "1",
     .choices = messages_words,
     .help = "K and V in one message or in two, where the experiment does not say"},
    {.name = "packs_qkv",
     .type = KEY_YES_NO,
     .offset = AT(packs_qkv),
     .fallback = "no",
     .help = "the host exchanges and copies Q, K and V in one call where heads are traded, instead of in one each"},
    {.name = "gradients",
     .type = KEY_YES_NO,
     .offset = AT(gradients_model),
     .fallback = "fp32",
     .choices = gradients_words,
     .help = "dtype in which dK and dV are summed and returned, where the experiment does not say"},
    {.name = "compute_streams",
     .type = KEY_YES_NO,
     .offset = AT(one_stream),
     .fallback = "2",
     .choices = streams_words,
     .help = "streams of attention kernels in an algorithm that takes turns between two (ring-te)"},
    {.name = "sms",
     .type = KEY_CUSTOM,
     .fallback = "channels",
     .form = "channels, or a count from 0 to 1024",
     .parse = parse_sms,
     .print = print_sms,
     .help = "SMs that a transfer holds while it moves: one a channel, or so many; 0: copy engines move it"},
    {.name = "waits",
     .type = KEY_YES_NO,
     .offset = AT(waits),
     .fallback = "no",
     .help =
         "a transfer is called from the stream of the next kernel, behind those before it, and has no priority over "
         "that kernel, so that it may wait for its SMs"},
    SOURCE_KEY,
};

#define STEP_KEY(NAME, STEP, HELP)                                                                                     \
    {                                                                                                                  \
        .name = (NAME), .type = KEY_CUSTOM, .offset = AT(steps) + (STEP) * sizeof(struct passes), .fallback = "",      \
        .form = passes_form, .parse = parse_passes, .print = print_passes, .help = (HELP)                              \
    }

static const struct key_spec steps_keys[] = {
    STEP_KEY("merge_first", IMPLEMENTATION_MERGE_FIRST, "a row's first partial result becomes the state"),
    STEP_KEY("merge", IMPLEMENTATION_MERGE, "a later one is joined to the state"),
    STEP_KEY("merge_part", IMPLEMENTATION_MERGE_PART, "the same where only some of the state's rows are concerned"),
    STEP_KEY("finish", IMPLEMENTATION_FINISH, "the output from the state"),
    STEP_KEY("sum_lse", IMPLEMENTATION_SUM_LSE, "the LSE alone of a partial result is added up"),
    STEP_KEY("correct", IMPLEMENTATION_CORRECT, "a partial result is added to the output, weighed by its LSE"),
    STEP_KEY("delta", IMPLEMENTATION_DELTA, "the backward pass's sums over dO and O; none: part of its kernel"),
    STEP_KEY("add_dq", IMPLEMENTATION_ADD_DQ, "adding a block's dQ to the sum"),
    STEP_KEY("add_dq_first", IMPLEMENTATION_ADD_DQ_FIRST, "the first of them"),
    STEP_KEY("add_dkv", IMPLEMENTATION_ADD_DKV, "adding a block's dK and dV to the sum"),
    STEP_KEY("add_dkv_first", IMPLEMENTATION_ADD_DKV_FIRST, "the first of them"),
    STEP_KEY("cast", IMPLEMENTATION_CAST, "copying to another type"),
    STEP_KEY("attend", IMPLEMENTATION_ATTEND, "copies around an attention kernel, by its queries (B/element of Q)"),
    STEP_KEY("attend_keys", IMPLEMENTATION_ATTEND_KEYS, "and by its keys (B/element of K and V)"),
    STEP_KEY("attend_backward", IMPLEMENTATION_ATTEND_BACKWARD, "the same around a backward kernel"),
    STEP_KEY("attend_backward_keys", IMPLEMENTATION_ATTEND_BACKWARD_KEYS, "and by its keys"),
    STEP_KEY("attend_part", IMPLEMENTATION_ATTEND_PART,
             "beside attend, where the kernel's queries are a part of those held"),
    STEP_KEY("attend_keys_part", IMPLEMENTATION_ATTEND_KEYS_PART,
             "beside attend_keys, where its keys are a part of those held"),
    STEP_KEY("attend_backward_part", IMPLEMENTATION_ATTEND_BACKWARD_PART, "the same around a backward kernel"),
    STEP_KEY("attend_backward_keys_part", IMPLEMENTATION_ATTEND_BACKWARD_KEYS_PART, "and by its keys"),
    STEP_KEY("norm", IMPLEMENTATION_NORM, "a layer's norm (B/element of its result)"),
    STEP_KEY("norm_backward", IMPLEMENTATION_NORM_BACKWARD, "and backward"),
    STEP_KEY("activate", IMPLEMENTATION_ACTIVATE, "the MLP's activation function (B/element of its result)"),
    STEP_KEY("activate_backward", IMPLEMENTATION_ACTIVATE_BACKWARD, "and backward, by the same elements"),
    STEP_KEY("rotate", IMPLEMENTATION_ROTATE, "rotary embeddings (B/element of Q and K); absent: not counted"),
    STEP_KEY("rotate_backward", IMPLEMENTATION_ROTATE_BACKWARD, "and of their gradients"),
    STEP_KEY("layout", IMPLEMENTATION_LAYOUT, "copies that bring rows or heads into another order"),
    SOURCE_KEY,
};

#define HOST_KEY(NAME, MEMBER, HELP)                                                                                   \
    {                                                                                                                  \
        .name = (NAME), .type = KEY_QUANTITY, .dimension = DIMENSION_SECONDS, .offset = AT(MEMBER), .fallback = "",    \
        .minimum = 0.0, .maximum = 1.0, .form = "a time such as 8 us", .help = (HELP)                                  \
    }

static const struct key_spec host_keys[] = {
    HOST_KEY("attention", host_attention_seconds, "that the host takes to issue an attention operation"),
    HOST_KEY("kernel", host_kernel_seconds, "to issue a kernel of any other operation"),
    HOST_KEY("message", host_message_seconds, "to post a message, at either end"),
    HOST_KEY("collective", host_call_seconds,
             "to call a collective, whatever messages it is made of; not given: as a message"),
    {.name = "spread",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = AT(host_spread),
     .fallback = "0",
     .minimum = 0,
     .maximum = 10,
     .form = "a share such as 0.3",
     .help = "how far these times vary, relative: gives predictions an interval"},
    {.name = "synchronizes",
     .type = KEY_YES_NO,
     .offset = AT(synchronizes),
     .fallback = "no",
     .help = "the host waits for the device at the end of every step, instead of running ahead"},
    SOURCE_KEY,
};

static const struct section_spec implementation_section = {.name = "implementation",
                                                           .required = true,
                                                           .help = "what it is and what it chooses",
                                                           .keys = implementation_keys,
                                                           .n_keys = COUNT_OF(implementation_keys)};
static const struct section_spec steps_section = {
    .name = "steps",
    .help = "kernels and passes over memory of the steps around attention; one not given is one kernel and one pass",
    .keys = steps_keys,
    .n_keys = COUNT_OF(steps_keys)};
static const struct section_spec host_section = {.name = "host",
                                                 .help = "what the host takes to issue operations",
                                                 .keys = host_keys,
                                                 .n_keys = COUNT_OF(host_keys)};

static const struct section_spec *const sections[] = {&implementation_section, &steps_section, &host_section, NULL};

const struct file_spec implementation_file = {.name = "implementation", .sections = sections};

static bool read_document(struct implementation *implementation, const struct ini_document *document,
                          struct diagnostics *diag)
{
    bool good = key_table_check_sections(&implementation_file, document, diag);
    for (size_t i = 0; sections[i]; i++) {
        const struct ini_section *section = ini_document_section(document, sections[i]->name);
        if (section) /* a required one that is missing has been reported */
            good &= key_table_read(sections[i], document, section, implementation, diag);
    }
    return good;
}

/* What is said about the host's times has an effect only where there are some. */
static bool check_host(const struct implementation *implementation, const struct ini_document *document,
                       struct diagnostics *diag)
{
    const struct ini_section *section = ini_document_section(document, host_section.name);
    const struct ini_entry *entry = section ? ini_section_entry(section, "spread") : NULL;
    if (!entry || implementation_has_host(implementation))
        return true;
    return ini_document_complain(document, section, entry, diag,
                                 "'spread' has no effect without a time that the host takes, expected one");
}

bool implementation_read(struct implementation *implementation, const char *name, struct diagnostics *diag)
{
    *implementation = (struct implementation){0};
    char *path = data_path_find("implementations", name);
    if (!path) {
        char **names = data_path_list("implementations");
        char *hint = key_table_suggestion(name, (const char *const *)names);
        diagnostics_add(diag, "unknown implementation '%s'%s", name, hint);
        free(hint);
        for (size_t i = 0; names[i]; i++)
            free(names[i]);
        free(names);
        return false;
    }
    struct ini_document *document = ini_document_read(path, diag);
    bool good = document && read_document(implementation, document, diag);
    good = good && check_host(implementation, document, diag);
    ini_document_destroy(document);
    free(path);
    return good;
}
