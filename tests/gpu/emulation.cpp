/* emulation.cpp - runs CUDA kernels' sources on a host, one thread block after the other, and finds what a GPU would
 * only do wrong.
 *
 * Every thread is a coroutine with a stack of its own. It runs until it has to wait for others: at a barrier of the
 * block or at something that a warp does together. In between, no other thread runs; the order of turns is the
 * caller's choice, so that a missing barrier shows as soon as some order gives another result. Found are:
 * - loads and stores outside an allocation or the block's shared memory, or misaligned;
 * - shared memory read before it was written: it is NaN when a block starts;
 * - asynchronous copies not waited for: their target is NaN until the thread that asked for them waits, also where it
 *   overwrites what others still read; stores to where one is on its way;
 * - lanes of a warp that do different things together, barriers that some threads never reach;
 * - of what Hopper GPUs have besides, what emulated_hopper.cpp and emulated_wgmma.cpp say.
 * A kernel that does wrong is given up; the error sticks (emulated_runtime.h). One kernel runs at a time, from its
 * first block to its last, in whichever of the host's threads has its turn (emulated_streams.cpp).
 */
#undef _FORTIFY_SOURCE /* jumps between stacks are meant */
#include "kernels/cuda/device.cuh"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "emulation.h"
#include "emulation_parts.h"

#define WARP 32
#define THREADS_MAX 1024
#define COPIES_MAX 256 /* of a thread, asked for and not waited for */
#define STACK_BYTES (64 * 1024)
#define SHARED_MAX (227 * 1024) /* of a block, compute capability 9.0 */
#define SHARED_BASE 1024        /* an address that is not 0 */
#define ERROR_ILLEGAL 700       /* cudaErrorIllegalAddress */

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#include <dlfcn.h>
#include <sanitizer/asan_interface.h>
#endif

enum state { READY, TOGETHER, AT_BARRIER, WAITING, DONE };

struct copy {
    uint32_t to, bytes, group;
    const void *from;
    bool there;
};

struct thread {
    ucontext_t start;
    jmp_buf resume;
    bool started;
    enum state state;
    emulation_operation *operation; /* TOGETHER */
    void *operand;
    bool yes;                   /* AT_BARRIER */
    emulation_condition *ready; /* WAITING */
    const void *context;
    const char *what;
    uint32_t number;
    struct copy copies[COPIES_MAX];
    uint32_t n_copies, group; /* group: number of the one that is being made */
    unsigned char *stack;
};

static struct {
    struct thread threads[THREADS_MAX];
    uint32_t n_threads, current, order, turn, chance, late_warp, late_rounds;
    uint64_t block;
    uint32_t barrier_count;
    void (*body)(const void *context);
    const void *context;
    unsigned char shared[SHARED_MAX];
    size_t shared_bytes;
    bool awaited[SHARED_MAX / 4]; /* words that a copy is on its way to */
    jmp_buf scheduler_resume;
    bool failed;
    int number;                                   /* of the device whose memory the kernel may touch */
    const unsigned char *found_first, *found_end; /* where the latest access was */
} device;

/* ---- turns ---- */

/* The sanitizer's longjmp takes the stack that it leaves for given up and forgets what must not be touched there; here
 * each stack is returned to, so it is the C library's own. */
static void jump(jmp_buf to)
{
#ifdef ADDRESS_SANITIZER
    static void (*const longjmp_of_libc)(jmp_buf, int) =
        (void (*)(jmp_buf, int))dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "_longjmp");
    longjmp_of_libc(to, 1);
#else
    _longjmp(to, 1);
#endif
}

static void to_scheduler(struct thread *thread)
{
    if (!_setjmp(thread->resume))
        jump(device.scheduler_resume);
}

static void run_thread()
{
    device.body(device.context);
    device.threads[device.current].state = DONE;
    to_scheduler(&device.threads[device.current]);
}

static void give_turn(uint32_t number)
{
    struct thread *thread = &device.threads[number];
    device.current = number;
    if (_setjmp(device.scheduler_resume))
        return;
    if (thread->started)
        jump(thread->resume);
    thread->started = true;
#ifdef ADDRESS_SANITIZER
    __asan_unpoison_memory_region(thread->stack, STACK_BYTES); /* of a thread that never came to its end */
#endif
    setcontext(&thread->start);
}

/* Says what is wrong; a thread that says it never runs again. */
static void say(const char *format, va_list arguments)
{
    fprintf(stderr, "emulation: block %llu, thread %u: ", (unsigned long long)device.block, device.current);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    device.failed = true;
}

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void emulation_blame(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

static struct thread *running()
{
    return &device.threads[device.current];
}

/* A thread gives up. */
#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fail(__VA_ARGS__);                                                                                             \
        for (;;)                                                                                                       \
            to_scheduler(running());                                                                                   \
    } while (0)

void emulation_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    for (;;)
        to_scheduler(running());
}

void emulation_await(emulation_condition *ready, const void *context, const char *what, uint32_t number)
{
    struct thread *thread = running();
    if (ready(context))
        return;
    thread->state = WAITING;
    thread->ready = ready;
    thread->context = context;
    thread->what = what;
    thread->number = number;
    to_scheduler(thread);
}

uint32_t emulation_threads()
{
    return device.n_threads;
}

uint32_t thread_index()
{
    return device.current;
}

uint32_t block_index()
{
    return (uint32_t)device.block;
}

uint32_t block_count(bool yes)
{
    struct thread *thread = running();
    thread->state = AT_BARRIER;
    thread->yes = yes;
    to_scheduler(thread);
    return device.barrier_count;
}

void block_sync()
{
    block_count(false);
}

void emulation_together(emulation_operation *operation, void *operand)
{
    struct thread *thread = running();
    thread->state = TOGETHER;
    thread->operation = operation;
    thread->operand = operand;
    to_scheduler(thread);
}

static void nothing(void *const operands[WARP])
{
    (void)operands;
}

void warp_sync()
{
    emulation_together(nothing, NULL);
}

struct exchange {
    float value, other;
    uint32_t mask;
};

static void exchange(void *const operands[WARP])
{
    for (uint32_t lane = 0; lane < WARP; lane++) {
        struct exchange *own = (struct exchange *)operands[lane];
        own->other = ((const struct exchange *)operands[lane ^ own->mask])->value;
    }
}

float warp_xor(float value, uint32_t mask)
{
    struct exchange operand = {value, 0, mask};
    emulation_together(exchange, &operand);
    return operand.other;
}

/* ---- memory ---- */

bool emulation_is_global(const void *address, size_t size)
{
    const uintptr_t at = (uintptr_t)address;
    return (at >= (uintptr_t)device.found_first && at + size <= (uintptr_t)device.found_end) ||
           emulation_find(device.number, address, size, &device.found_first, &device.found_end);
}

void emulation_check_global(const void *address, size_t size, size_t alignment, const char *what)
{
    const uintptr_t at = (uintptr_t)address;
    if (at % alignment != 0)
        FAIL("%s of %zu bytes at a multiple of %zu only", what, size, (size_t)(at & -at));
    if (!emulation_is_global(address, size))
        FAIL("%s of %zu bytes outside all memory of the device", what, size);
}

unsigned char *emulation_shared_range(uint32_t at, size_t size)
{
    if (at >= SHARED_BASE && at + size <= SHARED_BASE + device.shared_bytes)
        return device.shared + (at - SHARED_BASE);
    fail("%zu bytes at %d of %zu of shared memory", size, (int)at - SHARED_BASE, device.shared_bytes);
    return NULL;
}

bool emulation_is_awaited(uint32_t at, uint32_t bytes)
{
    for (uint32_t word = (at - SHARED_BASE) / 4; word < (at - SHARED_BASE + bytes) / 4; word++)
        if (device.awaited[word])
            return true;
    return false;
}

void emulation_set_awaited(uint32_t at, uint32_t bytes, bool awaited)
{
    memset(&device.awaited[(at - SHARED_BASE) / 4], awaited, bytes / 4);
}

unsigned char *emulation_shared(uint32_t at, size_t size)
{
    if (at % size != 0)
        FAIL("%zu bytes of shared memory, misaligned", size);
    if (at < SHARED_BASE || at + size > SHARED_BASE + device.shared_bytes)
        FAIL("%zu bytes at %d of %zu of shared memory", size, (int)at - SHARED_BASE, device.shared_bytes);
    return device.shared + (at - SHARED_BASE);
}

/* Sets the words' mark; they must have been the contrary. */
static void mark_awaited(uint32_t at, uint32_t bytes, bool awaited)
{
    for (uint32_t word = (at - SHARED_BASE) / 4; word < (at - SHARED_BASE + bytes) / 4; word++) {
        if (awaited && device.awaited[word])
            FAIL("a copy to shared memory that another is on its way to, at %u", 4 * word);
        device.awaited[word] = awaited;
    }
}

void emulation_shared_store(uint32_t at, uint32_t word)
{
    unsigned char *to = emulation_shared(at, sizeof word);
    if (device.awaited[(at - SHARED_BASE) / 4])
        FAIL("a store to shared memory that a copy is on its way to, at %u", at - SHARED_BASE);
    memcpy(to, &word, sizeof word);
    emulation_hopper_stored(at, sizeof word);
}

uint32_t shared_memory()
{
    return SHARED_BASE;
}

void emulation_copy_async(uint32_t to, const void *from, uint32_t bytes, bool there)
{
    struct thread *thread = running();
    if (there)
        emulation_check_global(from, bytes, bytes, "asynchronous copy");
    if (thread->n_copies == COPIES_MAX)
        FAIL("more than %d copies not waited for", COPIES_MAX);
    memset(emulation_shared(to, bytes), 0xff, bytes);
    mark_awaited(to, bytes, true);
    thread->copies[thread->n_copies++] = copy{to, bytes, thread->group, from, there};
}

void commit_copies()
{
    running()->group++;
}

void emulation_wait_copies(uint32_t pending)
{
    struct thread *thread = running();
    uint32_t left = 0;
    for (uint32_t i = 0; i < thread->n_copies; i++) {
        const copy asked = thread->copies[i];
        if (asked.group + pending >= thread->group) { /* also what is in no group yet */
            thread->copies[left++] = asked;
            continue;
        }
        unsigned char *to = emulation_shared(asked.to, asked.bytes);
        mark_awaited(asked.to, asked.bytes, false);
        if (asked.there)
            memcpy(to, asked.from, asked.bytes);
        else
            memset(to, 0, asked.bytes);
    }
    thread->n_copies = left;
}

static void load(void *const operands[WARP], bool transposed)
{
    uint16_t rows[WARP][8];
    for (uint32_t lane = 0; lane < WARP; lane++)
        memcpy(rows[lane], emulation_shared(((const emulation_matrices *)operands[lane])->row_at, 16), 16);
    for (uint32_t lane = 0; lane < WARP; lane++)
        for (uint32_t m = 0; m < 4; m++) {
            const uint32_t g = lane / 4, t = lane % 4;
            const uint16_t first = transposed ? rows[8 * m + 2 * t][g] : rows[8 * m + g][2 * t];
            const uint16_t second = transposed ? rows[8 * m + 2 * t + 1][g] : rows[8 * m + g][2 * t + 1];
            ((emulation_matrices *)operands[lane])->words[m] = first | (uint32_t)second << 16;
        }
}

void emulation_load_matrices(void *const operands[WARP])
{
    load(operands, false);
}

void emulation_load_transposed(void *const operands[WARP])
{
    load(operands, true);
}

/* ---- fp16 ---- */

float emulation_unpack_half(uint32_t bits)
{
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexpf((float)fraction, -24)
                                  : ldexpf((float)(1024 + fraction), (int)exponent - 25);
    return bits >> 15 ? -value : value;
}

/* To nearest, halves to even. */
uint32_t emulation_pack_half(float value)
{
    const uint32_t sign = bits_of(value) >> 31 << 15;
    const float size = fabsf(value);
    if (isnan(value))
        return 0x7fff;
    if (size >= 65520)
        return sign | 0x7c00;
    int exponent;
    frexpf(size, &exponent); /* size = [1/2, 1) 2^exponent */
    if (size == 0 || exponent < -13)
        return sign | (uint32_t)rintf(ldexpf(size, 24)); /* 1024, should it round up to that, is the next exponent */
    const uint32_t fraction = (uint32_t)rintf(ldexpf(size, 11 - exponent)); /* 1024 to 2048 */
    return sign | (((uint32_t)(exponent + 13) << 10) + fraction);
}

/* ---- blocks ---- */

void emulation_turns(uint32_t order)
{
    device.order = order;
}

/* The i-th of `count`, a power of two: another order in every turn. */
static uint32_t in_order(uint32_t i, uint32_t count)
{
    return (i ^ (device.order * 2654435761u + device.turn * device.order) >> 7) % count;
}

uint32_t emulation_pick(uint32_t count)
{
    device.chance = device.chance * 1664525 + 1013904223;
    return device.order ? (device.chance >> 16) % count : 0;
}

/* Gives turns to the warp's threads until all wait for the block or are done. */
static bool run_warp(uint32_t first)
{
    bool ran = false;
    for (;;) {
        uint32_t together = 0, ready = 0;
        device.turn++;
        for (uint32_t i = 0; i < WARP; i++) {
            const uint32_t number = first + in_order(i, WARP);
            struct thread *thread = &device.threads[number];
            if (thread->state == WAITING && thread->ready(thread->context))
                thread->state = READY;
            if (device.threads[number].state != READY)
                continue;
            ready++;
            give_turn(number);
            if (device.failed)
                return false;
        }
        ran = ran || ready > 0;
        void *operands[WARP];
        for (uint32_t i = 0; i < WARP; i++) {
            const struct thread *thread = &device.threads[first + i];
            together += thread->state == TOGETHER && thread->operation == device.threads[first].operation;
            operands[i] = thread->operand;
        }
        if (together == WARP) {
            device.threads[first].operation(operands);
            if (device.failed)
                return false;
            for (uint32_t i = 0; i < WARP; i++)
                device.threads[first + i].state = READY;
            continue;
        }
        uint32_t elsewhere = 0; /* lanes that may come yet */
        for (uint32_t i = 0; i < WARP; i++)
            elsewhere += device.threads[first + i].state == WAITING;
        for (uint32_t i = 0; i < WARP; i++)
            if (device.threads[first + i].state == TOGETHER && elsewhere == 0) {
                device.current = first + i;
                fail("lanes of a warp part where they should work together");
                return false;
            }
        return ran;
    }
}

/* On its own, for getcontext may seem to return twice. */
static __attribute__((noinline)) void start_thread(struct thread *thread)
{
    if (!thread->stack)
        thread->stack = (unsigned char *)malloc(STACK_BYTES);
    getcontext(&thread->start);
    thread->start.uc_stack.ss_sp = thread->stack;
    thread->start.uc_stack.ss_size = STACK_BYTES;
    thread->start.uc_link = NULL;
    makecontext(&thread->start, run_thread, 0);
    thread->started = false;
    thread->state = READY;
    thread->n_copies = thread->group = 0;
}

static void start_block()
{
    emulation_hopper_begin();
    emulation_wgmma_begin();
    memset(device.shared, 0xff, device.shared_bytes);
    memset(device.awaited, 0, sizeof device.awaited);
    for (uint32_t i = 0; i < device.n_threads; i++)
        start_thread(&device.threads[i]);
}

/* Nothing goes on any more: tells what each wait is for, once. */
static void say_what_is_waited_for(uint32_t waiting, uint32_t done)
{
    fail("%u threads are at a barrier and %u at their end", waiting, done);
    for (uint32_t i = 0; i < device.n_threads; i++) {
        const struct thread *thread = &device.threads[i];
        bool said = thread->state != WAITING;
        uint32_t alike = 0;
        for (uint32_t j = 0; j < device.n_threads; j++)
            if (device.threads[j].state == WAITING && device.threads[j].what == thread->what &&
                device.threads[j].number == thread->number) {
                said = said || j < i;
                alike++;
            }
        if (!said)
            fprintf(stderr, "  %u threads, %u the first, wait for %s %u\n", alike, i, thread->what, thread->number);
    }
}

/* One warp at a time has no turn in some rounds, so that others get far ahead of it. */
static void choose_late_warp()
{
    if (device.late_rounds > 0)
        device.late_rounds--;
    else {
        device.late_warp = emulation_pick(device.n_threads / WARP);
        device.late_rounds = emulation_pick(24);
    }
}

static void run_block()
{
    start_block();
    device.chance = device.order;
    device.late_rounds = 0;
    for (;;) {
        bool ran = false;
        uint32_t waiting = 0, done = 0, count = 0;
        const uint32_t warps = device.n_threads / WARP;
        uint32_t places = 1;
        while (places < warps)
            places *= 2;
        device.turn++;
        choose_late_warp();
        const uint32_t turn = device.turn;
        for (uint32_t i = 0; i < places; i++) {
            const uint32_t kept = device.turn;
            device.turn = turn;
            const uint32_t warp = in_order(i, places);
            device.turn = kept;
            if (warp == device.late_warp && device.late_rounds > 0)
                ran = true; /* it will have its turn in another round */
            else if (warp < warps)
                ran = run_warp(warp * WARP) || ran;
            if (device.failed)
                return;
        }
        for (uint32_t i = 0; i < device.n_threads; i++) {
            waiting += device.threads[i].state == AT_BARRIER;
            done += device.threads[i].state == DONE;
            count += device.threads[i].state == AT_BARRIER && device.threads[i].yes;
        }
        if (done == device.n_threads) {
            emulation_hopper_end();
            emulation_wgmma_end();
            return;
        }
        if (waiting < device.n_threads) {
            if (emulation_hopper_progress(!ran) || ran)
                continue;
            if (!device.failed)
                say_what_is_waited_for(waiting, done);
            return;
        }
        device.barrier_count = count;
        for (uint32_t i = 0; i < device.n_threads; i++)
            device.threads[i].state = READY;
    }
}

bool emulation_can_run(uint64_t blocks, uint32_t threads, size_t shared_bytes)
{
    return threads > 0 && threads <= THREADS_MAX && threads % WARP == 0 && shared_bytes <= SHARED_MAX &&
           blocks <= INT32_MAX;
}

int emulation_run(int number, uint64_t blocks, uint32_t threads, size_t shared_bytes, void (*body)(const void *context),
                  const void *context)
{
    device.number = number;
    device.found_first = device.found_end = NULL;
    device.n_threads = threads;
    device.shared_bytes = shared_bytes;
    device.body = body;
    device.context = context;
    device.failed = false;
    for (device.block = 0; device.block < blocks && !device.failed; device.block++)
        run_block();
    return device.failed ? ERROR_ILLEGAL : 0;
}
