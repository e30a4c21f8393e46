/* check_path.c - see check_path.h. */
#include "cli/check_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The digits at the start of `text`; what follows them, NULL if there are none or too many. */
static const char *parse_gpu(const char *text, uint64_t *gpu)
{
    if (*text < '0' || *text > '9')
        return NULL;
    char *end;
    errno = 0;
    *gpu = strtoull(text, &end, 10);
    return errno ? NULL : end;
}

bool gpu_pair_parse(const char *text, struct gpu_pair *pair, struct diagnostics *diag)
{
    *pair = (struct gpu_pair){.text = text};
    const char *colon = parse_gpu(text, &pair->from);
    const char *end = colon && *colon == ':' ? parse_gpu(colon + 1, &pair->to) : NULL;
    if (!end || *end != '\0')
        return diagnostics_add(diag, "--path '%s', expected two GPU numbers, such as 0:9", text);
    if (pair->from == pair->to)
        return diagnostics_add(diag, "--path '%s', expected two different GPUs", text);
    return true;
}
