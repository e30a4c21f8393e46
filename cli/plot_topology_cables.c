/* plot_topology_cables.c - cables as lines: straight, as arcs above rows, as curves that close a torus' rings. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/plot_square.h"
#include "cli/plot_style.h"
#include "cli/topology_drawing.h"
#include "models/base/memory.h"
#include "models/input/units.h"

#define YELLOW "#F0E442" /* Okabe and Ito's, for grounds */

/* --- shapes of cables --------------------------------------------------------------------------------------------- */

static void write_point(const struct drawing *drawing, struct point at)
{
    fprintf(drawing->stream, "%.6g %.6g\n", x_of(drawing, at.x), y_of(drawing, at.y));
}

/* A quadratic curve; the control point is where both tangents meet. */
static void write_curve(const struct drawing *drawing, struct point a, struct point control, struct point b)
{
    enum { STEPS = 24 };
    for (int i = 0; i <= STEPS; i++) {
        double t = (double)i / STEPS, u = 1 - t;
        write_point(drawing, (struct point){u * u * a.x + 2 * u * t * control.x + t * t * b.x,
                                            u * u * a.y + 2 * u * t * control.y + t * t * b.y});
    }
}

/* A cable of a torus that closes a ring: in a plane it goes round beside the row or column, where there is depth it is
 * but begun at either end. */
static void write_wrap(const struct drawing *drawing, uint32_t dimension, bool flat, bool closed, struct point a,
                       struct point b)
{
    double dx = b.x - a.x, dy = b.y - a.y, length = hypot(dx, dy);
    if (!flat) {
        double reach = 24 / length;
        write_point(drawing, a);
        write_point(drawing, (struct point){a.x - dx * reach, a.y - dy * reach});
        fputc('\n', drawing->stream);
        write_point(drawing, b);
        write_point(drawing, (struct point){b.x + dx * reach, b.y + dy * reach});
        return;
    }
    struct point middle = {(a.x + b.x) / 2, (a.y + b.y) / 2};
    double bulge = closed ? 150 : 62; /* the curve reaches half as far */
    write_curve(
        drawing, a,
        dimension == 0 ? (struct point){middle.x, middle.y - bulge} : (struct point){middle.x + bulge, middle.y}, b);
}

/* Members that a cable of a level without switch joins. */
static void members_of(const struct drawing *drawing, const struct topology_cable *cable, uint64_t members[2])
{
    const struct topology *drawn = &drawing->layout.drawn;
    for (int i = 0; i < 2; i++)
        members[i] = wiring_member(&drawn->wiring[cable->level], link_end_place(drawn, cable->ends[i]));
}

/* Whether a cable of a torus closes a ring, and along which dimension. */
static bool is_wrap(const struct level *level, const uint64_t members[2], uint32_t *dimension)
{
    uint32_t a[TORUS_DIMENSIONS_MAX], b[TORUS_DIMENSIONS_MAX];
    uint32_t n = topology_layout_coordinates(level, members[0], a);
    topology_layout_coordinates(level, members[1], b);
    for (uint32_t d = 0; d < n; d++) {
        if (a[d] != b[d]) {
            *dimension = d;
            return a[d] + 1 != b[d] && b[d] + 1 != a[d];
        }
    }
    return false;
}

static void write_cable(const struct drawing *drawing, const struct topology_cable *cable)
{
    const struct level *level = &drawing->layout.drawn.levels[cable->level];
    struct point a = drawing_anchor(drawing, cable, 0, middle_of(drawing_item(&drawing->layout, cable->ends[1]).box));
    struct point b = drawing_anchor(drawing, cable, 1, a);
    a = drawing_anchor(drawing, cable, 0, b);
    uint64_t members[2] = {0, 0};
    if (!drawing->layout.drawn.graph)
        members_of(drawing, cable, members);
    uint32_t dimension = 0;
    bool arcs = cable->level > 0 && (level->kind == LEVEL_MESH || level->kind == LEVEL_RING);
    if (level->kind == LEVEL_TORUS && is_wrap(level, members, &dimension))
        write_wrap(drawing, dimension, level->n_torus == 2, cable->level > 0, a, b);
    else if (arcs) {
        /* groups in a row: an arc above them, the higher the farther */
        double far = fabs((double)members[0] - (double)members[1]);
        double rise = 60 + (level->kind == LEVEL_MESH ? 28 * far : far > 1 ? 90 : 0);
        write_curve(drawing, a, (struct point){(a.x + b.x) / 2, fmin(a.y, b.y) - rise}, b);
    } else {
        write_point(drawing, a);
        write_point(drawing, b);
    }
    fputc('\n', drawing->stream);
}

/* --- cables ------------------------------------------------------------------------------------------------------- */

static double line_width(const struct drawing *drawing, double bytes_per_s)
{
    double most = (drawing->n_cables > 60 ? 3.5 : 4.5) * fmin(1, drawing->scale + 0.2);
    return fmax(1, most * sqrt(bytes_per_s / drawing->fastest));
}

static bool has_style(const struct topology_cable *cable, const struct style *style)
{
    return cable->level == style->level && cable->bytes_per_s == style->bytes_per_s && cable->count == style->count &&
           cable->latency_seconds == style->latency_seconds && cable->degraded == style->degraded;
}

struct style *drawing_styles(const struct drawing *drawing, size_t *count)
{
    struct style *styles = memory_zeroed(drawing->n_cables + 1, sizeof *styles);
    *count = 0;
    for (size_t i = 0; i < drawing->n_cables; i++) {
        const struct topology_cable *cable = &drawing->cables[i];
        size_t s = 0;
        while (s < *count && !has_style(cable, &styles[s]))
            s++;
        if (s == *count)
            styles[(*count)++] = (struct style){.level = cable->level,
                                                .bytes_per_s = cable->bytes_per_s,
                                                .latency_seconds = cable->latency_seconds,
                                                .degraded = cable->degraded,
                                                .count = cable->count};
    }
    return styles;
}

static void write_style_data(const struct drawing *drawing, const struct style *style, size_t index)
{
    fprintf(drawing->stream, "$cables%zu << EOD\n", index);
    for (size_t i = 0; i < drawing->n_cables; i++) {
        const struct topology_cable *cable = &drawing->cables[i];
        if (has_style(cable, style) && !drawing_hides(drawing, cable))
            write_cable(drawing, cable);
    }
    fputs("EOD\n", drawing->stream);
}

static void write_route_data(const struct drawing *drawing)
{
    fputs("$route << EOD\n", drawing->stream);
    for (size_t i = 0; i < drawing->n_cables; i++)
        if (drawing->on_route[i] && !drawing_hides(drawing, &drawing->cables[i]))
            write_cable(drawing, &drawing->cables[i]);
    fputs("EOD\n", drawing->stream);
}

static bool has_route_data(const struct drawing *drawing)
{
    for (size_t i = 0; i < drawing->n_cables; i++)
        if (drawing->on_route[i] && !drawing_hides(drawing, &drawing->cables[i]))
            return true;
    return false;
}

bool drawing_shows_routes(const struct drawing *drawing)
{
    return drawing->routes_cut || has_route_data(drawing);
}

static void write_legend_title(const struct drawing *drawing, const struct style *style)
{
    const struct level *level = &drawing->layout.drawn.levels[style->level];
    char rate[32], latency[32];
    units_print(rate, sizeof rate, DIMENSION_RATE, style->bytes_per_s);
    units_print(latency, sizeof latency, DIMENSION_SECONDS, style->latency_seconds);
    char side[40] = "";
    if (style->count > 1)
        snprintf(side, sizeof side, ", %" PRIu32 " side by side", style->count);
    char *text = memory_format("%s%s: %s %s, %s%s", level->name, style->degraded ? ", slower than built" : "", rate,
                               level->half_duplex ? "both ways together" : "each way", latency, side);
    plot_text(drawing->stream, text);
    free(text);
}

/* The outermost level first, and its cables undermost. */
static void write_plot_command(const struct drawing *drawing, const struct style *styles, size_t count)
{
    FILE *stream = drawing->stream;
    fputs("plot NaN notitle", stream);
    if (drawing_shows_routes(drawing)) {
        fprintf(stream, ", \\\n    %s with lines linewidth %.3g linecolor '" YELLOW "' title 'routes asked for%s'",
                has_route_data(drawing) ? "$route using 1:2" : "NaN", 6 + line_width(drawing, drawing->fastest),
                drawing->routes_cut ? ", but for what is left out" : "");
    }
    for (size_t i = count; i-- > 0;) {
        const char *color = plot_square_color(styles[i].level);

        fprintf(stream, ", \\\n    $cables%zu using 1:2 with lines linewidth %.3g linecolor '%s'%s title ", i,
                fmax(line_width(drawing, styles[i].bytes_per_s), styles[i].degraded ? 2 : 0), color,
                styles[i].degraded ? " dashtype 2" : "");
        write_legend_title(drawing, &styles[i]);
    }
    fputc('\n', stream);
}

void drawing_write_cables(const struct drawing *drawing, const struct style *styles, size_t count)
{
    for (size_t i = 0; i < count; i++)
        write_style_data(drawing, &styles[i], i);
    write_route_data(drawing);
    write_plot_command(drawing, styles, count);
}
