/* events_text.h - pieces of the text of `--events`: positions, lanes, numbers, and tables of rows. */
#ifndef CPSIM_HW_VERIFY_EVENTS_TEXT_H
#define CPSIM_HW_VERIFY_EVENTS_TEXT_H

#include "hw/verify/walk.h"

struct events {
    struct walk walk;
    FILE *stream;
    uint32_t ranks;
    bool **announced; /* [rank][collective]: its line is printed */
};

struct text {
    char text[4 * EVENTS_SEQ_LEN_MAX];
};

/* "0-3,8,10-11"; sorts `positions`. */
struct text positions_text(uint64_t *positions, size_t count);
struct text block_text(const struct events *events, struct block block);
/* "rank 3", "group 1", "all ranks" */
struct text owner_text(uint32_t owner);
/* Of query heads: ", heads 2-3, item 1"; "" when they are all there are. */
struct text lanes_text(const struct events *events, struct lanes lanes);
/* "K,V", "dV", "O"; of `part` of what goes by keys. */
const char *tensor_text(enum tensor tensor, unsigned part);

void print_number(FILE *stream, double value); /* in nine columns; no negative zero */
void print_vector(FILE *stream, const double *numbers, size_t count, double divisor);

/* Column title over a vector of `count` numbers; 0: the last column, not padded. */
void print_title(FILE *stream, const char *title, size_t count);
/* "  position  head", with the item between them when there are several, and what is below. */
void print_row_titles(const struct events *events, const char *what);
void print_row_name(const struct events *events, uint64_t position, size_t item, size_t head);

/* What a buffer holds, by position, item and head. */
void print_rows(const struct events *events, const struct view *view, bool header);

/* The online softmax of queries: [query][lane][2 + head_dim], and which of the keys just attended each of them sees. */
void print_states(const struct events *events, struct block queries, struct lanes lanes, const double *states,
                  struct block keys);

/* ---- events_results.c ---- */

void events_print_case(const struct events *events);
bool events_print_results(const struct events *events, struct diagnostics *diag);

#endif
