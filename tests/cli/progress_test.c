/* The progress line: what it says, and that only a terminal gets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/progress.h"

static void expect_line(const struct progress *progress, double share, double seconds_left, const char *expected)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    progress_write(progress, share, seconds_left, stream);
    fclose(stream);
    assert_string_equal(text, expected);
    free(text);
}

static void the_line_has_what_is_done_and_the_time_left(void **state)
{
    (void)state;
    struct progress progress = {.what = "sweeping"};
    expect_line(&progress, 0.25, -1, "sweeping:  25 %");
    expect_line(&progress, 0.25, 9.6, "sweeping:  25 %, 0:10 left");
    progress_count(&progress, "points", 10000);
    expect_line(&progress, 0.0123, -1, "sweeping: 123 of 10000 points");
    expect_line(&progress, 0.0123, 185, "sweeping: 123 of 10000 points, 3:05 left");
    expect_line(&progress, 0.0123, 36000 + 61, "sweeping: 123 of 10000 points, 10:01:01 left");
}

static void a_file_gets_nothing(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    FILE *stream = tmpfile();
    struct progress progress;
    progress_init(&progress, stream, "sweeping");
    assert_null(progress.stream);
    progress_show(&progress, 0.5);
    progress_phase(&progress, "folding");
    progress_clear(&progress);
    assert_int_equal(ftell(stream), 0);
    fclose(stream);
}

static void a_terminal_gets_a_line_that_is_wiped(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        skip();
    FILE *stream = fopen(ptsname(master), "w");
    if (!stream)
        skip();
    setenv("TERM", "dumb", 1);
    struct progress progress;
    progress_init(&progress, stream, "sweeping");
    assert_null(progress.stream);
    setenv("TERM", "xterm", 1);
    progress_init(&progress, stream, "sweeping");
    assert_non_null(progress.stream);
    progress_count(&progress, "points", 10);
    progress_show(&progress, 0.2);
    assert_false(progress.shown); /* work that is done within a moment shows nothing */
    progress.shown_at -= 1;
    progress.begun_at -= 60; /* a minute for three points */
    progress_show(&progress, 0.5);
    progress_clear(&progress);
    progress_phase(&progress, "folding");
    assert_true(progress.shown); /* whose share nobody knows is named at once */
    progress_clear(&progress);
    const char *expected = "\rsweeping: 5 of 10 points, 1:40 left\033[K\r\033[K\rfolding\033[K\r\033[K";
    char text[256] = "";
    /* A terminal passes on what it has so far. */
    struct pollfd there = {.fd = master, .events = POLLIN};
    for (size_t size = 0; !strstr(text, expected) && size < sizeof text - 1 && poll(&there, 1, 5000) > 0;) {
        ssize_t length = read(master, text + size, sizeof text - 1 - size);
        assert_true(length > 0);
        size += (size_t)length;
    }
    assert_non_null(strstr(text, expected));
    fclose(stream);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_has_what_is_done_and_the_time_left),
        cmocka_unit_test(a_file_gets_nothing),
        cmocka_unit_test(a_terminal_gets_a_line_that_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
