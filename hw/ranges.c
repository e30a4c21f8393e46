/* ranges.c - by NVTX 3, which is headers only and comes with the CUDA toolkit. */
#include "hw/ranges.h"

#if defined(CPSIM_HAVE_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

void range_push(const char *name)
{
    (void)nvtxRangePushA(name); /* the depth */
}

void range_pop(void)
{
    (void)nvtxRangePop();
}

#else

void range_push(const char *name)
{
    (void)name;
}

void range_pop(void)
{
}

#endif
