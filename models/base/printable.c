/* printable.c - see printable.h. */
#include "models/base/printable.h"

/* Bytes of the UTF-8 character at `text`, 0 if it is none (stray, overlong or cut sequences, surrogates). */
static size_t utf8_length(const unsigned char *text, size_t size)
{
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] >= 0xa0) || (first == 0xf0 && text[1] < 0x90) ||
        (first == 0xf4 && text[1] >= 0x90))
        return 0;
    return length;
}

const char *printable_fault(const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        if ((bytes[i] < 0x20 && bytes[i] != '\t') || bytes[i] == 0x7f)
            return bytes[i] == 0 ? "a zero byte" : "a control character";
        size_t length = utf8_length(bytes + i, size - i);
        if (length == 0)
            return "a byte that is not UTF-8";
        i += length;
    }
    return NULL;
}
