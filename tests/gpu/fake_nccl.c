/* fake_nccl.c - an NCCL for emulated GPUs: a library of its own, opened as the real one is. What it needs of the
 * emulation it finds in the program that opens it.
 *
 * Ranks are threads of one process. What a communicator does in one group is one piece of work in a stream, like one of
 * NCCL's kernels: it begins when it is its turn, meets that of its peers, and ends when all it has to do is done. Sends
 * meet receives of the same pair of ranks in order, collectives those of the other ranks in order. Whoever comes last
 * moves the bytes.
 *
 * It is stricter than NCCL where that lets mistakes show: a group of a non-blocking communicator is in the stream only
 * when the communicator has been asked twice and has said that it is; memory must be of the communicator's GPU.
 *
 * Locks: the emulation's is taken before `mutex` (a step is called with it), so nothing of the emulation is called with
 * the mutex held.
 */
#include "tests/gpu/fake_nccl.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hw/nccl/nccl_abi.h"
#include "kernels/cuda/runtime.h"
#include "tests/gpu/emulation.h"

#define ASKS 2 /* how often a communicator is asked before it is through */
#define RANKS_MAX 16
#define NS 1000

enum kind { SEND, RECEIVE, BROADCAST, REDUCE, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, KINDS };

struct op {
    struct op *next; /* in a queue of sends or receives */
    struct comm *comm;
    enum kind kind;
    const char *from;
    char *to;
    size_t count;
    int type, fold, peer;
    bool done;
    double ns; /* when it began; when it is done: when all who take part had begun */
};

/* What a communicator does in a group. */
struct work {
    struct comm *comm;
    void *stream;
    struct op *ops;
    size_t n_ops;
    bool begun;
};

struct meeting {
    struct meeting *next;
    uint64_t number; /* of the collective */
    int come;
    struct op *ops[RANKS_MAX];
};

struct queue {
    struct op *first, *last;
};

struct world {
    struct world *next;
    uint64_t id;
    int ranks, joined, left, devices[RANKS_MAX];
    struct queue sends[RANKS_MAX][RANKS_MAX], receives[RANKS_MAX][RANKS_MAX]; /* [source][destination] */
    struct meeting *meetings;
};

struct comm {
    struct world *world;
    int rank, device;
    bool blocking, ready, finalizing, aborted, gone;
    int asks; /* left until it is through with what it has begun */
    int error;
    int groups, works; /* so far; in streams */
    uint64_t collectives;
    struct work *pending; /* to be queued when it has been asked */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct world *worlds;
static uint64_t ids;
static struct fake_nccl_counts counts;
static char last_words[256];

static _Thread_local struct {
    int depth, error;
    struct op ops[1024];
    void *streams[1024];
    size_t n_ops;
} group;

#define PUBLIC __attribute__((visibility("default")))

static int number_of(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

static int refuse(int error, const char *words)
{
    pthread_mutex_lock(&mutex);
    snprintf(last_words, sizeof last_words, "%s", words);
    pthread_mutex_unlock(&mutex);
    return error;
}

/* ---- numbers ---- */

static size_t size_of(int type)
{
    switch (type) {
    case NCCL_INT8:
        return 1;
    case NCCL_FP16:
    case NCCL_BF16:
        return 2;
    case NCCL_FP32:
        return 4;
    default:
        return 0;
    }
}

static float read_number(int type, const char *at)
{
    uint32_t bits = 0;
    float number;
    memcpy(&bits, at, size_of(type));
    if (type == NCCL_FP16) { /* normal ones, and 0 */
        uint32_t exponent = bits >> 10 & 31;
        bits = (bits & 0x8000) << 16 | (exponent ? (exponent + 112) << 23 : 0) | (bits & 1023) << 13;
    } else if (type == NCCL_BF16) {
        bits <<= 16;
    }
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Numbers that the type has: of others the end is cut off. */
static void write_number(int type, char *at, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (type == NCCL_BF16)
        bits >>= 16;
    else if (type == NCCL_FP16)
        bits = (bits >> 16 & 0x8000) |
               (number == 0 ? 0 : ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023)); /* NOLINT */
    memcpy(at, &bits, size_of(type));
}

/* ---- what is done when all have come; with the mutex held ---- */

static void fail(struct comm *comm, int error, const char *words)
{
    comm->error = error;
    snprintf(last_words, sizeof last_words, "%s", words);
}

static void finish(struct op *const *ops, int n)
{
    double latest = 0;
    for (int i = 0; i < n; i++)
        latest = ops[i]->ns > latest ? ops[i]->ns : latest;
    for (int i = 0; i < n; i++) {
        ops[i]->ns = latest;
        ops[i]->done = true;
    }
}

static void match_pair(struct world *world, int source, int destination)
{
    struct queue *sends = &world->sends[source][destination], *receives = &world->receives[source][destination];
    while (sends->first && receives->first) {
        struct op *send = sends->first, *receive = receives->first;
        if (send->count * size_of(send->type) != receive->count * size_of(receive->type)) {
            fail(send->comm, NCCL_INVALID_ARGUMENT, "a message is not received as it was sent");
            fail(receive->comm, NCCL_INVALID_ARGUMENT, "a message is not received as it was sent");
            return;
        }
        memmove(receive->to, send->from, send->count * size_of(send->type));
        sends->first = send->next;
        receives->first = receive->next;
        finish((struct op *[]){send, receive}, 2);
    }
}

/* The fold of all ranks' numbers from `first` on, in memory to be freed. */
static char *fold(const struct meeting *meeting, int ranks, size_t first, size_t count)
{
    const struct op *any = meeting->ops[0];
    size_t size = size_of(any->type);
    char *result = malloc(count * size + 1);
    for (size_t i = 0; i < count; i++) {
        float sum = read_number(any->type, any->from + (first + i) * size);
        for (int r = 1; r < ranks; r++) {
            float number = read_number(any->type, meeting->ops[r]->from + (first + i) * size);
            sum = any->fold == NCCL_ADD ? sum + number : number > sum ? number : sum;
        }
        write_number(any->type, result + i * size, sum);
    }
    return result;
}

static void collect(const struct meeting *meeting, int ranks)
{
    const struct op *any = meeting->ops[0];
    size_t bytes = any->count * size_of(any->type);
    bool scatters = any->kind == REDUCE_SCATTER, gathers = any->kind == ALL_GATHER;
    char *all = NULL;
    if (gathers) {
        all = malloc((size_t)ranks * bytes + 1);
        for (int r = 0; r < ranks; r++)
            memcpy(all + (size_t)r * bytes, meeting->ops[r]->from, bytes);
    } else if (any->kind == BROADCAST) {
        all = malloc(bytes + 1);
        memcpy(all, meeting->ops[any->peer]->from, bytes);
    } else {
        all = fold(meeting, ranks, 0, scatters ? (size_t)ranks * any->count : any->count);
    }
    for (int r = 0; r < ranks; r++)
        if (any->kind != REDUCE || r == any->peer)
            memcpy(meeting->ops[r]->to, scatters ? all + (size_t)r * bytes : all,
                   gathers ? (size_t)ranks * bytes : bytes);
    free(all);
}

static bool alike(const struct op *a, const struct op *b)
{
    return a->kind == b->kind && a->count == b->count && a->type == b->type && a->fold == b->fold &&
           (a->peer == b->peer || (a->kind != BROADCAST && a->kind != REDUCE));
}

static void join_meeting(struct op *op)
{
    struct world *world = op->comm->world;
    uint64_t number = op->comm->collectives++;
    struct meeting **at = &world->meetings;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (!*at) {
        *at = calloc(1, sizeof **at);
        (*at)->number = number;
    }
    struct meeting *meeting = *at;
    meeting->ops[op->comm->rank] = op;
    if (++meeting->come < world->ranks)
        return;
    for (int r = 1; r < world->ranks; r++) {
        if (alike(meeting->ops[0], meeting->ops[r]))
            continue;
        for (int i = 0; i < world->ranks; i++)
            fail(meeting->ops[i]->comm, NCCL_INVALID_ARGUMENT, "ranks do not make the same call");
        return;
    }
    collect(meeting, world->ranks);
    finish(meeting->ops, world->ranks);
    *at = meeting->next;
    free(meeting);
}

/* ---- work in streams ---- */

static void come(struct op *op, double ns)
{
    struct comm *comm = op->comm;
    op->done = false;
    op->ns = ns;
    if (op->kind != SEND && op->kind != RECEIVE) {
        join_meeting(op);
        return;
    }
    int source = op->kind == SEND ? comm->rank : op->peer, destination = op->kind == SEND ? op->peer : comm->rank;
    struct queue *queue =
        op->kind == SEND ? &comm->world->sends[source][destination] : &comm->world->receives[source][destination];
    op->next = NULL;
    if (queue->first)
        queue->last->next = op;
    else
        queue->first = op;
    queue->last = op;
    match_pair(comm->world, source, destination);
}

static bool step_locked(struct work *work, double begin_ns, double *end_ns)
{
    if (work->comm->aborted)
        return true;
    if (work->comm->error)
        return false; /* it waits for ever */
    if (!work->begun)
        for (size_t i = 0; i < work->n_ops; i++)
            come(&work->ops[i], begin_ns);
    work->begun = true;
    *end_ns = begin_ns;
    for (size_t i = 0; i < work->n_ops; i++) {
        if (!work->ops[i].done)
            return false;
        *end_ns = work->ops[i].ns > *end_ns ? work->ops[i].ns : *end_ns;
    }
    *end_ns += NS;
    work->begun = false; /* in a graph it is done again */
    return true;
}

static bool step(void *context, double begin_ns, double *end_ns)
{
    pthread_mutex_lock(&mutex);
    bool done = step_locked(context, begin_ns, end_ns);
    pthread_mutex_unlock(&mutex);
    return done;
}

/* The world goes with the last communicator that has left it; what others still wait for in it stays. */
static void let_go(struct comm *comm)
{
    struct world *world = comm->world;
    if (!comm->gone || comm->works)
        return;
    free(comm);
    if (--world->left)
        return;
    struct world **at = &worlds;
    while (*at != world)
        at = &(*at)->next;
    *at = world->next;
    while (world->meetings) {
        struct meeting *next = world->meetings->next;
        free(world->meetings);
        world->meetings = next;
    }
    free(world);
}

static void forget(struct queue *queue, const struct work *work)
{
    struct op **at = &queue->first;
    queue->last = NULL;
    while (*at) {
        bool ours = *at >= work->ops && *at < work->ops + work->n_ops;
        queue->last = ours ? queue->last : *at;
        if (ours)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

static void release(void *context)
{
    struct work *work = context;
    struct comm *comm = work->comm;
    pthread_mutex_lock(&mutex);
    for (int a = 0; work->begun && a < RANKS_MAX; a++) {
        for (int b = 0; b < RANKS_MAX; b++) {
            forget(&comm->world->sends[a][b], work);
            forget(&comm->world->receives[a][b], work);
        }
    }
    for (struct meeting *meeting = comm->world->meetings; meeting; meeting = meeting->next) {
        struct op **op = &meeting->ops[comm->rank];
        if (*op >= work->ops && *op < work->ops + work->n_ops) {
            *op = NULL;
            meeting->come--; /* it will never be complete */
        }
    }
    comm->works--;
    let_go(comm);
    pthread_mutex_unlock(&mutex);
    free(work->ops);
    free(work);
}

static int queue_work(struct work *work)
{
    const struct emulation_work emulated = {step, release, work};
    return emulation_queue(&emulated, work->stream) ? NCCL_CUDA_ERROR : NCCL_DONE;
}

/* ---- communicators ---- */

PUBLIC int ncclGetVersion(int *version);
PUBLIC int ncclGetVersion(int *version)
{
    *version = number_of("FAKE_NCCL_VERSION", 22809);
    return NCCL_DONE;
}

PUBLIC const char *ncclGetErrorString(int result);
PUBLIC const char *ncclGetErrorString(int result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result >= 0 && result <= NCCL_UNDER_WAY ? texts[result] : "unknown result code";
}

PUBLIC const char *ncclGetLastError(void *comm);
PUBLIC const char *ncclGetLastError(void *comm)
{
    static _Thread_local char words[sizeof last_words];
    (void)comm;
    pthread_mutex_lock(&mutex);
    memcpy(words, last_words, sizeof words);
    pthread_mutex_unlock(&mutex);
    return words;
}

PUBLIC int ncclGetUniqueId(struct nccl_id *id);
PUBLIC int ncclGetUniqueId(struct nccl_id *id)
{
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&mutex);
    ids++;
    memcpy(id->bytes, &ids, sizeof ids);
    pthread_mutex_unlock(&mutex);
    return NCCL_DONE;
}

static int check_config(const struct nccl_config *config)
{
    bool old = config->size == NCCL_CONFIG_BYTES_2_18 && config->version == NCCL_VERSION_2_18;
    bool new = config->size == sizeof *config && config->version == NCCL_VERSION_2_28;
    int own;
    ncclGetVersion(&own);
    if (config->magic != NCCL_CONFIG_MAGIC || !(old || new) || (int)config->version > own)
        return refuse(NCCL_INVALID_ARGUMENT, "a configuration that is none");
    if (config->max_ctas != NCCL_UNSET && (config->max_ctas < 1 || config->min_ctas > config->max_ctas))
        return refuse(NCCL_INVALID_ARGUMENT, "thread blocks of a communicator");
    pthread_mutex_lock(&mutex);
    counts.max_ctas = config->max_ctas;
    counts.cta_policy = new ? config->cta_policy : NCCL_UNSET;
    pthread_mutex_unlock(&mutex);
    return NCCL_DONE;
}

static int current_device(void)
{
    void *memory;
    if (cuda_allocate(&memory, 1))
        return -1;
    int device = emulation_place(memory, 1);
    cuda_release(memory);
    return device;
}

static struct world *find_world(uint64_t id, int ranks)
{
    struct world *world = worlds;
    while (world && world->id != id)
        world = world->next;
    if (!world) {
        world = calloc(1, sizeof *world);
        world->id = id;
        world->ranks = world->left = ranks;
        world->next = worlds;
        worlds = world;
    }
    return world;
}

PUBLIC int ncclCommInitRankConfig(void **out, int ranks, struct nccl_id id, int rank, struct nccl_config *config);
PUBLIC int ncclCommInitRankConfig(void **out, int ranks, struct nccl_id id, int rank, struct nccl_config *config)
{
    int device = current_device(), result = check_config(config);
    if (result != NCCL_DONE)
        return result;
    if (device < 0 || ranks < 1 || ranks > RANKS_MAX || rank < 0 || rank >= ranks)
        return refuse(device < 0 ? NCCL_CUDA_ERROR : NCCL_INVALID_ARGUMENT, "no such rank, or no GPU");
    uint64_t number;
    memcpy(&number, id.bytes, sizeof number);
    struct comm *comm = calloc(1, sizeof *comm);
    pthread_mutex_lock(&mutex);
    *comm = (struct comm){
        .world = find_world(number, ranks), .rank = rank, .device = device, .blocking = config->blocking, .asks = ASKS};
    comm->world->devices[rank] = device;
    comm->world->joined++;
    comm->ready = config->blocking && ranks == 1;
    counts.comms++;
    pthread_mutex_unlock(&mutex);
    *out = comm;
    return comm->ready ? NCCL_DONE : NCCL_UNDER_WAY;
}

static void become_ready(struct comm *comm)
{
    struct world *world = comm->world;
    if (number_of("FAKE_NCCL_NEVER", 0) || world->joined < world->ranks || comm->asks-- > 0)
        return;
    for (int a = 0; a < world->ranks; a++)
        for (int b = 0; b < a; b++)
            if (world->devices[a] == world->devices[b])
                fail(comm, NCCL_INVALID_USE, "Duplicate GPU detected");
    comm->ready = true;
}

PUBLIC int ncclCommGetAsyncError(struct comm *comm, int *state);
PUBLIC int ncclCommGetAsyncError(struct comm *comm, int *state)
{
    struct work *work = NULL;
    pthread_mutex_lock(&mutex);
    if (!comm->ready)
        become_ready(comm);
    else if (comm->pending && comm->asks-- <= 0) {
        work = comm->pending;
        comm->pending = NULL;
    }
    bool through = comm->ready && !comm->pending && (!comm->finalizing || comm->works == 0);
    *state = comm->error ? comm->error : through ? NCCL_DONE : NCCL_UNDER_WAY;
    pthread_mutex_unlock(&mutex);
    if (work)
        return queue_work(work);
    return NCCL_DONE;
}

PUBLIC int ncclCommFinalize(struct comm *comm);
PUBLIC int ncclCommFinalize(struct comm *comm)
{
    pthread_mutex_lock(&mutex);
    comm->finalizing = true;
    pthread_mutex_unlock(&mutex);
    return NCCL_UNDER_WAY;
}

static int leave(struct comm *comm, bool aborts)
{
    pthread_mutex_lock(&mutex);
    comm->aborted = aborts;
    counts.aborts += aborts;
    counts.comms--;
    struct work *pending = comm->pending;
    comm->pending = NULL;
    comm->gone = true;
    let_go(comm);
    pthread_mutex_unlock(&mutex);
    if (pending)
        release(pending);
    return NCCL_DONE;
}

PUBLIC int ncclCommDestroy(struct comm *comm);
PUBLIC int ncclCommDestroy(struct comm *comm)
{
    return leave(comm, false);
}

PUBLIC int ncclCommAbort(struct comm *comm);
PUBLIC int ncclCommAbort(struct comm *comm)
{
    while (number_of("FAKE_NCCL_ABORT_HANGS", 0))
        usleep(1000);
    return leave(comm, true);
}

/* ---- groups ---- */

PUBLIC int ncclGroupStart(void);
PUBLIC int ncclGroupStart(void)
{
    group.depth++;
    return NCCL_DONE;
}

static struct work *take_work(struct comm *comm)
{
    struct work *work = calloc(1, sizeof *work);
    work->comm = comm;
    work->ops = calloc(group.n_ops, sizeof *work->ops);
    size_t left = 0;
    for (size_t i = 0; i < group.n_ops; i++) {
        if (group.ops[i].comm == comm) {
            work->stream = group.streams[i];
            work->ops[work->n_ops++] = group.ops[i];
        } else {
            group.ops[left] = group.ops[i];
            group.streams[left++] = group.streams[i];
        }
    }
    group.n_ops = left;
    return work;
}

PUBLIC int ncclGroupEnd(void);
PUBLIC int ncclGroupEnd(void)
{
    int result = group.error;
    if (--group.depth > 0)
        return NCCL_DONE;
    group.error = 0;
    while (result == NCCL_DONE || result == NCCL_UNDER_WAY) {
        if (group.n_ops == 0)
            return result;
        struct comm *comm = group.ops[0].comm;
        struct work *work = take_work(comm);
        pthread_mutex_lock(&mutex);
        counts.groups++;
        comm->works++;
        comm->asks = ASKS;
        if (comm->rank == 1 && comm->groups++ >= number_of("FAKE_NCCL_FAIL_AFTER", INT32_MAX))
            fail(comm, NCCL_REMOTE_ERROR, "a connection is gone");
        if (!comm->blocking)
            comm->pending = work;
        pthread_mutex_unlock(&mutex);
        result = comm->blocking ? queue_work(work) : NCCL_UNDER_WAY;
    }
    group.n_ops = 0;
    return result;
}

static int add(struct op op, void *stream, int *counter)
{
    struct comm *comm = op.comm;
    size_t size = size_of(op.type), many = (size_t)comm->world->ranks, bytes = op.count * size;
    size_t from_bytes = op.kind == REDUCE_SCATTER ? many * bytes : bytes;
    size_t to_bytes = op.kind == ALL_GATHER ? many * bytes : bytes;
    bool gives = op.kind == BROADCAST ? op.peer == comm->rank : op.kind != RECEIVE;
    bool gets = op.kind == REDUCE ? op.peer == comm->rank : op.kind != SEND;
    const char *wrong = NULL;
    if (size == 0 || op.peer < 0 || op.peer >= comm->world->ranks)
        wrong = "a type or a rank that is none";
    else if ((gives && from_bytes && emulation_place(op.from, from_bytes) != comm->device) ||
             (gets && to_bytes && emulation_place(op.to, to_bytes) != comm->device))
        wrong = "memory that is not of the communicator's GPU";
    pthread_mutex_lock(&mutex);
    if (!comm->ready || comm->pending)
        wrong = "a communicator that is not through with what it has begun";
    (*counter)++;
    pthread_mutex_unlock(&mutex);
    if (wrong)
        return group.error = refuse(NCCL_INVALID_ARGUMENT, wrong);
    ncclGroupStart();
    group.ops[group.n_ops] = op;
    group.streams[group.n_ops++] = stream;
    return ncclGroupEnd();
}

PUBLIC int ncclSend(const void *from, size_t count, int type, int peer, struct comm *comm, void *stream);
PUBLIC int ncclSend(const void *from, size_t count, int type, int peer, struct comm *comm, void *stream)
{
    return add((struct op){NULL, comm, SEND, from, NULL, count, type, 0, peer, false, 0}, stream, &counts.sends);
}

PUBLIC int ncclRecv(void *to, size_t count, int type, int peer, struct comm *comm, void *stream);
PUBLIC int ncclRecv(void *to, size_t count, int type, int peer, struct comm *comm, void *stream)
{
    return add((struct op){NULL, comm, RECEIVE, NULL, to, count, type, 0, peer, false, 0}, stream, &counts.receives);
}

PUBLIC int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *comm, void *stream);
PUBLIC int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *comm, void *stream)
{
    return add((struct op){NULL, comm, BROADCAST, from, to, count, type, 0, root, false, 0}, stream,
               &counts.broadcasts);
}

PUBLIC int ncclReduce(const void *from, void *to, size_t count, int type, int fold_by, int root, struct comm *comm,
                      void *stream);
PUBLIC int ncclReduce(const void *from, void *to, size_t count, int type, int fold_by, int root, struct comm *comm,
                      void *stream)
{
    return add((struct op){NULL, comm, REDUCE, from, to, count, type, fold_by, root, false, 0}, stream,
               &counts.reduces);
}

PUBLIC int ncclAllReduce(const void *from, void *to, size_t count, int type, int fold_by, struct comm *comm,
                         void *stream);
PUBLIC int ncclAllReduce(const void *from, void *to, size_t count, int type, int fold_by, struct comm *comm,
                         void *stream)
{
    return add((struct op){NULL, comm, ALL_REDUCE, from, to, count, type, fold_by, 0, false, 0}, stream,
               &counts.all_reduces);
}

PUBLIC int ncclAllGather(const void *from, void *to, size_t count, int type, struct comm *comm, void *stream);
PUBLIC int ncclAllGather(const void *from, void *to, size_t count, int type, struct comm *comm, void *stream)
{
    return add((struct op){NULL, comm, ALL_GATHER, from, to, count, type, 0, 0, false, 0}, stream, &counts.all_gathers);
}

PUBLIC int ncclReduceScatter(const void *from, void *to, size_t count, int type, int fold_by, struct comm *comm,
                             void *stream);
PUBLIC int ncclReduceScatter(const void *from, void *to, size_t count, int type, int fold_by, struct comm *comm,
                             void *stream)
{
    return add((struct op){NULL, comm, REDUCE_SCATTER, from, to, count, type, fold_by, 0, false, 0}, stream,
               &counts.reduce_scatters);
}

/* ---- memory ---- */

PUBLIC int ncclMemAlloc(void **memory, size_t bytes);
PUBLIC int ncclMemAlloc(void **memory, size_t bytes)
{
    return cuda_allocate(memory, bytes) ? NCCL_CUDA_ERROR : NCCL_DONE;
}

PUBLIC int ncclMemFree(void *memory);
PUBLIC int ncclMemFree(void *memory)
{
    return cuda_release(memory) ? NCCL_CUDA_ERROR : NCCL_DONE;
}

PUBLIC int ncclCommRegister(struct comm *comm, void *memory, size_t bytes, void **handle);
PUBLIC int ncclCommRegister(struct comm *comm, void *memory, size_t bytes, void **handle)
{
    if (emulation_place(memory, bytes) != comm->device)
        return refuse(NCCL_INVALID_ARGUMENT, "memory that is not of the communicator's GPU");
    pthread_mutex_lock(&mutex);
    counts.registrations++;
    pthread_mutex_unlock(&mutex);
    *handle = memory;
    return NCCL_DONE;
}

PUBLIC int ncclCommDeregister(struct comm *comm, void *handle);
PUBLIC int ncclCommDeregister(struct comm *comm, void *handle)
{
    (void)comm;
    (void)handle;
    pthread_mutex_lock(&mutex);
    counts.registrations--;
    pthread_mutex_unlock(&mutex);
    return NCCL_DONE;
}

PUBLIC struct fake_nccl_counts fake_nccl_take_counts(void)
{
    pthread_mutex_lock(&mutex);
    struct fake_nccl_counts taken = counts;
    counts = (struct fake_nccl_counts){.comms = taken.comms, .registrations = taken.registrations};
    pthread_mutex_unlock(&mutex);
    return taken;
}
