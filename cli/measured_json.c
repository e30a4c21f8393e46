/* measured_json.c - what cpsim.run/1 says of measured runs: the machine, the verification and the spread of the times.
 */
#include "cli/measured.h"

#include <string.h>

#include "cli/json_set.h"
#include "cli/json_writer.h"
#include "cli/measured_device.h"

/* Each host once, in the order of its first rank. */
static json_t *hosts_to_json(const struct measurement *m)
{
    json_t *hosts = json_array();
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        bool seen = false;
        for (uint32_t k = 0; k < r; k++)
            seen = seen || (machine_same(&m->machines[k], &m->machines[r]) &&
                            strcmp(m->machines[k].host, m->machines[r].host) == 0);
        if (!seen)
            json_array_append_new(hosts, json_text(m->machines[r].host));
    }
    return hosts;
}

json_t *measured_topology_to_json(const struct measured_run *run)
{
    json_t *json = json_object();
    json_set_text(json, "path", run->prediction.topology_name);
    json_set_text(json, "device", run->prediction.device.name);
    json_set_text(json, "kernel", measured_kernels(run));
    json_set_count(json, "n_gpus", run->measurement.n_ranks);
    json_set_text(json, "compute", hardware_compute(run->hardware)->name);
    json_set_text(json, "transport", hardware_transport(run->hardware)->name);
    json_set_text(json, "collectives", hardware_collectives(run->hardware));
    json_object_set_new(json, "hosts", hosts_to_json(&run->measurement));
    json_set_count(json, "cores", run->measurement.cores);
    return json;
}

static json_t *verification_to_json(const struct measurement *m)
{
    const struct verification *verification = &m->verification;
    json_t *json = json_object();
    json_set_flag(json, "passed", verification->passed);
    json_set_text(json, "check", check_kind_name(verification->kind));
    json_set_count(json, "seed", m->seed);
    for (int t = 0; t < OUTPUT_COUNT; t++) {
        const struct tensor_check *check = &verification->tensors[t];
        if (!check->present)
            continue;
        json_t *tensor = json_object();
        json_set_real(tensor, "max_error", check->max_error);
        json_set_real(tensor, "tolerance", check->tolerance);
        json_set_count(tensor, "values", check->values);
        json_set_count(tensor, "non_finite", check->non_finite);
        json_set_count(tensor, "wrong", check->wrong);
        json_set_count(tensor, "worst_rank", check->rank);
        json_object_set_new(json, output_name((enum output)t), tensor);
    }
    return json;
}

static json_t *spread_to_json(struct spread spread)
{
    json_t *json = json_object();
    json_set_real(json, "seconds", spread.median);
    json_set_real(json, "seconds_low", spread.low);
    json_set_real(json, "seconds_high", spread.high);
    return json;
}

static json_t *rank_times_to_json(const struct measurement *m)
{
    json_t *ranks = json_array();
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        json_t *rank = json_object();
        json_set_count(rank, "rank", r);
        json_object_set_new(rank, "compute", spread_to_json(m->rank_compute[r]));
        json_object_set_new(rank, "compute_only", spread_to_json(m->rank_compute_only[r]));
        json_array_append_new(ranks, rank);
    }
    return ranks;
}

static json_t *timing_to_json(const struct measurement *m)
{
    json_t *json = json_object(), *skew = json_object();
    json_set_count(json, "iterations", m->iterations);
    json_set_count(json, "warmup", m->warmup);
    json_object_set_new(json, "step", spread_to_json(m->step));
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        json_object_set_new(json, phase_name((enum phase)phase), spread_to_json(m->phases[phase]));
        json_set_real(skew, phase_name((enum phase)phase), m->skew[phase].median);
    }
    json_object_set_new(json, "compute_only", spread_to_json(m->compute_only));
    json_object_set_new(json, "communication_only", spread_to_json(m->messages_only));
    if (measured_is_timed_twice(m)) {
        json_object_set_new(json, "traced", spread_to_json(m->traced));
        json_set_real(json, "tracing_overhead", m->tracing_overhead);
    }
    json_set_real(json, "compute_only_seconds", m->compute_only.median);
    json_set_real(json, "communication_only_seconds", m->messages_only.median);
    json_set_flag(json, "overlap_resolved", m->overlap == OVERLAP_RESOLVED);
    json_set_real(json, "contention", m->contention);
    json_object_set_new(json, "skew_seconds", skew);
    json_set_real(json, "clock_error_seconds", m->clock_error_seconds);
    json_set_flag(json, "oversubscribed", m->oversubscribed);
    json_set_flag(json, "fit_for_calibration", !m->oversubscribed && m->verification.passed);
    json_object_set_new(json, "ranks", rank_times_to_json(m));
    return json;
}

void measured_run_write_json(const struct measured_run *run, struct json_writer *writer)
{
    json_writer_tree(writer, "device", measured_device_to_json(run));
    json_writer_tree(writer, "verification", verification_to_json(&run->measurement));
    json_writer_tree(writer, "timing", timing_to_json(&run->measurement));
}
