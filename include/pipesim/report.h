/* report.h - one column model for printed tables and --json, so that the two cannot drift apart. */
#ifndef PIPESIM_REPORT_H
#define PIPESIM_REPORT_H

#include <pipesim/option.h>
#include <pipesim/timeline.h>

#include <stdio.h>

G_BEGIN_DECLS

typedef enum
{
  PS_COLUMN_TEXT,
  PS_COLUMN_INTEGER,
  PS_COLUMN_TIME,    /* gint64 ns; printed with a unit, JSON as integer ns */
  PS_COLUMN_SIZE,    /* gint64 bytes; printed with a unit, JSON as integer bytes */
  PS_COLUMN_RATIO,   /* double; printed with four decimals */
  PS_COLUMN_NUMBER,  /* double; printed as by ps_format_number */
  PS_COLUMN_RATE,    /* double, bytes per second; printed as by ps_format_rate, JSON as a number */
  PS_COLUMN_PERCENT, /* double; printed as signed percent (0.01 -> +1.00 %), JSON as ratio */
  PS_COLUMN_BOOLEAN,
  PS_COLUMN_TABLE,   /* a nested PsTable, JSON only */
  PS_COLUMN_NUMBERS, /* an array of doubles, JSON only */
  PS_COLUMN_LISTS,   /* an array of arrays of texts, JSON only */
} PsColumnType;

typedef struct
{
  const char *key;   /* JSON key, stable: "makespan_ns" */
  const char *title; /* heading of the printed table; NULL: JSON only */
  PsColumnType type;
} PsColumn;

/* Whether people may call the column so: by its key or its title. Case does not count, and '-', '_' and blanks are
 * alike. */
gboolean ps_column_is_called (const PsColumn *column, const char *name);

typedef struct _PsTable PsTable;

/* columns is static data and stays the caller's. */
PsTable *ps_table_new (const PsColumn *columns, guint n_columns);
void ps_table_free (PsTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsTable, ps_table_free)

/* Begins a row; the ps_table_set_* calls that follow fill it. A cell never set prints as "-" and is null in JSON. key
 * must be a column of that type (programmer's duty). */
void ps_table_add_row (PsTable *table);
void ps_table_set_text (PsTable *table, const char *key, const char *value);
void ps_table_set_integer (PsTable *table, const char *key, gint64 value); /* INTEGER, TIME, SIZE */
void ps_table_set_ratio (PsTable *table, const char *key,
                         double value); /* RATIO, NUMBER, RATE, PERCENT; NaN reads as never set */
void ps_table_set_boolean (PsTable *table, const char *key, gboolean value);
void ps_table_set_table (PsTable *table, const char *key, PsTable *value /* taken */);
void ps_table_set_numbers (PsTable *table, const char *key, const double *values, guint n);
void ps_table_set_lists (PsTable *table, const char *key, GPtrArray *lists /* of GStrv, taken */);
guint ps_table_n_rows (const PsTable *table);

/* The columns that printed tables, Markdown and CSV show. */
typedef struct
{
  char **columns; /* what people call them, in that order; NULL: not given */
  gboolean wide;  /* all that have a title */
} PsColumnChoice;

/* --columns and --wide; their base is a PsColumnChoice. */
extern const PsOption ps_column_rows[];

/* Refuses a choice where no table is printed: JSON holds all columns. Errors: PS_ERROR_USAGE. */
gboolean ps_column_choice_check_json (const PsColumnChoice *choice, gboolean json, GError **error);

/* The same, and refuses a name that is no column. Errors: PS_ERROR_USAGE. */
gboolean ps_column_choice_check (const PsColumnChoice *choice, const PsColumn *columns, guint n, gboolean json,
                                 GError **error);

/* Lets each of the n tables show the columns of a choice that it has. Errors: PS_ERROR_USAGE where none of them has
 * one.
 */
gboolean ps_tables_choose (PsTable *const *tables, guint n, const PsColumnChoice *choice, GError **error);

/* Lets the table show a choice that has been checked. usual: the keys that are shown without one, ending with NULL;
 * NULL: all columns that have a title. choice NULL: none. Choice and keys must outlive the table. CSV without a choice
 * has all columns. */
void ps_table_choose (PsTable *table, const PsColumnChoice *choice, const char *const *usual);

/* Keeps the first n rows. */
void ps_table_truncate (PsTable *table, guint n);

/* Stable sort by an INTEGER, TIME, SIZE, RATIO, NUMBER, TEXT or BOOLEAN column (no before yes), unset cells last. */
void ps_table_sort (PsTable *table, const char *key, gboolean descending);

/* The width of the window: of the environment's COLUMNS, else of the terminal that is standard output; 0: there is no
 * terminal. */
guint ps_window_columns (void);

/* Sentences beside a table, in lines that fit the window and end with "\n"; "" for "". otherwise: letters of a line
 * where there is no window; 0: all. Free with g_free. */
char *ps_fit_sentence (const char *text, guint otherwise);

/* Aligned text, numbers right, one line per row under a heading; texts as ps_format_line makes them, as in the next
 * two. "" where the choice shows no column. A table wider than ps_window_columns gets narrower, step by step until it
 * fits: headings take several lines; columns that are equal in all rows become a line above the table; long texts take
 * several lines; columns stand one blank apart instead of two; the columns that are left form a part below, which
 * repeats those that tell the rows apart. Free with g_free. */
char *ps_table_to_text (const PsTable *table);

/* The same as a table of Markdown. Free with g_free. */
char *ps_table_to_markdown (const PsTable *table);

/* The values of --json as comma-separated lines (RFC 4180) under their keys, nested columns left out; a cell never set
 * is empty. Free with g_free. */
char *ps_table_to_csv (const PsTable *table);

/* An object {"format": format, <extra keys>, "results": [one object per row]}, keys in column order. extra alternates
 * key and value and ends with NULL; values are JSON strings. Ends with a newline. Free with g_free. */
char *ps_table_to_json (const PsTable *table, const char *format, const char *const *extra);

/* The same, with further keys before the results whose values are JSON. */
char *ps_table_to_json_with (const PsTable *table, const char *format, const char *const *extra,
                             const char *const *values);

/* Writes text to standard output as ps_format_page makes it, and reports failure (full disk, closed pipe) as
 * PS_ERROR_IO. */
gboolean ps_print (const char *text, GError **error);

/* The same for text that colours a terminal. */
gboolean ps_print_coloured (const char *text, GError **error);

G_END_DECLS

#endif
