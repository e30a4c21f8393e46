/* link_table.c - see link_table.h. */
#include "cli/link_table.h"

#include <inttypes.h>

#include "cli/summary.h"
#include "cli/text_table.h"

void link_table_write_classes(const struct report *report, FILE *stream)
{
    if (report->n_links == 0)
        return;
    double most = 0;
    for (uint32_t i = 0; i < report->n_links; i++) {
        most = (double)report->links[i].bytes > most ? (double)report->links[i].bytes : most;
    }
    struct unit seconds = fine_unit_of_seconds(report->seconds), bytes = unit_of_bytes(most);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "class");
    text_table_column(&table, false, "GB/s\neach way");
    text_table_column(&table, false, "links used");
    text_table_column(&table, false, "carried\n%s", bytes.name);
    text_table_column(&table, false, "busiest link\n%s", seconds.name);
    text_table_column(&table, false, "utilization\n%%");
    for (uint32_t i = 0; i < report->n_links; i++) {
        const struct link_class_report *link = &report->links[i];
        text_table_cell(&table, "%s", link->name);
        text_table_number(&table, link->bytes_per_s, (struct unit){"GB/s", 1e9});
        text_table_count(&table, link->links_used);
        text_table_number(&table, (double)link->bytes, bytes);
        text_table_number(&table, link->busy_seconds, seconds);
        text_table_cell(&table, "%.1f", 100 * link->utilization);
    }
    fputs("\nLinks\n", stream);
    text_table_print(&table, stream);
    text_table_fini(&table);
}

static void write_users(const struct report *report, const struct hot_link *link, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t u = 0; u < link->n_users && used < size; u++) {
        const struct link_user *user = &link->users[u];
        bool groups = report->ranks[report->n_ranks - 1].group > 0;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%" PRIu32 ">%" PRIu32, u ? " " : "", user->from, user->to);
        if (groups && used < size)
            used += (size_t)snprintf(text + used, size - used, " (g%" PRIu32, user->group);
        if (user->to_group != user->group && used < size)
            used += (size_t)snprintf(text + used, size - used, ">g%" PRIu32, user->to_group);
        if (groups && used < size)
            used += (size_t)snprintf(text + used, size - used, ")");
    }
    if (link->ways > link->n_users && used < size)
        snprintf(text + used, size - used, " and %s more", text_of_count(link->ways - link->n_users).text);
}

void link_table_write_hottest(const struct prediction *prediction, const char *of_what, FILE *stream)
{
    const struct report *report = &prediction->report;
    if (report->n_hot_links == 0)
        return;
    struct unit seconds = fine_unit_of_seconds(report->seconds);
    struct unit bytes = unit_of_bytes((double)report->hot_links[0].bytes);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "link");
    text_table_column(&table, false, "links\nlike it");
    text_table_column(&table, false, "carried\n%s", bytes.name);
    text_table_column(&table, false, "busy\n%s", seconds.name);
    text_table_column(&table, false, "utilization\n%%");
    text_table_column(&table, true, "from > to");
    for (uint32_t i = 0; i < report->n_hot_links; i++) {
        const struct hot_link *link = &report->hot_links[i];
        char name[80], users[160];
        topology_link_name(&prediction->topology, link->link, name, sizeof name);
        write_users(report, link, users, sizeof users);
        text_table_cell(&table, "%s", name);
        text_table_count(&table, link->stands_for - 1);
        text_table_number(&table, (double)link->bytes, bytes);
        text_table_number(&table, link->busy_seconds, seconds);
        text_table_cell(&table, "%.1f", 100 * link->utilization);
        text_table_cell(&table, "%s", users);
    }
    fprintf(stream, "\nHottest links, and the ranks that use them%s\n", of_what);
    text_table_print(&table, stream);
    text_table_fini(&table);
}
