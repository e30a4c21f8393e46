/* sums.h - of which attended blocks a result is the sum, without ever copying a set.
 *
 * A sum is a node of a directed acyclic graph: a leaf is what one attend (or attend-backward) operation left in one
 * cell; an inner node is the union of two earlier nodes. Nodes never change, so a message passes a sum on by its
 * number. A ring of P ranks makes O(P) nodes per rank and pass.
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_SUMS_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_SUMS_H

#include <stdint.h>

#define SUM_EMPTY 0

#define LEAF_RESULTS_MAX 3

struct leaf {
    uint32_t rank, op, cell;              /* one of the operation's cells */
    uint64_t pairs;                       /* visible pairs between its queries and keys, in one lane */
    uint64_t delivered[LEAF_RESULTS_MAX]; /* of these, how many have reached each of the final results */
};

struct sum_node {
    uint32_t left, right; /* two nodes; for a leaf, SUM_EMPTY and the leaf's index */
    uint32_t visit;       /* the last sums_flatten that met it */
};

struct sums {
    struct sum_node *nodes;
    uint32_t n_nodes, node_capacity;
    struct leaf *leaves;
    uint32_t n_leaves, leaf_capacity;
    uint32_t visits;
    uint32_t *stack;
    uint32_t n_stack, stack_capacity;
};

struct leaf_list {
    uint32_t *leaves; /* indices */
    uint32_t count, capacity;
};

void sums_init(struct sums *sums);
void sums_fini(struct sums *sums);

uint32_t sums_add_leaf(struct sums *sums, uint32_t rank, uint32_t op, uint32_t cell, uint64_t pairs);

/* The union of two sums; a leaf in both counts twice, which sums_flatten finds. */
uint32_t sums_unite(struct sums *sums, uint32_t left, uint32_t right);

/* Replaces `once` by the leaves of `sum`, each once, and `twice` by leaves that it has more than once (of a whole sum
 * that it has more than once, only one leaf). Linear in the nodes below `sum`. */
void sums_flatten(struct sums *sums, uint32_t sum, struct leaf_list *once, struct leaf_list *twice);

#endif
