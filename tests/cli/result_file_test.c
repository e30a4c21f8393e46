/* Result files: whole or as they were before, whatever happens while they are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/result_file.h"
#include "tests/cli/command.h"

static struct diagnostics diag;

static char *path_of(const char *name)
{
    return memory_format("%s/%s", test_folder(), name);
}

static void expect_text(const char *name, const char *expected)
{
    char *text = made_file(name);
    assert_string_equal(text, expected);
    free(text);
}

/* Nothing but these files, separated by spaces, is in the folder. */
static void expect_files(const char *expected)
{
    struct outcome outcome = shell("cd $DIR && ls -A | grep -v '^std' | tr '\\n' ' '");
    assert_string_equal(outcome.out, expected);
    outcome_fini(&outcome);
}

static void write_old(const char *name)
{
    char *path = path_of(name);
    FILE *file = fopen(path, "w");
    fputs("old\n", file);
    fclose(file);
    free(path);
}

/* A fresh folder for each test. */
static int begin(void **state)
{
    (void)state;
    diagnostics_init(&diag);
    struct outcome outcome = shell("cd $DIR && rm -rf *");
    outcome_fini(&outcome);
    return 0;
}

static int end(void **state)
{
    (void)state;
    diagnostics_fini(&diag);
    return 0;
}

static bool write_lines(FILE *stream, size_t count)
{
    for (size_t i = 0; i < count && !ferror(stream); i++)
        fputs("a line of a result\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}

static void what_was_there_stays_until_the_new_one_is_whole(void **state)
{
    (void)state;
    char *path = path_of("r.json");
    write_old("r.json");
    struct result_file file;
    FILE *stream = result_file_open(&file, path, &diag);
    assert_non_null(stream);
    assert_true(write_lines(stream, 1));
    expect_text("r.json", "old\n");
    assert_true(result_file_close(&file, true, &diag));
    expect_text("r.json", "a line of a result\n");
    expect_files("r.json ");
    assert_int_equal(diag.count, 0);
    free(path);
}

static void what_fails_leaves_everything_as_it_was(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        char *path = path_of("r.json");
        if (old)
            write_old("r.json");
        struct result_file file;
        FILE *stream = result_file_open(&file, path, &diag);
        assert_true(write_lines(stream, 1));
        errno = ENOSPC;
        assert_false(result_file_close(&file, false, &diag));
        expect_files(old ? "r.json " : "");
        assert_non_null(strstr(diag.lines[old], "r.json': No space left on device"));
        free(path);
    }
    expect_text("r.json", "old\n");
}

/* A limit on sizes is a disk that gets full. */
static void a_file_that_may_not_grow_is_told(void **state)
{
    (void)state;
    char *path = path_of("r.json");
    write_old("r.json");
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){200000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    struct result_file file;
    FILE *stream = result_file_open(&file, path, &diag);
    bool fine = write_lines(stream, 100000);
    bool closed = result_file_close(&file, fine, &diag);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_false(fine);
    assert_false(closed);
    assert_non_null(strstr(diag.lines[0], "File too large"));
    expect_text("r.json", "old\n");
    expect_files("r.json ");
    free(path);
}

static volatile sig_atomic_t heard;

static void hear(int number)
{
    heard = number;
}

/* Writing ends early, nothing is left, and then the signal has its way. */
static void an_interrupt_ends_writing_and_leaves_nothing(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char *path = path_of("r.json");
        signal(signals[i], hear);
        heard = 0;
        struct result_file file;
        FILE *stream = result_file_open(&file, path, &diag);
        assert_true(write_lines(stream, 10));
        kill(getpid(), signals[i]);
        assert_int_equal(heard, 0); /* it waits */
        assert_false(write_lines(stream, 1000000));
        assert_false(result_file_close(&file, false, &diag));
        assert_int_equal(heard, signals[i]);
        signal(signals[i], SIG_DFL);
        expect_files("");
        free(path);
    }
}

/* As those of nohup, and of what a script puts in the background. */
static void an_interrupt_that_is_ignored_is_none(void **state)
{
    (void)state;
    char *path = path_of("r.json");
    signal(SIGINT, SIG_IGN);
    struct result_file file;
    FILE *stream = result_file_open(&file, path, &diag);
    kill(getpid(), SIGINT);
    assert_true(write_lines(stream, 10000));
    assert_true(result_file_close(&file, true, &diag));
    signal(SIGINT, SIG_DFL);
    expect_files("r.json ");
    free(path);
}

static void permissions_and_links_stay(void **state)
{
    (void)state;
    char *path = path_of("real.json"), *link_path = path_of("link.json");
    write_old("real.json");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("real.json", link_path), 0);
    struct result_file file;
    assert_true(write_lines(result_file_open(&file, link_path, &diag), 1));
    assert_true(result_file_close(&file, true, &diag));
    struct stat status;
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    expect_text("real.json", "a line of a result\n");
    expect_files("link.json real.json ");
    free(path);
    free(link_path);
}

static void what_is_no_file_is_written_as_it_comes(void **state)
{
    (void)state;
    struct result_file file;
    FILE *stream = result_file_open(&file, "/dev/full", &diag);
    assert_non_null(stream);
    bool fine = write_lines(stream, 1);
    assert_false(result_file_close(&file, fine, &diag));
    assert_string_equal(diag.lines[0], "cannot write '/dev/full': No space left on device");
    assert_int_equal(access("/dev/full", F_OK), 0);
    assert_true(write_lines(result_file_open(&file, "/dev/null", &diag), 1));
    assert_true(result_file_close(&file, true, &diag));
    char *second = path_of("second.json"), *first = path_of("first.json");
    write_old("first.json");
    assert_int_equal(link(first, second), 0); /* one file with two names keeps both */
    assert_true(write_lines(result_file_open(&file, second, &diag), 1));
    assert_true(result_file_close(&file, true, &diag));
    expect_text("first.json", "a line of a result\n");
    assert_null(result_file_open(&file, "/nowhere/r.json", &diag));
    assert_string_equal(diag.lines[1], "cannot write '/nowhere/r.json': No such file or directory");
    free(first);
    free(second);
}

static int remove_folder(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_there_stays_until_the_new_one_is_whole, begin, end),
        cmocka_unit_test_setup_teardown(what_fails_leaves_everything_as_it_was, begin, end),
        cmocka_unit_test_setup_teardown(a_file_that_may_not_grow_is_told, begin, end),
        cmocka_unit_test_setup_teardown(an_interrupt_ends_writing_and_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(an_interrupt_that_is_ignored_is_none, begin, end),
        cmocka_unit_test_setup_teardown(permissions_and_links_stay, begin, end),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_written_as_it_comes, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
