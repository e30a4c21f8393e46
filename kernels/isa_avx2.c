/* isa_avx2.c - the kernels for AVX2 with FMA; compiled for those (CMakeLists.txt). */
#include "kernels/isa.h"
#ifdef __x86_64__
#define ISA_KERNELS isa_avx2
#define ISA_NAME "avx2"
#define VECTOR_BYTES 32
#define MICRO_ROWS 6
#include "kernels/vector/kernels.h"
#endif
