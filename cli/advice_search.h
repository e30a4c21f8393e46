/* advice_search.h - the rounds of an advice: which candidates are looked at, how deep, and when that is enough. */
#ifndef CPSIM_CLI_ADVICE_SEARCH_H
#define CPSIM_CLI_ADVICE_SEARCH_H

#include "cli/advice.h"

/* Looks at candidates, all `n` of them that have not been looked at so deep; SIGINT etc. when that ended it. */
typedef int advice_look_function(void *context, const size_t *candidates, size_t n, enum advice_depth depth,
                                 const char *what);

/* Fills advice->entries by `look`. Returns 0 or what it returned. */
int advice_search(struct advice *advice, advice_look_function *look, void *context);

#endif
