/* isa_avx512.c - the kernels for AVX-512 F, BW, DQ, VL; compiled for those (CMakeLists.txt). */
#include "kernels/isa.h"
#ifdef __x86_64__
#define ISA_KERNELS isa_avx512
#define ISA_NAME "avx512"
#define VECTOR_BYTES 64
#define MICRO_ROWS 12
#include "kernels/vector/kernels.h"
#endif
