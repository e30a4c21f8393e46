/* isa_baseline.c - the kernels for every CPU that the compiler's default target means (SSE2 on x86-64). */
#define ISA_KERNELS isa_baseline
#define ISA_NAME "baseline"
#define VECTOR_BYTES 16
#define MICRO_ROWS 6
#include "kernels/vector/kernels.h"
