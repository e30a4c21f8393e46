/* folding.c - the folded ensemble with what goes with it. */
#include "models/result/folding.h"

#include <stdlib.h>
#include <string.h>

void folding_fini(struct folding *folding)
{
    ensemble_fini(&folding->ensemble);
    free(folding->class_of);
    free(folding->hops);
    free(folding->first_hop);
    free(folding->links);
    memset(folding, 0, sizeof *folding);
}

static int compare_links(const void *key, const void *element)
{
    uint64_t link = *(const uint64_t *)key, other = ((const struct folded_link *)element)->link;
    return (link > other) - (link < other);
}

const struct folded_link *folding_link(const struct folding *folding, uint64_t link)
{
    if (folding->n_links == 0)
        return NULL;
    return bsearch(&link, folding->links, folding->n_links, sizeof *folding->links, compare_links);
}
