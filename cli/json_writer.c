/* json_writer.c - see json_writer.h. Nothing is kept but where in the document the next member goes. */
#include "cli/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_set.h"

#define INDENT 2
#define PRECISION 17

void json_writer_init(struct json_writer *writer, FILE *stream, unsigned depth)
{
    *writer = (struct json_writer){.stream = stream, .depth = depth};
}

static void write_line_begin(const struct json_writer *writer)
{
    static const char blanks[] = "\n                                                                ";
    size_t length = 1 + INDENT * (size_t)writer->depth;
    assert(length < sizeof blanks);
    fwrite(blanks, 1, length, writer->stream);
}

/* What stands before a value: a comma, a new line, the key. */
static void begin_value(struct json_writer *writer, const char *key)
{
    if (writer->open == 0)
        return;
    bool *any = &writer->any[writer->open - 1];
    if (*any)
        fputc(',', writer->stream);
    *any = true;
    write_line_begin(writer);
    if (!key)
        return;
    fputc('"', writer->stream);
    fputs(key, writer->stream);
    fputs("\": ", writer->stream);
}

static void open_one(struct json_writer *writer, const char *key, char bracket)
{
    assert(writer->open < JSON_WRITER_DEPTH_MAX);
    begin_value(writer, key);
    fputc(bracket, writer->stream);
    writer->any[writer->open++] = false;
    writer->depth++;
}

static void close_one(struct json_writer *writer, char bracket)
{
    writer->depth--;
    if (writer->any[--writer->open])
        write_line_begin(writer);
    fputc(bracket, writer->stream);
}

void json_writer_object(struct json_writer *writer, const char *key)
{
    open_one(writer, key, '{');
}

void json_writer_array(struct json_writer *writer, const char *key)
{
    open_one(writer, key, '[');
}

void json_writer_end_object(struct json_writer *writer)
{
    close_one(writer, '}');
}

void json_writer_end_array(struct json_writer *writer)
{
    close_one(writer, ']');
}

/* As jansson does: always with a point or an exponent, so that it is read back as a real; the exponent without a plus
 * and without leading zeros. */
static void write_real(double value, FILE *stream)
{
    char text[40];
    snprintf(text, sizeof text - 2, "%.*g", PRECISION, value);
    char *exponent = strchr(text, 'e');
    if (exponent) {
        char *digits = exponent + 2 + strspn(exponent + 2, "0"), *to = exponent + 1 + (exponent[1] == '-');
        memmove(to, digits, strlen(digits) + 1);
    } else if (!strchr(text, '.')) {
        strcat(text, ".0");
    }
    fputs(text, stream);
}

void json_writer_real(struct json_writer *writer, const char *key, double value)
{
    begin_value(writer, key);
    if (isfinite(value))
        write_real(value, writer->stream);
    else
        fputs("null", writer->stream);
}

void json_writer_count(struct json_writer *writer, const char *key, uint64_t value)
{
    begin_value(writer, key);
    fprintf(writer->stream, "%" PRId64, (int64_t)value);
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e || *text == '"' || *text == '\\')
            return false;
    return true;
}

void json_writer_text(struct json_writer *writer, const char *key, const char *text)
{
    if (!is_plain(text)) {
        json_writer_tree(writer, key, json_text(text));
        return;
    }
    begin_value(writer, key);
    fputc('"', writer->stream);
    fputs(text, writer->stream);
    fputc('"', writer->stream);
}

void json_writer_tree(struct json_writer *writer, const char *key, json_t *json)
{
    begin_value(writer, key);
    char *text = json_dumps(json, JSON_INDENT(INDENT) | JSON_REAL_PRECISION(PRECISION) | JSON_ENCODE_ANY);
    for (const char *line = text; line;) { /* text inside JSON has no newlines of its own */
        const char *end = strchr(line, '\n');
        fwrite(line, 1, end ? (size_t)(end - line) : strlen(line), writer->stream);
        line = end ? end + 1 : NULL;
        if (line)
            write_line_begin(writer);
    }
    free(text);
    json_decref(json);
}
