/* result_places.h - where results go: two of them must not go to one place, nor one over a file that is read.
 *
 * A place is what it is, not how it is spelled: links are followed, and a file need not be there yet.
 */
#ifndef CPSIM_CLI_RESULT_PLACES_H
#define CPSIM_CLI_RESULT_PLACES_H

#include "cli/options.h"

/* Whether `path` is "-"; false for NULL. */
bool place_is_stdout(const char *path);

/* Adds a message for every two results that share a place, and for every result that would go over a file that was
 * typed; `options->table` is known. */
void result_places_judge(const struct options *options, struct diagnostics *diag);

/* Adds a message for every result that would go over the file `path`, which is read though nobody typed it. */
bool result_places_spare(const struct options *options, const char *path, struct diagnostics *diag);

#endif
