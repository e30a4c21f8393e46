/* gnuplot.c - the pipe to gnuplot; the only caller of popen().
 *
 * popen() of a program that is not there succeeds, and writing to it is a SIGPIPE: so the shell looks for gnuplot
 * first, the signal is ignored while the pipe is open, and the exit status decides. What gnuplot prints goes to
 * temporary files: its complaints into the message, a terminal drawing to standard output, where a full disk is
 * noticed.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/plot_style.h"
#include "models/base/memory.h"

#define STATUS_NOT_FOUND 127

/* The wait status of gnuplot fed with the script; -1 when there was no pipe. */
static int feed(const char *command, const char *script, size_t size)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    int status = -1;
    FILE *pipe = popen(command, "w");
    if (pipe) {
        fwrite(script, 1, size, pipe);
        status = pclose(pipe);
    }
    sigaction(SIGPIPE, &before, NULL);
    return status;
}

/* The first line of what gnuplot complained about that says something (it also quotes the line and points at it). */
static void read_complaint(FILE *complaints, char *text, size_t size)
{
    *text = '\0';
    rewind(complaints);
    char line[256];
    while (fgets(line, sizeof line, complaints)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[strspn(line, " \t^")] != '\0' && strncmp(line, "gnuplot>", 8) != 0)
            snprintf(text, size, ": %s", line + strspn(line, " \t"));
    }
}

static bool copy_to_stdout(FILE *drawing)
{
    rewind(drawing);
    char chunk[4096];
    size_t length;
    while ((length = fread(chunk, 1, sizeof chunk, drawing)) > 0)
        if (fwrite(chunk, 1, length, stdout) != length)
            return false;
    return fflush(stdout) == 0;
}

#define ENDING_BYTES 16

/* Whether the file ends as drawings do: gnuplot does not notice that a disk is full. */
static bool has_ending(const struct plot_target *target)
{
    static const char *const endings[] = {"IEND" /* PNG */, "</svg>", "%%EOF" /* PDF */};
    char text[ENDING_BYTES];
    FILE *file = fopen(target->path, "r");
    if (!file)
        return false;
    size_t length = fseek(file, -(long)sizeof text, SEEK_END) == 0 ? fread(text, 1, sizeof text, file) : 0;
    fclose(file);
    bool found = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        found = found || memmem(text, length, endings[i], strlen(endings[i]));
    return found;
}

/* The file must be there, to its end; what is left of a failed drawing is removed. */
static bool file_is_whole(const struct plot_target *target, bool succeeded)
{
    struct stat status;
    bool there = stat(target->path, &status) == 0;
    if (there && S_ISREG(status.st_mode) && !(succeeded && has_ending(target))) {
        unlink(target->path);
        return false;
    }
    return there && succeeded;
}

/* A path that cannot be written is told apart from gnuplot's own trouble. */
static bool can_write(const struct plot_target *target, struct diagnostics *diag)
{
    FILE *file = fopen(target->path, "a");
    if (!file)
        return diagnostics_add(diag, "cannot write '%s': %s", target->path, strerror(errno));
    fclose(file);
    return true;
}

static bool run(const char *script, size_t size, const struct plot_target *target, FILE *drawing, FILE *complaints,
                struct diagnostics *diag)
{
    bool terminal = plot_on_terminal(target);
    char *command =
        memory_format("command -v gnuplot >/dev/null 2>&1 || exit %d; exec gnuplot -d >/dev/fd/%d 2>/dev/fd/%d",
                      STATUS_NOT_FOUND, fileno(drawing), fileno(complaints));
    int status = feed(command, script, size);
    free(command);
    bool succeeded = status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool whole = terminal ? succeeded : file_is_whole(target, succeeded);
    if (status == -1)
        return diagnostics_add(diag, "cannot start gnuplot for '%s': %s", target->path, strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_NOT_FOUND)
        return diagnostics_add(diag,
                               "gnuplot is not installed (not in PATH), so '%s' was not drawn; --script FILE keeps "
                               "the script for where it is",
                               target->path);
    char complaint[300];
    read_complaint(complaints, complaint, sizeof complaint);
    if (WIFSIGNALED(status))
        return diagnostics_add(diag, "gnuplot was ended by signal %d while drawing '%s'%s", WTERMSIG(status),
                               target->path, complaint);
    if (!succeeded)
        return diagnostics_add(diag, "gnuplot failed with status %d while drawing '%s'%s", WEXITSTATUS(status),
                               target->path, complaint);
    if (!whole)
        return diagnostics_add(diag, "gnuplot did not write all of '%s'%s", target->path, complaint);
    if (terminal && !copy_to_stdout(drawing))
        return diagnostics_add(diag, "cannot write to standard output: %s", strerror(errno));
    return true;
}

bool gnuplot_run(const char *script, size_t size, const struct plot_target *target, struct diagnostics *diag)
{
    if (!plot_on_terminal(target) && !can_write(target, diag))
        return false;
    sigset_t ending, before; /* an interrupt waits, or it would leave half a drawing */
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &ending, &before);
    FILE *drawing = tmpfile(), *complaints = tmpfile();
    bool fine = drawing && complaints
                    ? run(script, size, target, drawing, complaints, diag)
                    : diagnostics_add(diag, "cannot draw '%s': no temporary file: %s", target->path, strerror(errno));
    if (drawing)
        fclose(drawing);
    if (complaints)
        fclose(complaints);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return fine;
}
