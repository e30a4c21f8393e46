/* measured_table.c - what the table says of measured runs. */
#include <inttypes.h>
#include <string.h>

#include "cli/measured.h"
#include "cli/measured_device.h"
#include "cli/text_table.h"

static uint32_t count_hosts(const struct measurement *m)
{
    uint32_t hosts = 0;
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        bool seen = false;
        for (uint32_t k = 0; k < r; k++)
            seen = seen || machine_same(&m->machines[k], &m->machines[r]);
        hosts += !seen;
    }
    return hosts;
}

void measured_write_machine(const struct measured_run *run, FILE *stream)
{
    const struct measurement *m = &run->measurement;
    const struct experiment *experiment = &run->prediction.experiment;
    uint32_t hosts = count_hosts(m);
    uint32_t groups = experiment->degree[PARALLEL_TP] * experiment->degree[PARALLEL_DP];
    uint32_t gpus = measured_gpus(m), places = gpus ? gpus : m->cores;
    const char *nccl = hardware_library(run->hardware);
    fprintf(stream, "machine   %" PRIu32 " rank%s (transport %s%s%s, compute %s: %s) on %" PRIu32 " %s%s", m->n_ranks,
            m->n_ranks == 1 ? "" : "s", hardware_transport(run->hardware)->name, nccl ? ": NCCL " : "",
            nccl ? nccl : "", hardware_compute(run->hardware)->name, measured_kernels(run), places,
            gpus ? "GPU" : "core", places == 1 ? "" : "s");
    if (hosts > 1)
        fprintf(stream, " of %" PRIu32 " hosts", hosts);
    fprintf(stream, ", %s\n", run->prediction.device.name);
    if (groups > 1 && m->n_ranks == run->prediction.schedule.ranks)
        fprintf(stream, "          one CP group of the layout's %" PRIu32 "\n", groups);
    if (m->oversubscribed && gpus)
        fputs("          NOT FOR CALIBRATION: ranks share one GPU: times say nothing about scaling\n", stream);
    else if (m->oversubscribed)
        fputs("          NOT FOR CALIBRATION: ranks share cores, so times include waiting for one\n", stream);
    measured_write_gpus(run, stream);
}

/* How much of its tolerance a tensor has used up. */
static double used_up(const struct tensor_check *check)
{
    return check->non_finite ? 1e300 : check->max_error / check->tolerance;
}

void measured_write_verification(const struct measured_run *run, FILE *stream)
{
    const struct measurement *m = &run->measurement;
    const struct verification *verification = &m->verification;
    int worst = 0;
    while (worst + 1 < OUTPUT_COUNT && !verification->tensors[worst].present)
        worst++;
    const int first = worst;
    for (int t = first; t < OUTPUT_COUNT; t++)
        if (verification->tensors[t].present &&
            used_up(&verification->tensors[t]) > used_up(&verification->tensors[worst]))
            worst = t;
    const struct tensor_check *check = &verification->tensors[worst];
    fprintf(stream, "verified  %s: ", verification->passed ? "yes" : "NO, THE RESULT IS WRONG");
    for (int t = first; t < OUTPUT_COUNT; t++)
        if (verification->tensors[t].present)
            fprintf(stream, "%s%s", t > first ? ", " : "", output_name((enum output)t));
    fprintf(stream, " against the reference %s; ", verification->kind == CHECK_FULL ? "in full" : "on sampled rows");
    if (check->non_finite)
        fprintf(stream, "%" PRIu64 " values of %s are not finite\n", check->non_finite,
                output_name((enum output)worst));
    else
        fprintf(stream, "%s is off most: %.2g of its scale (at most %.2g); seed %" PRIu64 "\n",
                output_name((enum output)worst), check->max_error, check->tolerance, m->seed);
}

void measured_write_overlap(const struct measured_run *run, FILE *stream)
{
    const struct measurement *m = &run->measurement;
    struct unit unit = fine_unit_of_seconds(m->step.median);
    fprintf(stream, "time      compute alone %s, communication alone %s, both %s: %s exposed\n",
            text_in_unit(m->compute_only.median, unit).text, text_in_unit(m->messages_only.median, unit).text,
            text_in_unit(m->step.median, unit).text, text_in_unit(m->exposed_seconds, unit).text);
    static const char *const unresolved[] = {
        [OVERLAP_NOTHING] = "nothing to hide",
        [OVERLAP_ONE_ITERATION] = "not resolved: one iteration does not say how much iterations differ",
        [OVERLAP_NOISE] = "not resolved: iterations differ by more than there is to hide",
        [OVERLAP_CONTRADICTED] = "not resolved: these three times contradict each other",
    };
    if (m->overlap == OVERLAP_RESOLVED)
        fprintf(stream, "overlap   %.1f%% of what could be hidden is", 100 * m->overlap_efficiency);
    else
        fprintf(stream, "overlap   %s", unresolved[m->overlap]);
    fprintf(stream, "; beside messages, kernels take %.3f times as long\n", m->contention);
}

static void add_spread(struct text_table *table, const char *what, struct spread spread, struct unit unit)
{
    text_table_cell(table, "%s", what);
    text_table_number(table, spread.median, unit);
    text_table_number(table, spread.low, unit);
    text_table_number(table, spread.high, unit);
}

void measured_write_timing(const struct measured_run *run, const bool *shown, FILE *stream)
{
    const struct measurement *m = &run->measurement;
    bool train = run->prediction.experiment.train;
    struct unit unit = fine_unit_of_seconds(m->step.high);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "what");
    text_table_column(&table, false, "median %s", unit.name);
    text_table_column(&table, false, "10%% %s", unit.name);
    text_table_column(&table, false, "90%% %s", unit.name);
    add_spread(&table, "step", m->step, unit);
    for (int phase = 0; phase < PHASE_COUNT && train; phase++)
        add_spread(&table, phase_name((enum phase)phase), m->phases[phase], unit);
    add_spread(&table, "compute only", m->compute_only, unit);
    add_spread(&table, "messages only", m->messages_only, unit);
    if (measured_is_timed_twice(m))
        add_spread(&table, "step, every operation timed", m->traced, unit);
    for (int phase = 0; phase < (train ? PHASE_COUNT : PHASE_BACKWARD); phase++) {
        char what[48];
        snprintf(what, sizeof what, "first to last rank, %s", phase_name((enum phase)phase));
        add_spread(&table, what, m->skew[phase], unit);
    }
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        char what[48];
        if (!shown[r])
            continue;
        snprintf(what, sizeof what, "kernels of rank %" PRIu32, r);
        add_spread(&table, what, m->rank_compute[r], unit);
        snprintf(what, sizeof what, "kernels of rank %" PRIu32 " alone", r);
        add_spread(&table, what, m->rank_compute_only[r], unit);
    }
    fprintf(stream, "\nTiming of %" PRIu32 " iteration%s after %" PRIu32 " to warm up\n", m->iterations,
            m->iterations == 1 ? "" : "s", m->warmup);
    text_table_print(&table, stream);
    if (measured_is_timed_twice(m))
        fprintf(
            stream,
            "(timing every operation changes the step's time by %+.1f%%; kernels, waits and ends are of such steps)\n",
            100 * m->tracing_overhead);
    if (m->clock_error_seconds > 0)
        fprintf(stream, "(clocks of different %s agree within %s)\n", m->asynchronous ? "devices" : "hosts",
                text_of_seconds(m->clock_error_seconds).text);
    text_table_fini(&table);
}
