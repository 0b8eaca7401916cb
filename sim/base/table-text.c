/* table-text.c - a table as aligned text, as wide as the window, and as Markdown. */
#include "table-private.h"
#include "json.h"
#include "text.h"

#include <pipesim/option.h>

#include <string.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The columns that a printed table shows, and what people call them. */

const PsOption ps_column_rows[] = {
  PS_OPTION ("columns", 0, PS_LIST (PsColumnChoice, columns), "NAME,...",
             "Columns of the printed table, by their headings or JSON keys, in this order",
             .otherwise = "the usual ones", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("wide", 0, PS_FLAG (PsColumnChoice, wide), NULL, "Print all columns", .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

static char
simplify (char letter)
{
  return letter == '_' || letter == ' ' ? '-' : g_ascii_tolower (letter);
}

static gboolean
is_alike (const char *a, const char *b)
{
  for (; *a != '\0' && simplify (*a) == simplify (*b); a++)
    b++;
  return *a == *b;
}

gboolean
ps_column_is_called (const PsColumn *column, const char *name)
{
  return is_alike (column->key, name) || (column->title != NULL && is_alike (column->title, name));
}

/* FALSE: the column nests tables or lists, which JSON alone shows. */
static gboolean
column_is_flat (const PsColumn *column)
{
  return column->type != PS_COLUMN_TABLE && column->type != PS_COLUMN_NUMBERS && column->type != PS_COLUMN_LISTS;
}

/* The index of the flat column that is called so; n: there is none. */
static guint
find_called (const PsColumn *columns, guint n, const char *name)
{
  guint i = 0;

  while (i < n && !(column_is_flat (&columns[i]) && ps_column_is_called (&columns[i], name)))
    i++;
  return i;
}

gboolean
ps_column_choice_check_json (const PsColumnChoice *choice, gboolean json, GError **error)
{
  if (!json || (!choice->wide && choice->columns == NULL))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--%s: is for printed tables; the JSON holds all columns",
                    choice->wide ? "wide" : "columns");
}

static gboolean
check_names (const PsColumnChoice *choice, const PsTable *tables, guint n, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  for (guint t = 0; t < n; t++)
    for (guint i = 0; i < tables[t].n_columns; i++)
      if (tables[t].columns[i].title != NULL && column_is_flat (&tables[t].columns[i])
          && !g_ptr_array_find_with_equal_func (names, tables[t].columns[i].title, g_str_equal, NULL))
        g_ptr_array_add (names, (gpointer)tables[t].columns[i].title);
  for (guint i = 0; choice->columns != NULL && choice->columns[i] != NULL; i++)
    {
      guint t = 0;

      while (t < n && find_called (tables[t].columns, tables[t].n_columns, choice->columns[i]) == tables[t].n_columns)
        t++;
      g_autofree char *problem = g_strdup_printf ("--columns: '%s' is no column; there are", choice->columns[i]);
      if (t == n)
        return ps_refuse_name (error, problem, choice->columns[i], (const char *const *)names->pdata, names->len);
    }
  return TRUE;
}

gboolean
ps_column_choice_check (const PsColumnChoice *choice, const PsColumn *columns, guint n, gboolean json, GError **error)
{
  const PsTable table = { .columns = columns, .n_columns = n };

  return ps_column_choice_check_json (choice, json, error) && check_names (choice, &table, 1, error);
}

gboolean
ps_tables_choose (PsTable *const *tables, guint n, const PsColumnChoice *choice, GError **error)
{
  g_autofree PsTable *all = g_new (PsTable, n);

  for (guint i = 0; i < n; i++)
    all[i] = *tables[i];
  if (!check_names (choice, all, n, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    ps_table_choose (tables[i], choice, tables[i]->usual);
  return TRUE;
}

void
ps_table_choose (PsTable *table, const PsColumnChoice *choice, const char *const *usual)
{
  table->choice = choice;
  table->usual = usual;
}

/* The indices (guint) of the columns that are printed, in their order. Free with g_array_unref. */
static GArray *
table_shown (const PsTable *table)
{
  GArray *shown = g_array_new (FALSE, FALSE, sizeof (guint));
  const PsColumnChoice *choice = table->choice;
  gboolean all = table->usual == NULL || (choice != NULL && choice->wide);

  for (guint i = 0; choice != NULL && choice->columns != NULL && choice->columns[i] != NULL; i++)
    {
      guint c = find_called (table->columns, table->n_columns, choice->columns[i]);

      if (c < table->n_columns)
        g_array_append_val (shown, c);
    }
  for (guint c = 0; (choice == NULL || choice->columns == NULL) && c < table->n_columns; c++)
    if (table->columns[c].title != NULL && column_is_flat (&table->columns[c])
        && (all || g_strv_contains (table->usual, table->columns[c].key)))
      g_array_append_val (shown, c);
  return shown;
}

/* A table as comma-separated values. */

static void
append_csv_text (GString *csv, const char *cell)
{
  g_autofree char *line = ps_format_line (cell);
  const char *text = line;

  if (strpbrk (text, ",\"") == NULL)
    {
      g_string_append (csv, text);
      return;
    }
  g_string_append_c (csv, '"');
  for (; *text; text++)
    g_string_append_printf (csv, *text == '"' ? "\"\"" : "%c", *text);
  g_string_append_c (csv, '"');
}

static void
append_csv_cell (GString *csv, const PsCell *cell, PsColumnType type)
{
  if (!cell->set)
    return;
  if (type == PS_COLUMN_TEXT)
    append_csv_text (csv, cell->text);
  else if ((PS_COLUMN_BIT (type) & PS_COLUMNS_OF_REALS) != 0)
    ps_json_append_double (csv, cell->ratio);
  else if (type == PS_COLUMN_BOOLEAN)
    g_string_append (csv, cell->integer ? "true" : "false");
  else
    g_string_append_printf (csv, "%" G_GINT64_FORMAT, cell->integer);
}

/* Without a choice CSV has all that it can hold. */
static GArray *
csv_columns (const PsTable *table)
{
  GArray *columns;

  if (table->choice != NULL && table->choice->columns != NULL)
    return table_shown (table);
  columns = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint c = 0; c < table->n_columns; c++)
    if (column_is_flat (&table->columns[c]))
      g_array_append_val (columns, c);
  return columns;
}

char *
ps_table_to_csv (const PsTable *table)
{
  g_autoptr (GArray) columns = csv_columns (table);
  GString *csv = g_string_new (NULL);

  for (guint r = 0; r <= table->rows->len; r++)
    {
      for (guint i = 0; i < columns->len; i++)
        {
          guint c = g_array_index (columns, guint, i);

          g_string_append (csv, i > 0 ? "," : "");
          if (r == 0)
            append_csv_text (csv, table->columns[c].key);
          else
            append_csv_cell (csv, (const PsCell *)table->rows->pdata[r - 1] + c, table->columns[c].type);
        }
      g_string_append_c (csv, '\n');
    }
  return g_string_free (csv, FALSE);
}

#define NARROWEST_TEXT 16  /* columns of text get no narrower */
#define WIDEST_WINDOW 1000 /* columns that COLUMNS may say */
#define GAP 2              /* blanks between two columns, where there is room */

static char *
cell_to_text (const PsCell *cell, PsColumnType type)
{
  if (!cell->set)
    return g_strdup ("-");
  switch (type)
    {
    case PS_COLUMN_TEXT:
      return ps_format_line (cell->text);
    case PS_COLUMN_INTEGER:
      return g_strdup_printf ("%" G_GINT64_FORMAT, cell->integer);
    case PS_COLUMN_TIME:
      return ps_format_time (cell->integer);
    case PS_COLUMN_SIZE:
      return ps_format_size (cell->integer);
    case PS_COLUMN_RATIO:
      return g_strdup_printf ("%.4f", cell->ratio);
    case PS_COLUMN_NUMBER:
      return ps_format_number (cell->ratio);
    case PS_COLUMN_RATE:
      return ps_format_rate (cell->ratio);
    case PS_COLUMN_PERCENT:
      return g_strdup_printf ("%+.2f %%", cell->ratio * 100);
    case PS_COLUMN_BOOLEAN:
      return g_strdup (cell->integer ? "yes" : "no");
    case PS_COLUMN_TABLE:
    case PS_COLUMN_NUMBERS:
    case PS_COLUMN_LISTS:
    default:
      g_assert_not_reached ();
    }
}

static gboolean
is_left (PsColumnType type)
{
  return type == PS_COLUMN_TEXT || type == PS_COLUMN_BOOLEAN;
}

/* texts: [1 + rows][shown], the heading first. */
static char **
all_texts (const PsTable *table, const GArray *shown)
{
  guint n = shown->len;
  char **texts = g_new0 (char *, (gsize)(table->rows->len + 1) * n + 1);

  for (guint i = 0; i < n; i++)
    {
      guint c = g_array_index (shown, guint, i);
      const PsColumn *column = &table->columns[c];

      texts[i] = g_strdup (column->title != NULL ? column->title : column->key);
      for (guint r = 0; r < table->rows->len; r++)
        texts[(r + 1) * n + i] = cell_to_text ((PsCell *)table->rows->pdata[r] + c, column->type);
    }
  return texts;
}

static glong
column_width (char *const *texts, guint n_rows, guint n_columns, guint column)
{
  glong width = 0;

  for (guint r = 0; r < n_rows; r++)
    width = MAX (width, g_utf8_strlen (texts[r * n_columns + column], -1));
  return width;
}

static void
free_texts (char **texts, guint n)
{
  for (guint i = 0; i < n; i++)
    g_free (texts[i]);
  g_free (texts);
}

/* A table on its way to text. */
typedef struct
{
  const PsTable *table;
  GArray *shown; /* as of table_shown */
  guint n;       /* of them */
  guint n_rows;  /* the heading included */
  char **texts;  /* [n_rows * n] */
  glong *widths; /* [n] */
  guint gap;
  guint n_keys; /* columns that tell the rows apart; 0 in a table of one part */
  guint first;  /* the part after them: first to end - 1 */
  guint end;
} Sheet;

static void
sheet_clear (Sheet *sheet)
{
  free_texts (sheet->texts, sheet->n_rows * sheet->n);
  g_free (sheet->widths);
  g_array_unref (sheet->shown);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sheet, sheet_clear)

static void
sheet_init (Sheet *sheet, const PsTable *table)
{
  *sheet = (Sheet){ .table = table, .shown = table_shown (table), .n_rows = table->rows->len + 1, .gap = GAP };
  sheet->n = sheet->end = sheet->shown->len;
  sheet->texts = all_texts (table, sheet->shown);
  sheet->widths = g_new0 (glong, sheet->n);
  for (guint c = 0; c < sheet->n; c++)
    sheet->widths[c] = column_width (sheet->texts, sheet->n_rows, sheet->n, c);
}

static PsColumnType
type_of (const Sheet *sheet, guint column)
{
  return sheet->table->columns[g_array_index (sheet->shown, guint, column)].type;
}

static gboolean
is_there (const Sheet *sheet, guint column)
{
  return column < sheet->n_keys || (column >= sheet->first && column < sheet->end);
}

static glong
total_width (const Sheet *sheet)
{
  glong width = -(glong)sheet->gap;

  for (guint c = 0; c < sheet->n; c++)
    if (is_there (sheet, c))
      width += sheet->widths[c] + sheet->gap;
  return width;
}

/* The longest word of a column's rows from `row` on, below n_rows. */
static glong
longest_word (const Sheet *sheet, guint column, guint row, guint n_rows)
{
  glong longest = 0;

  for (; row < n_rows; row++)
    {
      g_auto (GStrv) words = g_strsplit (sheet->texts[row * sheet->n + column], " ", -1);

      for (guint i = 0; words[i] != NULL; i++)
        longest = MAX (longest, g_utf8_strlen (words[i], -1));
    }
  return longest;
}

/* Lets headings of several words take several lines; all else is as wide as at first. */
static void
stack_headings (Sheet *sheet)
{
  sheet->gap = GAP;
  for (guint c = 0; c < sheet->n; c++)
    sheet->widths[c]
        = MAX (column_width (sheet->texts + sheet->n, sheet->n_rows - 1, sheet->n, c), longest_word (sheet, c, 0, 1));
}

static void
remove_column (Sheet *sheet, guint column)
{
  guint kept = 0;

  for (guint i = 0; i < sheet->n_rows * sheet->n; i++)
    if (i % sheet->n == column)
      g_free (sheet->texts[i]);
    else
      sheet->texts[kept++] = sheet->texts[i];
  g_array_remove_index (sheet->shown, column);
  sheet->n = sheet->end = sheet->shown->len;
  memmove (&sheet->widths[column], &sheet->widths[column + 1], (sheet->n - column) * sizeof *sheet->widths);
}

/* Takes columns whose rows are all equal, from the right, out of the table and into a line above it. */
static void
fold_columns (Sheet *sheet, glong window, GString *text)
{
  g_autoptr (GString) folded = g_string_new (NULL);

  for (guint c = sheet->n; c-- > 1 && sheet->n_rows > 2 && total_width (sheet) > window;)
    {
      gboolean equal = TRUE;

      for (guint r = 2; r < sheet->n_rows && equal; r++)
        equal = g_str_equal (sheet->texts[r * sheet->n + c], sheet->texts[sheet->n + c]);
      if (!equal)
        continue;
      g_autofree char *entry
          = g_strdup_printf ("%s %s%s", sheet->texts[c], sheet->texts[sheet->n + c], folded->len > 0 ? ", " : "");
      g_string_prepend (folded, entry);
      remove_column (sheet, c);
    }
  if (folded->len > 0)
    ps_text_wrap (g_string_prepend (folded, "in every row: ")->str, window, text);
}

/* Makes the widest columns of text narrower; words stay whole. */
static void
shrink_texts (Sheet *sheet, glong window)
{
  g_autofree glong *least = g_new0 (glong, sheet->n);

  for (guint c = 1; c < sheet->n; c++)
    if (is_there (sheet, c) && type_of (sheet, c) == PS_COLUMN_TEXT)
      least[c] = MAX (longest_word (sheet, c, 0, sheet->n_rows), NARROWEST_TEXT);
  for (glong excess = total_width (sheet) - window; excess > 0; excess--)
    {
      guint widest = 0;

      for (guint c = 1; c < sheet->n; c++)
        if (least[c] > 0 && sheet->widths[c] > least[c] && (widest == 0 || sheet->widths[c] > sheet->widths[widest]))
          widest = c;
      if (widest == 0)
        return;
      sheet->widths[widest]--;
    }
}

static void
append_padded (GString *line, const char *text, glong width, gboolean left, guint gap)
{
  glong pad = width - g_utf8_strlen (text, -1);

  g_string_append_printf (line, "%*s%s%*s%*s", left ? 0 : (int)pad, "", text, left ? (int)pad : 0, "", (int)gap, "");
}

/* A row takes as many lines as its longest cell; headings end on one line. */
static void
append_row (GString *text, const Sheet *sheet, guint row)
{
  g_autofree const char **rest = g_new0 (const char *, sheet->n);
  gboolean more = TRUE;

  for (guint c = 0; c < sheet->n; c++)
    rest[c] = is_there (sheet, c) ? sheet->texts[row * sheet->n + c] : NULL;
  while (more)
    {
      g_autoptr (GString) line = g_string_new (NULL);

      more = FALSE;
      for (guint c = 0; c < sheet->n; c++)
        if (rest[c] != NULL)
          {
            g_autofree char *cell = ps_text_next_line (&rest[c], sheet->widths[c]);

            append_padded (line, cell, sheet->widths[c], is_left (type_of (sheet, c)), sheet->gap);
            more |= *rest[c] != '\0';
          }
      g_string_append_printf (text, "%s\n", g_strchomp (line->str));
    }
}

guint
ps_window_columns (void)
{
  const char *text = g_getenv ("COLUMNS");
  struct winsize window = { 0 };
  gint64 columns;

  if (text != NULL && ps_parse_integer ("COLUMNS", text, 1, WIDEST_WINDOW, &columns, NULL))
    return (guint)columns;
  return ioctl (STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

char *
ps_fit_sentence (const char *text, guint otherwise)
{
  guint window = ps_window_columns ();
  g_autofree char *lines = g_strchomp (g_strdup (text));
  GString *page = g_string_new (NULL);

  if (*lines != '\0')
    ps_text_wrap (lines, window > 0 ? window : otherwise > 0 ? otherwise : G_MAXINT, page);
  return g_string_free (page, FALSE);
}

static void
append_rows (GString *text, const Sheet *sheet)
{
  for (guint r = 0; sheet->n > 0 && r < sheet->n_rows; r++)
    append_row (text, sheet, r);
}

/* Makes the columns that are there as narrow as they must be. */
static void
narrow (Sheet *sheet, glong window)
{
  shrink_texts (sheet, window);
  if (total_width (sheet) > window)
    sheet->gap = 1;
}

/* Whether no two rows are equal in the first n columns. */
static gboolean
tell_rows_apart (const Sheet *sheet, guint n)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gboolean apart = TRUE;

  for (guint r = 1; r < sheet->n_rows && apart; r++)
    {
      GString *key = g_string_new (NULL);

      for (guint c = 0; c < n; c++)
        g_string_append_printf (key, "%s\n", sheet->texts[r * sheet->n + c]);
      apart = g_hash_table_add (seen, g_string_free (key, FALSE));
    }
  return apart;
}

/* The first columns that tell the rows apart: at least one, not the last one, and no further than half of the window.
 */
static guint
count_keys (Sheet *sheet, glong window)
{
  for (sheet->end = 1; sheet->end + 1 < sheet->n && !tell_rows_apart (sheet, sheet->end);)
    sheet->end++;
  while (sheet->end > 1 && total_width (sheet) > window / 2)
    sheet->end--;
  return MIN (sheet->end, sheet->n - 1);
}

/* The part from `first` on is the rest of the table if that can be made narrow enough, else all columns with room. */
static void
choose_end (Sheet *sheet, glong window)
{
  for (sheet->end = sheet->n;; sheet->end--)
    {
      gboolean last = sheet->end == sheet->first + 1;

      stack_headings (sheet);
      if (last || sheet->end == sheet->n)
        narrow (sheet, window);
      if (last || total_width (sheet) <= window)
        return;
    }
}

/* Parts one below the other; each begins with the columns that tell the rows apart. */
static void
append_parts (GString *text, Sheet *sheet, glong window)
{
  stack_headings (sheet);
  sheet->n_keys = count_keys (sheet, window);
  for (sheet->first = sheet->n_keys; sheet->first < sheet->n; sheet->first = sheet->end)
    {
      choose_end (sheet, window);
      g_string_append (text, sheet->first > sheet->n_keys ? "\n" : "");
      append_rows (text, sheet);
    }
}

char *
ps_table_to_text (const PsTable *table)
{
  glong window = ps_window_columns ();
  GString *text = g_string_new (NULL);
  g_auto (Sheet) sheet = { 0 };

  sheet_init (&sheet, table);
  if (window > 0 && total_width (&sheet) > window)
    {
      stack_headings (&sheet);
      fold_columns (&sheet, window, text);
      narrow (&sheet, window);
    }
  if (window > 0 && total_width (&sheet) > window)
    append_parts (text, &sheet, window);
  else
    append_rows (text, &sheet);
  return g_string_free (text, FALSE);
}

/* Markdown */

/* A bar would end the cell. */
static void
append_markdown_cell (GString *text, const char *cell)
{
  g_auto (GStrv) parts = g_strsplit (cell, "|", -1);
  g_autofree char *escaped = g_strjoinv ("\\|", parts);

  g_string_append_printf (text, " %s |", escaped);
}

char *
ps_table_to_markdown (const PsTable *table)
{
  g_auto (Sheet) sheet = { 0 };
  GString *text = g_string_new (NULL);

  sheet_init (&sheet, table);
  for (guint r = 0; r < sheet.n_rows; r++)
    {
      g_string_append_c (text, '|');
      for (guint c = 0; c < sheet.n; c++)
        append_markdown_cell (text, sheet.texts[r * sheet.n + c]);
      g_string_append (text, r == 0 ? "\n|" : "\n");
      for (guint c = 0; r == 0 && c < sheet.n; c++)
        g_string_append (text, is_left (type_of (&sheet, c)) ? " --- |" : " ---: |");
      g_string_append (text, r == 0 ? "\n" : "");
    }
  return g_string_free (text, FALSE);
}

/* Printing */

static gboolean
print_page (const char *text, gboolean coloured, GError **error)
{
  g_autofree char *page = ps_format_page (text, coloured);

  if (fputs (page, stdout) != EOF && fflush (stdout) == 0)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_IO, "standard output: %s", g_strerror (errno));
  clearerr (stdout);
  return FALSE;
}

gboolean
ps_print (const char *text, GError **error)
{
  return print_page (text, FALSE, error);
}

gboolean
ps_print_coloured (const char *text, GError **error)
{
  return print_page (text, TRUE, error);
}
