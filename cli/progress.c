/* progress.c - a line that overwrites itself, and is wiped before anything else is printed. */
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_BETWEEN 0.1

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
    *progress = (struct progress){.stream = shows ? stream : NULL, .what = what, .shown_at = now_seconds()};
}

void progress_show(void *context, double share)
{
    struct progress *progress = context;
    if (!progress->stream || now_seconds() - progress->shown_at < SECONDS_BETWEEN)
        return;
    progress->shown_at = now_seconds();
    progress->shown = true;
    fprintf(progress->stream, "\r%s: %3.0f %%", progress->what, 100 * share);
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
