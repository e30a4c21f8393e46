/* run_read.c - a filter between the file and jansson: bytes go through, but for those inside "ranks".
 *
 * It knows as much of JSON as that takes: where strings begin and end, how deep one is, and which key stands before a
 * value. Newlines of what is left out are kept, for error messages.
 */
#include "cli/run_read.h"

#include <stdbool.h>
#include <string.h>

#define CHUNK_BYTES (1 << 16)

/* Where runs are: the document itself, or {"points": [{"run": {}}]}. */
enum { DEPTH_OF_RUN = 1, DEPTH_OF_POINTS_RUN = 4 };

struct filter {
    FILE *stream;
    char bytes[CHUNK_BYTES];
    size_t at, length;
    unsigned depth;
    bool in_string, escaped; /* behind a backslash */
    char word[sizeof "ranks" + 1];
    size_t word_length;  /* of the last string; no more than the array holds is kept */
    bool behind_key;     /* of ranks: a colon, and nothing since */
    unsigned left_depth; /* above 0: inside ranks, so deep */
};

/* One more byte of a string. */
static void pass_in_string(struct filter *filter, char byte)
{
    if (filter->escaped)
        filter->escaped = false;
    else if (byte == '\\')
        filter->escaped = true;
    else if (byte == '"')
        filter->in_string = false;
    if (!filter->in_string)
        return;
    if (filter->word_length < sizeof filter->word)
        filter->word[filter->word_length] = byte;
    filter->word_length++;
}

static void begin_string(struct filter *filter)
{
    filter->in_string = true;
    filter->word_length = 0;
}

static bool word_is_ranks(const struct filter *filter)
{
    return filter->word_length == strlen("ranks") && memcmp(filter->word, "ranks", strlen("ranks")) == 0;
}

/* Inside ranks: whether the byte goes through. */
static bool leave_out(struct filter *filter, char byte)
{
    if (filter->in_string) {
        pass_in_string(filter, byte);
        return false;
    }
    if (byte == '"')
        begin_string(filter);
    else if (byte == '[' || byte == '{')
        filter->left_depth++;
    else if (byte == ']' || byte == '}')
        filter->left_depth--;
    return byte == '\n' || filter->left_depth == 0;
}

/* Elsewhere everything does. */
static void pass(struct filter *filter, char byte)
{
    if (filter->in_string) {
        pass_in_string(filter, byte);
        return;
    }
    bool behind_key = filter->behind_key;
    switch (byte) {
    case ' ':
    case '\t':
    case '\r':
    case '\n':
        return;
    case '"':
        begin_string(filter);
        break;
    case '[':
        if (behind_key && (filter->depth == DEPTH_OF_RUN || filter->depth == DEPTH_OF_POINTS_RUN)) {
            filter->left_depth = 1;
            break;
        }
        filter->depth++;
        break;
    case '{':
        filter->depth++;
        break;
    case ']':
    case '}':
        filter->depth -= filter->depth > 0;
        break;
    default:
        break;
    }
    filter->behind_key = byte == ':' && word_is_ranks(filter);
}

/* For jansson: the next bytes; 0 at the end, (size_t)-1 when the file cannot be read. */
static size_t next_bytes(void *buffer, size_t size, void *context)
{
    struct filter *filter = context;
    char *to = buffer;
    size_t count = 0;
    while (count < size) {
        if (filter->at == filter->length) {
            filter->at = 0;
            filter->length = fread(filter->bytes, 1, sizeof filter->bytes, filter->stream);
            if (filter->length == 0)
                return ferror(filter->stream) ? (size_t)-1 : count;
        }
        char byte = filter->bytes[filter->at++];
        bool inside = filter->left_depth > 0;
        if (!inside)
            pass(filter, byte);
        if (!inside || leave_out(filter, byte))
            to[count++] = byte;
    }
    return count;
}

json_t *run_read(FILE *stream, json_error_t *error)
{
    struct filter filter = {.stream = stream};
    return json_load_callback(next_bytes, &filter, JSON_REJECT_DUPLICATES, error);
}
