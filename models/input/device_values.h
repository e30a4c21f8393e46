/* device_values.h - values that only a device profile has, and keys that several of its sections share. */
#ifndef CPSIM_MODELS_INPUT_DEVICE_VALUES_H
#define CPSIM_MODELS_INPUT_DEVICE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/input/key_table.h"

/* Cuts the next word off `*text` at `separator` and strips blanks around it; NULL at the end of the text. */
char *device_next_item(char **text, char separator);

extern const char device_dtypes_form[];
/* A list of dtypes, or `any`: bit i of `dtypes` is enum dtype i. */
bool device_parse_dtypes(uint32_t *dtypes, const char *text, const char **expected);
void device_print_dtypes(uint32_t dtypes, char *text, size_t size);

/* What the rates stand on is for the reader of the file; here it only has to be there. */
bool device_parse_source(void *target, const char *text, const char **expected);
void device_print_source(const void *target, char *text, size_t size);

#define SPREAD_MAX 10 /* nothing is known of what varies by more than so many times itself */
#define SPREAD_KEY(STRUCT, MEMBER, HELP)                                                                               \
    {                                                                                                                  \
        .name = "spread", .type = KEY_QUANTITY, .dimension = DIMENSION_NUMBER, .offset = offsetof(STRUCT, MEMBER),     \
        .fallback = "0", .minimum = 0, .maximum = SPREAD_MAX, .form = "a share such as 0.03", .help = (HELP)           \
    }
#define SOURCE_KEY                                                                                                     \
    {                                                                                                                  \
        .name = "source", .type = KEY_CUSTOM, .form = "text", .parse = device_parse_source,                            \
        .print = device_print_source, .help = "where the rates come from"                                              \
    }

#endif
