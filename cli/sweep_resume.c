/* sweep_resume.c - see sweep_resume.h. What is not as it should be ends the reading: all behind it is done again. */
#include "cli/sweep_resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/sweep_point.h"
#include "models/base/memory.h"

/* ---- the beginning ---- */

/* Says what is different: the file was opened, and does not begin with `head`. */
static bool complain_of_head(const char *path, const char *head, const char *found, struct diagnostics *diag)
{
    const char *points = strstr(found, ",\n  \"points\": [");
    char *text = memory_format("%.*s}", points ? (int)(points - found) : 0, found);
    char *wanted_text = memory_format("%.*s}", (int)(strstr(head, ",\n  \"points\": [") - head), head);
    json_t *json = json_loads(text, 0, NULL), *wanted = json_loads(wanted_text, 0, NULL);
    static const struct {
        const char *key, *what;
    } parts[] = {{"cpsim_version", "is of another version"},
                 {"command", "answers another question"},
                 {"runs", "has other --points"},
                 {"keys", "has other keys"}};
    const char *schema = json_string_value(json_object_get(json, "schema"));
    bool told = !schema || strcmp(schema, "cpsim.sweep/1") != 0;
    if (told)
        diagnostics_at(diag, path, 0, "not a sweep as cpsim writes it (cpsim.sweep/1): --resume cannot go on with it");
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !told; i++) {
        const json_t *theirs = json_object_get(json, parts[i].key), *ours = json_object_get(wanted, parts[i].key);
        if (theirs == ours || (theirs && ours && json_equal(theirs, ours)))
            continue;
        const char *is = json_string_value(theirs), *expected = json_string_value(ours);
        bool of_runs = strcmp(parts[i].key, "runs") == 0;
        diagnostics_at(diag, path, 0, "%s: '%s', expected '%s'", parts[i].what,
                       is        ? is
                       : of_runs ? "full"
                                 : "",
                       expected  ? expected
                       : of_runs ? "full"
                                 : "");
        told = true;
    }
    if (!told)
        diagnostics_at(diag, path, 0, "not laid out as cpsim writes it: --resume cannot go on with it");
    json_decref(json);
    json_decref(wanted);
    free(wanted_text);
    free(text);
    return false;
}

/* Reads past the beginning. A file that was cut within it has no points. */
static bool read_head(FILE *stream, const char *path, const char *head, struct diagnostics *diag)
{
    size_t length = strlen(head), most = length + 65536;
    char *found = memory_zeroed(most + 1, 1);
    size_t size = fread(found, 1, most, stream);
    bool same = strncmp(found, head, size < length ? size : length) == 0 &&
                (size < length || found[length] == '\n' || found[length] == '\0');
    if (same)
        fseek(stream, (long)length, SEEK_SET);
    else
        complain_of_head(path, head, found, diag);
    free(found);
    return same;
}

/* ---- points ---- */

struct reader {
    FILE *stream;
    char *line;
    size_t line_capacity;
    char *text; /* of the point, as far as it has been read */
    size_t size, capacity;
    long begin, at; /* in the file: of the last line, behind it */
};

/* The next line without its newline; false at the end. */
static bool next_line(struct reader *reader)
{
    reader->begin = reader->at;
    ssize_t length = getline(&reader->line, &reader->line_capacity, reader->stream);
    if (length < 0)
        return false;
    reader->at += length;
    if (length > 0 && reader->line[length - 1] == '\n')
        reader->line[length - 1] = '\0';
    return true;
}

static void append(struct reader *reader, const char *bytes, size_t size)
{
    if (reader->capacity - reader->size <= size) {
        reader->capacity = 2 * reader->capacity + size + 4096;
        reader->text = memory_resized(reader->text, reader->capacity, 1);
    }
    memcpy(reader->text + reader->size, bytes, size);
    reader->size += size;
    reader->text[reader->size] = '\0';
}

enum reading { READ_POINT, READ_END, READ_CUT };

/* Reads the next point; `*end` becomes the file's length up to its end. */
static enum reading next_point(struct reader *reader, long *end)
{
    static const char opening[] = "    {", closing[] = "    }", closing_more[] = "    },";
    reader->size = 0;
    if (!next_line(reader) || strcmp(reader->line, "  ]") == 0 || strcmp(reader->line, "  ],") == 0)
        return READ_END;
    if (strcmp(reader->line, opening) != 0)
        return READ_CUT;
    do {
        bool last = strcmp(reader->line, closing) == 0 || strcmp(reader->line, closing_more) == 0;
        append(reader, last ? closing : reader->line, last ? strlen(closing) : strlen(reader->line));
        if (last) {
            *end = reader->begin + (long)strlen(closing);
            return READ_POINT;
        }
        append(reader, "\n", 1);
    } while (next_line(reader));
    return READ_CUT;
}

/* The number of the point with these settings, from `point` on; n_points if it is none. */
static size_t find_point(const struct sweep *sweep, size_t point, const json_t *settings)
{
    for (; point < sweep->n_points; point++) {
        bool same = json_object_size(settings) == sweep->n_keys;
        for (size_t i = 0; same && i < sweep->n_keys; i++) {
            const char *value = json_string_value(json_object_get(settings, sweep->keys[i].name));
            same = value && strcmp(value, sweep_value(sweep, point, i)) == 0;
        }
        if (same)
            break;
    }
    return point;
}

static bool read_points(struct reader *reader, const struct sweep *sweep, sweep_visit *visit, void *context)
{
    size_t point = 0;
    long end = 0;
    enum reading reading;
    next_line(reader); /* what is left of the one with the bracket */
    while ((reading = next_point(reader, &end)) == READ_POINT && point < sweep->n_points) {
        json_t *json = json_loadb(reader->text, reader->size, JSON_REJECT_DUPLICATES, NULL);
        point = find_point(sweep, point, json_object_get(json, "set"));
        bool whole =
            point < sweep->n_points && (json_is_object(json_object_get(json_object_get(json, "run"), "step")) ||
                                        json_is_array(json_object_get(json, "error")));
        if (whole)
            visit(context, point++, json, reader->text, end);
        json_decref(json);
        if (!whole)
            return false;
    }
    return reading != READ_CUT;
}

bool sweep_resume_read(const char *path, const struct sweep *sweep, const char *head, sweep_visit *visit, void *context,
                       bool *cut, struct diagnostics *diag)
{
    struct stat status;
    bool special = stat(path, &status) == 0 && !S_ISREG(status.st_mode); /* a pipe would wait for its writer */
    FILE *stream = special ? NULL : fopen(path, "re");
    if (special)
        return diagnostics_at(diag, path, 0, "not a regular file: --resume cannot go on with it");
    if (!stream)
        return diagnostics_add(diag,
                               "cannot read '%s': %s, expected the file of a sweep that --resume is to go on with",
                               path, strerror(errno));
    bool fine = read_head(stream, path, head, diag);
    if (fine) {
        struct reader reader = {.stream = stream, .at = (long)strlen(head)};
        *cut = !read_points(&reader, sweep, visit, context);
        free(reader.line);
        free(reader.text);
    }
    fclose(stream);
    return fine;
}
