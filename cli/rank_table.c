/* rank_table.c - see rank_table.h. */
#include "cli/rank_table.h"

#include <inttypes.h>
#include <string.h>

#include "cli/summary.h"
#include "cli/text_table.h"

#define RANKS_SHOWN 8 /* so many are shown whole */
#define RANKS_FIRST 3 /* of more, so many from the front */
#define RUNS_SHOWN 3  /* blocks of the accounting table */

uint32_t rank_table_choose(const struct report *report, bool details, bool *shown)
{
    uint32_t left_out = 0;
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        shown[i] = details || report->n_ranks <= RANKS_SHOWN || i < RANKS_FIRST || i == report->critical_rank ||
                   i == report->peak_rank || i + 1 == report->n_ranks;
        left_out += !shown[i];
    }
    return left_out;
}

static void add_rank_columns(struct text_table *table, const struct report *report)
{
    text_table_column(table, false, "rank");
    if (report->ranks[report->n_ranks - 1].group) {
        text_table_column(table, false, "group");
        text_table_column(table, false, "gpu");
    }
}

static void add_rank_cells(struct text_table *table, const struct report *report, const struct rank_report *rank)
{
    text_table_cell(table, "%" PRIu32, rank->rank);
    if (report->ranks[report->n_ranks - 1].group) {
        text_table_cell(table, "%" PRIu32, rank->group);
        text_table_cell(table, "%" PRIu64, rank->gpu);
    }
}

static void write_left_out(uint32_t left_out, FILE *stream)
{
    if (left_out)
        fprintf(stream, "(%" PRIu32 " more rank%s not shown)\n", left_out, left_out == 1 ? "" : "s");
}

void rank_table_write_time(const struct report *report, const bool *shown, uint32_t left_out, FILE *stream)
{
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < report->n_ranks; i++)
        if (report->ranks[i].bytes_sent > most_bytes)
            most_bytes = report->ranks[i].bytes_sent;
    struct unit seconds = fine_unit_of_seconds(report->seconds), bytes = unit_of_bytes((double)most_bytes);
    struct text_table table;
    text_table_init(&table);
    add_rank_columns(&table, report);
    text_table_column(&table, false, "ends\n%s", seconds.name);
    text_table_column(&table, false, "compute\n%s", seconds.name);
    text_table_column(&table, false, "transfers\n%s", seconds.name);
    text_table_column(&table, false, "exposed\n%s", seconds.name);
    text_table_column(&table, false, "idle\n%s", seconds.name);
    text_table_column(&table, false, "sent\n%s", bytes.name);
    text_table_column(&table, false, "received\n%s", bytes.name);
    text_table_column(&table, false, "messages");
    text_table_column(&table, false, "visible pairs");
    text_table_column(&table, true, "%s", "");
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        if (!shown[i])
            continue;
        const struct rank_report *rank = &report->ranks[i];
        add_rank_cells(&table, report, rank);
        text_table_number(&table, rank->seconds, seconds);
        text_table_number(&table, rank->compute_seconds, seconds);
        text_table_number(&table, rank->communication_seconds, seconds);
        text_table_number(&table, rank->exposed_seconds, seconds);
        text_table_number(&table, rank->idle_seconds, seconds);
        text_table_number(&table, (double)rank->bytes_sent, bytes);
        text_table_number(&table, (double)rank->bytes_received, bytes);
        text_table_count(&table, rank->messages_sent);
        text_table_count(&table, rank->visible_pairs);
        text_table_cell(&table, "%s", i == report->critical_rank ? "critical" : "");
    }
    fputs("\nTime and traffic per rank\n", stream);
    text_table_print(&table, stream);
    write_left_out(left_out, stream);
    text_table_fini(&table);
}

void rank_table_write_memory(const struct report *report, const bool *shown, uint32_t left_out, FILE *stream)
{
    struct unit unit = unit_of_memory((double)report->peak_bytes), seconds = fine_unit_of_seconds(report->seconds);
    struct text_table table;
    text_table_init(&table);
    add_rank_columns(&table, report);
    text_table_column(&table, false, "peak\n%s", unit.name);
    for (int role = 0; role < ROLE_ATTENTION_COUNT; role++)
        text_table_column(&table, false, "%s\n%s", buffer_role_name((enum buffer_role)role), unit.name);
    text_table_column(&table, false, "Q, K, V, O, LSE\n%s", unit.name);
    text_table_column(&table, false, "at\n%s", seconds.name);
    text_table_column(&table, true, "%s", "");
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        if (!shown[i])
            continue;
        const struct rank_report *rank = &report->ranks[i];
        add_rank_cells(&table, report, rank);
        text_table_number(&table, (double)rank->peak_bytes, unit);
        for (int role = 0; role < ROLE_ATTENTION_COUNT; role++)
            text_table_number(&table, (double)rank->peak_by_role[role], unit);
        text_table_number(&table, (double)rank->resident_bytes, unit);
        text_table_number(&table, rank->peak_at_seconds, seconds);
        text_table_cell(&table, "%s", i == report->peak_rank ? "highest" : "");
    }
    fputs("\nMemory at the high-water mark\n", stream);
    text_table_print(&table, stream);
    write_left_out(left_out, stream);
    text_table_fini(&table);
}

static bool same_accounting(const struct rank_report *a, const struct rank_report *b)
{
    return memcmp(a->sent_elements_by_kind, b->sent_elements_by_kind, sizeof a->sent_elements_by_kind) == 0 &&
           memcmp(a->received_elements_by_kind, b->received_elements_by_kind, sizeof a->sent_elements_by_kind) == 0 &&
           memcmp(a->sent_bytes_by_kind, b->sent_bytes_by_kind, sizeof a->sent_bytes_by_kind) == 0 &&
           memcmp(a->received_bytes_by_kind, b->received_bytes_by_kind, sizeof a->sent_bytes_by_kind) == 0 &&
           a->q_bytes == b->q_bytes && a->kv_bytes == b->kv_bytes && a->block_bytes == b->block_bytes &&
           a->state_bytes == b->state_bytes;
}

static void add_accounting_row(struct text_table *table, const char *ranks, const char *what, uint64_t elements,
                               uint64_t bytes)
{
    text_table_cell(table, "%s", ranks);
    text_table_cell(table, "%s", what);
    text_table_count(table, elements);
    text_table_count(table, bytes);
}

/* What ranks `first` to `last`, all alike, send, receive and hold. */
static void add_accounting(struct text_table *table, const struct rank_report *rank, uint32_t first, uint32_t last)
{
    static const char *const sent[] = {"sent: forward KV", "sent: replayed KV", "sent: returned gradients",
                                       "sent: other"};
    static const char *const received[] = {"received: forward KV", "received: replayed KV",
                                           "received: returned gradients", "received: other"};
    char ranks[32];
    if (first == last)
        snprintf(ranks, sizeof ranks, "%" PRIu32, first);
    else
        snprintf(ranks, sizeof ranks, "%" PRIu32 "-%" PRIu32, first, last);
    for (int kind = 0; kind < TRAFFIC_ATTENTION_COUNT; kind++)
        if (kind != TRAFFIC_OTHER || rank->sent_bytes_by_kind[kind])
            add_accounting_row(table, ranks, sent[kind], rank->sent_elements_by_kind[kind],
                               rank->sent_bytes_by_kind[kind]);
    for (int kind = 0; kind < TRAFFIC_ATTENTION_COUNT; kind++)
        if (kind != TRAFFIC_OTHER || rank->received_bytes_by_kind[kind])
            add_accounting_row(table, ranks, received[kind], rank->received_elements_by_kind[kind],
                               rank->received_bytes_by_kind[kind]);
    add_accounting_row(table, ranks, "resident Q", rank->q_elements, rank->q_bytes);
    add_accounting_row(table, ranks, "resident K, V", rank->kv_elements, rank->kv_bytes);
    add_accounting_row(table, ranks, "received block", rank->block_elements, rank->block_bytes);
    add_accounting_row(table, ranks, "online state m, l, a", rank->state_elements, rank->state_bytes);
}

/* Groups of a layout do the same, so the first one's ranks are shown; neighbours that are alike share their rows. */
void rank_table_write_accounting(const struct report *report, uint32_t cp, bool details, FILE *stream)
{
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, false, "rank");
    text_table_column(&table, true, "what");
    text_table_column(&table, false, "elements");
    text_table_column(&table, false, "bytes");
    uint32_t runs = 0, left_out = 0;
    for (uint32_t first = 0, last; first < cp; first = last + 1, runs++) {
        for (last = first; last + 1 < cp && same_accounting(&report->ranks[first], &report->ranks[last + 1]);)
            last++;
        if (details || runs < RUNS_SHOWN)
            add_accounting(&table, &report->ranks[first], first, last);
        else
            left_out += last - first + 1;
    }
    fputs("\nAccounting per rank\n", stream);
    text_table_print(&table, stream);
    write_left_out(left_out, stream);
    text_table_fini(&table);
}
