/* emulated_wgmma.cpp - products by warpgroups, on a host.
 *
 * A product is computed when a warp waits for it, maybe some turns of the others later, from what its operands are
 * then: from descriptors' bits, for the 16 rows that are the warp's. Until then the sums are poison. Found are:
 * - sums or fragments touched before the product was waited for; sums used by products of different shapes;
 * - operands that a copy has not brought, or that threads wrote without async_fence;
 * - a warpgroup's warps that start different products; a product that not all of them start is never done;
 * - a missing products_fence (since the last wait, for what is waited for is touched); products never waited for;
 * - descriptors of other forms than wgmma.cuh names.
 */
#include "kernels/cuda/hopper/wgmma.cuh"

#include <deque>
#include <list>
#include <vector>

#include "emulation_parts.h"

#define WARP 32
#define WARPS_MAX 32
#define POISON 0x7fbadbadu

/* What products add to: a lane's registers, and their contents meanwhile. */
struct sums {
    float *registers[WARP];
    uint32_t numbers, products; /* of a lane; not done */
    std::vector<float> value[WARP];
};

struct started {
    emulation_wgmma product; /* of lane 0 */
    const uint32_t *a[WARP];
    uint32_t a_words[WARP][4];
    sums *target;
    uint32_t group;
};

struct warp {
    std::list<sums> targets;
    std::deque<started> queue;
    uint32_t group, issued, needed, pending, round; /* round: before which it has not what it waits for */
    bool fenced;
};

static struct {
    warp warps[WARPS_MAX];
    std::vector<emulation_wgmma> log[WARPS_MAX / 4]; /* what each warpgroup started */
    std::vector<float> halves;                       /* numbers of fp16 */
} block;

void emulation_wgmma_begin()
{
    for (warp &w : block.warps) {
        w.targets.clear();
        w.queue.clear();
        w.group = w.issued = w.needed = w.pending = w.round = 0;
        w.fenced = false;
    }
    for (std::vector<emulation_wgmma> &log : block.log)
        log.clear();
    for (uint32_t bits = (uint32_t)block.halves.size(); bits < 65536; bits++)
        block.halves.push_back(emulation_unpack_half(bits));
}

void emulation_wgmma_end()
{
    for (uint32_t w = 0; w < WARPS_MAX; w++)
        if (!block.warps[w].queue.empty())
            emulation_blame("products of warp %u were never waited for", w);
        else if (block.warps[w].issued != block.log[w / 4].size())
            emulation_blame("warp %u started fewer products than others of its warpgroup", w);
}

static warp *running_warp()
{
    return &block.warps[thread_index() / WARP];
}

/* ---- operands ---- */

static float number(uint16_t bits, bool is_bf16)
{
    return is_bf16 ? number_of((uint32_t)bits << 16) : block.halves[bits];
}

/* Eight numbers of a row, at an address before swizzling. */
static bool load_chunk(uint32_t at, uint16_t (&chunk)[8])
{
    at ^= at >> 3 & 0x70;
    const unsigned char *from = emulation_shared_range(at, 16);
    if (!from)
        return false;
    if (emulation_is_awaited(at, 16) || !emulation_is_fenced(at, 16)) {
        emulation_blame("an operand that %s, at %u",
                        emulation_is_awaited(at, 16) ? "is on its way" : "was written without a fence", at);
        return false;
    }
    memcpy(chunk, from, sizeof chunk);
    return true;
}

/* value[k * count + mn], of `count` rows or columns from `first` on: a multiple of 8. */
static bool load_operand(uint64_t bits, int way, uint32_t first, uint32_t count, bool is_bf16, float *value)
{
    const uint32_t start = (uint32_t)(bits & 0x3fff) << 4, leading = (uint32_t)(bits >> 16 & 0x3fff) << 4,
                   stride = (uint32_t)(bits >> 32 & 0x3fff) << 4;
    if (bits >> 62 != 1 || (bits >> 46 & 0xffff) != 0) {
        emulation_blame("a descriptor %llx", (unsigned long long)bits);
        return false;
    }
    uint16_t chunk[8];
    for (uint32_t i = 0; i < count * 2; i++) {
        if (way == ALONG_K) {
            const uint32_t mn = first + i / 2, half = i % 2;
            if (!load_chunk(start + mn / 8 * stride + mn % 8 * 128 + 16 * half, chunk))
                return false;
            for (uint32_t k = 0; k < 8; k++)
                value[(8 * half + k) * count + i / 2] = number(chunk[k], is_bf16);
        } else {
            const uint32_t k = i / (count / 8), mn = first + i % (count / 8) * 8;
            if (!load_chunk(start + mn / 64 * leading + mn % 64 * 2 + k / 8 * stride + k % 8 * 128, chunk))
                return false;
            for (uint32_t n = 0; n < 8; n++)
                value[k * count + i % (count / 8) * 8 + n] = number(chunk[n], is_bf16);
        }
    }
    return true;
}

static bool fragment(const started &s, float *a)
{
    for (uint32_t lane = 0; lane < WARP; lane++)
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = lane / 4 + i % 2 * 8, k = lane % 4 * 2 + i / 2 * 8, word = s.a_words[lane][i];
            if (s.a[lane][i] != word) {
                emulation_blame("a fragment was changed before the product was waited for");
                return false;
            }
            a[k * 16 + row] = number((uint16_t)word, s.product.is_bf16);
            a[(k + 1) * 16 + row] = number((uint16_t)(word >> 16), s.product.is_bf16);
        }
    return true;
}

/* ---- one product, of the warp's 16 rows ---- */

static void compute(const started &s, uint32_t warp_of_group)
{
    const emulation_wgmma &p = s.product;
    const uint32_t n = p.n;
    static float a[16 * 16], b[16 * 256], c[256];
    if (!(p.a ? fragment(s, a) : load_operand(p.a_descriptor, p.a_way, 16 * warp_of_group, 16, p.is_bf16, a)) ||
        !load_operand(p.b_descriptor, p.b_way, 0, n, p.is_bf16, b))
        return;
    for (uint32_t row = 0; row < 16; row++) {
        memset(c, 0, n * sizeof *c);
        for (uint32_t k = 0; k < 16; k++) {
            const float factor = a[16 * k + row];
            const float *from = b + n * k;
            for (uint32_t column = 0; column < n; column += 8)
                for (uint32_t i = 0; i < 8; i++)
                    c[column + i] += factor * from[column + i];
        }
        for (uint32_t column = 0; column < n; column++) {
            float *own = &s.target->value[row % 8 * 4 + column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
            *own = (p.add ? *own : 0) + c[column];
        }
    }
}

/* ---- starting ---- */

static bool alike(const emulation_wgmma &a, const emulation_wgmma &b)
{
    return a.a_descriptor == b.a_descriptor && a.b_descriptor == b.b_descriptor && a.n == b.n && a.a_way == b.a_way &&
           a.b_way == b.b_way && a.add == b.add && a.is_bf16 == b.is_bf16 && !a.a == !b.a;
}

static sums *sums_of(warp *w, void *const operands[WARP])
{
    const emulation_wgmma *first = (const emulation_wgmma *)operands[0];
    for (sums &target : w->targets)
        if (target.registers[0] == first->c) {
            if (target.numbers != first->n / 2)
                emulation_blame("sums are used by products of different shapes");
            return &target;
        }
    w->targets.emplace_back();
    sums *target = &w->targets.back();
    target->numbers = first->n / 2;
    target->products = 0;
    for (uint32_t lane = 0; lane < WARP; lane++) {
        float *registers = ((const emulation_wgmma *)operands[lane])->c;
        target->registers[lane] = registers;
        target->value[lane].assign(registers, registers + target->numbers);
        for (uint32_t i = 0; i < target->numbers; i++)
            registers[i] = number_of(POISON);
    }
    return target;
}

static void start(void *const operands[WARP])
{
    warp *w = running_warp();
    started s = {*(const emulation_wgmma *)operands[0], {}, {}, NULL, w->group};
    if (!w->fenced)
        emulation_blame("a product without a fence before it");
    for (uint32_t lane = 0; lane < WARP; lane++) {
        const emulation_wgmma *own = (const emulation_wgmma *)operands[lane];
        if (!alike(*own, s.product))
            emulation_blame("lanes start different products");
        s.a[lane] = own->a;
        if (own->a)
            memcpy(s.a_words[lane], own->a, sizeof s.a_words[lane]);
    }
    std::vector<emulation_wgmma> &log = block.log[thread_index() / 128];
    if (w->issued == log.size())
        log.push_back(s.product);
    else if (!alike(log[w->issued], s.product))
        emulation_blame("warps of a warpgroup start different products");
    w->issued++;
    s.target = sums_of(w, operands);
    s.target->products++;
    w->queue.push_back(s);
}

void emulation_start_product(const emulation_wgmma &product)
{
    emulation_wgmma operand = product;
    emulation_together(start, &operand);
}

static void fence(void *const operands[WARP])
{
    (void)operands;
    running_warp()->fenced = true;
}

void products_fence()
{
    emulation_together(fence, NULL);
}

static void commit(void *const operands[WARP])
{
    (void)operands;
    running_warp()->group++;
}

void commit_products()
{
    emulation_together(commit, NULL);
}

/* ---- waiting ---- */

static void give_back(warp *w, sums *target)
{
    for (uint32_t lane = 0; lane < WARP; lane++)
        for (uint32_t i = 0; i < target->numbers; i++) {
            if (bits_of(target->registers[lane][i]) != POISON)
                emulation_blame("sums were changed before the product was waited for");
            target->registers[lane][i] = target->value[lane][i];
        }
    for (auto at = w->targets.begin(); at != w->targets.end(); at++)
        if (&*at == target) {
            w->targets.erase(at);
            return;
        }
}

static bool is_due(const warp *w, const started &s)
{
    return s.group + w->pending < w->group; /* what is in no group yet never is */
}

static void plan(void *const operands[WARP])
{
    warp *w = running_warp();
    w->pending = *(const uint32_t *)operands[0];
    w->needed = w->issued;
    for (auto s = w->queue.rbegin(); s != w->queue.rend() && !is_due(w, *s); s++)
        w->needed--;
    w->round = emulation_rounds() + emulation_pick(3);
    emulation_want_rounds(w->round);
}

static void complete(void *const operands[WARP])
{
    (void)operands;
    warp *w = running_warp();
    while (!w->queue.empty() && is_due(w, w->queue.front())) {
        const started s = w->queue.front();
        w->queue.pop_front();
        compute(s, thread_index() / WARP % 4);
        if (--s.target->products == 0)
            give_back(w, s.target);
    }
    w->fenced = false;
}

static bool is_complete(const void *context)
{
    const uint32_t own = *(const uint32_t *)context;
    if (emulation_rounds() < block.warps[own].round)
        return false;
    for (uint32_t w = own / 4 * 4; w < own / 4 * 4 + 4; w++)
        if (block.warps[w].issued < block.warps[own].needed)
            return false;
    return true;
}

void emulation_wait_products(uint32_t pending)
{
    const uint32_t own = thread_index() / WARP;
    emulation_together(plan, &pending);
    emulation_await(is_complete, &own, "the other warps' start of a product in warp", own);
    emulation_together(complete, NULL);
}
