/* explain_chain.h - a critical path as a chain of rows, in which what repeats stands once.
 *
 * Pieces are alike that are of one phase, do the same, and, of messages, are entered at the same end and go over links
 * of one level. A row is some pieces one after the other, and how many times in a row such pieces come; from one to the
 * next the path goes as many ranks on each time. Where that leaves very many rows, ranks are not looked at.
 */
#ifndef CPSIM_CLI_EXPLAIN_CHAIN_H
#define CPSIM_CLI_EXPLAIN_CHAIN_H

#include "cli/prediction.h"
#include "models/result/step_path.h"

/* Where a piece that is a message went. */
struct piece_way {
    bool is_message;
    uint32_t level;
    uint32_t from, to; /* group * cp + rank */
    uint64_t link;     /* the narrowest on its route, or the first of these */
};

struct chain_row {
    size_t first; /* piece */
    size_t period, times;
    double seconds;
};

struct chain {
    struct chain_row *rows;
    size_t count, capacity;
};

/* Of each piece; the caller frees them. */
struct piece_way *piece_ways(const struct step_path *path, const struct prediction *prediction);

void chain_init(struct chain *chain, const struct step_path *path, const struct piece_way *ways,
                const struct prediction *prediction);
void chain_fini(struct chain *chain);

/* The operation of a piece; NULL: the host's. */
const struct op *piece_op(const struct prediction *prediction, const struct path_piece *piece);

/* What a row is, such as "rank 31: attend 12.3 ms, merge 0.1 ms", with the mean seconds of each. */
void chain_describe(const struct chain_row *row, const struct step_path *path, const struct piece_way *ways,
                    const struct prediction *prediction, FILE *stream);

/* "rank 3"; "rank 3/1" of the second of several groups. */
void chain_print_rank(const struct prediction *prediction, uint32_t place, FILE *stream);

#endif
