/* sweep_files.c - bytes as jansson would lay out the whole, of which it only ever sees a point. */
#include "cli/sweep_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/json_set.h"
#include "cli/writers.h"
#include "models/base/memory.h"

json_t *sweep_head_json(const struct sweep *sweep, const struct question *base, bool summary)
{
    json_t *json = json_object();
    json_set_text(json, "schema", "cpsim.sweep/1");
    json_set_text(json, "cpsim_version", CPSIM_VERSION);
    char *command = question_command(base, sweep->texts, sweep->n_keys);
    json_set_text(json, "command", command);
    free(command);
    if (summary)
        json_set_text(json, "runs", "summary");
    json_t *keys = json_array();
    for (size_t i = 0; i < sweep->n_keys; i++)
        json_array_append_new(keys, json_string(sweep->keys[i].name));
    json_object_set_new(json, "keys", keys);
    return json;
}

char *sweep_head_text(const struct sweep *sweep, const struct question *base, bool summary)
{
    json_t *json = sweep_head_json(sweep, base, summary);
    char *text = json_dumps(json, JSON_INDENT(2));
    char *head = memory_format("%.*s,\n  \"points\": [", (int)strlen(text) - 2 /* "\n}" */, text);
    free(text);
    json_decref(json);
    return head;
}

static bool is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

static bool complain(const char *path, int why, struct diagnostics *diag)
{
    if (is_stdout(path))
        return diagnostics_add(diag, "cannot write to standard output: %s", strerror(why ? why : EIO));
    return diagnostics_add(diag, "cannot write '%s': %s", path, strerror(why ? why : EIO));
}

/* Opens the file for this process alone, and cuts it behind `kept_bytes`. NULL with a message. */
static FILE *open_file(const char *path, long kept_bytes, struct diagnostics *diag)
{
    if (is_stdout(path))
        return stdout;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        diagnostics_add(diag, "cannot write '%s': another sweep is writing it", path);
        return NULL;
    }
    struct stat status;
    bool fine = fd >= 0 && fstat(fd, &status) == 0;
    if (fine && S_ISREG(status.st_mode))
        fine = ftruncate(fd, kept_bytes) == 0 && lseek(fd, kept_bytes, SEEK_SET) == kept_bytes;
    FILE *stream = fine ? fdopen(fd, "w") : NULL;
    if (stream)
        return stream;
    complain(path, errno, diag);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static bool begin_json(struct sweep_files *files, const char *head, long kept_bytes, struct diagnostics *diag)
{
    files->json = open_file(files->json_path, kept_bytes, diag);
    files->any = kept_bytes > 0;
    if (files->json && !files->any)
        fputs(head, files->json);
    return files->json;
}

static bool begin_csv(struct sweep_files *files, const struct sweep *sweep, struct diagnostics *diag)
{
    files->csv = open_file(files->csv_path, 0, diag);
    if (!files->csv)
        return false;
    const char **names = memory_zeroed(sweep->n_keys, sizeof *names);
    for (size_t i = 0; i < sweep->n_keys; i++)
        names[i] = sweep->keys[i].name;
    csv_write_sweep_head(names, sweep->n_keys, sweep->layers, files->csv);
    free(names);
    return true;
}

bool sweep_files_open(struct sweep_files *files, const struct sweep *sweep, const char *head, long kept_bytes,
                      struct diagnostics *diag)
{
    bool fine = !files->json_path || begin_json(files, head, kept_bytes, diag);
    return fine && (!files->csv_path || begin_csv(files, sweep, diag));
}

bool sweep_files_are_open(const struct sweep_files *files)
{
    return files->json || files->csv;
}

/* Closes a file that cannot be written; what is in it stays, for --resume. */
static bool fail(FILE **stream, const char *path, struct diagnostics *diag)
{
    complain(path, errno, diag);
    if (*stream != stdout)
        fclose(*stream);
    *stream = NULL;
    return false;
}

bool sweep_files_add(struct sweep_files *files, const struct sweep_answer *answer, bool row_only,
                     struct diagnostics *diag)
{
    errno = 0;
    if (files->json && !row_only) {
        fputs(files->any ? ",\n" : "\n", files->json);
        files->any = true;
        fwrite(answer->texts[SWEEP_POINT], 1, answer->sizes[SWEEP_POINT], files->json);
        if (ferror(files->json))
            return fail(&files->json, files->json_path, diag);
    }
    if (files->csv) {
        fwrite(answer->texts[SWEEP_ROW], 1, answer->sizes[SWEEP_ROW], files->csv);
        if (ferror(files->csv))
            return fail(&files->csv, files->csv_path, diag);
    }
    return true;
}

bool sweep_files_flush(struct sweep_files *files, struct diagnostics *diag)
{
    errno = 0;
    if (files->json && fflush(files->json) != 0)
        return fail(&files->json, files->json_path, diag);
    if (files->csv && fflush(files->csv) != 0)
        return fail(&files->csv, files->csv_path, diag);
    return true;
}

static bool end_file(FILE **stream, const char *path, struct diagnostics *diag)
{
    errno = 0;
    if (!*stream)
        return true;
    bool fine = fflush(*stream) == 0 && !ferror(*stream);
    if (!fine)
        return fail(stream, path, diag);
    fine = *stream == stdout || fclose(*stream) == 0;
    *stream = NULL;
    return fine || complain(path, errno, diag);
}

bool sweep_files_end(struct sweep_files *files, bool complete, struct diagnostics *diag)
{
    if (files->json)
        fputs(complete ? "\n  ]\n}\n" : "\n  ],\n  \"complete\": false\n}\n", files->json);
    bool fine = end_file(&files->json, files->json_path, diag);
    return end_file(&files->csv, files->csv_path, diag) && fine;
}

static void remove_file(const char *path)
{
    struct stat status;
    if (path && stat(path, &status) == 0 && S_ISREG(status.st_mode))
        unlink(path);
}

void sweep_files_remove(const struct sweep_files *files)
{
    remove_file(files->json_path);
    remove_file(files->csv_path);
}
