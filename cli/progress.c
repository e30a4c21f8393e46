/* progress.c - a line that overwrites itself, and is wiped before anything else is printed. */
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_BETWEEN 0.1
#define SECONDS_TO_JUDGE 1 /* before the time left is told */

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_init(struct progress *progress, FILE *stream, const char *what)
{
    const char *terminal = getenv("TERM");
    bool shows = isatty(fileno(stream)) && terminal && strcmp(terminal, "dumb") != 0;
    /* Work that is done within a moment shows nothing. */
    double now = now_seconds();
    *progress = (struct progress){.stream = shows ? stream : NULL, .what = what, .shown_at = now, .begun_at = now};
}

void progress_count(struct progress *progress, const char *items, size_t n_items)
{
    progress->items = items;
    progress->n_items = n_items;
}

static void write_time(double seconds, FILE *stream)
{
    if (seconds < 0)
        return;
    unsigned long long whole = (unsigned long long)(seconds + 0.5);
    if (whole >= 3600)
        fprintf(stream, ", %llu:%02llu:%02llu left", whole / 3600, whole / 60 % 60, whole % 60);
    else
        fprintf(stream, ", %llu:%02llu left", whole / 60, whole % 60);
}

void progress_write(const struct progress *progress, double share, double seconds_left, FILE *stream)
{
    fprintf(stream, "%s: ", progress->what);
    if (progress->items)
        fprintf(stream, "%.0f of %zu %s", share * (double)progress->n_items, progress->n_items, progress->items);
    else
        fprintf(stream, "%3.0f %%", 100 * share);
    write_time(seconds_left, stream);
}

/* As long as all before took for its share; below 0 until there is something to go by. */
static double seconds_left(const struct progress *progress, double share)
{
    double elapsed = now_seconds() - progress->begun_at, made = share - progress->share_at_begin;
    return made > 0 && elapsed > SECONDS_TO_JUDGE ? elapsed * (1 - share) / made : -1;
}

void progress_show(void *context, double share)
{
    struct progress *progress = context;
    if (!progress->stream)
        return;
    if (!progress->begun) {
        progress->begun = true;
        progress->share_at_begin = share;
    }
    if (now_seconds() - progress->shown_at < SECONDS_BETWEEN)
        return;
    progress->shown_at = now_seconds();
    progress->shown = true;
    fputc('\r', progress->stream);
    progress_write(progress, share, seconds_left(progress, share), progress->stream);
    fputs("\033[K", progress->stream); /* what was longer */
    fflush(progress->stream);
}

void progress_phase(void *context, const char *what)
{
    struct progress *progress = context;
    progress->what = what;
    if (!progress->stream)
        return;
    progress->begun = false;
    progress->begun_at = progress->shown_at = now_seconds();
    progress->shown = true;
    fprintf(progress->stream, "\r%s\033[K", what);
    fflush(progress->stream);
}

void progress_clear(struct progress *progress)
{
    if (!progress->shown)
        return;
    fputs("\r\033[K", progress->stream);
    fflush(progress->stream);
    progress->shown = false;
}
