/* Every constant that is shipped says where it comes from, and none comes from a measurement that predictions are held
 * against: what is validated was not fitted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/ini_document.h"

/* What the validated rows of attention on several GPUs were read from. A file may name such a repository for its code,
 * or for a run on a single GPU, but not these. */
static const char *const validated[] = {
    "ring-flash-attention README",
    "benchmark_results.png",
    "pcie_machine.jpg",
    "long_ctx_h",
    "exp/distributed",
    "arXiv:2405.07719",
    "arXiv:2411.01783",
    "experiments/published",
};

/* A source that names one of them is wrong; a sentence of a comment may, if it says that the row is of one GPU. */
static void assert_not_validated(const char *path, int line, const char *text)
{
    for (size_t i = 0; i < sizeof validated / sizeof *validated; i++)
        if (strstr(text, validated[i]))
            fail_msg("%s:%d: '%s' is validated, so no constant may come from it", path, line, validated[i]);
}

static bool holds_constants(const char *section)
{
    return strncmp(section, "attention ", 10) == 0 || strcmp(section, "steps") == 0 || strcmp(section, "host") == 0 ||
           strcmp(section, "implementation") == 0;
}

static void check_sections(const char *path)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct ini_document *document = ini_document_read(path, &diag);
    assert_non_null(document);
    for (size_t i = 0; i < document->n_sections; i++) {
        const struct ini_section *section = &document->sections[i];
        const struct ini_entry *source = ini_section_entry(section, "source");
        if (holds_constants(section->name) && (!source || !*source->value))
            fail_msg("%s:%d: [%s] has no source", path, section->line, section->name);
        if (source)
            assert_not_validated(path, source->line, source->value);
    }
    ini_document_destroy(document);
    diagnostics_fini(&diag);
}

/* The comments that a file opens with. */
static char *opening_comment(const char *path)
{
    char *text = memory_zeroed(1, 16384), line[512];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && *line != '[')
        if (*line == ';' && strlen(text) + strlen(line) < 16000)
            strcat(text, line + 1);
    fclose(file);
    return text;
}

static size_t each_file(const char *folder, void (*check)(const char *path))
{
    char **names = data_path_list(folder);
    size_t n = 0;
    for (; names[n]; n++) {
        char *path = data_path_find(folder, names[n]);
        assert_non_null(path);
        check(path);
        free(path);
        free(names[n]);
    }
    free(names);
    return n;
}

static void tables_and_implementations_name_their_sources(void **state)
{
    (void)state;
    assert_true(each_file("devices", check_sections) >= 8);
    assert_true(each_file("implementations", check_sections) >= 6);
}

/* Figures without a source key of their own (memory, peaks, link rates) are accounted for in the file's opening. */
static void check_opening(const char *path)
{
    static const char *const words[] = {"atasheet", "data sheet",  "product page", "vendor",  "NVIDIA",        "Source",
                                        "source",   "white paper", "easured",      "made up", "Not a machine", "toy"};
    char *text = opening_comment(path);
    bool found = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        found = found || strstr(text, words[i]);
    if (!found)
        fail_msg("%s: its opening comment does not say where its figures come from", path);
    for (size_t i = 0; i < sizeof validated / sizeof *validated; i++)
        if (strstr(text, validated[i]) && !strstr(text, "single-GPU"))
            fail_msg("%s: '%s' is validated, so no constant may come from it", path, validated[i]);
    free(text);
}

static void files_open_with_where_their_figures_come_from(void **state)
{
    (void)state;
    assert_true(each_file("devices", check_opening) >= 8);
    assert_true(each_file("topologies", check_opening) >= 7);
}

/* The test itself sees what it looks for. */
static void a_validated_source_is_seen(void **state)
{
    (void)state;
    bool found = false;
    const char *text = "SandAI-org/MagiAttention assets/magi_attn/exp/distributed/h100/full_mask/fwd/flops_report.png";
    for (size_t i = 0; i < sizeof validated / sizeof *validated; i++)
        found = found || strstr(text, validated[i]);
    assert_true(found);
    assert_true(holds_constants("attention fa2 forward 128") && holds_constants("steps") && !holds_constants("device"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_and_implementations_name_their_sources),
        cmocka_unit_test(files_open_with_where_their_figures_come_from),
        cmocka_unit_test(a_validated_source_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
