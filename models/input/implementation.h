/* implementation.h - how a library carries a schedule out: the choices that a schedule leaves open, as a named set.
 *
 * Two libraries may run the same ring and differ in what lies around it: how many kernels merge a partial result and
 * how often these pass through memory, whether dK and dV travel in fp32, in one message or two, over which NCCL
 * communicator, what the host takes to issue an operation. Such a set is a file, models/implementations/NAME.ini or
 * the user's own, every figure in it read from the library's source or from a measurement on a single device.
 *
 * What a file leaves out is as in our own hardware mode, "cpsim": a step is one kernel that passes over its operands
 * once. An experiment's own keys come before those of its implementation.
 */
#ifndef CPSIM_MODELS_INPUT_IMPLEMENTATION_H
#define CPSIM_MODELS_INPUT_IMPLEMENTATION_H

#include <stdbool.h>
#include <stdint.h>

#include "models/base/diagnostics.h"

/* The steps that an implementation may do in its own way. */
enum implementation_step {
    IMPLEMENTATION_MERGE_FIRST, /* a row's first partial result becomes the state */
    IMPLEMENTATION_MERGE,       /* a later one is joined to the state of all its rows */
    IMPLEMENTATION_MERGE_PART,  /* of some of its rows, as of the later half of a zigzag shard */
    IMPLEMENTATION_FINISH,
    IMPLEMENTATION_SUM_LSE,
    IMPLEMENTATION_CORRECT,
    IMPLEMENTATION_DELTA,
    IMPLEMENTATION_ADD_DQ, /* a block's gradient is added to the sum; the first is only cast */
    IMPLEMENTATION_ADD_DQ_FIRST,
    IMPLEMENTATION_ADD_DKV,
    IMPLEMENTATION_ADD_DKV_FIRST,
    IMPLEMENTATION_CAST,
    IMPLEMENTATION_LAYOUT,
    IMPLEMENTATION_ATTEND,      /* beside the attention kernel: copies of its queries and outputs, */
    IMPLEMENTATION_ATTEND_KEYS, /* and of its keys and values */
    IMPLEMENTATION_ATTEND_BACKWARD,
    IMPLEMENTATION_ATTEND_BACKWARD_KEYS,
    IMPLEMENTATION_ATTEND_PART, /* and beside those, where the kernel works on a part of the queries that are held, */
    IMPLEMENTATION_ATTEND_KEYS_PART, /* or of the keys */
    IMPLEMENTATION_ATTEND_BACKWARD_PART,
    IMPLEMENTATION_ATTEND_BACKWARD_KEYS_PART,
    IMPLEMENTATION_NORM, /* of layers: a norm, forward and backward, by elements of hidden; */
    IMPLEMENTATION_NORM_BACKWARD,
    IMPLEMENTATION_ACTIVATE, /* an activation function, by elements of what goes down the MLP; */
    IMPLEMENTATION_ACTIVATE_BACKWARD,
    IMPLEMENTATION_ROTATE, /* and rotary embeddings beside the product to Q and K, by their elements */
    IMPLEMENTATION_ROTATE_BACKWARD,
    IMPLEMENTATION_STEPS,
};

/* What a step is made of. */
struct passes {
    bool given;               /* else as cpsim does it */
    double kernels;           /* launched one after the other; 0: the step is part of another's kernel */
    double bytes_per_element; /* read and written, of its tensor (O; dQ; dK and dV) */
    double bytes_per_row;     /* and beside that, of every row of every query head: what goes by the LSE */
};

/* Which NCCL communicator carries a message: that of the whole group, or one of just the two ranks. */
enum communicator { COMMUNICATOR_GROUP, COMMUNICATOR_PAIR };

/* Zero is cpsim. */
struct implementation {
    char name[64];
    char kernel[32]; /* of the device profile, unless the topology names one; "": the profile's default */
    enum communicator communicator;
    bool packs_qkv;       /* Q, K and V change rows for heads in one call, not in one each */
    bool split_kv;        /* as experiment.split_kv, where that is not written */
    bool gradients_model; /* dK, dV in the model's dtype: not experiment.gradient_accumulator, likewise */
    bool fixed_sms;       /* a transfer holds `sms` SMs, whatever its channels: 0 for copy engines */
    uint32_t sms;
    bool one_stream;               /* all of compute is in one stream, of algorithms too that have two */
    bool waits;                    /* transfers are called behind the kernels before them: sim/sm_queue.h */
    bool synchronizes;             /* the host waits for the device at the end of every step */
    double host_attention_seconds; /* that the host takes to issue an attention operation, */
    double host_kernel_seconds;    /* a kernel of any other, */
    double host_message_seconds;   /* a message: to post a send, and to post a receive */
    double host_call_seconds;      /* to call a collective, however many messages it is; 0: as a message */
    double host_spread;            /* how far these vary, relative; 0: not known */
    struct passes steps[IMPLEMENTATION_STEPS];
};

/* Reads `name` (one of models/implementations, or a path to a file). False with every problem in `diag`. */
bool implementation_read(struct implementation *implementation, const char *name, struct diagnostics *diag);

/* Whether the host's time to issue operations is known, so that it can be the limit. */
static inline bool implementation_has_host(const struct implementation *implementation)
{
    return implementation->host_attention_seconds > 0.0 || implementation->host_kernel_seconds > 0.0 ||
           implementation->host_message_seconds > 0.0 || implementation->host_call_seconds > 0.0;
}

#endif
