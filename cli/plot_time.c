/* plot_time.c - where each rank's step goes: attention, other kernels, exposed communication, idle. They add up to the
 * step; a mark says how long transfers were under way, so what lies between it and the exposed part was hidden.
 */
#include "cli/plot_bars.h"
#include "cli/plot_run.h"
#include "models/result/rank_time.h"

enum paint { ATTENTION, OTHER_COMPUTE, EXPOSED, IDLE, PAINTS };

static const struct plot_paint paints[PAINTS] = {
    [ATTENTION] = {"attention", PLOT_BLUE, '#', "attend"},
    [OTHER_COMPUTE] = {"merge and other kernels", PLOT_SKY, '+', "merge"},
    [EXPOSED] = {"exposed communication", PLOT_VERMILLION, '!', "exposed"},
    [IDLE] = {"idle", PLOT_PALE, '.', "idle"},
};

static double attention_seconds(const struct prediction *prediction, uint32_t place)
{
    const struct program *program = ensemble_program(&prediction->whole, place);
    const struct moment *moments = prediction->timeline.moments[prediction_instance(prediction, place)];
    struct intervals attention = {0}; /* two compute streams have launches in common with work */
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op_is_compute(op) && op_is_attention(op))
            intervals_add(&attention, moments[i].move, moments[i].end);
    }
    intervals_unite(&attention);
    double seconds = intervals_seconds(&attention);
    intervals_fini(&attention);
    return seconds;
}

static double part(const struct prediction *prediction, uint32_t instance, int paint)
{
    const struct rank_report *rank = &prediction->report.ranks[instance];
    switch ((enum paint)paint) {
    case ATTENTION:
        return attention_seconds(prediction, instance);
    case OTHER_COMPUTE: {
        double other = rank->compute_seconds - attention_seconds(prediction, instance);
        return other > 0 ? other : 0;
    }
    case EXPOSED:
        return rank->exposed_seconds;
    case IDLE:
        return rank->idle_seconds;
    default:
        return 0;
    }
}

/* ---- of whole layers ---- */

enum layer_paint {
    LAYER_ATTENTION,
    LAYER_PRODUCTS,
    LAYER_OTHER,
    LAYER_OPTIMIZER,
    LAYER_CP,
    LAYER_TP,
    LAYER_DP,
    LAYER_IDLE,
    LAYER_PAINTS
};

static const struct plot_paint layer_paints[LAYER_PAINTS] = {
    [LAYER_ATTENTION] = {"attention", PLOT_BLUE, '#', "attend"},
    [LAYER_PRODUCTS] = {"matrix products", PLOT_WINE, '@', "product"},
    [LAYER_OTHER] = {"norms, sums and other kernels", PLOT_SKY, '+', "other"},
    [LAYER_OPTIMIZER] = {"optimizer", PLOT_YELLOW, 'A', "optimizer"},
    [LAYER_CP] = {"exposed: CP", PLOT_VERMILLION, '!', "CP"},
    [LAYER_TP] = {"exposed: TP", PLOT_ORANGE, 't', "TP"},
    [LAYER_DP] = {"exposed: DP", PLOT_PURPLE, 'd', "DP"},
    [LAYER_IDLE] = {"idle", PLOT_PALE, '.', "idle"},
};

static double layer_part(const struct prediction *prediction, uint32_t instance, int paint)
{
    const struct rank_report *rank = &prediction->report.ranks[instance];
    switch ((enum layer_paint)paint) {
    case LAYER_ATTENTION:
        return rank->compute_by_part[COMPUTE_ATTENTION];
    case LAYER_PRODUCTS:
        return rank->compute_by_part[COMPUTE_PRODUCTS];
    case LAYER_OTHER:
        return rank->compute_by_part[COMPUTE_OTHER];
    case LAYER_OPTIMIZER:
        return rank->compute_by_part[COMPUTE_OPTIMIZER];
    case LAYER_CP:
        return rank->exposed_by_kind[WAIT_CP];
    case LAYER_TP:
        return rank->exposed_by_kind[WAIT_TP];
    case LAYER_DP:
        return rank->exposed_by_kind[WAIT_DP];
    case LAYER_IDLE:
        return rank->idle_seconds;
    default:
        return 0;
    }
}

static double communication(const struct prediction *prediction, uint32_t instance)
{
    return prediction->report.ranks[instance].communication_seconds;
}

void plot_time(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream)
{
    bool layers = prediction->experiment.step.scope != SCOPE_ATTENTION;
    char title[400], answer[400];
    plot_run_title(prediction, "Time: ", title, sizeof title);
    plot_run_answer(prediction, answer, sizeof answer);
    const struct bars bars = {
        .prediction = prediction,
        .title = title,
        .answer = answer,
        .quantity = "time in the step",
        .short_quantity = "time",
        .unit = unit_of_seconds(prediction->report.seconds),
        .paints = layers ? layer_paints : paints,
        .n_paints = layers ? (int)LAYER_PAINTS : (int)PAINTS,
        .part = layers ? layer_part : part,
        .mark = communication,
        .mark_name = "transfers under way",
    };
    plot_bars(&bars, target, width, stream);
}
