/* order_times.c - numbers local times by first appearance; paths keep the numbers that their plan gives them. */
#include "sim/order_times.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/base/numbering.h"

static size_t count_paths(const struct plan *plan)
{
    return plan->first_path[plan->simulation->ensemble->n_instances];
}

static bool all_kept(const struct plan *plan)
{
    for (uint32_t o = 0; o < plan->n_outlooks; o++)
        if (!plan->outlooks[o].kept)
            return false;
    return !plan->speed;
}

static const uint32_t *kind_of(const struct plan *plan, uint32_t instance)
{
    return plan->outlooks[plan->outlook_of[instance]].kind_of;
}

/* What the plan is known by. Its outlooks are a memo's, so that no other ever has their addresses. */
static void take_key(struct order_times *times, const struct plan *plan)
{
    times->n_instances = plan->simulation->ensemble->n_instances;
    times->locals = plan->locals;
    times->locals->users++;
    if (!all_kept(plan))
        return;
    times->kind_of = memory_zeroed(times->n_instances, sizeof *times->kind_of);
    for (uint32_t i = 0; i < times->n_instances; i++)
        times->kind_of[i] = kind_of(plan, i);
}

/* Numbers local times; messages are numbered by their paths, of which the first has number 0 for now. */
static void number_times(struct order_times *times, const struct run_order *order, const struct plan *plan)
{
    struct numbering locals;
    size_t capacity = 0;
    numbering_init(&locals, 1);
    times->first_path = 1;
    memory_grow(times->times, 0, capacity);
    times->times[0] = (struct step_times){0, 0};
    for (uint32_t i = 0; i < order->n_steps; i++) {
        const struct ordered_step *step = &order->steps[i];
        if (!step->counts)
            continue;
        if (step->sends) {
            times->time_of[i] = (uint32_t)(plan_path(plan, step->activity) - plan->paths);
            continue;
        }
        double seconds = plan_seconds(plan, step->activity);
        uint64_t key = numbering_word(seconds);
        times->time_of[i] = 1 + numbering_of(&locals, &key);
        if (times->time_of[i] < times->first_path)
            continue;
        memory_grow(times->times, times->first_path, capacity);
        times->times[times->first_path++] = (struct step_times){0, seconds};
    }
    numbering_fini(&locals);
}

void order_times_init(struct order_times *times, const struct run_order *order, const struct plan *plan)
{
    *times = (struct order_times){.time_of = memory_zeroed(order->n_steps, sizeof *times->time_of)};
    take_key(times, plan);
    number_times(times, order, plan);
    for (uint32_t i = 0; i < order->n_steps; i++)
        if (order->steps[i].counts && order->steps[i].sends)
            times->time_of[i] += times->first_path;
    times->times = memory_resized(times->times, times->first_path + count_paths(plan), sizeof *times->times);
    order_times_take_paths(times, plan);
}

void order_times_fini(struct order_times *times)
{
    free(times->time_of);
    free(times->times);
    free(times->kind_of);
    local_times_release(times->locals);
    *times = (struct order_times){0};
}

bool order_times_match(const struct order_times *times, const struct plan *plan)
{
    if (!times->kind_of || times->locals != plan->locals || !all_kept(plan))
        return false;
    for (uint32_t i = 0; i < times->n_instances; i++)
        if (times->kind_of[i] != kind_of(plan, i))
            return false;
    return true;
}

void order_times_take_paths(struct order_times *times, const struct plan *plan)
{
    struct step_times *of_paths = times->times + times->first_path;
    for (uint32_t i = 0; i < times->n_instances; i++) {
        const struct outlook *outlook = &plan->outlooks[plan->outlook_of[i]];
        for (uint32_t k = 0; k < outlook->n_kinds; k++) {
            const struct path *path = &plan->paths[plan->first_path[i] + k];
            of_paths[plan->first_path[i] + k] = path_times(path, path->factor, outlook->kinds[k].transfer.bytes);
        }
    }
}
