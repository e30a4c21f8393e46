/* The strict INI reader: what it reads, and that everything libinih would do silently is an error with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "tests/models/expect_lines.h"

static struct diagnostics diag;

static const char *value_of(const struct ini_document *document, const char *section, const char *key)
{
    const struct ini_section *found = ini_document_section(document, section);
    const struct ini_entry *entry = found ? ini_section_entry(found, key) : NULL;
    return entry ? entry->value : "(not there)";
}

/* Reads `text`, which must be refused with exactly the given lines. */
#define REFUSED(text, ...)                                                                                             \
    do {                                                                                                               \
        struct ini_document *refused_ = ini_document_read_text("f.ini", text, &diag);                                  \
        assert_true(refused_->incomplete);                                                                             \
        ini_document_destroy(refused_);                                                                                \
        EXPECT_LINES(&diag, __VA_ARGS__);                                                                              \
    } while (0)

static struct ini_document *accepted(const char *text)
{
    struct ini_document *document = ini_document_read_text("f.ini", text, &diag);
    expect_no_lines(&diag);
    assert_false(document->incomplete);
    return document;
}

static void sections_keys_values_and_lines_are_as_written(void **state)
{
    (void)state;
    struct ini_document *document = accepted("; head\n"
                                             "\n"
                                             "[model]\n"
                                             "preset = llama3-8b\n"
                                             "dtype=bf16\n"
                                             "[ level   node ]   ; blanks in a name are single\n"
                                             "bandwidth   =   450 GB/s   \n"
                                             "formula = a=b:c\n"
                                             "last = without newline");
    assert_int_equal(document->n_sections, 2);
    assert_string_equal(document->sections[1].name, "level node");
    assert_int_equal(document->sections[1].line, 6);
    assert_string_equal(value_of(document, "model", "preset"), "llama3-8b");
    assert_string_equal(value_of(document, "model", "dtype"), "bf16");
    assert_string_equal(value_of(document, "level node", "bandwidth"), "450 GB/s");
    assert_string_equal(value_of(document, "level node", "formula"), "a=b:c");
    assert_string_equal(value_of(document, "level node", "last"), "without newline");
    assert_int_equal(ini_section_entry(&document->sections[0], "dtype")->line, 5);
    assert_int_equal(ini_section_entry(&document->sections[1], "last")->line, 9);
    assert_null(ini_document_section(document, "level"));
    ini_document_destroy(document);
}

static void both_comment_characters_follow_one_rule(void **state)
{
    (void)state;
    struct ini_document *document = accepted("# hash\n"
                                             "; semicolon\n"
                                             "   # indented\n"
                                             "\t; indented\n"
                                             "[a] # section\n"
                                             "hash = 100 # GB/s\n"
                                             "semicolon = 100 ; GB/s\n"
                                             "tight = 100;GB/s\n"
                                             "tight_hash = 100#GB/s\n"
                                             "quoted = \"a ; b\"\n"
                                             "tab = 1\t# one\n");
    assert_string_equal(value_of(document, "a", "hash"), "100");
    assert_string_equal(value_of(document, "a", "semicolon"), "100");
    assert_string_equal(value_of(document, "a", "tight"), "100;GB/s");
    assert_string_equal(value_of(document, "a", "tight_hash"), "100#GB/s");
    assert_string_equal(value_of(document, "a", "quoted"), "\"a");
    assert_string_equal(value_of(document, "a", "tab"), "1");
    ini_document_destroy(document);
}

static void windows_line_ends_are_accepted(void **state)
{
    (void)state;
    struct ini_document *document = accepted("[a]\r\nb = c\r\n\r\n; d\r\ne = f\r\n");
    assert_string_equal(value_of(document, "a", "b"), "c");
    assert_string_equal(value_of(document, "a", "e"), "f");
    assert_int_equal(document->sections[0].entries[1].line, 5);
    ini_document_destroy(document);
}

/* "[a]\nk = vvv...\n" whose second line has `length` characters. */
static char *text_with_line(size_t length, const char *tail)
{
    char *value = memory_zeroed(length, 1);
    memset(value, 'v', length - 4);
    char *text = memory_format("[a]\nk = %s%s\nafter = 1\n", value, tail);
    free(value);
    return text;
}

static void long_lines_are_refused_and_never_cut(void **state)
{
    (void)state;
    char *text = text_with_line(198, "");
    struct ini_document *document = accepted(text);
    assert_int_equal(strlen(value_of(document, "a", "k")), 194);
    assert_string_equal(value_of(document, "a", "after"), "1");
    ini_document_destroy(document);
    free(text);
    for (size_t length = 199; length <= 401; length += length < 201 ? 1 : 200) {
        text = text_with_line(length, "");
        char *expected = memory_format("f.ini:2: the line has %zu characters, expected at most 198", length);
        REFUSED(text, expected);
        free(expected);
        free(text);
    }
}

static void long_comments_are_harmless(void **state)
{
    (void)state;
    char comment[400];
    memset(comment, 'c', sizeof comment - 1);
    comment[sizeof comment - 1] = '\0';
    char *text = memory_format("; %s\n[a]\nk = v ; %s\n# %s\nl = w\n", comment, comment, comment);
    struct ini_document *document = accepted(text);
    assert_string_equal(value_of(document, "a", "k"), "v");
    assert_string_equal(value_of(document, "a", "l"), "w");
    ini_document_destroy(document);
    free(text);
}

static void indented_lines_are_refused_and_not_joined(void **state)
{
    (void)state;
    REFUSED("[a]\nb = 1\n  c = 2\n\t[d]\n",
            "f.ini:3: the line begins with a blank, expected [section] or key = value at its very start",
            "f.ini:4: the line begins with a blank, expected [section] or key = value at its very start");
}

static void lines_that_are_no_keys_are_refused_and_the_rest_is_read(void **state)
{
    (void)state;
    REFUSED("[parallel]\ncp 8\ntp : 2\n= 3\ndp =\norder = ; nothing\nx=1\n",
            "f.ini:2: 'cp 8' is neither a section nor a key, expected [section] or key = value",
            "f.ini:3: 'tp : 2' is neither a section nor a key, expected [section] or key = value",
            "f.ini:4: '= 3' has no key before the '=', expected key = value",
            "f.ini:5: 'dp' has no value, expected key = value", "f.ini:6: 'order' has no value, expected key = value");
    struct ini_document *document = ini_document_read_text("f.ini", "[parallel]\ncp 8\nx = 1\n", &diag);
    assert_string_equal(value_of(document, "parallel", "x"), "1");
    ini_document_destroy(document);
    diagnostics_fini(&diag);
}

static void broken_section_lines_do_not_pass_their_keys_to_another(void **state)
{
    (void)state;
    REFUSED("[a]\nb = 1\n[link\nb = 2\n[x] y = 3\nb = 4\n[]\nb = 5\n[ ]\n[c]\nb = 6\n",
            "f.ini:3: '[link' has no closing ']', expected [section]",
            "f.ini:5: '[x] y = 3' goes on after the ']', expected [section] alone on its line",
            "f.ini:7: section without a name, expected [section]",
            "f.ini:9: section without a name, expected [section]");
    REFUSED("[a]\nb = 1\n  [c]\nb = 2\n[\xe9]\nb = 3\n[d]\nb = 4\nb = 5\n",
            "f.ini:3: the line begins with a blank, expected [section] or key = value at its very start",
            "f.ini:5: the line holds a byte that is not UTF-8, expected text",
            "f.ini:9: 'b' a second time in [d], expected once (first on line 8)");
    char *name = memory_zeroed(300, 1);
    memset(name, 'n', 299);
    char *text = memory_format("[a]\nb = 1\n[%s]\nb = 2\n", name);
    REFUSED(text, "f.ini:3: the line has 301 characters, expected at most 198");
    free(text);
    free(name);
}

static void section_names_are_refused_before_they_are_cut(void **state)
{
    (void)state;
    const char *name = "link aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"; /* 50 characters */
    char *text = memory_format("[%s]\na = 1\n[%.49s]\nb = 2\n", name, name);
    char *expected = memory_format("f.ini:1: section name '%s' has 50 characters, expected at most 49", name);
    REFUSED(text, expected);
    struct ini_document *document = ini_document_read_text("f.ini", text, &diag);
    assert_int_equal(document->n_sections, 1);
    assert_string_equal(document->sections[0].entries[0].key, "b");
    ini_document_destroy(document);
    diagnostics_fini(&diag);
    free(expected);
    free(text);
}

static void nothing_stands_twice_and_no_section_is_empty(void **state)
{
    (void)state;
    REFUSED("[workload]\nseq_len = 1\nseq_len = 2\n[model]\na = 1\n[workload]\nbatch = 1\n[empty]\n[other]\n; only\n",
            "f.ini:3: 'seq_len' a second time in [workload], expected once (first on line 2)",
            "f.ini:6: section [workload] a second time, expected once (first on line 1)",
            "f.ini:8: section [empty] has no keys", "f.ini:9: section [other] has no keys");
    REFUSED("cp = 8\n[a]\nb = 1\n", "f.ini:1: 'cp = 8' stands before any section, expected a [section] line above it");
}

static void only_plain_utf8_text_is_read(void **state)
{
    (void)state;
    REFUSED("\xef\xbb\xbf[a]\nb = 1\n",
            "f.ini:1: the file begins with a byte order mark, expected plain UTF-8 without one");
    REFUSED("[a]\nb = 1\x01\nc = \xff\nd = \xc0\xaf\ne = 1\rf = 2\n",
            "f.ini:2: the line holds a control character, expected text",
            "f.ini:3: the line holds a byte that is not UTF-8, expected text",
            "f.ini:4: the line holds a byte that is not UTF-8, expected text",
            "f.ini:5: the line holds a control character, expected text");
    struct ini_document *document = accepted("[a]\nname = H100 \xe2\x80\x93 80\n");
    assert_string_equal(value_of(document, "a", "name"), "H100 \xe2\x80\x93 80");
    ini_document_destroy(document);
}

static char *write_file(const void *bytes, size_t size)
{
    char *path = memory_text("/tmp/cpsim-ini-XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
    return path;
}

static void files_that_are_no_ini_files_are_refused(void **state)
{
    (void)state;
    assert_null(ini_document_read("/nowhere/x.ini", &diag));
    EXPECT_LINES(&diag, "/nowhere/x.ini: cannot be read: No such file or directory");
    assert_null(ini_document_read("/tmp", &diag));
    EXPECT_LINES(&diag, "/tmp: cannot be read: Is a directory");
    assert_null(ini_document_read("/dev/zero", &diag));
    EXPECT_LINES(&diag, "/dev/zero: has more than 256 KiB, expected an INI file of at most that");

    char *path = write_file("[a]\nb = 1\0 2\nc = 3", 18);
    struct ini_document *document = ini_document_read(path, &diag);
    char *expected = memory_format("%s:2: the line holds a zero byte, expected text", path);
    EXPECT_LINES(&diag, expected);
    assert_string_equal(value_of(document, "a", "c"), "3");
    ini_document_destroy(document);
    free(expected);
    unlink(path);
    free(path);

    path = write_file("", 0);
    document = ini_document_read(path, &diag);
    assert_non_null(document);
    assert_int_equal(document->n_sections, 0);
    ini_document_destroy(document);
    expect_no_lines(&diag);
    unlink(path);
    free(path);
}

static void overrides_replace_and_add_and_are_marked(void **state)
{
    (void)state;
    struct ini_document *document = accepted("[parallel]\ncp = 4\n[level node.1]\nsize = 8\n");
    assert_true(ini_document_override(document, "parallel.cp=8", &diag));
    assert_true(ini_document_override(document, "parallel.tp = 2 ", &diag));
    assert_true(ini_document_override(document, "level node.1.size=16", &diag));
    assert_true(ini_document_override(document, "level  cluster.bandwidth=400 Gb/s", &diag));
    assert_true(ini_document_override(document, "schedule.note=a=b ; c", &diag));
    expect_no_lines(&diag);
    assert_string_equal(value_of(document, "parallel", "cp"), "8");
    assert_string_equal(value_of(document, "parallel", "tp"), "2");
    assert_string_equal(value_of(document, "level node.1", "size"), "16");
    assert_string_equal(value_of(document, "level cluster", "bandwidth"), "400 Gb/s");
    assert_string_equal(value_of(document, "schedule", "note"), "a=b ; c");
    assert_int_equal(ini_section_entry(ini_document_section(document, "parallel"), "cp")->line, -1);
    ini_document_destroy(document);
}

static void overrides_without_a_value_take_keys_back(void **state)
{
    (void)state;
    struct ini_document *document = accepted("[step]\nzero = 1\n[parallel]\ncp = 4\ntp = 2\ndp = 3\n");
    assert_true(ini_document_override(document, "parallel.tp=", &diag));
    assert_true(ini_document_override(document, "step.zero = ", &diag)); /* the section stays, and is empty */
    expect_no_lines(&diag);
    assert_null(ini_section_entry(ini_document_section(document, "parallel"), "tp"));
    assert_string_equal(value_of(document, "parallel", "cp"), "4");
    assert_string_equal(value_of(document, "parallel", "dp"), "3");
    assert_int_equal(ini_document_section(document, "step")->n_entries, 0);
    assert_true(ini_document_override(document, "parallel.tp=8", &diag));
    assert_false(ini_document_override(document, "parallel.tp=", &diag));
    EXPECT_LINES(&diag, "--set parallel.tp=: takes back a key that 'f.ini' does not write, expected section.key=value");
    ini_document_destroy(document);
}

static void bad_overrides_are_refused(void **state)
{
    (void)state;
    struct ini_document *document = accepted("[a]\nb = 1\n");
    static const char *const bad[] = {"",     "a",     "a.b",  "=",      "a=1",       ".b=1",
                                      "a.=1", "b=a.1", "a.c=", "c.b=  ", "a.b=1\n[c]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ini_document_override(document, bad[i], &diag));
    assert_int_equal(diag.count, sizeof bad / sizeof *bad);
    assert_string_equal(diag.lines[1], "--set a: not understood, expected section.key=value");
    assert_string_equal(diag.lines[8],
                        "--set a.c=: takes back a key that 'f.ini' does not write, expected section.key=value");
    assert_string_equal(diag.lines[10], "--set: the text holds a control character, expected section.key=value");
    diagnostics_fini(&diag);
    assert_string_equal(value_of(document, "a", "b"), "1");
    assert_true(ini_document_override(document, "a.b=2", &diag));
    assert_false(ini_document_override(document, "a.b=3", &diag));
    EXPECT_LINES(&diag, "--set a.b=3: 'a.b' is set a second time, expected once");
    ini_document_destroy(document);
}

/* Whatever the bytes: no crash, and a document or a message. */
static void random_bytes_do_no_harm(void **state)
{
    (void)state;
    static const char alphabet[] = "[]=:;# \t\n\n\n\r\x01"
                                   "ab1\xc3\xa9\xff";
    srand(3);
    for (int i = 0; i < 20000; i++) {
        char text[65] = {0};
        int length = rand() % 64;
        for (int j = 0; j < length; j++)
            text[j] = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
        struct ini_document *document = ini_document_read_text("f.ini", text, &diag);
        assert_int_equal(document->incomplete, diag.count > 0);
        for (size_t s = 0; s < document->n_sections; s++) {
            assert_true(document->sections[s].name[0] != '\0');
            for (size_t e = 0; e < document->sections[s].n_entries; e++)
                assert_true(document->sections[s].entries[e].key[0] && document->sections[s].entries[e].value[0]);
        }
        ini_document_destroy(document);
        for (size_t d = 0; d < diag.count; d++)
            assert_null(strstr(diag.lines[d], "not understood")); /* libinih found nothing that the reader let pass */
        diagnostics_fini(&diag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_keys_values_and_lines_are_as_written),
        cmocka_unit_test(both_comment_characters_follow_one_rule),
        cmocka_unit_test(windows_line_ends_are_accepted),
        cmocka_unit_test(long_lines_are_refused_and_never_cut),
        cmocka_unit_test(long_comments_are_harmless),
        cmocka_unit_test(indented_lines_are_refused_and_not_joined),
        cmocka_unit_test(lines_that_are_no_keys_are_refused_and_the_rest_is_read),
        cmocka_unit_test(broken_section_lines_do_not_pass_their_keys_to_another),
        cmocka_unit_test(section_names_are_refused_before_they_are_cut),
        cmocka_unit_test(nothing_stands_twice_and_no_section_is_empty),
        cmocka_unit_test(only_plain_utf8_text_is_read),
        cmocka_unit_test(files_that_are_no_ini_files_are_refused),
        cmocka_unit_test(overrides_replace_and_add_and_are_marked),
        cmocka_unit_test(overrides_without_a_value_take_keys_back),
        cmocka_unit_test(bad_overrides_are_refused),
        cmocka_unit_test(random_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
