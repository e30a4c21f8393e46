/* library_keys.c - reading and judging them. */
#include "models/input/library_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/units.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* --- collectives -------------------------------------------------------------------------------------------------- */

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (size_t length = strlen(text); length > 0 && strchr(" \t", text[length - 1]); length--)
        text[length - 1] = '\0';
    return text;
}

/* "12 us" or "12 us + 1.3 us". */
static bool parse_start(char *text, struct protocol *protocol)
{
    char *plus = strchr(text, '+');
    if (plus)
        *plus = '\0';
    protocol->member_seconds = 0;
    return units_parse(trimmed(text), DIMENSION_SECONDS, &protocol->start_seconds) && protocol->start_seconds >= 0 &&
           (!plus || (units_parse(trimmed(plus + 1), DIMENSION_SECONDS, &protocol->member_seconds) &&
                      protocol->member_seconds >= 0));
}

static bool parse_protocol(char *text, struct protocol *protocol)
{
    char *colon = strchr(text, ':');
    if (!colon)
        return false;
    *colon = '\0';
    return parse_start(text, protocol) && units_parse(trimmed(colon + 1), DIMENSION_RATE, &protocol->bytes_per_s) &&
           protocol->bytes_per_s > 0;
}

bool library_parse_collectives(void *target, const char *text, const char **expected)
{
    struct level *level = target;
    char *copy = memory_text(text), *rest = copy, *item;
    bool ok = true;
    *expected = "up to 4 protocols such as 12 us + 1.3 us: 140 GB/s, 36 us: 320 GB/s";
    level->n_protocols = 0;
    while (ok && (item = strsep(&rest, ","))) {
        ok = level->n_protocols < PROTOCOLS_MAX && parse_protocol(item, &level->protocols[level->n_protocols]);
        if (ok && level->n_protocols > 0 &&
            level->protocols[level->n_protocols].bytes_per_s < level->protocols[level->n_protocols - 1].bytes_per_s) {
            *expected = "rates in ascending order, the protocol for small collectives first";
            ok = false;
        }
        level->n_protocols += ok;
    }
    free(copy);
    return ok;
}

void library_print_collectives(const void *target, char *text, size_t size)
{
    const struct level *level = target;
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < level->n_protocols && used < size; i++) {
        const struct protocol *protocol = &level->protocols[i];
        char start[64], member[64], rate[64];
        units_print_exact(start, sizeof start, DIMENSION_SECONDS, protocol->start_seconds);
        units_print_exact(member, sizeof member, DIMENSION_SECONDS, protocol->member_seconds);
        units_print_exact(rate, sizeof rate, DIMENSION_RATE, protocol->bytes_per_s);
        used += (size_t)snprintf(text + used, size - used, "%s%s + %s: %s", i ? ", " : "", start, member, rate);
    }
}

/* --- what is judged ----------------------------------------------------------------------------------------------- */

static bool is_power_of_two(uint32_t n)
{
    return n && (n & (n - 1)) == 0;
}

static bool check_power_of_two(const struct ini_document *document, const struct ini_section *section, const char *key,
                               uint32_t value, struct diagnostics *diag)
{
    if (value == 0 || is_power_of_two(value))
        return true;
    return ini_document_complain(document, section, ini_section_entry(section, key), diag,
                                 "'%s' is %" PRIu32 ", expected a power of two", key, value);
}

static const char *const channel_keys[] = {"medium",          "channels_per_peer", "channel_bandwidth",
                                           "channel_latency", "ll_bandwidth",      "message_bandwidth"};

bool library_check_channels(const struct ini_document *document, const struct ini_section *section,
                            const struct level *level, struct diagnostics *diag)
{
    bool ok = check_power_of_two(document, section, "channels", level->channels, diag) &&
              check_power_of_two(document, section, "channels_per_peer", level->channels_per_peer, diag);
    if (level->channels) {
        if (level->channel_bytes_per_s > 0)
            return ok;
        return ini_document_complain(document, section, ini_section_entry(section, "channels"), diag,
                                     "'channels' without 'channel_bandwidth', expected both");
    }
    for (size_t i = 0; i < COUNT_OF(channel_keys); i++) {
        const struct ini_entry *entry = ini_section_entry(section, channel_keys[i]);
        if (entry)
            ok = ini_document_complain(document, section, entry, diag,
                                       "'%s' has no effect without 'channels', expected both", channel_keys[i]);
    }
    return ok;
}

static bool check_rate(const struct ini_document *document, const struct ini_section *section, const char *key,
                       double bytes_per_s, const struct level *level, struct diagnostics *diag)
{
    if (bytes_per_s <= level->bytes_per_s)
        return true;
    char rate[40], limit[40];
    units_print(rate, sizeof rate, DIMENSION_RATE, bytes_per_s);
    units_print(limit, sizeof limit, DIMENSION_RATE, level->bytes_per_s);
    const struct ini_entry *bandwidth = ini_section_entry(section, "bandwidth");
    bool overridden = bandwidth && bandwidth->line < 0;
    return ini_document_complain(
        document, section, ini_section_entry(section, key), diag, "'%s' is %s, expected at most the bandwidth, %s%s",
        key, rate, limit, overridden ? ": set it too, or ask for slower links by an [override] with a factor" : "");
}

/* What all members send together is no more than all of them could. */
static bool check_fan(const struct ini_document *document, const struct ini_section *section, const struct level *level,
                      struct diagnostics *diag)
{
    double most = level->bytes_per_s * level->size;
    if (level->fan_bytes_per_s <= most)
        return true;
    char rate[40], limit[40];
    units_print(rate, sizeof rate, DIMENSION_RATE, level->fan_bytes_per_s);
    units_print(limit, sizeof limit, DIMENSION_RATE, most);
    return ini_document_complain(document, section, ini_section_entry(section, "fan_bandwidth"), diag,
                                 "'fan_bandwidth' is %s, expected at most the bandwidth of all members, %s", rate,
                                 limit);
}

bool library_check_rates(const struct ini_document *document, const struct ini_section *section,
                         const struct level *level, struct diagnostics *diag)
{
    bool ok = check_rate(document, section, "message_bandwidth", level->message_bytes_per_s, level, diag);
    ok &= check_fan(document, section, level, diag);
    for (size_t i = 0; ok && i < level->n_protocols; i++)
        ok = check_rate(document, section, "collectives", level->protocols[i].bytes_per_s, level, diag);
    return ok;
}

bool library_key_is_said(const struct level *level, const char *name)
{
    if (strcmp(name, "channels") == 0 || strcmp(name, "medium") == 0 || strcmp(name, "channel_bandwidth") == 0)
        return level->channels > 0;
    if (strcmp(name, "channels_per_peer") == 0)
        return level->channels_per_peer > 0;
    if (strcmp(name, "channel_latency") == 0)
        return level->channel_seconds > 0;
    if (strcmp(name, "ll_bandwidth") == 0)
        return level->ll_bytes_per_s > 0;
    if (strcmp(name, "message_bandwidth") == 0)
        return level->message_bytes_per_s > 0;
    if (strcmp(name, "fan_bandwidth") == 0)
        return level->fan_bytes_per_s > 0;
    if (strcmp(name, "spread") == 0)
        return level->spread > 0;
    if (strcmp(name, "collectives_spread") == 0)
        return level->collectives_spread > 0;
    if (strcmp(name, "small_collectives_spread") == 0)
        return level->small_collectives_spread > 0;
    return true;
}
