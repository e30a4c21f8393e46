/* text_table.c - cells are kept as text, row after row; widths are known, and lines written, only at the end. */
#include "cli/text_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

void text_table_init(struct text_table *table)
{
    memset(table, 0, sizeof *table);
}

void text_table_fini(struct text_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->left);
    text_table_init(table);
}

static void append(struct text_table *table, const char *format, va_list arguments)
{
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    memory_grow(table->cells, table->n_cells, table->capacity);
    table->cells[table->n_cells++] = memory_text(text);
}

void text_table_column(struct text_table *table, bool left, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(table, format, arguments);
    va_end(arguments);
    table->left = memory_resized(table->left, table->n_columns + 1, sizeof *table->left);
    table->left[table->n_columns++] = left;
}

void text_table_cell(struct text_table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(table, format, arguments);
    va_end(arguments);
}

void text_table_count(struct text_table *table, uint64_t count)
{
    text_table_cell(table, "%s", text_of_count(count).text);
}

void text_table_number(struct text_table *table, double value, struct unit unit)
{
    text_table_cell(table, "%s", text_of_number(value / unit.size).text);
}

void text_table_end_row(struct text_table *table)
{
    while (table->n_cells % table->n_columns)
        text_table_cell(table, "%s", "");
}

static void print_padding(FILE *stream, size_t count, char with)
{
    while (count--)
        fputc(with, stream);
}

/* Line 0 or 1 of a cell: where it begins, and its length; empty when there is none. */
static size_t line_of(const char *cell, int line, const char **begin)
{
    size_t first = strcspn(cell, "\n");
    *begin = line == 0 ? cell : cell + first + (cell[first] == '\n');
    return strcspn(*begin, "\n");
}

/* One line of a row; blanks are held back until something follows them. */
static void print_line(const struct text_table *table, size_t row, int line, const size_t *widths, FILE *stream)
{
    size_t blanks = 0;
    for (size_t c = 0; c < table->n_columns; c++) {
        const char *text;
        size_t length = line_of(table->cells[row * table->n_columns + c], line, &text), padding = widths[c] - length;
        blanks += c ? 2 : 0;
        if (length) {
            print_padding(stream, blanks + (table->left[c] ? 0 : padding), ' ');
            fwrite(text, 1, length, stream);
            blanks = table->left[c] ? padding : 0;
        } else {
            blanks += padding;
        }
    }
    fputc('\n', stream);
}

static size_t cell_width(const char *cell)
{
    const char *text;
    size_t first = line_of(cell, 0, &text), second = line_of(cell, 1, &text);
    return first > second ? first : second;
}

static bool has_two_lines(const struct text_table *table)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strchr(table->cells[c], '\n'))
            return true;
    return false;
}

void text_table_print(const struct text_table *table, FILE *stream)
{
    size_t rows = table->n_columns ? table->n_cells / table->n_columns : 0;
    if (rows == 0)
        return;
    size_t *widths = memory_zeroed(table->n_columns, sizeof *widths);
    for (size_t i = 0; i < rows * table->n_columns; i++) {
        size_t length = cell_width(table->cells[i]), *width = &widths[i % table->n_columns];
        if (length > *width)
            *width = length;
    }
    for (int line = 0; line < 1 + has_two_lines(table); line++)
        print_line(table, 0, line, widths, stream);
    for (size_t c = 0; c < table->n_columns; c++) {
        print_padding(stream, c ? 2 : 0, ' ');
        print_padding(stream, widths[c], '-');
    }
    fputc('\n', stream);
    for (size_t row = 1; row < rows; row++)
        print_line(table, row, 0, widths, stream);
    free(widths);
}
