/* fake_nccl.h - what tests ask of the NCCL for emulated GPUs (fake_nccl.c), beyond NCCL's functions. By dlsym, too.
 *
 * The environment says what is wrong with it:
 *   FAKE_NCCL_VERSION      the version it says it has (22809)
 *   FAKE_NCCL_NEVER        communicators are never made: as if a rank did not come
 *   FAKE_NCCL_FAIL_AFTER   the communicators of rank 1 fail behind so many groups, and move nothing any more
 *   FAKE_NCCL_ABORT_HANGS  an abort never returns
 */
#ifndef CPSIM_TESTS_GPU_FAKE_NCCL_H
#define CPSIM_TESTS_GPU_FAKE_NCCL_H

struct fake_nccl_counts {
    int sends, receives, broadcasts, reduces, all_reduces, all_gathers, reduce_scatters; /* of all ranks */
    int groups;
    int comms, registrations; /* that there are now */
    int aborts;
    int max_ctas, cta_policy; /* of the configuration given last */
};

/* Of now; the next begins at 0, but for what there is. */
typedef struct fake_nccl_counts fake_nccl_take_counts_function(void);
fake_nccl_take_counts_function fake_nccl_take_counts;

#endif
