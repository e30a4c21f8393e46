/* emulated_device.h - what kernels/cuda/device.cuh gives to kernels, on a host: see emulation.cpp. */
#ifndef CPSIM_TESTS_GPU_EMULATED_DEVICE_H
#define CPSIM_TESTS_GPU_EMULATED_DEVICE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#include "emulated_launch.h"

#define DEVICE inline
#define HOST_DEVICE constexpr
#define KERNEL(threads, blocks_per_sm) static void

/* ---- the running thread ---- */

uint32_t thread_index();
uint32_t block_index();
void block_sync();
uint32_t block_count(bool yes);
void warp_sync();
float warp_xor(float value, uint32_t mask);

/* ---- memory ---- */

/* Checked: inside one allocation, and at a multiple of `size` bytes (a power of two). */
void emulation_check_global(const void *address, size_t size, size_t alignment, const char *what);

template <class T> T global_load(const T *from)
{
    T value;
    emulation_check_global(from, sizeof value, alignof(T), "load");
    memcpy(&value, from, sizeof value);
    return value;
}

template <class T> void global_store(T *to, T value)
{
    emulation_check_global(to, sizeof value, alignof(T), "store");
    memcpy(to, &value, sizeof value);
}

/* Blocks run one after the other: whoever is to set the flag would never have a turn. */
inline bool wait_for_flag(const uint32_t *flag, uint32_t polls)
{
    emulation_check_global(flag, sizeof *flag, sizeof *flag, "load");
    return polls > 0;
}

/* Address in the block's shared memory, checked in the same way. */
unsigned char *emulation_shared(uint32_t at, size_t size);

uint32_t shared_memory();

/* As on compute capability 9.0. */
inline int shared_memory_most(size_t *bytes)
{
    *bytes = 227 * 1024;
    return 0;
}

template <class T> T emulation_shared_load(uint32_t at)
{
    T value;
    memcpy(&value, emulation_shared(at, sizeof value), sizeof value);
    return value;
}

inline uint32_t shared_load_word(uint32_t at)
{
    return emulation_shared_load<uint32_t>(at);
}

inline pair shared_load_pair(uint32_t at)
{
    return emulation_shared_load<pair>(at);
}

inline quad shared_load_quad(uint32_t at)
{
    return emulation_shared_load<quad>(at);
}

void emulation_shared_store(uint32_t at, uint32_t word);

inline void shared_store_word(uint32_t at, uint32_t word)
{
    emulation_shared_store(at, word);
}

void emulation_copy_async(uint32_t to, const void *from, uint32_t bytes, bool there);
void emulation_wait_copies(uint32_t pending);
void commit_copies();

template <int BYTES> void copy_async(uint32_t to, const void *from, bool there)
{
    static_assert(BYTES == 4 || BYTES == 16, "sizes that are used");
    emulation_copy_async(to, from, BYTES, there);
}

template <int PENDING> void wait_copies()
{
    emulation_wait_copies(PENDING);
}

/* ---- numbers ---- */

inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float number_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float emulation_unpack_half(uint32_t bits);
uint32_t emulation_pack_half(float value);

template <class T> float emulation_number(uint32_t bits);
template <> inline float emulation_number<bf16>(uint32_t bits)
{
    return number_of(bits << 16);
}
template <> inline float emulation_number<fp16>(uint32_t bits)
{
    return emulation_unpack_half(bits);
}

template <class T> pair unpack(uint32_t word)
{
    return pair{emulation_number<T>(word & 0xffff), emulation_number<T>(word >> 16)};
}

template <class T> uint32_t pack(float first, float second);
template <> inline uint32_t pack<bf16>(float first, float second)
{
    uint32_t words[2] = {bits_of(first), bits_of(second)};
    for (int i = 0; i < 2; i++)
        words[i] = (words[i] & 0x7fffffff) > 0x7f800000 ? 0x7fff : (words[i] + 0x7fff + (words[i] >> 16 & 1)) >> 16;
    return words[0] | words[1] << 16;
}
template <> inline uint32_t pack<fp16>(float first, float second)
{
    return emulation_pack_half(first) | emulation_pack_half(second) << 16;
}

inline float exp2_fast(float x)
{
    return exp2f(x);
}

inline float multiply_add(float a, float b, float c)
{
    return fmaf(a, b, c);
}

/* ---- what a warp does together ---- */

/* Waits until all 32 lanes are at the same `operation`, which is then run once on the lanes' operands. */
typedef void emulation_operation(void *const operands[32]);
void emulation_together(emulation_operation *operation, void *operand);

struct emulation_matrices {
    uint32_t row_at, words[4];
};
void emulation_load_matrices(void *const operands[32]);
void emulation_load_transposed(void *const operands[32]);

inline void load_matrices(uint32_t (&words)[4], uint32_t row_at)
{
    emulation_matrices operand = {row_at, {}};
    emulation_shared(row_at, 16); /* checked while it is this lane's turn */
    emulation_together(emulation_load_matrices, &operand);
    memcpy(words, operand.words, sizeof words);
}

inline void load_transposed(uint32_t (&words)[4], uint32_t row_at)
{
    emulation_matrices operand = {row_at, {}};
    emulation_shared(row_at, 16); /* checked while it is this lane's turn */
    emulation_together(emulation_load_transposed, &operand);
    memcpy(words, operand.words, sizeof words);
}

struct emulation_product {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};

/* sums = A B in fp32, in the order of k. The sanitizers, which would make these loops most of the time of tests, find
 * nothing in them: what they touch is the caller's, whole. */
__attribute__((no_sanitize("address", "undefined"))) inline void
emulation_product_sums(const float (&a)[16][16], const float (&b)[16][8], float (&sums)[16][8])
{
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t column = 0; column < 8; column++)
                sums[row][column] += a[row][k] * b[k][column];
}

/* c += A B of fragments laid out over the lanes. */
template <class T> void emulation_multiply(void *const operands[32])
{
    float a[16][16], b[16][8];
    for (uint32_t lane = 0; lane < 32; lane++) {
        const emulation_product *own = (const emulation_product *)operands[lane];
        const uint32_t g = lane / 4, t = lane % 4;
        for (uint32_t i = 0; i < 4; i++) {
            const pair numbers = unpack<T>(own->a[i]);
            a[g + i % 2 * 8][2 * t + i / 2 * 8] = numbers.first;
            a[g + i % 2 * 8][2 * t + i / 2 * 8 + 1] = numbers.second;
        }
        for (uint32_t i = 0; i < 2; i++) {
            const pair numbers = unpack<T>(own->b[i]);
            b[2 * t + i * 8][g] = numbers.first;
            b[2 * t + i * 8 + 1][g] = numbers.second;
        }
    }
    float sums[16][8] = {};
    emulation_product_sums(a, b, sums);
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t column = 0; column < 8; column++)
            ((emulation_product *)operands[row % 8 * 4 + column / 2])->c[row / 8 * 2 + column % 2] += sums[row][column];
}

template <class T> void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emulation_product operand = {c, a, {b0, b1}};
    emulation_together(emulation_multiply<T>, &operand);
}

/* ---- launches ---- */

/* They are all here already. */
template <class... K> int load_kernels(K...)
{
    return 0;
}

template <class... P, class... A>
int launch(void (*kernel)(P...), uint64_t blocks, uint32_t threads, size_t shared_bytes, void *stream,
           const A &...arguments)
{
    const auto body = [kernel, arguments...] { kernel(arguments...); }; /* copies, for it runs later */
    static_assert(std::is_trivially_copyable<decltype(body)>::value && alignof(decltype(body)) <= CONTEXT_ALIGNMENT,
                  "kernels' arguments are plain");
    return emulation_launch(
        stream, blocks, threads, shared_bytes, [](const void *context) { (*(decltype(body) *)context)(); }, &body,
        sizeof body);
}

#endif
