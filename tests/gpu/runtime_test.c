/* The emulated GPUs themselves: that streams hold work until it is asked for, that any order happens which streams and
 * events allow and no other, so that a missing wait shows; time; graphs; devices; and that wrong uses are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_errors.h"
#include "emulation.h"
#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/runtime.h"

#define ORDERS 200
#define COUNT 8 /* numbers in an array */
#define BYTES (COUNT * sizeof(float))

#define assert_good(call) assert_int_equal(call, 0)

/* ---- a machine, and work for it ---- */

static void machine_with(const char *gpus, const char *capability, const char *memory)
{
    setenv("CPSIM_EMULATED_GPUS", gpus, 1);
    setenv("CPSIM_EMULATED_CAPABILITY", capability, 1);
    setenv("CPSIM_EMULATED_MEMORY", memory, 1);
    emulation_reset();
    cuda_use(0);
}

static int one_gpu(void **state)
{
    (void)state;
    machine_with("1", "", "");
    return 0;
}

static void *stream_make(void)
{
    void *stream;
    assert_good(cuda_stream_create(&stream, false));
    return stream;
}

static void *event_make(void)
{
    void *event;
    assert_good(cuda_event_create(&event, true));
    return event;
}

static float *array_make(float value)
{
    void *array;
    float numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = value;
    assert_good(cuda_allocate(&array, BYTES));
    assert_good(cuda_write(array, numbers, BYTES));
    return array;
}

/* The array's number, which must be one. */
static float array_get(const float *array)
{
    float numbers[COUNT];
    assert_good(cuda_read(numbers, array, BYTES));
    for (size_t i = 1; i < COUNT; i++)
        assert_memory_equal(&numbers[i], &numbers[0], sizeof *numbers);
    return numbers[0];
}

/* A kernel: to += from, or to = from. What it is called with is gone when it runs. */
static int kernel(float *to, float *from, bool copy, void *stream)
{
    const struct cuda_extent extent = {.rows = 1, .items = 1, .heads = 1, .dim = COUNT};
    const struct cuda_array target = {to, {COUNT, COUNT}, DTYPE_FP32}, source = {from, {COUNT, COUNT}, DTYPE_FP32};
    return cuda_accumulate(extent, target, source, copy, stream);
}

static void queue_add(float *to, float *from, void *stream)
{
    assert_good(kernel(to, from, false, stream));
}

static void queue_copy(float *to, const float *from, void *stream)
{
    assert_good(cuda_copy(to, from, BYTES, stream));
}

/* `stream` waits for all that is queued in `other`. */
static void stream_after(void *stream, void *other)
{
    void *event = event_make();
    assert_good(cuda_event_record(event, other));
    assert_good(cuda_event_wait(stream, event));
    assert_good(cuda_event_destroy(event));
}

/* ---- streams ---- */

static void work_is_done_when_it_is_asked_for(void **state)
{
    (void)state;
    void *stream = stream_make();
    float *a = array_make(1), *b = array_make(2);
    queue_add(a, b, stream);
    assert_true(array_get(a) == 1);
    assert_good(cuda_stream_wait(stream));
    assert_true(array_get(a) == 3);
    queue_add(a, b, stream);
    assert_true(array_get(a) == 3);
    assert_good(cuda_wait());
    assert_true(array_get(a) == 5);
}

static void the_default_stream_is_done_at_once(void **state)
{
    (void)state;
    float *a = array_make(1), *b = array_make(2);
    void *stream = stream_make(), *event = event_make();
    queue_add(a, b, NULL);
    assert_true(array_get(a) == 3);
    queue_add(b, a, stream);
    assert_good(cuda_event_record(event, stream));
    assert_good(cuda_event_wait(NULL, event));
    queue_add(a, b, NULL);
    assert_true(array_get(a) == 8);
}

static void a_destroyed_stream_s_work_is_done_later(void **state)
{
    (void)state;
    void *stream = stream_make();
    float *a = array_make(1), *b = array_make(2);
    queue_add(a, b, stream);
    assert_good(cuda_stream_destroy(stream));
    assert_true(array_get(a) == 1);
    assert_good(cuda_wait());
    assert_true(array_get(a) == 3);
    assert_int_equal(cuda_stream_wait(stream), INVALID_HANDLE);
}

/* (1 + 2) copied over 2: 3, doubled: 6. */
static void a_stream_keeps_its_order(void **state)
{
    (void)state;
    for (uint32_t order = 0; order < ORDERS; order++) {
        emulation_stream_order(order);
        void *streams[] = {stream_make(), stream_make(), stream_make()};
        float *arrays[3][2];
        for (size_t s = 0; s < 3; s++) {
            arrays[s][0] = array_make(1);
            arrays[s][1] = array_make(2);
            queue_add(arrays[s][0], arrays[s][1], streams[s]);
            queue_copy(arrays[s][1], arrays[s][0], streams[s]);
            queue_add(arrays[s][1], arrays[s][0], streams[s]);
        }
        assert_good(cuda_wait());
        for (size_t s = 0; s < 3; s++) {
            assert_true(array_get(arrays[s][1]) == 6);
            assert_good(cuda_stream_destroy(streams[s]));
            assert_good(cuda_release(arrays[s][0]));
            assert_good(cuda_release(arrays[s][1]));
        }
    }
}

/* One stream makes what another reads and then makes anew. Bits: what the reader got, 1: the right number, 2: that from
 * before, 4: that from after. */
static unsigned made_and_read(uint32_t order, bool reader_waits, bool maker_waits)
{
    emulation_stream_order(order);
    void *maker = stream_make(), *reader = stream_make();
    float *shared = array_make(1), *two = array_make(2), *result = array_make(0);
    queue_add(shared, two, maker);
    if (reader_waits)
        stream_after(reader, maker);
    queue_copy(result, shared, reader);
    if (maker_waits)
        stream_after(maker, reader);
    queue_add(shared, two, maker);
    assert_good(cuda_wait());
    const float got = array_get(result);
    assert_true(array_get(shared) == 5);
    assert_good(cuda_stream_destroy(maker));
    assert_good(cuda_stream_destroy(reader));
    float *arrays[] = {shared, two, result};
    for (size_t i = 0; i < 3; i++)
        assert_good(cuda_release(arrays[i]));
    return got == 3 ? 1 : got == 1 ? 2 : got == 5 ? 4 : 8;
}

static void a_missing_wait_shows_in_some_order(void **state)
{
    (void)state;
    unsigned both = 0, only_reader = 0, only_maker = 0, none = 0;
    for (uint32_t order = 0; order < ORDERS; order++) {
        both |= made_and_read(order, true, true);
        only_reader |= made_and_read(order, true, false);
        only_maker |= made_and_read(order, false, true);
        none |= made_and_read(order, false, false);
    }
    assert_int_equal(both, 1);
    assert_int_equal(only_reader, 1 | 4);
    assert_int_equal(only_maker, 1 | 2);
    assert_int_equal(none, 1 | 2 | 4);
}

/* ---- events ---- */

static void an_event_passes_after_some_asking(void **state)
{
    (void)state;
    size_t at_once = 0, later = 0;
    void *event = event_make();
    bool passed;
    assert_good(cuda_event_passed(event, &passed));
    assert_true(passed); /* never recorded */
    for (uint32_t order = 0; order < ORDERS; order++) {
        emulation_stream_order(order);
        void *stream = stream_make();
        float *a = array_make(1), *b = array_make(2);
        queue_add(a, b, stream);
        assert_good(cuda_event_record(event, stream));
        assert_good(cuda_event_passed(event, &passed));
        *(passed ? &at_once : &later) += 1;
        for (size_t i = 0; i < 1000 && !passed; i++)
            assert_good(cuda_event_passed(event, &passed));
        assert_true(passed);
        assert_true(array_get(a) == 3);
        assert_good(cuda_stream_destroy(stream));
        assert_good(cuda_release(a));
        assert_good(cuda_release(b));
    }
    assert_true(at_once > ORDERS / 10 && later > ORDERS / 10);
}

static void a_wait_is_for_the_latest_record(void **state)
{
    (void)state;
    bool before_second = false;
    for (uint32_t order = 0; order < ORDERS; order++) {
        emulation_stream_order(order);
        void *one = stream_make(), *other = stream_make(), *event = event_make();
        float *a = array_make(1), *b = array_make(2), *first = array_make(0), *second = array_make(0);
        queue_add(a, b, one);
        assert_good(cuda_event_record(event, one));
        assert_good(cuda_event_wait(other, event));
        queue_copy(first, a, other); /* after the first addition, perhaps before the second */
        queue_add(a, b, one);
        assert_good(cuda_event_record(event, one));
        assert_good(cuda_event_wait(other, event));
        assert_good(cuda_event_destroy(event));
        queue_copy(second, a, other);
        assert_good(cuda_wait());
        assert_true(array_get(first) >= 3);
        before_second = before_second || array_get(first) == 3;
        assert_true(array_get(second) == 5);
    }
    assert_true(before_second);
}

/* ---- time ---- */

static double seconds_between(void *from, void *to)
{
    double seconds;
    assert_good(cuda_event_seconds(from, to, &seconds));
    return seconds;
}

/* Times of: one copy; two copies in a stream; two in two streams, from fork to join; the second of them. */
static void time_copies(double seconds[4])
{
    void *one = stream_make(), *other = stream_make(), *events[6];
    float *a = array_make(1), *b = array_make(0), *c = array_make(0);
    for (size_t i = 0; i < 6; i++)
        events[i] = event_make();
    assert_good(cuda_event_record(events[0], one));
    queue_copy(b, a, one);
    assert_good(cuda_event_record(events[1], one));
    queue_copy(b, a, one);
    assert_good(cuda_event_record(events[2], one));
    queue_copy(b, a, one);
    assert_good(cuda_event_record(events[3], one));
    assert_good(cuda_event_wait(other, events[3]));
    queue_copy(b, a, one);
    queue_copy(c, a, other);
    assert_good(cuda_event_record(events[4], other));
    assert_good(cuda_event_wait(one, events[4]));
    assert_good(cuda_event_record(events[5], one));
    assert_good(cuda_wait());
    seconds[0] = seconds_between(events[0], events[1]);
    seconds[1] = seconds_between(events[0], events[2]);
    seconds[2] = seconds_between(events[3], events[5]);
    seconds[3] = seconds_between(events[3], events[4]);
}

static void time_shows_overlap_and_is_the_same_in_any_order(void **state)
{
    (void)state;
    double first[4], again[4];
    time_copies(first);
    assert_true(first[0] > 0);
    assert_true(fabs(first[1] - 2 * first[0]) < 1e-15);
    assert_true(fabs(first[2] - first[0]) < 1e-15);
    assert_true(fabs(first[3] - first[0]) < 1e-15);
    for (uint32_t order = 0; order < ORDERS; order++) {
        machine_with("1", "", "");
        emulation_stream_order(order);
        time_copies(again);
        assert_memory_equal(first, again, sizeof first);
    }
}

static void what_the_host_waited_for_is_over_when_it_queues_more(void **state)
{
    (void)state;
    void *one = stream_make(), *other = stream_make(), *end = event_make(), *begin = event_make();
    float *a = array_make(1), *b = array_make(2);
    queue_add(a, b, one);
    assert_good(cuda_event_record(end, one));
    assert_good(cuda_stream_wait(one));
    assert_good(cuda_event_record(begin, other));
    assert_good(cuda_wait());
    assert_true(seconds_between(end, begin) >= 0);
}

static void times_of_events_need_timed_ones_that_have_passed(void **state)
{
    (void)state;
    double seconds;
    void *stream = stream_make(), *from = event_make(), *to = event_make(), *untimed;
    float *a = array_make(1), *b = array_make(2);
    assert_good(cuda_event_create(&untimed, false));
    assert_int_equal(cuda_event_seconds(from, to, &seconds), INVALID_HANDLE);
    assert_good(cuda_event_record(from, stream));
    assert_good(cuda_event_record(untimed, stream));
    queue_add(a, b, stream);
    assert_good(cuda_event_record(to, stream));
    assert_int_equal(cuda_event_seconds(from, to, &seconds), NOT_READY);
    assert_good(cuda_stream_wait(stream));
    assert_good(cuda_event_seconds(from, to, &seconds));
    assert_true(seconds > 0);
    assert_int_equal(cuda_event_seconds(untimed, to, &seconds), INVALID_HANDLE);
}

/* ---- graphs ---- */

struct recorded {
    void *main, *side, *graph, *mark;
    float *a, *b, *one;
};

/* A graph: a += 1; then in another stream b = a, beside it (with `ordered`, after it) a += 1 in the first. */
static struct recorded record(bool ordered)
{
    struct recorded r = {.main = stream_make(), .side = stream_make(), .mark = event_make()};
    void *forked = event_make(), *joined = event_make();
    r.a = array_make(0);
    r.b = array_make(0);
    r.one = array_make(1);
    assert_good(cuda_record_begin(r.main));
    queue_add(r.a, r.one, r.main);
    assert_good(cuda_event_record(forked, r.main));
    assert_good(cuda_event_wait(r.side, forked));
    queue_copy(r.b, r.a, r.side);
    assert_good(cuda_event_record(joined, r.side));
    if (ordered)
        assert_good(cuda_event_wait(r.main, joined));
    queue_add(r.a, r.one, r.main);
    assert_good(cuda_event_wait(r.main, joined));
    assert_good(cuda_event_record(r.mark, r.main));
    assert_good(cuda_record_end(r.main, &r.graph));
    assert_true(array_get(r.a) == 0);
    assert_good(cuda_wait());
    assert_true(array_get(r.a) == 0); /* recorded, not done */
    return r;
}

static void a_graph_repeats_what_was_recorded(void **state)
{
    (void)state;
    for (uint32_t order = 0; order < ORDERS; order++) {
        emulation_stream_order(order);
        struct recorded r = record(true);
        float *c = array_make(0);
        for (int turn = 1; turn <= 3; turn++) {
            assert_good(cuda_graph_launch(r.graph, r.main));
            queue_copy(c, r.b, r.main); /* after all of the graph */
            assert_good(cuda_stream_wait(r.main));
            assert_true(array_get(r.a) == 2 * (float)turn);
            assert_true(array_get(c) == 2 * (float)turn - 1);
        }
        /* One launch at a time, in other streams too. */
        assert_good(cuda_graph_launch(r.graph, r.main));
        assert_good(cuda_graph_launch(r.graph, r.side));
        assert_good(cuda_graph_destroy(r.graph));
        assert_good(cuda_wait());
        assert_true(array_get(r.a) == 10 && array_get(r.b) == 9);
        assert_int_equal(cuda_graph_launch(r.graph, r.main), INVALID_HANDLE);
    }
}

static void a_missing_wait_in_a_graph_shows_in_some_order(void **state)
{
    (void)state;
    bool right = false, wrong = false;
    for (uint32_t order = 0; order < ORDERS; order++) {
        emulation_stream_order(order);
        struct recorded r = record(false);
        assert_good(cuda_graph_launch(r.graph, r.main));
        assert_good(cuda_wait());
        right = right || array_get(r.b) == 1;
        wrong = wrong || array_get(r.b) == 2;
    }
    assert_true(right && wrong);
}

static void branches_of_a_graph_overlap_in_time(void **state)
{
    (void)state;
    double seconds[2];
    for (int ordered = 0; ordered < 2; ordered++) {
        struct recorded r = record(ordered);
        void *from = event_make(), *to = event_make();
        assert_good(cuda_event_record(from, r.main));
        assert_good(cuda_graph_launch(r.graph, r.main));
        assert_good(cuda_event_record(to, r.main));
        assert_good(cuda_stream_wait(r.main));
        seconds[ordered] = seconds_between(from, to);
    }
    assert_true(seconds[0] > 0 && seconds[0] < seconds[1]);
}

static void events_of_a_recording_are_the_graph_s_alone(void **state)
{
    (void)state;
    struct recorded r = record(true);
    void *other = stream_make();
    bool passed;
    double seconds;
    assert_int_equal(cuda_event_passed(r.mark, &passed), CAPTURED_EVENT);
    assert_int_equal(cuda_event_seconds(r.mark, r.mark, &seconds), CAPTURED_EVENT);
    assert_int_equal(cuda_event_wait(other, r.mark), CAPTURE_ISOLATION);
    assert_good(cuda_event_record(r.mark, other));
    assert_good(cuda_stream_wait(other));
    assert_good(cuda_event_passed(r.mark, &passed));
    assert_true(passed);
}

static void recordings_that_cannot_be_are_refused(void **state)
{
    (void)state;
    void *main = stream_make(), *side = stream_make(), *event = event_make(), *inside = event_make(), *graph;
    float *a = array_make(0), *one = array_make(1);
    assert_int_equal(cuda_record_begin(NULL), CAPTURE_UNSUPPORTED);
    assert_int_equal(cuda_record_end(main, &graph), ILLEGAL_STATE);

    /* What waits for something outside; nothing of it is kept. */
    assert_good(cuda_event_record(event, side));
    assert_good(cuda_record_begin(main));
    assert_int_equal(cuda_record_begin(main), ILLEGAL_STATE);
    assert_int_equal(cuda_event_wait(main, event), CAPTURE_ISOLATION);
    assert_int_equal(kernel(a, one, false, main), CAPTURE_INVALIDATED);
    assert_int_equal(cuda_record_end(main, &graph), CAPTURE_INVALIDATED);
    assert_null(graph);

    /* A stream that was not joined, ended in the wrong one at first. */
    assert_good(cuda_record_begin(main));
    assert_good(cuda_event_record(inside, main));
    assert_good(cuda_event_wait(side, inside));
    queue_add(a, one, side);
    assert_int_equal(cuda_record_end(side, &graph), CAPTURE_UNMATCHED);
    assert_int_equal(cuda_record_end(main, &graph), CAPTURE_UNJOINED);

    /* Two that meet. */
    assert_good(cuda_record_begin(main));
    assert_good(cuda_record_begin(side));
    assert_good(cuda_event_record(inside, main));
    assert_int_equal(cuda_event_wait(side, inside), CAPTURE_MERGE);
    assert_int_equal(cuda_record_end(main, &graph), CAPTURE_INVALIDATED);
    assert_int_equal(cuda_record_end(side, &graph), CAPTURE_INVALIDATED);

    /* Waiting for what is only being recorded. */
    assert_good(cuda_record_begin(main));
    assert_int_equal(cuda_stream_wait(main), CAPTURE_UNSUPPORTED);
    assert_int_equal(cuda_record_end(main, &graph), CAPTURE_INVALIDATED);
    assert_good(cuda_record_begin(main));
    assert_int_equal(cuda_wait(), CAPTURE_UNSUPPORTED);
    assert_int_equal(cuda_record_end(main, &graph), CAPTURE_INVALIDATED);

    queue_add(a, one, main);
    assert_good(cuda_wait());
    assert_true(array_get(a) == 1);
}

/* ---- memory and devices ---- */

static void memory_has_an_end(void **state)
{
    (void)state;
    void *half, *more;
    struct cuda_device device;
    machine_with("1", "", "4096");
    assert_good(cuda_allocate(&half, 2048));
    assert_good(cuda_describe(0, &device));
    assert_int_equal(device.memory_bytes, 4096);
    assert_int_equal(device.free_bytes, 2048);
    assert_int_equal(cuda_allocate(&more, 2049), OUT_OF_MEMORY);
    assert_null(more);
    assert_good(cuda_allocate(&more, 2048));
    assert_good(cuda_release(half));
    assert_good(cuda_release(more));
    assert_good(cuda_allocate(&half, 4096));
    assert_int_equal(cuda_allocate(&more, 1), OUT_OF_MEMORY);
    assert_int_equal(cuda_allocate(&more, 0), INVALID_VALUE);
    assert_good(cuda_release(NULL));
}

static void freeing_waits_for_the_device(void **state)
{
    (void)state;
    void *stream = stream_make();
    float *a = array_make(1), *b = array_make(2);
    queue_add(a, b, stream);
    assert_good(cuda_release(b));
    assert_true(array_get(a) == 3);
}

static void a_machine_may_have_no_gpu_or_old_ones(void **state)
{
    (void)state;
    char reason[128];
    void *made;
    machine_with("0", "", "");
    assert_int_equal(cuda_devices(reason, sizeof reason), 0);
    assert_non_null(strstr(reason, "no CUDA-capable device"));
    assert_int_equal(cuda_use(0), NO_DEVICE);
    assert_int_equal(cuda_allocate(&made, 1), NO_DEVICE);
    assert_int_equal(cuda_stream_create(&made, false), NO_DEVICE);
    assert_int_equal(kernel(NULL, NULL, true, NULL), NO_DEVICE);
    machine_with("2", "7.5", "");
    assert_int_equal(cuda_devices(reason, sizeof reason), 0);
    assert_non_null(strstr(reason, "older than compute capability 8.0"));
    machine_with("2", "9.0", "");
    struct cuda_device device;
    assert_int_equal(cuda_devices(NULL, 0), 2);
    assert_good(cuda_describe(1, &device));
    assert_int_equal(device.major, 9);
    assert_int_equal(device.minor, 0);
    assert_int_equal(cuda_describe(2, &device), INVALID_DEVICE);
    assert_int_equal(cuda_use(2), INVALID_DEVICE);
}

static void devices_have_memory_streams_and_events_of_their_own(void **state)
{
    (void)state;
    machine_with("2", "", "");
    double seconds;
    void *stream0 = stream_make(), *event0 = event_make();
    float *a0 = array_make(1), *b0 = array_make(2);
    assert_good(cuda_use(1));
    void *stream1 = stream_make(), *event1 = event_make();
    float *a1 = array_make(10), *b1 = array_make(20);

    assert_int_equal(kernel(a0, b0, false, stream0), INVALID_HANDLE); /* while device 1 is in use */
    assert_int_equal(cuda_event_record(event0, stream1), INVALID_HANDLE);
    assert_int_equal(cuda_copy(a0, b0, BYTES, stream1), INVALID_VALUE);
    assert_int_equal(cuda_fill(a0, 0, BYTES, stream1), INVALID_VALUE);

    /* Between devices, and waits across them. */
    queue_add(a1, b1, stream1);
    assert_good(cuda_event_record(event1, stream1));
    assert_good(cuda_event_wait(stream0, event1));
    queue_copy(a0, a1, stream0);
    assert_good(cuda_event_record(event0, stream0));
    assert_good(cuda_use(0));
    assert_good(cuda_wait());
    assert_true(array_get(a0) == 30);
    assert_int_equal(cuda_event_seconds(event1, event0, &seconds), INVALID_HANDLE);

    /* A kernel that reaches into the other device. */
    queue_add(a0, b1, stream0);
    assert_int_equal(cuda_stream_wait(stream0), ILLEGAL_ADDRESS);
}

/* ---- wrong uses ---- */

static void an_error_of_a_kernel_sticks(void **state)
{
    (void)state;
    bool passed;
    void *stream = stream_make(), *event = event_make(), *memory;
    float *a = array_make(1);
    assert_good(kernel(a, a + 100, false, stream)); /* nothing there */
    assert_good(cuda_event_record(event, stream));
    assert_int_equal(cuda_stream_wait(stream), ILLEGAL_ADDRESS);
    assert_int_equal(cuda_event_passed(event, &passed), ILLEGAL_ADDRESS);
    assert_false(passed);
    assert_int_equal(cuda_allocate(&memory, 1), ILLEGAL_ADDRESS);
    assert_int_equal(kernel(a, a, false, stream), ILLEGAL_ADDRESS);
    assert_int_equal(kernel(a, a, false, NULL), ILLEGAL_ADDRESS);
    assert_int_equal(cuda_wait(), ILLEGAL_ADDRESS);
    assert_int_equal(cuda_stream_destroy(stream), ILLEGAL_ADDRESS);
    assert_int_equal(cuda_release(a), ILLEGAL_ADDRESS);
    assert_non_null(strstr(cuda_error_text(ILLEGAL_ADDRESS), "illegal memory access"));
}

static void stale_and_mistaken_handles_are_found(void **state)
{
    (void)state;
    bool passed;
    void *stream = stream_make(), *event = event_make(), *old = stream_make(), *old_event = event_make();
    float *a = array_make(1);
    assert_good(cuda_stream_destroy(old));
    assert_good(cuda_event_destroy(old_event));
    stream_make(); /* not in its place */
    event_make();
    assert_int_equal(cuda_fill(a, 0, BYTES, old), INVALID_HANDLE);
    assert_int_equal(cuda_fill(a, 0, BYTES, event), INVALID_HANDLE);
    assert_int_equal(cuda_fill(a, 0, BYTES, a), INVALID_HANDLE);
    assert_int_equal(kernel(a, a, false, old), INVALID_HANDLE);
    assert_int_equal(cuda_event_record(old_event, stream), INVALID_HANDLE);
    assert_int_equal(cuda_event_passed(stream, &passed), INVALID_HANDLE);
    assert_int_equal(cuda_event_destroy(old_event), INVALID_HANDLE);
    assert_int_equal(cuda_graph_launch(event, stream), INVALID_HANDLE);
    assert_good(cuda_fill(a, 0, BYTES, stream));
}

static void copies_stay_inside_memory(void **state)
{
    (void)state;
    void *stream = stream_make(), *host;
    float *a = array_make(1), *b = array_make(2), pageable[COUNT];
    assert_good(cuda_host_allocate(&host, BYTES));
    assert_int_equal(cuda_copy(a, b, BYTES + 1, stream), INVALID_VALUE);
    assert_int_equal(cuda_copy(a + 1, b, BYTES, stream), INVALID_VALUE);
    assert_int_equal(cuda_copy(pageable, b, BYTES, stream), INVALID_VALUE);
    assert_int_equal(cuda_copy_rows(a, 16, b, 8, 8, 3, stream), INVALID_VALUE);
    assert_int_equal(cuda_copy_rows(a, 4, b, 8, 8, 2, stream), INVALID_PITCH);
    assert_int_equal(cuda_fill(host, 0, BYTES, stream), INVALID_VALUE);
    assert_int_equal(cuda_read(pageable, a, BYTES + 1), INVALID_VALUE);
    assert_int_equal(cuda_write(pageable, pageable, BYTES), INVALID_VALUE);
    assert_int_equal(cuda_release(a + 1), INVALID_VALUE);
    assert_int_equal(cuda_release(host), INVALID_VALUE);
    assert_int_equal(cuda_host_release(a), INVALID_VALUE);
    assert_good(cuda_copy_rows(a, 16, b, 8, 8, 2, stream));
    assert_good(cuda_copy(host, a, BYTES, stream));
    assert_good(cuda_stream_wait(stream));
    const float expected[] = {2, 2, 1, 1, 2, 2, 1, 1};
    assert_memory_equal(host, expected, sizeof expected);
    assert_good(cuda_host_release(host));
}

static void the_host_does_not_touch_what_a_queued_copy_uses(void **state)
{
    (void)state;
    float numbers[COUNT] = {0};
    for (int wrong = 0; wrong < 5; wrong++) {
        machine_with("1", "", "");
        void *stream = stream_make(), *host;
        float *a = array_make(1), *b = array_make(2);
        assert_good(cuda_host_allocate(&host, BYTES));
        /* Rows of 2 of every 4 numbers: what is between them is free. */
        assert_good(cuda_copy_rows(a, 16, b, 16, 8, 2, stream));
        assert_good(cuda_copy(host, b, BYTES, stream));
        assert_good(cuda_read(numbers, b, BYTES));
        assert_good(cuda_read(numbers, a + 2, 8));
        assert_good(cuda_write(a + 6, numbers, 8));
        const int error = wrong == 0   ? cuda_read(numbers, a + 4, 4)
                          : wrong == 1 ? cuda_write(a, numbers, BYTES)
                          : wrong == 2 ? cuda_write(b + 1, numbers, 4)
                          : wrong == 3 ? cuda_write(a + 2, host, 4)
                                       : cuda_host_release(host);
        assert_int_equal(error, LAUNCH_FAILURE);
        assert_int_equal(cuda_wait(), LAUNCH_FAILURE);
    }
}

static void a_graph_that_outlives_its_memory_fails(void **state)
{
    (void)state;
    struct recorded r = record(true);
    assert_good(cuda_release(r.b));
    assert_good(cuda_graph_launch(r.graph, r.main));
    assert_int_equal(cuda_stream_wait(r.main), ILLEGAL_ADDRESS);
}

/* ---- other libraries' work ---- */

struct meeting {
    int arrived, done, released;
    double begin_ns;
};

static bool meet(void *context, double begin_ns, double *end_ns)
{
    struct meeting *meeting = context;
    meeting->arrived++;
    if (meeting->begin_ns < begin_ns)
        meeting->begin_ns = begin_ns;
    if (meeting->arrived < 3)
        return false;
    meeting->done++;
    *end_ns = meeting->begin_ns + 1000;
    return true;
}

static void leave(void *context)
{
    ((struct meeting *)context)->released++;
}

static void other_work_takes_its_turn_when_it_can(void **state)
{
    (void)state;
    struct meeting meeting = {0};
    const struct emulation_work work = {meet, leave, &meeting};
    void *one = stream_make(), *other = stream_make();
    float *a = array_make(1), *b = array_make(2), *c = array_make(0);
    queue_add(a, b, one);
    assert_good(emulation_queue(&work, one));
    assert_good(emulation_queue(&work, other));
    stream_after(one, other);
    queue_copy(c, a, one);
    assert_int_equal(meeting.arrived, 0);
    assert_good(cuda_wait());
    assert_int_equal(meeting.done, 2);
    assert_int_equal(meeting.released, 2);
    assert_true(meeting.begin_ns > 0);
    assert_true(array_get(c) == 3);
    assert_int_equal(emulation_queue(&work, a), INVALID_HANDLE);
    assert_int_equal(meeting.released, 3);
    assert_int_equal(emulation_place(a, BYTES), 0);
    assert_int_equal(emulation_place(a, BYTES + 1), EMULATION_NOWHERE);
}

/* ---- threads ---- */

#define THREADS 4
#define TURNS 400

struct worker {
    pthread_t thread;
    pthread_barrier_t *together;
    int device, error;
};

/* Two streams that take turns. */
static void *work_of_thread(void *argument)
{
    struct worker *worker = argument;
    pthread_barrier_wait(worker->together);
    int error = cuda_use(worker->device);
    void *streams[2] = {NULL}, *event = NULL, *a = NULL, *b = NULL;
    float numbers[COUNT];
    for (size_t s = 0; s < 2 && !error; s++)
        error = cuda_stream_create(&streams[s], s == 1);
    error = error ? error : cuda_event_create(&event, false);
    error = error ? error : cuda_allocate(&a, BYTES);
    error = error ? error : cuda_allocate(&b, BYTES);
    error = error ? error : cuda_fill(a, 0, BYTES, streams[0]);
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = 1;
    error = error ? error : cuda_write(b, numbers, BYTES);
    for (size_t i = 0; i < TURNS && !error; i++) {
        bool passed = i % 10 != 9;
        error = kernel(a, b, false, streams[i % 2]);
        error = error ? error : cuda_event_record(event, streams[i % 2]);
        while (!passed && !error)
            error = cuda_event_passed(event, &passed);
        error = error ? error : cuda_event_wait(streams[(i + 1) % 2], event);
    }
    error = error ? error : cuda_stream_wait(streams[0]);
    error = error ? error : cuda_read(numbers, a, BYTES);
    for (size_t i = 0; i < COUNT && !error; i++)
        error = numbers[i] == TURNS ? 0 : -1;
    worker->error = error;
    return NULL;
}

static void threads_may_do_everything_at_once(void **state)
{
    (void)state;
    machine_with("2", "", "");
    struct worker workers[THREADS];
    pthread_barrier_t together;
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.together = &together, .device = t % 2};
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work_of_thread, &workers[t]), 0);
    }
    for (size_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
    for (size_t t = 0; t < THREADS; t++)
        assert_int_equal(workers[t].error, 0);
    pthread_barrier_destroy(&together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(work_is_done_when_it_is_asked_for, one_gpu),
        cmocka_unit_test_setup(the_default_stream_is_done_at_once, one_gpu),
        cmocka_unit_test_setup(a_destroyed_stream_s_work_is_done_later, one_gpu),
        cmocka_unit_test_setup(a_stream_keeps_its_order, one_gpu),
        cmocka_unit_test_setup(a_missing_wait_shows_in_some_order, one_gpu),
        cmocka_unit_test_setup(an_event_passes_after_some_asking, one_gpu),
        cmocka_unit_test_setup(a_wait_is_for_the_latest_record, one_gpu),
        cmocka_unit_test_setup(time_shows_overlap_and_is_the_same_in_any_order, one_gpu),
        cmocka_unit_test_setup(what_the_host_waited_for_is_over_when_it_queues_more, one_gpu),
        cmocka_unit_test_setup(times_of_events_need_timed_ones_that_have_passed, one_gpu),
        cmocka_unit_test_setup(a_graph_repeats_what_was_recorded, one_gpu),
        cmocka_unit_test_setup(a_missing_wait_in_a_graph_shows_in_some_order, one_gpu),
        cmocka_unit_test_setup(branches_of_a_graph_overlap_in_time, one_gpu),
        cmocka_unit_test_setup(events_of_a_recording_are_the_graph_s_alone, one_gpu),
        cmocka_unit_test_setup(recordings_that_cannot_be_are_refused, one_gpu),
        cmocka_unit_test_setup(memory_has_an_end, one_gpu),
        cmocka_unit_test_setup(freeing_waits_for_the_device, one_gpu),
        cmocka_unit_test_setup(a_machine_may_have_no_gpu_or_old_ones, one_gpu),
        cmocka_unit_test_setup(devices_have_memory_streams_and_events_of_their_own, one_gpu),
        cmocka_unit_test_setup(an_error_of_a_kernel_sticks, one_gpu),
        cmocka_unit_test_setup(stale_and_mistaken_handles_are_found, one_gpu),
        cmocka_unit_test_setup(copies_stay_inside_memory, one_gpu),
        cmocka_unit_test_setup(the_host_does_not_touch_what_a_queued_copy_uses, one_gpu),
        cmocka_unit_test_setup(a_graph_that_outlives_its_memory_fails, one_gpu),
        cmocka_unit_test_setup(other_work_takes_its_turn_when_it_can, one_gpu),
        cmocka_unit_test_setup(threads_may_do_everything_at_once, one_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
