/* link_fit.c - alpha from the smallest message, the bandwidth from the best, the curve from all. */
#include "hw/calibrate/link_fit.h"

#include <math.h>
#include <stdbool.h>

#define ROUNDS 50

/* A message that takes hardly longer than alpha says nothing of the rate; the largest has to, but for noise. */
#define BEYOND_ALPHA 0.25
#define LARGEST_BEYOND_ALPHA 0.02

/* The best rate that a message reaches beyond alpha. */
static double best_rate(const struct link_fit *fit, double alpha)
{
    const struct link_point *largest = &fit->points[fit->n_points - 1];
    double best = largest->bytes / fmax(largest->seconds - alpha, LARGEST_BEYOND_ALPHA * largest->seconds);
    for (size_t i = 0; i < fit->n_points; i++) {
        const struct link_point *point = &fit->points[i];
        bool tells = point->seconds - alpha > BEYOND_ALPHA * point->seconds;
        best = fmax(best, point->bytes / (tells ? point->seconds - alpha : point->seconds));
    }
    return best;
}

struct link_fit link_fit(const struct link_point *points, size_t n_points)
{
    struct link_fit fit = {.n_points = n_points < LINK_POINTS_MAX ? n_points : LINK_POINTS_MAX};
    for (size_t i = 0; i < fit.n_points; i++) {
        fit.points[i] = points[i];
        if (i > 0)
            fit.points[i].seconds = fmax(points[i].seconds, fit.points[i - 1].seconds);
    }
    const struct link_point *smallest = &fit.points[0];
    /* Each determines the other: start without alpha and alternate; the steps shrink by the ratio of the sizes. */
    for (int round = 0; round < ROUNDS; round++) {
        fit.bytes_per_s = best_rate(&fit, fit.alpha_seconds);
        fit.alpha_seconds = fmax(0, smallest->seconds - smallest->bytes / fit.bytes_per_s);
    }
    for (size_t i = 0; i < fit.n_points; i++) {
        const struct link_point *point = &fit.points[i];
        double line = fit.alpha_seconds + point->bytes / fit.bytes_per_s;
        fit.worst_error = fmax(fit.worst_error, fabs(line / point->seconds - 1));
    }
    return fit;
}
