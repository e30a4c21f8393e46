/* plot_memory.c - what each rank's high-water mark is made of, against the device's memory.
 *
 * The device's line is drawn only when the bars come near it; far above them it would press them flat, and the answer
 * line says it instead.
 */
#include <inttypes.h>

#include "cli/plot_bars.h"
#include "cli/plot_run.h"

/* By enum buffer_role. */
static const struct plot_paint paints[ROLE_ATTENTION_COUNT] = {
    [ROLE_RESIDENT] = {"resident: own Q, K, V, O, gradients", PLOT_BLUE, '#', "resident"},
    [ROLE_RECEIVED] = {"received K, V", PLOT_GREEN, '=', "received"},
    [ROLE_ACCUMULATOR] = {"accumulators", PLOT_ORANGE, '+', "accumulators"},
    [ROLE_WORKSPACE] = {"workspace", PLOT_PURPLE, 'o', "workspace"},
};

/* Of whole layers: what is kept through the step lies below, what comes and goes above it. */
#define RESERVE ROLE_COUNT
static const struct {
    int role;
    struct plot_paint paint;
} layers[] = {
    {RESERVE, {"reserve", PLOT_GREY, '.', "reserve"}},
    {ROLE_WEIGHTS, {"weights", PLOT_WINE, 'W', "weights"}},
    {ROLE_GRADIENTS, {"gradients of weights", PLOT_VERMILLION, 'G', "gradients"}},
    {ROLE_OPTIMIZER, {"optimizer", PLOT_YELLOW, 'A', "optimizer"}},
    {ROLE_ACTIVATIONS, {"activations", PLOT_SKY, '-', "activations"}},
    {ROLE_RESIDENT, {"resident: input, output and their gradients", PLOT_BLUE, '#', "resident"}},
    {ROLE_RECEIVED, {"received K, V", PLOT_GREEN, '=', "received"}},
    {ROLE_ACCUMULATOR, {"accumulators", PLOT_ORANGE, '+', "accumulators"}},
    {ROLE_WORKSPACE, {"workspace", PLOT_PURPLE, 'o', "workspace"}},
};
#define N_LAYERS_PAINTS (sizeof layers / sizeof *layers)

#define LINE_IN_SIGHT 0.4 /* of the device's memory */

static double part(const struct prediction *prediction, uint32_t instance, int paint)
{
    return (double)prediction->report.ranks[instance].peak_by_role[paint];
}

static double part_of_layers(const struct prediction *prediction, uint32_t instance, int paint)
{
    int role = layers[paint].role;
    return role == RESERVE ? prediction->report.reserve_bytes : part(prediction, instance, role);
}

void plot_memory(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream)
{
    const struct report *report = &prediction->report;
    bool has_layers = prediction->experiment.step.scope != SCOPE_ATTENTION;
    double peak = (double)report->peak_bytes + report->reserve_bytes, device = report->device_bytes;
    char title[400], answer[400], limit_name[160];
    struct short_text device_text = text_of_memory(device);
    plot_run_title(prediction, "Memory: ", title, sizeof title);
    snprintf(answer, sizeof answer, "High-water mark of %s: %s on rank %" PRIu32 ", %.1f%% of the device's %s (%s): %s",
             has_layers ? "the step" : "attention", text_of_memory(peak).text, report->ranks[report->peak_rank].rank,
             device > 0 ? 100 * peak / device : 0, device_text.text, prediction->device.name,
             report->fits ? "fits" : "DOES NOT FIT");
    snprintf(limit_name, sizeof limit_name, "device memory, %s", device_text.text);
    struct plot_paint of_layers[N_LAYERS_PAINTS];
    for (size_t i = 0; i < N_LAYERS_PAINTS; i++)
        of_layers[i] = layers[i].paint;
    const struct bars bars = {
        .prediction = prediction,
        .title = title,
        .answer = answer,
        .quantity = "memory at the high-water mark",
        .short_quantity = "peak",
        .unit = unit_of_memory(peak),
        .paints = has_layers ? of_layers : paints,
        .n_paints = has_layers ? (int)N_LAYERS_PAINTS : ROLE_ATTENTION_COUNT,
        .part = has_layers ? part_of_layers : part,
        .limit = peak >= LINE_IN_SIGHT * device ? device : 0,
        .limit_name = limit_name,
    };
    plot_bars(&bars, target, width, stream);
}
