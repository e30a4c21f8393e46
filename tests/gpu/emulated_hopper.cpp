/* emulated_hopper.cpp - barriers in shared memory, tensor copies and what else device_hopper.cuh has, on a host.
 *
 * What is asynchronous is done as late as possible, when no thread can go on without it, or at some time before, as the
 * order of turns has it. Found are, besides what emulation.cpp finds:
 * - use of what a copy has not brought yet: the target is NaN from the moment that the copy is asked for; so is what
 *   somebody still reads there;
 * - copies that announce other bytes than come: their barrier never completes, and whoever waits is named;
 * - more arrivals at a barrier than it was made for; barriers that were never made;
 * - writes by threads that no async_fence follows, where the async proxy reads or writes after them;
 * - maps in device memory without a fence; tensors and boxes that the driver would refuse;
 * - more registers than there are; copies that are on their way when the block ends.
 */
#include "kernels/cuda/hopper/device_hopper.cuh"

#include <vector>

#include "emulation_parts.h"

#define SHARED_WORDS ((228 * 1024) / 4)
#define NAMED_BARRIERS 16

struct arrival_barrier {
    uint32_t at, arrivals, left, phase;
    int64_t bytes; /* announced, and not there */
};

struct named_barrier {
    uint32_t threads, arrived, generation;
};

/* A map as this driver makes it. */
struct emulated_map {
    uint64_t magic;
    map_extent extent;
};
static_assert(sizeof(emulated_map) <= sizeof(tensor_map), "a map has room for it");
#define MAP_MAGIC 0x70616d20726f736eull

struct box {
    uint32_t to, barrier;
    map_extent extent;
    int32_t first[MAP_RANK];
};

static struct {
    std::vector<arrival_barrier> barriers;
    named_barrier named[NAMED_BARRIERS];
    std::vector<box> boxes;
    uint16_t writer[SHARED_WORDS];          /* thread whose write no fence followed, plus 1 */
    std::vector<uint32_t> written[1024];    /* by each thread: words */
    std::vector<const tensor_map *> fenced; /* maps in device memory */
    uint32_t registers[1024 / 32];          /* of each warp; 0: as launched */
    uint32_t rounds, wanted_rounds;
} block;

void emulation_hopper_begin()
{
    block.barriers.clear();
    block.boxes.clear();
    block.fenced.clear();
    block.rounds = block.wanted_rounds = 0;
    memset(block.named, 0, sizeof block.named);
    memset(block.writer, 0, sizeof block.writer);
    memset(block.registers, 0, sizeof block.registers);
    for (uint32_t i = 0; i < emulation_threads(); i++)
        block.written[i].clear();
}

void emulation_hopper_end()
{
    if (!block.boxes.empty())
        emulation_blame("%zu copies are on their way at the end of the block", block.boxes.size());
    for (uint32_t n = 0; n < NAMED_BARRIERS; n++)
        if (block.named[n].arrived)
            emulation_blame("named barrier %u is left with %u arrivals", n, block.named[n].arrived);
    const uint32_t warps = emulation_threads() / 32;
    uint32_t sum = 0;
    for (uint32_t warp = 0; warp < warps; warp++) {
        sum += 32 * block.registers[warp];
        if (block.registers[warp] != block.registers[warp / 4 * 4])
            emulation_blame("warps of a warpgroup have different numbers of registers");
    }
    if (sum > 0 && sum > (uint32_t)(128 * group_registers((int)warps / 4)))
        emulation_blame("%u registers are taken", sum);
}

/* ---- proxies ---- */

void emulation_hopper_stored(uint32_t at, uint32_t bytes)
{
    for (uint32_t word = at / 4; word < (at + bytes) / 4; word++) {
        block.writer[word] = (uint16_t)(thread_index() + 1);
        block.written[thread_index()].push_back(word);
    }
}

void async_fence()
{
    std::vector<uint32_t> &words = block.written[thread_index()];
    for (uint32_t word : words)
        if (block.writer[word] == thread_index() + 1)
            block.writer[word] = 0;
    words.clear();
}

bool emulation_is_fenced(uint32_t at, uint32_t bytes)
{
    for (uint32_t word = at / 4; word < (at + bytes) / 4; word++)
        if (block.writer[word])
            return false;
    return true;
}

/* ---- barriers in shared memory ---- */

static arrival_barrier *find_barrier(uint32_t at)
{
    for (arrival_barrier &barrier : block.barriers)
        if (barrier.at == at)
            return &barrier;
    return NULL;
}

static arrival_barrier *barrier_of(uint32_t at)
{
    arrival_barrier *barrier = find_barrier(at);
    if (!barrier)
        emulation_fail("there is no barrier at %u", at);
    return barrier;
}

static void complete_if_due(arrival_barrier *barrier)
{
    if (barrier->left > 0 || barrier->bytes != 0)
        return;
    barrier->phase++;
    barrier->left = barrier->arrivals;
}

void barrier_init(uint32_t at, uint32_t arrivals)
{
    if (at % 8 != 0)
        emulation_fail("a barrier at %u", at);
    for (uint32_t word = 0; word < 2; word++)
        emulation_shared_store(at + 4 * word, 0);
    if (arrivals == 0 || find_barrier(at))
        emulation_fail("a barrier of %u arrivals, or a second one, at %u", arrivals, at);
    block.barriers.push_back({at, arrivals, arrivals, 0, 0});
}

void barrier_expect(uint32_t at, uint32_t bytes)
{
    arrival_barrier *barrier = barrier_of(at);
    if (barrier->left == 0)
        emulation_fail("one arrival more than its %u at the barrier at %u", barrier->arrivals, at);
    barrier->left--;
    barrier->bytes += bytes;
    complete_if_due(barrier);
}

void barrier_arrive(uint32_t at)
{
    barrier_expect(at, 0);
}

struct phase {
    uint32_t at, parity;
};

static bool phase_is_complete(const void *context)
{
    const phase *wanted = (const phase *)context;
    return (find_barrier(wanted->at)->phase & 1) != wanted->parity;
}

void barrier_wait(uint32_t at, uint32_t parity)
{
    const phase wanted = {at, parity};
    barrier_of(at);
    if (parity > 1)
        emulation_fail("a parity of %u", parity);
    emulation_await(phase_is_complete, &wanted, "the barrier in shared memory at", at);
}

/* ---- barriers of some warps ---- */

struct passage {
    uint32_t number, generation;
};

static bool passage_is_open(const void *context)
{
    const passage *wanted = (const passage *)context;
    return block.named[wanted->number].generation != wanted->generation;
}

void named_arrive(uint32_t number, uint32_t threads)
{
    if (number == 0 || number >= NAMED_BARRIERS || threads == 0 || threads % 32 != 0 || threads > emulation_threads())
        emulation_fail("a named barrier %u of %u threads", number, threads);
    named_barrier *barrier = &block.named[number];
    if (barrier->arrived && barrier->threads != threads)
        emulation_fail("named barrier %u is of %u threads and of %u", number, barrier->threads, threads);
    barrier->threads = threads;
    if (++barrier->arrived == threads) {
        barrier->arrived = 0;
        barrier->generation++;
    }
}

void named_sync(uint32_t number, uint32_t threads)
{
    const passage wanted = {number, number < NAMED_BARRIERS ? block.named[number].generation : 0};
    named_arrive(number, threads);
    emulation_await(passage_is_open, &wanted, "named barrier", number);
}

void emulation_set_registers(uint32_t registers)
{
    block.registers[thread_index() / 32] = registers;
}

/* ---- tensor copies ---- */

static int make(tensor_map *map, const map_extent &extent)
{
    emulated_map made = {MAP_MAGIC, extent};
    bool right = (uintptr_t)map % 64 == 0 && (uintptr_t)extent.first % 16 == 0 && extent.first;
    for (int d = 0; d < MAP_RANK; d++)
        right = right && extent.sizes[d] > 0 && extent.sizes[d] <= 1ull << 32 && extent.box[d] > 0 &&
                extent.box[d] <= 256 &&
                (d == 0 ||
                 (extent.strides[d - 1] % 16 == 0 && extent.strides[d - 1] < 1ull << 40 && extent.strides[d - 1] > 0));
    if (!right || 2 * extent.box[0] % 16 != 0 || 2 * extent.box[0] > 128)
        return 1; /* cudaErrorInvalidValue */
    memcpy(map, &made, sizeof made);
    return 0;
}

map_maker find_map_maker()
{
    return make;
}

void map_fence(const tensor_map *map)
{
    block.fenced.push_back(map);
}

void map_release()
{
}

static emulated_map map_of(const tensor_map *map)
{
    emulated_map made;
    memcpy(&made, map, sizeof made);
    if (made.magic != MAP_MAGIC || (uintptr_t)map % 64 != 0)
        emulation_fail("there is no tensor map at %p", (const void *)map);
    return made;
}

static uint32_t box_bytes(const map_extent &extent)
{
    return 2 * extent.box[0] * extent.box[1] * extent.box[2] * extent.box[3];
}

void copy_box(uint32_t to, const tensor_map *map, int32_t c0, int32_t c1, int32_t c2, int32_t c3, uint32_t barrier)
{
    const emulated_map made = map_of(map);
    const uint32_t bytes = box_bytes(made.extent);
    bool fenced = !emulation_is_global(map, sizeof *map);
    for (const tensor_map *other : block.fenced)
        fenced = fenced || other == map;
    if (!fenced)
        emulation_fail("a tensor map in device memory, with no fence");
    barrier_of(barrier);
    unsigned char *target = emulation_shared_range(to, bytes);
    if (!target || to % 1024 != 0)
        emulation_fail("a copy to %u", to);
    if (emulation_is_awaited(to, bytes))
        emulation_fail("a copy to shared memory that another is on its way to, at %u", to);
    if (!emulation_is_fenced(to, bytes) || !emulation_is_fenced(barrier, 8))
        emulation_fail("a copy to what threads wrote without a fence, at %u", to);
    memset(target, 0xff, bytes);
    emulation_set_awaited(to, bytes, true);
    block.boxes.push_back({to, barrier, made.extent, {c0, c1, c2, c3}});
}

static uint32_t swizzled(uint32_t at)
{
    return at ^ (at >> 3 & 0x70);
}

static void copy_row(const box &b, uint32_t to, const uint64_t (&coordinates)[MAP_RANK])
{
    const map_extent &extent = b.extent;
    uint16_t row[256] = {0};
    bool there = true;
    const char *from = (const char *)extent.first + 2 * coordinates[0];
    for (int d = 1; d < MAP_RANK; d++) {
        there = there && coordinates[d] < extent.sizes[d];
        from += coordinates[d] * extent.strides[d - 1];
    }
    const uint64_t left = coordinates[0] < extent.sizes[0] ? extent.sizes[0] - coordinates[0] : 0;
    const size_t bytes = !there ? 0 : 2 * (left < extent.box[0] ? left : extent.box[0]);
    if (bytes > 0) {
        if (!emulation_is_global(from, bytes)) {
            emulation_blame("a copy of %zu bytes from outside all memory", bytes);
            return;
        }
        memcpy(row, from, bytes);
    }
    for (uint32_t chunk = 0; chunk < extent.box[0] / 8; chunk++) {
        unsigned char *target = emulation_shared_range(swizzled(to + 16 * chunk), 16);
        if (target)
            memcpy(target, row + 8 * chunk, 16);
    }
}

static void arrive_box(size_t n)
{
    const box b = block.boxes[n];
    const uint32_t bytes = box_bytes(b.extent);
    uint32_t to = b.to;
    block.boxes.erase(block.boxes.begin() + (long)n);
    emulation_set_awaited(b.to, bytes, false);
    for (uint32_t i3 = 0; i3 < b.extent.box[3]; i3++)
        for (uint32_t i2 = 0; i2 < b.extent.box[2]; i2++)
            for (uint32_t i1 = 0; i1 < b.extent.box[1]; i1++, to += 2 * b.extent.box[0]) {
                /* Negative ones become large. */
                const uint64_t coordinates[MAP_RANK] = {
                    (uint64_t)(int64_t)b.first[0], (uint64_t)((int64_t)b.first[1] + i1),
                    (uint64_t)((int64_t)b.first[2] + i2), (uint64_t)((int64_t)b.first[3] + i3)};
                copy_row(b, to, coordinates);
            }
    arrival_barrier *barrier = find_barrier(b.barrier);
    barrier->bytes -= bytes;
    complete_if_due(barrier);
}

uint32_t emulation_rounds()
{
    return block.rounds;
}

void emulation_want_rounds(uint32_t rounds)
{
    block.wanted_rounds = rounds > block.wanted_rounds ? rounds : block.wanted_rounds;
}

bool emulation_hopper_progress(bool stuck)
{
    const bool wanted = block.rounds < block.wanted_rounds;
    block.rounds++;
    if (block.boxes.empty() || ((!stuck || wanted) && emulation_pick(4) != 1))
        return wanted;
    arrive_box(emulation_pick((uint32_t)block.boxes.size()));
    return true;
}
