/* plot_sweep.h - a sweep (cpsim.sweep/1) laid out for drawing: an axis, series, and the numbers of the points that ran.
 */
#ifndef CPSIM_CLI_PLOT_SWEEP_H
#define CPSIM_CLI_PLOT_SWEEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct sweep_point {
    size_t series;
    double x;
    double seconds, exposed_seconds, tflops, peak_bytes;
    double efficiency; /* rank seconds of the series' smallest cp / its own; when x is cp */
};

struct sweep_data {
    const char *x_name; /* the first swept key */
    bool numeric;       /* its values are numbers, else words: x is their index */
    bool logarithmic;   /* positive, and they span a factor of 4 or more */
    bool x_is_cp;
    char **x_names; /* the values as typed, of those that ran */
    double *x_values;
    size_t n_x;
    double x_min, x_max;
    char **series_names; /* the settings of the other keys */
    size_t n_series;
    struct sweep_point *points; /* that ran; by series, then x */
    size_t n_points;
    double max_seconds, max_peak_bytes, device_bytes;
    double ideal_rank_seconds; /* cp times step seconds of the best series' smallest cp */
    char *title, *answer;
};

void sweep_data_init(struct sweep_data *data, const json_t *sweep);
void sweep_data_fini(struct sweep_data *data);

#endif
