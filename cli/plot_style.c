/* plot_style.c - targets and their gnuplot terminals, and the pieces of script that all plots begin with. */
#include "cli/plot_style.h"

#include <math.h>
#include <string.h>

const char *plot_kind_name(enum plot_kind kind)
{
    static const char *const names[PLOT_KINDS] = {"timeline",   "memory",  "time",     "scaling",
                                                  "algorithms", "scatter", "phases",   "timelines",
                                                  "tornado",    "path",    "topology", "pareto"};
    return names[kind];
}

/* The terminals by a file's ending. */
static const struct plot_format {
    const char *ending, *terminal;
    double scale; /* size = pixels * scale, followed by unit */
    const char *unit;
    int font_size;
} formats[] = {
    {".png", "pngcairo", 1, "", 13},
    {".svg", "svg dynamic", 1, "", 15},
    {".pdf", "pdfcairo", 0.01, "in", 13},
};

#define N_FORMATS (sizeof formats / sizeof *formats)

static const struct plot_format *format_of(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < N_FORMATS; i++) {
        size_t ending = strlen(formats[i].ending);
        if (length > ending && strcmp(path + length - ending, formats[i].ending) == 0)
            return &formats[i];
    }
    return NULL;
}

/* The "KIND" of "KIND=path": 0 when there is none, -1 when it is no kind. */
static int parse_kind(const char *text, size_t length, enum plot_kind *kind)
{
    for (int i = 0; i < PLOT_KINDS; i++) {
        const char *name = plot_kind_name((enum plot_kind)i);
        if (strlen(name) == length && strncmp(text, name, length) == 0) {
            *kind = (enum plot_kind)i;
            return 1;
        }
    }
    return -1;
}

bool plot_target_parse(const char *text, struct plot_target *target, struct diagnostics *diag)
{
    *target = (struct plot_target){.path = text};
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    if (text[word] == '=') {
        if (parse_kind(text, word, &target->kind) < 0)
            return diagnostics_add(diag,
                                   "plot '%s': no kind '%.*s', expected timeline, memory, time, scaling, "
                                   "algorithms, scatter, phases, timelines, tornado, path, topology or pareto",
                                   text, (int)word, text);
        target->kind_given = true;
        target->path = text + word + 1;
    }
    if (!plot_on_terminal(target) && !format_of(target->path))
        return diagnostics_add(diag, "plot '%s', expected a file ending in .png, .svg or .pdf, or '-'", text);
    return true;
}

bool plot_on_terminal(const struct plot_target *target)
{
    return strcmp(target->path, "-") == 0;
}

void plot_text(FILE *stream, const char *text)
{
    fputc('\'', stream);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("''", stream);
        else
            fputc((unsigned char)*text < ' ' ? '?' : *text, stream);
    }
    fputc('\'', stream);
}

void plot_begin(FILE *stream, const struct plot_target *target, struct plot_area area)
{
    fputs("# gnuplot 5.4 or later\nreset\nset encoding utf8\n", stream);
    if (plot_on_terminal(target)) {
        fprintf(stream, "set terminal dumb size %d,%d noenhanced mono\nset output\n", area.width, area.height);
        return;
    }
    const struct plot_format *format = format_of(target->path);
    fprintf(stream, "set terminal %s size %.9g%s,%.9g%s font 'DejaVu Sans,%d' background '#ffffff' noenhanced\n",
            format->terminal, area.width * format->scale, format->unit, area.height * format->scale, format->unit,
            format->font_size);
    fputs("set output ", stream);
    plot_text(stream, target->path);
    fputs("\nset border 3 linecolor '" PLOT_FAINT "' linewidth 1\n" PLOT_TICS "set grid y linecolor '" PLOT_PALE
          "' linewidth 1 linetype 1\n"
          "set style fill solid 1.0 noborder\n",
          stream);
}

void plot_end(FILE *stream)
{
    fputs("unset output\n", stream);
}

/* The size of font, at most `size`, at which a line fits the plot's width: sans-serif characters are on average as wide
 * as 0.7 pixels a point. */
static int fitting_size(struct plot_area area, const char *text, int size)
{
    enum { LEAST = 7 };
    size_t characters = 0;
    for (const char *c = text; *c; c++)
        characters += ((unsigned char)*c & 0xC0) != 0x80; /* not inside a UTF-8 character */
    double fits = 0.96 * area.width / (0.7 * (double)(characters ? characters : 1));
    return fits >= size ? size : fits <= LEAST ? LEAST : (int)fits;
}

void plot_titles(FILE *stream, const struct plot_target *target, struct plot_area area, const char *title,
                 const char *answer)
{
    if (plot_on_terminal(target)) {
        fputs("set title ", stream);
        plot_text(stream, title);
        fputc('\n', stream);
        return;
    }
    double pixel = 1.0 / area.height;
    fputs("set label 1 ", stream);
    plot_text(stream, title);
    fprintf(stream, " at screen 0.02,%.6g left font ',%d' textcolor '" PLOT_INK "'\nset label 2 ", 1 - 36 * pixel,
            fitting_size(area, title, 17));
    plot_text(stream, answer);
    fprintf(stream,
            " at screen 0.02,%.6g left font ',%d' textcolor '" PLOT_FAINT "'\n"
            "set key at screen 0.02,%.6g left top horizontal maxcols 8 Left reverse samplen 1.5 textcolor '" PLOT_INK
            "'\n",
            1 - 70 * pixel, fitting_size(area, answer, 13), 1 - 88 * pixel);
}

void plot_ticks(FILE *stream, char axis, double maximum, int most)
{
    double least = maximum / most, power = pow(10, floor(log10(least))), step = 10 * power;
    int decimals = (int)-floor(log10(least));
    if (least <= 5 * power)
        step = least <= 2 * power ? 2 * power : 5 * power;
    else
        decimals--;
    fprintf(stream, "set %ctics 0,%.9g\nset format %c '%%.%df'\n", axis, step, axis, decimals > 0 ? decimals : 0);
}

void plot_limit(FILE *stream, double value, const char *name)
{
    fprintf(stream,
            "set style textbox 1 opaque margins 0.4,0.3 fillcolor '#ffffff' noborder\n"
            "set arrow 1 from graph 0, first %.9g to graph 1, first %.9g nohead front linecolor '" PLOT_VERMILLION
            "' linewidth 2 dashtype 2\nset label 4 ",
            value, value);
    plot_text(stream, name);
    fprintf(stream, " at graph 0.99, first %.9g offset 0,0.8 right front boxed bs 1 textcolor '" PLOT_VERMILLION "'\n",
            value);
}

void plot_terminal_legend_entry(FILE *stream, char character, const char *name)
{
    fprintf(stream, "  %c ", character);
    for (; *name; name++)
        fputc(*name == '\'' || (unsigned char)*name < ' ' ? '?' : *name, stream);
}
