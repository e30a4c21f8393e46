/* max_min_flows.h - for tests: when flows over links end that all begin at once, by progressive filling.
 *
 * That is the definition of max-min fairness: all flows grow alike until a link is full; its flows keep what they have,
 * the others grow on, until each flow has met a full link. When a flow has ended, shares are found anew. A few loops
 * over plain arrays, nothing of cpsim's in them: what engines are held against.
 */
#ifndef CPSIM_TESTS_SIM_MAX_MIN_FLOWS_H
#define CPSIM_TESTS_SIM_MAX_MIN_FLOWS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define FLOWS_MAX 1024
#define LINKS_MAX 1024
#define HOPS_MAX 16

struct flow {
    uint32_t from, to;
    uint64_t bytes;
    uint32_t links[HOPS_MAX], n_links;
    double left, rate, end;
};

struct flow_network {
    double bytes_per_s[LINKS_MAX]; /* of a link; 0: there is none of this number */
    struct flow flows[FLOWS_MAX];
    uint32_t n_flows;
};

static inline bool crosses(const struct flow *flow, uint32_t link)
{
    for (uint32_t i = 0; i < flow->n_links; i++) {
        if (flow->links[i] == link)
            return true;
    }
    return false;
}

/* The link that is full first when all growing flows (rate < 0) of every link grow alike, and what each then has:
 * infinite when none grows. */
static inline double first_full(const struct flow_network *network, uint32_t *full)
{
    static double left[LINKS_MAX];
    static uint32_t growing[LINKS_MAX];
    double least = HUGE_VAL;
    for (uint32_t link = 0; link < LINKS_MAX; link++) {
        left[link] = network->bytes_per_s[link];
        growing[link] = 0;
    }
    for (uint32_t f = 0; f < network->n_flows; f++) {
        const struct flow *flow = &network->flows[f];
        for (uint32_t i = 0; flow->left > 0 && i < flow->n_links; i++) {
            growing[flow->links[i]] += flow->rate < 0;
            left[flow->links[i]] -= fmax(0, flow->rate);
        }
    }
    for (uint32_t link = 0; link < LINKS_MAX; link++) {
        if (growing[link] == 0 || left[link] / growing[link] >= least)
            continue;
        least = left[link] / growing[link];
        *full = link;
    }
    return least;
}

static inline void fill(struct flow_network *network)
{
    for (uint32_t f = 0; f < network->n_flows; f++)
        network->flows[f].rate = -1;
    for (;;) {
        uint32_t full = 0;
        double least = first_full(network, &full);
        if (isinf(least))
            return;
        for (uint32_t f = 0; f < network->n_flows; f++) {
            struct flow *flow = &network->flows[f];
            if (flow->left > 0 && flow->rate < 0 && crosses(flow, full))
                flow->rate = least;
        }
    }
}

/* Finds when each flow ends. Those that end within a billionth of each other end together. */
static inline void run_network(struct flow_network *network)
{
    double now = 0;
    for (uint32_t f = 0; f < network->n_flows; f++)
        network->flows[f].left = (double)network->flows[f].bytes;
    for (;;) {
        fill(network);
        double next = HUGE_VAL;
        for (uint32_t f = 0; f < network->n_flows; f++) {
            if (network->flows[f].left > 0)
                next = fmin(next, network->flows[f].left / network->flows[f].rate);
        }
        if (isinf(next))
            return;
        now += next;
        for (uint32_t f = 0; f < network->n_flows; f++) {
            struct flow *flow = &network->flows[f];
            if (flow->left <= 0)
                continue;
            flow->left -= flow->rate * next;
            if (flow->left > 1e-9 * (double)flow->bytes)
                continue;
            flow->left = 0;
            flow->end = now;
        }
    }
}

#endif
