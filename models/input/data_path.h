/* data_path.h - where the shipped data files are: the folders devices, transformers, implementations, topologies and
 * experiments.
 *
 * Searched in this order: $CPSIM_DATA, the source tree beside the build (when the executable is run from there), the
 * installed share/cpsim beside the executable's bin/. In a source tree the first three folders lie under models/,
 * installed they do not; "devices" and "models/devices" name the same folder here, wherever it lies. */
#ifndef CPSIM_MODELS_INPUT_DATA_PATH_H
#define CPSIM_MODELS_INPUT_DATA_PATH_H

#include <stddef.h>

/* The path of FOLDER/NAME.ini, or of NAME itself if it contains '/' or ends in ".ini" and can be read. NULL if there is
 * none. The caller frees it. */
char *data_path_find(const char *folder, const char *name);

/* The names (without ".ini") in FOLDER of the data directory, sorted; NULL-terminated; the caller frees each and the
 * array. Empty when there is no such folder. */
char **data_path_list(const char *folder);

#endif
