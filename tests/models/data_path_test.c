/* Where data files are found: $CPSIM_DATA, the source tree around the executable, the installation beside it.
 *
 * The last two depend on where the executable is, so the test copies itself into trees of its own and runs there with
 * the arguments FOLDER NAME (prints what data_path_find says) or FOLDER (prints what data_path_list says).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"

static char root[] = "/tmp/cpsim-data-XXXXXX";

/* Runs a shell command in the test's folder and gives back what it prints. */
static char *shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *shell(const char *format, ...)
{
    char *command = NULL, output[1000];
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&command, format, arguments) >= 0);
    va_end(arguments);
    char *whole = memory_format("cd %s && { %s ; }", root, command);
    FILE *pipe = popen(whole, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    free(command);
    free(whole);
    return memory_text(output);
}

static void expect_shell(const char *command, const char *right)
{
    char *output = shell("%s", command);
    assert_string_equal(output, right);
    free(output);
}

static int make_trees(void **state)
{
    (void)state;
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0 || !mkdtemp(root))
        return 1;
    self[length] = '\0';
    unsetenv("CPSIM_DATA");
    free(shell(
        "mkdir -p chosen/devices tree/models/devices tree/topologies tree/build/ci/tests opt/bin "
        "opt/share/cpsim/devices opt/share/cpsim/topologies && touch chosen/devices/c.ini chosen/devices/both.ini "
        "tree/models/devices/t.ini tree/models/devices/both.ini tree/topologies/net.ini opt/share/cpsim/devices/o.ini "
        "opt/share/cpsim/devices/a.ini opt/share/cpsim/devices/.hidden.ini opt/share/cpsim/devices/README "
        "opt/share/cpsim/topologies/net.ini && cp %s tree/build/ci/tests/find && cp %s opt/bin/find",
        self, self));
    return 0;
}

static int remove_trees(void **state)
{
    (void)state;
    free(shell("rm -rf \"$PWD\""));
    return 0;
}

static void source_tree_is_found_from_the_build(void **state)
{
    (void)state;
    char *right = memory_format("%s/tree/models/devices/t.ini\n", root);
    expect_shell("tree/build/ci/tests/find devices t", right);
    free(right);
    right = memory_format("%s/tree/topologies/net.ini\n", root);
    expect_shell("cd / && $OLDPWD/tree/build/ci/tests/find topologies net", right);
    free(right);
    expect_shell("tree/build/ci/tests/find devices o", "none\n");
}

static void installation_is_found_from_its_bin(void **state)
{
    (void)state;
    char *right = memory_format("%s/opt/bin/../share/cpsim/devices/o.ini\n", root);
    expect_shell("opt/bin/find devices o", right);
    free(right);
    right = memory_format("%s/opt/bin/../share/cpsim/devices/o.ini\n", root);
    expect_shell("opt/bin/find models/devices o", right);
    free(right);
    expect_shell("opt/bin/find devices t", "none\n");
    expect_shell("opt/bin/find transformers o", "none\n");
}

static void the_environment_comes_first(void **state)
{
    (void)state;
    char *right = memory_format("%s/chosen/devices/both.ini\n", root);
    expect_shell("CPSIM_DATA=$PWD/chosen tree/build/ci/tests/find devices both", right);
    free(right);
    right = memory_format("%s/tree/models/devices/t.ini\n", root); /* what it lacks is looked for further on */
    expect_shell("CPSIM_DATA=$PWD/chosen tree/build/ci/tests/find devices t", right);
    free(right);
    right = memory_format("%s/tree/models/devices/t.ini\n", root);
    expect_shell("CPSIM_DATA=$PWD/tree opt/bin/find devices t", right); /* a source tree may be chosen too */
    free(right);
}

static void paths_and_files_are_taken_as_they_are(void **state)
{
    (void)state;
    expect_shell("opt/bin/find devices tree/models/devices/t.ini", "tree/models/devices/t.ini\n");
    expect_shell("cd tree/topologies && ../../opt/bin/find topologies net.ini", "net.ini\n");
    expect_shell("opt/bin/find devices ./nowhere.ini", "none\n");
    expect_shell("opt/bin/find devices opt/share", "none\n"); /* a directory */
    expect_shell("opt/bin/find devices ''", "none\n");
}

static void names_are_listed_in_order(void **state)
{
    (void)state;
    expect_shell("opt/bin/find devices", "a\no\n");
    expect_shell("tree/build/ci/tests/find devices", "both\nt\n");
    expect_shell("CPSIM_DATA=$PWD/chosen tree/build/ci/tests/find devices", "both\nc\n");
    expect_shell("opt/bin/find transformers", "");
}

static int answer(const char *folder, const char *name)
{
    if (name) {
        char *path = data_path_find(folder, name);
        puts(path ? path : "none");
        free(path);
        return 0;
    }
    char **names = data_path_list(folder);
    for (size_t i = 0; names[i]; i++) {
        puts(names[i]);
        free(names[i]);
    }
    free(names);
    return 0;
}

int main(int n_arguments, char **arguments)
{
    if (n_arguments > 1)
        return answer(arguments[1], n_arguments > 2 ? arguments[2] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_tree_is_found_from_the_build), cmocka_unit_test(installation_is_found_from_its_bin),
        cmocka_unit_test(the_environment_comes_first),         cmocka_unit_test(paths_and_files_are_taken_as_they_are),
        cmocka_unit_test(names_are_listed_in_order),
    };
    return cmocka_run_group_tests(tests, make_trees, remove_trees);
}
