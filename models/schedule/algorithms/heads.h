/* heads.h - trading rows for heads inside the groups of joined ranks (all-to-all, "Ulysses").
 *
 * Before the trade a rank has its own rows of all heads; after it, the rows of its whole group (sharding.h: joined
 * shards) of a slice of the heads. Between the two, attention is as it was, on other tensors: the builder's working
 * tensors, queries, lanes and circle become the joined ones. The circle is then that of the groups, this rank meeting
 * the like member of each.
 *
 * Inward, tensor by tensor: SPLIT_LANES makes a buffer for each member, an all-to-all hands them out, JOIN_ROWS puts
 * what comes (and the own slice, straight from where it was split) in the order of the joined rows. Outward:
 * SPLIT_ROWS, all-to-all, JOIN_LANES. That is four passes over a tensor beside the messages. The copies are in the
 * compute stream, the messages in that of exchanges, so that one tensor's copies run behind the other's messages.
 *
 * Bytes sent per rank, u being the ranks of a group, Q, KV, L those of the own rows' queries, keys and values, and LSE:
 *   forward   (u-1)/u (Q + KV') inward, (u-1)/u (O + L) outward
 *   backward  (u-1)/u dO inward, (u-1)/u (dQ + dKV') outward; Q, KV, O and LSE are kept joined from the forward pass
 * KV' = KV if the KV heads are at least u. With fewer, each goes to every member whose query heads read it: KV' = KV u
 * / kv_heads; JOIN_LANES adds the gradients of such replicas.
 *
 * LSE travels because a rank ends with O and LSE of its own queries. Implementations that keep the joined LSE alone do
 * not send it: that is L more here, 1/128 of 2 Q with heads of 128 in 16 bits, in messages of its own, counted as
 * other.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_HEADS_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_HEADS_H

#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/builder.h"

/* The rank's own tensors while the builder works on joined ones. */
struct heads {
    struct builder *b;
    uint32_t *members; /* the ranks of the group */
    struct lanes lanes;
    uint32_t o, lse, d_o, dq, dkv;
};

/* Forward: trades Q and KV, and gives the builder joined tensors to work on, with room for O, LSE and the gradients.
 * Does nothing, and nor do the others, when nobody's shards are joined. */
void heads_enter(struct heads *heads, struct builder *builder);
void heads_fini(struct heads *heads);

void heads_leave(struct heads *heads);          /* forward, after the attention: O and LSE */
void heads_enter_backward(struct heads *heads); /* dO */
void heads_leave_backward(struct heads *heads); /* dQ and dKV */

/* Whether `degree` ranks can share out the heads: each gets as many query heads, and either as many KV heads, or one
 * that it shares with as many others. */
bool heads_divide(const struct schedule *schedule, uint32_t degree);

/* algorithm_ops.joined for groups of `degree` ranks: 1 where these cannot share out the heads, which check refuses. */
uint32_t heads_joined(const struct schedule *schedule, uint32_t degree);

/* The most ranks that divide both cp and the KV heads. */
uint32_t heads_degree(const struct schedule *schedule);

/* Adds a message, with the nearest degrees that are legal, when `degree` ranks cannot share out the heads, or do not
 * divide cp. `section` and `key` wrote it. */
bool heads_check(const struct schedule *schedule, uint32_t degree, const char *section, const char *key,
                 struct diagnostics *diag);

/* algorithm_ops.no_effect of algorithms that put a ring of groups around the trade, for groups of `joined` ranks. */
const char *heads_no_effect(const struct schedule *schedule, uint32_t joined, enum algorithm_key key);

#endif
