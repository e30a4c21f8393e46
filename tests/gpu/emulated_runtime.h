/* emulated_runtime.h - what the files of the emulated CUDA runtime share: the machine's state, and the work that waits
 * in streams.
 *
 * emulated_runtime.cpp: devices, memory, errors. emulated_work.cpp: pieces of work, one at a time.
 * emulated_streams.cpp: streams, events, and who is next. emulated_graphs.cpp: graphs.
 *
 * There is one machine, and whoever reads or changes it holds its lock (struct locked). Handles are numbers that look
 * like pointers and are never given twice, so that a stale or mistaken one is always found.
 */
#ifndef CPSIM_TESTS_GPU_EMULATED_RUNTIME_H
#define CPSIM_TESTS_GPU_EMULATED_RUNTIME_H

#include <deque>
#include <memory>
#include <mutex>
#include <stddef.h>
#include <stdint.h>
#include <vector>

#include "cuda_errors.h"
#include "emulation.h"

#define DEVICES_MAX 16

/* ---- work ---- */

/* Rows of memory. */
struct region {
    unsigned char *first;
    size_t pitch, width, rows;
};

/* A place in a stream that others wait for. */
struct record {
    bool passed;
    double ns;
};

enum work_kind { KERNEL, COPY, FILL, RECORD, WAIT, GRAPH, OTHER };

/* What a stream or a graph holds; never changed once it is queued. */
struct work {
    enum work_kind kind = KERNEL;
    int device = 0;
    /* KERNEL; its context is a copy of its own */
    uint64_t blocks = 0;
    uint32_t threads = 0;
    size_t shared_bytes = 0;
    void (*body)(const void *context) = nullptr;
    void *context = nullptr;
    /* COPY, FILL */
    struct region to = {}, from = {};
    int byte = 0;
    /* RECORD, WAIT */
    std::shared_ptr<struct record> record;
    /* GRAPH */
    std::shared_ptr<struct graph> graph;
    /* OTHER */
    struct emulation_work other = {};

    work() = default;
    work(const work &) = delete;
    ~work();
};

struct graph_node {
    std::shared_ptr<const struct work> work;
    std::vector<size_t> after; /* nodes before this one */
};

struct graph {
    std::vector<struct graph_node> nodes;
    std::shared_ptr<struct record> last; /* of the latest launch: the next one waits for it */
};

/* A launch that has begun. */
struct graph_run {
    double begin_ns;
    std::vector<size_t> left; /* per node: nodes before it that are not done */
    std::vector<double> end_ns;
    std::vector<size_t> ready;
    size_t done;
    bool newest_first; /* one branch as far as it goes, or any order */
};

/* ---- streams ---- */

struct queued {
    std::shared_ptr<const struct work> work;
    double not_before_ns; /* of the host, when it was queued */
    std::unique_ptr<struct graph_run> run;
};

struct capture {
    struct stream *origin;
    std::shared_ptr<struct graph> graph;
    std::vector<struct stream *> streams; /* that are in it */
    bool invalid, ended;
};

struct stream {
    int device;
    double ns; /* its time: when the work done last ended */
    std::deque<struct queued> queue;
    bool destroyed; /* only its queue is left */
    std::shared_ptr<struct capture> capture;
    std::vector<size_t> frontier; /* captured: the nodes that the next one comes after */
};

struct event {
    int device;
    bool timed;
    std::shared_ptr<struct record> latest;   /* NULL: never recorded */
    std::shared_ptr<struct capture> capture; /* it was recorded last in a stream that is captured */
    std::vector<size_t> frontier;
};

/* ---- the machine ---- */

struct allocation {
    unsigned char *memory;
    size_t bytes;
    int place;
};

struct machine {
    std::recursive_mutex lock;
    bool known; /* the environment has been read */
    int devices, major, minor;
    size_t memory_bytes, used[DEVICES_MAX];
    int broken;                                 /* the error that sticks, or 0 */
    std::vector<struct allocation> allocations; /* by address */
    std::vector<std::shared_ptr<struct stream>> streams;
    std::vector<std::unique_ptr<struct event>> events;
    std::vector<std::shared_ptr<struct graph>> graphs;
    std::vector<std::shared_ptr<struct stream>> busy; /* streams that may have work, in the order of their making */
    struct stream defaults[DEVICES_MAX];              /* the streams NULL */
    /* whose turn it is */
    uint64_t random;
    const struct stream *favourite, *starved;
    uint32_t turns;
};

/* Holds the machine. */
struct locked {
    locked();
    ~locked();
    locked(const locked &) = delete;
};

struct machine &machine();

/* Says on standard error what was wrong with a call. Returns `error`. */
int refuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, and from now on every call returns the error. */
int break_down(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What every call begins with: the error that sticks, or that there is no device, or 0. */
int machine_error();

/* The calling thread's. */
int current_device();
/* The calling thread's clock: the latest time that it has waited for. */
double &host_ns();

/* Number in [0, count). */
uint32_t random_below(uint32_t count);

/* ---- handles ---- */

enum handle_kind { STREAM_HANDLE = 1, EVENT_HANDLE, GRAPH_HANDLE };

void *handle_of(enum handle_kind kind, size_t index);
/* False if it is none of that kind, or not below `count`. */
bool handle_index(const void *handle, enum handle_kind kind, size_t count, size_t *index);

/* NULL, after a message, if there is none such. */
struct stream *find_stream(void *handle);
struct event *find_event(void *handle);

/* ---- work, streams, graphs ---- */

/* Does a piece of work that is no record, wait or graph. False: not yet. An error is the machine's (broken). */
bool perform(const struct work &work, double begin_ns, double *end_ns);

/* Whether something queued and not done in a stream or a copy or fill among it touches these bytes so that to read (or
 * write) them now is a race. */
bool queued_conflict(const void *first, size_t bytes, bool writes);

/* Keeps it in the stream's graph if it is captured; does it if it is a stream NULL; else queues it. */
int queue_work(struct stream *stream, std::unique_ptr<struct work> work);

/* Does one piece of some stream's work; false if nothing can be done now. */
bool step_machine();

/* Does others' work, the lock let go in between, until nothing is queued on the device. */
void finish_device(int device);

std::unique_ptr<struct graph_run> graph_begin(const struct graph &graph, double begin_ns);
/* Does one node; false if none can be done now. */
bool graph_step(const struct graph &graph, struct graph_run *run);
double graph_end(const struct graph_run &run);

void capture_add(struct stream *stream, std::unique_ptr<struct work> work);

#endif
