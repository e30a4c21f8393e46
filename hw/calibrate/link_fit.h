/* link_fit.h - alpha, bandwidth and a curve from times of messages of several sizes.
 *
 * The model's time of a lone message is max(alpha + bytes / bandwidth, the curve). So alpha is what the smallest
 * message takes beyond its bytes, and the bandwidth the best that any message reaches beyond alpha: then the curve
 * holds at every measured size. Point-to-point rates: message size over its whole time, no factors of collectives.
 */
#ifndef CPSIM_HW_CALIBRATE_LINK_FIT_H
#define CPSIM_HW_CALIBRATE_LINK_FIT_H

#include <stddef.h>

#define LINK_POINTS_MAX 12

struct link_point {
    double bytes, seconds, spread;
};

struct link_fit {
    double alpha_seconds, bytes_per_s;
    struct link_point points[LINK_POINTS_MAX]; /* ascending in bytes; times never fall */
    size_t n_points;
    double worst_error; /* of alpha + bytes / bandwidth alone, over the points, relative */
};

/* `points`: ascending in bytes, at least one, all times above 0. */
struct link_fit link_fit(const struct link_point *points, size_t n_points);

#endif
