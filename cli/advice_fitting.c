/* advice_fitting.c - the first round: of every layout the least recomputation and sharing out that fits, with one way
 * to do attention.
 */
#include "cli/advice_rounds.h"

/* Takes in what the last round said; false when it is known from where on settings fit, or that none does. */
static bool goes_on_fitting(const struct search *search, struct layout_block *block)
{
    while (!block->dead && block->setting == block->n_settings && block->tried < block->n_settings) {
        const struct advice_answer *answer = search_screened(search, block_candidate(block, block->lead, block->tried));
        if (answer->status == ADVICE_NOT_SEEN)
            return true;
        if (answer->status == ADVICE_RAN)
            block->setting = block->tried;
        else if (answer->status == ADVICE_NO_ROOM)
            block->tried++;
        else if (block->tried + 1 < block->n_settings && block->lead + 1 == block->n_attentions)
            block->tried++; /* it is this setting that is refused, perhaps */
        else if (block->lead + 1 < block->n_attentions)
            block->lead++;
        else
            block->dead = true;
    }
    return false;
}

void search_find_fitting(struct search *search)
{
    bool any = true;
    while (any && !search->signal) {
        any = false;
        for (size_t b = 0; b < search->n_blocks; b++) {
            struct layout_block *block = &search->blocks[b];
            if (!goes_on_fitting(search, block))
                continue;
            any = true;
            search_add(search, block_candidate(block, block->lead, block->tried));
        }
        search_look(search, ADVICE_SCREENING, "finding what fits");
    }
    for (size_t b = 0; b < search->n_blocks; b++)
        search->blocks[b].dead |= search->blocks[b].setting == search->blocks[b].n_settings;
}
