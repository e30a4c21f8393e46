/* result_file.h - a file that is there whole or not at all.
 *
 * It is written under another name beside its own and takes its name when it is whole: until then, and whatever goes
 * wrong, what was there before stays as it was. An interrupt (SIGINT, SIGTERM, SIGHUP) while it is being written makes
 * writing fail, so that nothing is left lying about, and then has its way. What is no regular file (a pipe, a device)
 * is written as it comes; so is one that this process may write but not replace.
 */
#ifndef CPSIM_CLI_RESULT_FILE_H
#define CPSIM_CLI_RESULT_FILE_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "models/base/diagnostics.h"

struct result_file {
    const char *path; /* as typed */
    char *own_name;   /* of the file itself, where the path is a link */
    char *part_name;  /* what it is called until it is whole; NULL: written as it comes */
    FILE *stream;
    int fd;                  /* of the part */
    sigset_t signals_before; /* those that end this process wait while there is a part */
};

/* The stream to write to; NULL with a message, and then there is nothing to close. */
FILE *result_file_open(struct result_file *file, const char *path, struct diagnostics *diag);

/* Ends it; `fine` is whether all could be written, else `errno` says why not. False, with a message, when it is not
 * there as it should be. Does not return if this process was interrupted, unless it has a handler for that. */
bool result_file_close(struct result_file *file, bool fine, struct diagnostics *diag);

#endif
