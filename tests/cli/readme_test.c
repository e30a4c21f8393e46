/* README.md says what the command says: its key reference is the output of `cpsim --list keys`; its tables of
 * published sets are about those that are shipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/key_reference.h"
#include "models/input/data_path.h"
#include "tests/cli/command.h"

/* To renew: put the output of `cpsim --list keys` into the block between the two comments. */
static void the_key_reference_is_the_commands_own(void **state)
{
    (void)state;
    char *readme = file_text(CPSIM_SOURCE_DIR "/README.md"), *keys = NULL;
    size_t size;
    FILE *stream = open_memstream(&keys, &size);
    key_reference_print(stream);
    fclose(stream);
    static const char before[] = "<!-- keys: cpsim --list keys -->\n```text\n";
    const char *begin = strstr(readme, before), *end = strstr(readme, "```\n<!-- end of keys -->");
    assert_true(begin && end && begin < end);
    begin += strlen(before);
    assert_int_equal(end - begin, (ptrdiff_t)size);
    assert_memory_equal(begin, keys, size);
    free(keys);
    free(readme);
}

/* Whether the block has a row of a table that begins with this name. */
static bool has_row(const char *begin, const char *end, const char *name)
{
    char *row = memory_format("\n| `%s`", name);
    const char *found = strstr(begin, row);
    free(row);
    return found && found < end;
}

/* Whether a set is of whole steps, of which the second table has no row. */
static bool is_of_steps(const char *name)
{
    char *path = memory_format(CPSIM_SOURCE_DIR "/experiments/published/%s.ini", name), *text = file_text(path);
    const char *kind = strstr(text, "\nkind ");
    bool steps = kind && strncmp(kind + strcspn(kind, "=") + 1, " steps\n", strlen(" steps\n")) == 0;
    free(text);
    free(path);
    return steps;
}

/* To renew: tests/published/tables --into README.md. */
static void the_tables_of_sets_name_those_that_are_there(void **state)
{
    (void)state;
    char *readme = file_text(CPSIM_SOURCE_DIR "/README.md");
    const char *begin = strstr(readme, "<!-- sets: tests/published/tables -->"),
               *end = strstr(readme, "<!-- end of sets -->");
    assert_true(begin && end && begin < end);
    char **names = data_path_list("experiments/published");
    size_t rows = 0, expected = 0;
    for (size_t i = 0; names[i]; i++) {
        if (strcmp(names[i], "bounds") != 0) {
            expected += is_of_steps(names[i]) ? 1 : 2;
            if (!has_row(begin, end, names[i]))
                fail_msg("README.md has no row of '%s'", names[i]);
        }
        free(names[i]);
    }
    free(names);
    for (const char *row = begin; (row = strstr(row, "\n| `")) && row < end; row++)
        rows++;
    assert_int_equal(rows, expected);
    free(readme);
}

static void the_first_screen_shows_the_two_commands(void **state)
{
    (void)state;
    char *readme = file_text(CPSIM_SOURCE_DIR "/README.md");
    const char *quickstart = strstr(readme, "\nexperiments/quickstart"), *tests = strstr(readme, "\ntests/run");
    assert_true(quickstart && tests);
    size_t lines = 0;
    for (const char *c = readme; c < tests; c++)
        lines += *c == '\n';
    assert_true(lines < 24);
    free(readme);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_reference_is_the_commands_own),
        cmocka_unit_test(the_tables_of_sets_name_those_that_are_there),
        cmocka_unit_test(the_first_screen_shows_the_two_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
