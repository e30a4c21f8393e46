/* device.c - reads a device profile, and judges what must hold between its keys (device_keys.h).
 *
 * A profile is a [device] section and any number of [attention KERNEL forward|backward HEAD_DIM] sections, one table of
 * rates each. HEAD_DIM `any` and dtype `any` serve whatever is asked (a device whose rate is the same for all). A DTYPE
 * behind HEAD_DIM keeps tables of different dtypes apart. [steps] may give the steps around attention rates of their
 * own. [product DTYPE] sections: product_tables.h.
 */
#include "models/input/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/device_keys.h"
#include "models/input/ini_document.h"
#include "models/input/product_tables.h"
#include "models/input/units.h"

#define HEAD_DIM_MAX 4096
#define TFLOP 1e12

static bool is_attention(const struct ini_section *section)
{
    return strncmp(section->name, "attention ", 10) == 0;
}

/* Reads KERNEL, pass, HEAD_DIM and DTYPE from the section's name. */
static bool read_section_name(struct attention_table *table, const char *path, const struct ini_section *section,
                              struct diagnostics *diag)
{
    char *copy = memory_text(section->name + 10), *save = NULL;
    const char *kernel = strtok_r(copy, " \t", &save), *pass = strtok_r(NULL, " \t", &save);
    const char *head_dim = strtok_r(NULL, " \t", &save), *dtype = strtok_r(NULL, " \t", &save);
    enum dtype named;
    uint64_t value = 0;
    bool good = head_dim && !strtok_r(NULL, " \t", &save) && strlen(kernel) < sizeof table->kernel &&
                (!dtype || dtype_parse(dtype, &named));
    if (good) {
        snprintf(table->kernel, sizeof table->kernel, "%s", kernel);
        table->pass = strcmp(pass, "backward") == 0 ? PASS_BACKWARD : PASS_FORWARD;
        good = table->pass == PASS_BACKWARD || strcmp(pass, "forward") == 0;
        if (strcmp(head_dim, "any") != 0)
            good = good && units_parse_count(head_dim, &value) && value >= 1 && value <= HEAD_DIM_MAX;
        table->head_dim = (uint32_t)value;
        table->named_dtype = dtype ? (int)named : -1;
    }
    free(copy);
    if (!good)
        return diagnostics_at(diag, path, section->line,
                              "section '[%s]', expected [attention KERNEL forward|backward HEAD_DIM] with HEAD_DIM "
                              "1 to %d or any, such as [attention fa2 forward 128]",
                              section->name, HEAD_DIM_MAX);
    return true;
}

static bool check_peak(const struct device *device, const struct attention_table *table,
                       const struct rate_point *points, size_t count, const char *mask, struct diagnostics *diag)
{
    bool exceeds_16_bit = table->dtypes == 1U << DTYPE_FP8;
    if (device->peak_flops_per_s <= 0.0 || exceeds_16_bit)
        return true;
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        double rate = points[i].flops_per_s * table->rate_scale;
        if (rate > device->peak_flops_per_s)
            good = diagnostics_at(diag, device->path, table->line,
                                  "%s rate '%.4g' TFLOP/s (with rate_scale) at seq_len %.0f, expected at most the "
                                  "device's peak of %.4g TFLOP/s",
                                  mask, rate / TFLOP, points[i].seq_len, device->peak_flops_per_s / TFLOP);
    }
    return good;
}

/* What must hold between the keys of one table. */
static bool check_table(const struct device *device, const struct attention_table *table, struct diagnostics *diag)
{
    bool good = true;
    if (table->named_dtype >= 0 && table->dtypes != 1U << table->named_dtype)
        good = diagnostics_at(diag, device->path, table->line, "'dtype' is not the section's, expected %s",
                              dtype_name((enum dtype)table->named_dtype));
    if ((table->batch > 0.0) == (table->tokens > 0.0))
        good = diagnostics_at(diag, device->path, table->line, "%s, expected one of them",
                              table->batch > 0.0 ? "both 'batch' and 'tokens'" : "neither 'batch' nor 'tokens'");
    if (!table->n_full && !table->n_causal)
        good = diagnostics_at(diag, device->path, table->line, "neither 'full' nor 'causal', expected rates for one");
    good &= check_peak(device, table, table->full, table->n_full, "full", diag);
    good &= check_peak(device, table, table->causal, table->n_causal, "causal", diag);
    return good;
}

/* Two tables of one kernel, pass and head dim, written differently: 64 and 064, 1Ki and 1024; with a dtype in common.
 */
static bool check_repetition(const struct device *device, size_t index, struct diagnostics *diag)
{
    const struct attention_table *table = &device->tables[index];
    for (size_t i = 0; i < index; i++) {
        const struct attention_table *other = &device->tables[i];
        if (!other->refused && strcmp(other->kernel, table->kernel) == 0 && other->pass == table->pass &&
            other->head_dim == table->head_dim && (other->dtypes & table->dtypes || !other->dtypes || !table->dtypes))
            return diagnostics_at(diag, device->path, table->line,
                                  "kernel '%s', pass and head dim are those of line %d, expected one table of each",
                                  table->kernel, other->line);
    }
    return true;
}

static bool check_default_kernel(const struct device *device, const struct ini_document *document,
                                 struct diagnostics *diag)
{
    for (size_t i = 0; i < device->n_tables; i++)
        if (strcmp(device->tables[i].kernel, device->default_kernel) == 0)
            return true;
    const struct ini_section *section = ini_document_section(document, "device");
    const struct ini_entry *entry = section ? ini_section_entry(section, "kernel") : NULL;
    return diagnostics_at(diag, device->path, entry ? entry->line : 0,
                          "kernel '%s' has no [attention %s ...] section, expected one", device->default_kernel,
                          device->default_kernel);
}

static bool read_tables(struct device *device, const struct ini_document *document, struct diagnostics *diag)
{
    bool good = true;
    device->tables = memory_zeroed(document->n_sections, sizeof *device->tables);
    for (size_t i = 0; i < document->n_sections; i++) {
        const struct ini_section *section = &document->sections[i];
        if (!is_attention(section))
            continue;
        struct attention_table *table = &device->tables[device->n_tables++];
        table->line = section->line;
        table->named_dtype = -1;
        bool named = read_section_name(table, device->path, section, diag);
        bool read = key_table_read(&device_attention_section, document, section, table, diag);
        table->refused = !read;
        good &= named && read;
        if (read && !document->incomplete) /* a refused line may have been the key that is missed */
            good &= check_table(device, table, diag);
        if (named && read)
            good &= check_repetition(device, device->n_tables - 1, diag);
    }
    return good;
}

static bool read_document(struct device *device, const struct ini_document *document, struct diagnostics *diag)
{
    bool good = key_table_check_sections(&device_file, document, diag);
    const struct ini_section *section = ini_document_section(document, "device");
    bool read = section && key_table_read(&device_section, document, section, device, diag);
    const struct ini_section *steps = ini_document_section(document, device_steps_section.name);
    if (steps)
        good &= key_table_read(&device_steps_section, document, steps, device, diag);
    bool tables = read_tables(device, document, diag);
    good &= product_tables_read(device, document, diag);
    if (read && tables && device->n_tables)
        good &= check_default_kernel(device, document, diag);
    return good && read && tables;
}

bool device_read(struct device *device, const char *name, struct diagnostics *diag)
{
    memset(device, 0, sizeof *device);
    device->path = data_path_find("models/devices", name);
    if (!device->path)
        return diagnostics_add(diag, "no device profile '%s', expected a file or one of models/devices", name);
    struct ini_document *document = ini_document_read(device->path, diag);
    bool good = document && read_document(device, document, diag);
    ini_document_destroy(document);
    if (!good)
        device_fini(device);
    return good;
}

bool device_read_tables(struct device *device, const char *path, struct diagnostics *diag)
{
    static const struct section_spec *const sections[] = {&device_attention_section, NULL};
    static const struct file_spec file = {.name = "file of kernel times", .sections = sections};
    *device = (struct device){.path = memory_text(path)};
    struct ini_document *document = ini_document_read(path, diag);
    bool good = document && key_table_check_sections(&file, document, diag);
    good = document && read_tables(device, document, diag) && good;
    ini_document_destroy(document);
    if (!good)
        device_fini(device);
    return good;
}

void device_fini(struct device *device)
{
    for (size_t i = 0; i < device->n_tables; i++) {
        free(device->tables[i].full);
        free(device->tables[i].causal);
    }
    free(device->tables);
    product_tables_fini(device);
    free(device->path);
    memset(device, 0, sizeof *device);
}
