/* printable.h - whether bytes from outside are text that may be printed. */
#ifndef CPSIM_MODELS_BASE_PRINTABLE_H
#define CPSIM_MODELS_BASE_PRINTABLE_H

#include <stddef.h>

/* What keeps `text` from being UTF-8 without control characters other than tabs, as words for a message ("a zero
 * byte"); NULL if nothing does. */
const char *printable_fault(const char *text, size_t size);

#endif
