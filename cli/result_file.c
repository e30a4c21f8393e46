/* result_file.c - see result_file.h. The stream looks for waiting interrupts whenever its buffer goes out. */
#include "cli/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/base/memory.h"

#define NAMES_TRIED 100
#define BUFFER_BYTES (1 << 16)

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

static void hold_signals(struct result_file *file)
{
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        sigaddset(&held, ending[i]);
    sigprocmask(SIG_BLOCK, &held, &file->signals_before);
}

/* Whether a signal waits that would have ended this process, or that it wants to hear of. */
static bool is_interrupted(const struct result_file *file)
{
    sigset_t waiting;
    sigpending(&waiting);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        struct sigaction action;
        if (sigismember(&waiting, ending[i]) && !sigismember(&file->signals_before, ending[i]) &&
            sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            return true;
    }
    return false;
}

static ssize_t write_part(void *cookie, const char *bytes, size_t size)
{
    const struct result_file *file = cookie;
    size_t written = 0;
    while (written < size) {
        if (is_interrupted(file)) {
            errno = EINTR;
            return 0;
        }
        ssize_t length = write(file->fd, bytes + written, size - written);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            return 0;
        written += (size_t)length;
    }
    return (ssize_t)size;
}

/* A name that nobody has, in the same folder: a file can only be renamed inside one file system. -1: none can be made
 * there. */
static int create_part(struct result_file *file)
{
    for (int i = 0; i < NAMES_TRIED; i++) {
        file->part_name = memory_format("%s.part-%ld-%d", file->own_name, (long)getpid(), i);
        int fd = open(file->part_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        free(file->part_name);
        file->part_name = NULL;
        if (errno != EEXIST)
            break;
    }
    return -1;
}

/* Whether another file may take the place of the one at this path: it is not there, or a plain one of this user's
 * alone. */
static bool may_replace(const char *path, mode_t *mode)
{
    struct stat status;
    *mode = 0;
    if (lstat(path, &status) != 0)
        return errno == ENOENT;
    *mode = status.st_mode & 07777;
    return S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_uid == geteuid() && access(path, W_OK) == 0;
}

static FILE *open_part(struct result_file *file, mode_t mode)
{
    hold_signals(file); /* from before there is a part on */
    file->fd = create_part(file);
    if (file->fd >= 0) {
        const cookie_io_functions_t functions = {.write = write_part};
        file->stream = fopencookie(file, "w", functions);
    }
    if (file->stream) {
        setvbuf(file->stream, NULL, _IOFBF, BUFFER_BYTES);
        if (mode)
            fchmod(file->fd, mode);
        return file->stream;
    }
    if (file->fd >= 0) {
        close(file->fd);
        unlink(file->part_name);
        free(file->part_name);
        file->part_name = NULL;
    }
    sigprocmask(SIG_SETMASK, &file->signals_before, NULL);
    return NULL;
}

FILE *result_file_open(struct result_file *file, const char *path, struct diagnostics *diag)
{
    *file = (struct result_file){.path = path, .own_name = realpath(path, NULL), .fd = -1};
    if (!file->own_name)
        file->own_name = memory_text(path);
    mode_t mode;
    if (may_replace(file->own_name, &mode))
        open_part(file, mode);
    if (!file->stream)
        file->stream = fopen(path, "w");
    if (file->stream)
        return file->stream;
    diagnostics_add(diag, "cannot write '%s': %s", path, strerror(errno));
    free(file->own_name);
    return NULL;
}

/* Closes what it is written to; false with `errno`. */
static bool end_stream(struct result_file *file, bool fine)
{
    int why = errno;
    if (fclose(file->stream) != 0 && fine) {
        fine = false;
        why = errno;
    }
    if (file->fd >= 0 && close(file->fd) != 0 && fine) {
        fine = false;
        why = errno;
    }
    errno = why;
    return fine;
}

static void remove_whole(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode))
        unlink(path);
}

bool result_file_close(struct result_file *file, bool fine, struct diagnostics *diag)
{
    fine = end_stream(file, fine);
    if (fine && file->part_name)
        fine = rename(file->part_name, file->own_name) == 0;
    int why = errno;
    if (!fine && file->part_name)
        unlink(file->part_name);
    else if (!fine)
        remove_whole(file->own_name);
    if (file->part_name)
        sigprocmask(SIG_SETMASK, &file->signals_before, NULL);
    if (!fine)
        diagnostics_add(diag, "cannot write '%s': %s", file->path, strerror(why ? why : EIO));
    free(file->own_name);
    free(file->part_name);
    return fine;
}
