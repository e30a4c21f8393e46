/* Our declarations of NCCL's interface (hw/nccl/nccl_abi.h) against its own, where nccl.h is installed; it may be of
 * any version whose part of the configuration is ours. And what the library of this machine says of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "hw/nccl/nccl_library.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#define SAME(ours, theirs) static_assert((long)(ours) == (long)(theirs), #theirs)
#define SAME_PLACE(ours, theirs)                                                                                       \
    static_assert(offsetof(struct nccl_config, ours) == offsetof(ncclConfig_t, theirs), #theirs)

SAME(NCCL_DONE, ncclSuccess);
SAME(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_INVALID_USE, ncclInvalidUsage);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_UNDER_WAY, ncclInProgress);
SAME(NCCL_INT8, ncclInt8);
SAME(NCCL_FP16, ncclFloat16);
SAME(NCCL_FP32, ncclFloat32);
SAME(NCCL_FP64, ncclFloat64);
SAME(NCCL_BF16, ncclBfloat16);
SAME(NCCL_ADD, ncclSum);
SAME(NCCL_LARGEST, ncclMax);
SAME(NCCL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME(sizeof(struct nccl_id), sizeof(ncclUniqueId));
SAME(NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME_PLACE(size, size);
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cga_cluster_size, cgaClusterSize);
SAME_PLACE(min_ctas, minCTAs);
SAME_PLACE(max_ctas, maxCTAs);
SAME_PLACE(net_name, netName);
SAME_PLACE(split_share, splitShare);
#if NCCL_VERSION_CODE >= 22800
SAME(NCCL_POLICY_ZERO_CTA, NCCL_CTA_POLICY_ZERO);
SAME_PLACE(traffic_class, trafficClass);
SAME_PLACE(comm_name, commName);
SAME_PLACE(collnet_enable, collnetEnable);
SAME_PLACE(cta_policy, CTAPolicy);
SAME_PLACE(shrink_share, shrinkShare);
SAME_PLACE(nvls_ctas, nvlsCTAs);
SAME_PLACE(channels_per_net_peer, nChannelsPerNetPeer);
SAME_PLACE(nvlink_centric_sched, nvlinkCentricSched);
#endif

/* As a program that has the header would give it. */
static void the_configuration_is_that_of_the_header(void **state)
{
    (void)state;
    ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    const struct transport_settings zero_cta = {.zero_cta = true};
    struct nccl_config ours = nccl_config_of(&zero_cta);
    assert_int_equal(ours.magic, theirs.magic);
#if NCCL_VERSION_CODE >= 22800 && NCCL_VERSION_CODE < 22900
    assert_int_equal(ours.size, theirs.size);
    theirs.version = ours.version;
    theirs.blocking = 0;
    theirs.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    assert_memory_equal(&ours, &theirs, sizeof theirs);
#endif
}
#else
static void the_configuration_is_that_of_the_header(void **state)
{
    (void)state;
    print_message("nccl.h is not installed\n");
    skip();
}
#endif

/* ---- the library of this machine ---- */

static void the_library_of_this_machine_opens_and_says_its_version(void **state)
{
    (void)state;
    struct nccl_library nccl;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool opened = nccl_library_open(&nccl, NULL, &diag);
    if (!opened && strstr(diag.lines[0], "cannot be opened")) {
        diagnostics_fini(&diag);
        skip();
    }
    assert_true(opened);
    assert_true(nccl.version >= NCCL_VERSION_2_18);
    char first[16];
    snprintf(first, sizeof first, "%d.", nccl.version / 10000);
    assert_memory_equal(nccl.version_text, first, strlen(first));
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_configuration_is_that_of_the_header),
        cmocka_unit_test(the_library_of_this_machine_opens_and_says_its_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
