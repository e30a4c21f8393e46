/* data_path.c - finds the shipped data files without a path compiled in, so that a build or an installation can be
 * moved.
 *
 * A data directory holds FOLDER itself (as installed) or models/FOLDER (devices, transformers and implementations in
 * the source tree).
 */
#include "models/input/data_path.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/base/memory.h"

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_readable_file(const char *path)
{
    return access(path, R_OK) == 0 && !is_directory(path);
}

static bool has_folder(const char *directory, const char *folder)
{
    char *path = memory_format("%s/%s", directory, folder);
    bool found = is_directory(path);
    free(path);
    return found;
}

/* Cuts the last component off; false when nothing is left. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* The directory of the running executable; false if the system does not say. */
static bool executable_directory(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    return to_parent(path);
}

#define CANDIDATES_MAX 3

/* The data directories to look into, in order; the caller frees each. */
static size_t data_directories(char *directories[CANDIDATES_MAX])
{
    size_t n = 0;
    const char *chosen = getenv("CPSIM_DATA");
    if (chosen && *chosen)
        directories[n++] = memory_text(chosen);

    char beside[PATH_MAX], up[PATH_MAX];
    if (!executable_directory(beside, sizeof beside))
        return n;
    strcpy(up, beside);
    do {
        if (has_folder(up, "models/devices") && has_folder(up, "topologies")) {
            directories[n++] = memory_text(up);
            break;
        }
    } while (to_parent(up));
    directories[n++] = memory_format("%s/../share/cpsim", beside);
    return n;
}

/* Where a data directory may hold a folder. */
static const char *const layouts[] = {"", "models/"};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

static char *folder_path(const char *directory, const char *folder, size_t layout)
{
    if (strncmp(folder, "models/", 7) == 0)
        folder += 7;
    return memory_format("%s/%s%s", directory, layouts[layout], folder);
}

static bool ends_in_ini(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".ini") == 0;
}

char *data_path_find(const char *folder, const char *name)
{
    if (strchr(name, '/'))
        return is_readable_file(name) ? memory_text(name) : NULL;
    if (ends_in_ini(name) && is_readable_file(name))
        return memory_text(name);

    char *directories[CANDIDATES_MAX];
    size_t n = data_directories(directories);
    char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        for (size_t layout = 0; layout < LAYOUTS && !found; layout++) {
            char *place = folder_path(directories[i], folder, layout);
            found = memory_format("%s/%s.ini", place, name);
            free(place);
            if (!is_readable_file(found)) {
                free(found);
                found = NULL;
            }
        }
        free(directories[i]);
    }
    return found;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **list_folder(const char *path)
{
    char **names = NULL;
    size_t n = 0, capacity = 0;
    DIR *stream = opendir(path);
    for (const struct dirent *entry; stream && (entry = readdir(stream));) {
        if (entry->d_name[0] == '.' || !ends_in_ini(entry->d_name))
            continue;
        memory_grow(names, n, capacity);
        names[n++] = memory_format("%.*s", (int)strlen(entry->d_name) - 4, entry->d_name);
    }
    if (stream)
        closedir(stream);
    if (n > 0)
        qsort(names, n, sizeof *names, compare_names);
    names = memory_resized(names, n + 1, sizeof *names);
    names[n] = NULL;
    return names;
}

char **data_path_list(const char *folder)
{
    char *directories[CANDIDATES_MAX];
    size_t n = data_directories(directories);
    char **names = NULL;
    for (size_t i = 0; i < n; i++) {
        for (size_t layout = 0; layout < LAYOUTS && !names; layout++) {
            char *path = folder_path(directories[i], folder, layout);
            if (is_directory(path))
                names = list_folder(path);
            free(path);
        }
        free(directories[i]);
    }
    return names ? names : memory_zeroed(1, sizeof *names);
}
