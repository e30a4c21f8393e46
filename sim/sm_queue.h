/* sm_queue.h - transfers that wait for SMs.
 *
 * Thread blocks of NCCL's share no SM with a kernel that fills the device (NVIDIA/nccl issue 689): where one has been
 * launched before the transfer, these get SMs only once it has handed out its last tile (issue 1431: sends wait until a
 * GEMM ends). PyTorch brings that about every step: a transfer's stream waits, by an event, for the kernels that the
 * host has issued to the stream from which it calls the transfer (c10d ProcessGroupNCCL.cpp, syncStream), and the
 * attention kernel is the next of that same stream. Both become ready together, and the kernel, which no event keeps,
 * is first.
 *
 * So, where cost_waits, each end of a message
 *   1. waits for the kernels that its program has before it, in the compute stream whose kernel comes next: there the
 *      host calls it;
 *   2. RACE_SECONDS later asks for SMs; if an attention kernel works at that end which has not handed out its tiles,
 *      it waits until it has. One kernel only: the next one finds it in the queue.
 * Then it holds them. Its delay begins with the later end. A message whose group or collective is under way at that
 * end waits for nothing there: its kernel has SMs.
 *
 * No message waits for ever: the operations of all programs could be carried out one by one in program order, as a host
 * issues them, so none that a message waits for needs a later one. Ranks that share a device know nothing of each
 * other's kernels here.
 *
 * An engine tells of kernels (begin filling, handed out, ended) and asks for messages; after what may let one go on it
 * takes those with sm_queue_next.
 */
#ifndef CPSIM_SIM_SM_QUEUE_H
#define CPSIM_SIM_SM_QUEUE_H

#include "sim/plan.h"

/* By how much a kernel wins the race, far below anything that is modelled: it only has to be no tie, for engines that
 * know of no order within a moment. A message that waits for nothing has it as a part of its delay. */
#define RACE_SECONDS 0.5e-9

/* A message that waits, and what its engine wants to find again. */
struct waiting_message {
    struct activity send;
    bool called; /* step 1 is over for both ends */
    uint32_t ends;
    double begin;
    void *context;
};

struct sm_queue {
    bool counts; /* otherwise nobody need ask */
    const struct plan *plan;
    uint32_t **kernel_before; /* [shape][op]: of a message, the operation it waits for in step 1, plus 1; 0: none */
    struct sm_end {
        uint32_t ended[2]; /* [compute stream]: the operation that ended last, plus 1 */
        uint32_t filling;  /* attention kernels that have not handed out their tiles */
        struct transfer_call {
            uint32_t group, collective;
        } under_way[STREAM_COUNT]; /* what got SMs last */
        struct waiting_end {
            struct waiting_message *message;
            struct activity end;
        } * waiting;
        size_t count, capacity;
    } * ends;                      /* [instance] */
    struct waiting_message **free; /* may go on, oldest first */
    size_t n_free, taken, free_capacity;
};

void sm_queue_init(struct sm_queue *queue, const struct plan *plan);
void sm_queue_fini(struct sm_queue *queue);

/* Whether the message may be called now (step 1), or has SMs at both ends (step 2); else it is kept. */
bool sm_queue_call(struct sm_queue *queue, struct activity send, void *context);
bool sm_queue_ask(struct sm_queue *queue, struct activity send, double begin, void *context);

/* An attention kernel begins that fills the device; has handed out its tiles; a kernel has ended. */
void sm_queue_fill(struct sm_queue *queue, uint32_t instance);
void sm_queue_handed_out(struct sm_queue *queue, uint32_t instance);
void sm_queue_ended(struct sm_queue *queue, struct activity kernel);

/* Takes a message that may go on. */
bool sm_queue_next(struct sm_queue *queue, struct waiting_message *message);

#endif
