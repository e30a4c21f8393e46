/* device_values.c - reads and writes dtype lists and sources. */
#include "models/input/device_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/dtype.h"
#include "models/base/memory.h"

const char device_dtypes_form[] = "any, or a list of fp64, fp32, bf16, fp16, fp8";

char *device_next_item(char **text, char separator)
{
    char *item = *text;
    if (!item)
        return NULL;
    char *end = strchr(item, separator);
    *text = end ? end + 1 : NULL;
    if (end)
        *end = '\0';
    item += strspn(item, " \t");
    size_t length = strlen(item);
    while (length && strchr(" \t", item[length - 1]))
        item[--length] = '\0';
    return item;
}

static bool parse_dtype_list(char *text, uint32_t *dtypes)
{
    if (strcmp(text, "any") == 0) {
        *dtypes = (1U << DTYPE_COUNT) - 1U;
        return true;
    }
    *dtypes = 0;
    for (char *item; (item = device_next_item(&text, ','));) {
        enum dtype dtype;
        if (!dtype_parse(item, &dtype) || (*dtypes >> dtype & 1U))
            return false;
        *dtypes |= 1U << dtype;
    }
    return true;
}

bool device_parse_dtypes(uint32_t *dtypes, const char *text, const char **expected)
{
    char *copy = memory_text(text);
    bool good = parse_dtype_list(copy, dtypes);
    free(copy);
    *expected = device_dtypes_form;
    return good;
}

void device_print_dtypes(uint32_t dtypes, char *text, size_t size)
{
    size_t length = 0;
    if (size)
        text[0] = '\0';
    for (int d = 0; d < DTYPE_COUNT && length < size; d++)
        if (dtypes >> d & 1U)
            length +=
                (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "", dtype_name((enum dtype)d));
}

bool device_parse_source(void *target, const char *text, const char **expected)
{
    (void)target;
    *expected = "where the rates were published or measured";
    return *text != '\0';
}

void device_print_source(const void *target, char *text, size_t size)
{
    (void)target;
    if (size)
        text[0] = '\0';
}
