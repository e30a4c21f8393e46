/* json_writer.h - JSON written member by member, so that a document of any size needs no tree of it.
 *
 * The bytes are those that jansson prints for the whole tree with an indent of two and 17 digits (json_print): numbers,
 * text and layout are the same, whichever of the two has written a part.
 */
#ifndef CPSIM_CLI_JSON_WRITER_H
#define CPSIM_CLI_JSON_WRITER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_WRITER_DEPTH_MAX 16

struct json_writer {
    FILE *stream;
    unsigned depth;                  /* of nesting, which is how far a line is indented */
    unsigned open;                   /* objects and arrays that are */
    bool any[JSON_WRITER_DEPTH_MAX]; /* [open] whether it has a member */
};

/* A value at `depth` of a document whose beginning somebody else writes; 0: a document. */
void json_writer_init(struct json_writer *writer, FILE *stream, unsigned depth);

/* Opens an object or an array; `key` NULL: an element of an array, or the document itself. */
void json_writer_object(struct json_writer *writer, const char *key);
void json_writer_array(struct json_writer *writer, const char *key);
void json_writer_end_object(struct json_writer *writer);
void json_writer_end_array(struct json_writer *writer);

/* Members, as those of json_set.h. */
void json_writer_real(struct json_writer *writer, const char *key, double value);
void json_writer_count(struct json_writer *writer, const char *key, uint64_t value);
void json_writer_text(struct json_writer *writer, const char *key, const char *text);
/* A small part that there is a tree of; drops the reference. */
void json_writer_tree(struct json_writer *writer, const char *key, json_t *json);

#endif
