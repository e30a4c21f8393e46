/* nccl_abi.h - what cpsim uses of NCCL's interface, in declarations of our own, so that it builds where nccl.h is not.
 *
 * Values and layouts are those of nccl.h 2.28; tests/gpu/nccl_abi_test.c holds them against it where it is installed. A
 * communicator is an address to us, a stream too.
 */
#ifndef CPSIM_HW_NCCL_NCCL_ABI_H
#define CPSIM_HW_NCCL_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>

enum nccl_result {
    NCCL_DONE = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_UNDER_WAY = 7,
};

enum nccl_type { NCCL_INT8 = 0, NCCL_FP16 = 6, NCCL_FP32 = 7, NCCL_FP64 = 8, NCCL_BF16 = 9 };
enum nccl_fold { NCCL_ADD = 0, NCCL_LARGEST = 2 };

#define NCCL_ID_BYTES 128

struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};

#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_UNSET INT_MIN
#define NCCL_POLICY_ZERO_CTA 2

/* A library takes the configuration of any version before its own: by `size` and `version` it knows how much of this
 * there is. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share; /* the last of 2.18 */
    int traffic_class;
    const char *comm_name;
    int collnet_enable, cta_policy, shrink_share, nvls_ctas;
    int channels_per_net_peer, nvlink_centric_sched; /* the last of 2.28 */
};

#define NCCL_CONFIG_BYTES_2_18 (offsetof(struct nccl_config, split_share) + sizeof(int) + sizeof(int)) /* padded */
#define NCCL_VERSION_2_18 21800
#define NCCL_VERSION_2_28 22800

#endif
