/* README.md says what the command says: its key reference is the output of `cpsim --list keys`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/key_reference.h"
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
        cmocka_unit_test(the_first_screen_shows_the_two_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
