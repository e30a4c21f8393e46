/* key_reference.h - the keys of all INI files, written from the very tables that parse them. */
#ifndef CPSIM_CLI_KEY_REFERENCE_H
#define CPSIM_CLI_KEY_REFERENCE_H

#include <stdio.h>

/* Every key: its meaning, then what a value looks like and its default. */
void key_reference_print(FILE *stream);

/* The names of the keys of topology and experiment files, a line per section, for --help. The caller frees it. */
char *key_reference_compact(void);

#endif
