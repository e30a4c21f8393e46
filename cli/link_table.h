/* link_table.h - a prediction's links for people: what each class carried, and the hottest links with who uses them. */
#ifndef CPSIM_CLI_LINK_TABLE_H
#define CPSIM_CLI_LINK_TABLE_H

#include <stdio.h>

#include "cli/prediction.h"

/* A row per link class; nothing where there are none. */
void link_table_write_classes(const struct report *report, FILE *stream);

/* `of_what` ends the title: the part of the step that the links' times are of. */
void link_table_write_hottest(const struct prediction *prediction, const char *of_what, FILE *stream);

#endif
