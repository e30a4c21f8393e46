/* sums.c - the graph of sums. Node 0 is the empty sum. */
#include "models/schedule/checker/sums.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

static uint32_t add_node(struct sums *sums, uint32_t left, uint32_t right)
{
    memory_grow(sums->nodes, sums->n_nodes, sums->node_capacity);
    sums->nodes[sums->n_nodes] = (struct sum_node){.left = left, .right = right};
    return sums->n_nodes++;
}

void sums_init(struct sums *sums)
{
    memset(sums, 0, sizeof *sums);
    add_node(sums, SUM_EMPTY, 0);
}

void sums_fini(struct sums *sums)
{
    free(sums->nodes);
    free(sums->leaves);
    free(sums->stack);
    memset(sums, 0, sizeof *sums);
}

uint32_t sums_add_leaf(struct sums *sums, uint32_t rank, uint32_t op, uint32_t cell, uint64_t pairs)
{
    memory_grow(sums->leaves, sums->n_leaves, sums->leaf_capacity);
    sums->leaves[sums->n_leaves] = (struct leaf){.rank = rank, .op = op, .cell = cell, .pairs = pairs};
    return add_node(sums, SUM_EMPTY, sums->n_leaves++);
}

uint32_t sums_unite(struct sums *sums, uint32_t left, uint32_t right)
{
    if (left == SUM_EMPTY)
        return right;
    return right == SUM_EMPTY ? left : add_node(sums, left, right);
}

static void push(struct sums *sums, uint32_t node)
{
    memory_grow(sums->stack, sums->n_stack, sums->stack_capacity);
    sums->stack[sums->n_stack++] = node;
}

static void append(struct leaf_list *list, uint32_t leaf)
{
    memory_grow(list->leaves, list->count, list->capacity);
    list->leaves[list->count++] = leaf;
}

static uint32_t some_leaf(const struct sums *sums, uint32_t node)
{
    while (sums->nodes[node].left != SUM_EMPTY)
        node = sums->nodes[node].left;
    return sums->nodes[node].right;
}

void sums_flatten(struct sums *sums, uint32_t sum, struct leaf_list *once, struct leaf_list *twice)
{
    once->count = twice->count = 0;
    if (sum == SUM_EMPTY)
        return;
    uint32_t visit = ++sums->visits;
    for (push(sums, sum); sums->n_stack;) {
        uint32_t index = sums->stack[--sums->n_stack];
        struct sum_node *node = &sums->nodes[index];
        if (node->visit == visit) {
            append(twice, some_leaf(sums, index));
            continue;
        }
        node->visit = visit;
        if (node->left == SUM_EMPTY) {
            append(once, node->right);
        } else {
            push(sums, node->right);
            push(sums, node->left);
        }
    }
}
