/* table.c - tables: columns and cells, and the table as aligned text, Markdown, CSV and JSON. */
#include "json.h"
#include "text.h"

#include <pipesim/option.h>

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef struct {
  gboolean set;
  union {
    gint64 integer; /* INTEGER, TIME, SIZE, BOOLEAN */
    double ratio;   /* RATIO, NUMBER, RATE, PERCENT */
    char *text;     /* TEXT, JSON */
    PsTable *table;
  };
} Cell;

struct _PsTable {
  PsCellColumn *columns;
  guint n_columns;
  GPtrArray *rows;              /* of Cell[n_columns] */
  const PsColumnChoice *choice; /* NULL: none was made */
  const char *const *wide;      /* keys of columns that --wide alone shows; NULL: none */
};

#define BIT(type) (1U << (type))
#define INTEGERS (BIT (PS_COLUMN_INTEGER) | BIT (PS_COLUMN_TIME) | BIT (PS_COLUMN_SIZE))
#define REALS (BIT (PS_COLUMN_RATIO) | BIT (PS_COLUMN_NUMBER) | BIT (PS_COLUMN_RATE) | BIT (PS_COLUMN_PERCENT))
#define NESTED (BIT (PS_COLUMN_TABLE) | BIT (PS_COLUMN_JSON)) /* in JSON only */

static gboolean is_one_of (PsColumnType type, guint types)
{
  return (BIT (type) & types) != 0;
}

/* The column itself. A heading and a member of its own go before those that it has elsewhere; the heading "" is none.
 */
static PsCellColumn resolve (PsCellColumn column)
{
  const char *title = column.column.title;
  const PsCellColumn *of = column.of;

  if (of == NULL)
    return column;
  while (of->column.key != NULL && !g_str_equal (of->column.key, column.column.key))
    of++;
  g_assert (of->column.key != NULL);
  if (column.size == 0)
    column = *of;
  column.column = of->column;
  if (title != NULL)
    column.column.title = *title != '\0' ? title : NULL;
  return column;
}

/* Making and filling */

static PsTable *table_new (guint n_columns)
{
  PsTable *table = g_new0 (PsTable, 1);

  table->columns = g_new0 (PsCellColumn, n_columns);
  table->n_columns = n_columns;
  table->rows = g_ptr_array_new ();
  return table;
}

PsTable *ps_table_new (const PsColumn *columns, guint n_columns)
{
  PsTable *table = table_new (n_columns);

  for (guint c = 0; c < n_columns; c++)
    table->columns[c].column = columns[c];
  return table;
}

PsTable *ps_table_of (const PsCellColumn *columns, guint n_columns, gconstpointer rows, gsize size, guint n_rows)
{
  PsTable *table = table_new (n_columns);

  for (guint c = 0; c < n_columns; c++)
    table->columns[c] = resolve (columns[c]);
  for (guint r = 0; r < n_rows; r++)
    ps_table_add (table, (const char *)rows + r * size);
  return table;
}

static void cell_clear (Cell *cell, PsColumnType type)
{
  if (cell->set && (type == PS_COLUMN_TEXT || type == PS_COLUMN_JSON))
    g_free (cell->text);
  else if (cell->set && type == PS_COLUMN_TABLE)
    ps_table_free (cell->table);
  cell->set = FALSE;
}

void ps_table_truncate (PsTable *table, guint n)
{
  while (table->rows->len > n) {
    g_autofree Cell *row = g_ptr_array_steal_index (table->rows, table->rows->len - 1);

    for (guint c = 0; c < table->n_columns; c++)
      cell_clear (&row[c], table->columns[c].column.type);
  }
}

void ps_table_free (PsTable *table)
{
  if (table == NULL)
    return;
  ps_table_truncate (table, 0);
  g_ptr_array_unref (table->rows);
  g_free (table->columns);
  g_free (table);
}

void ps_table_add_row (PsTable *table)
{
  g_ptr_array_add (table->rows, g_new0 (Cell, table->n_columns));
}

static void take_cell (Cell *cell, const PsCellColumn *column, gconstpointer row)
{
  PsColumnType type = column->column.type;
  const char *at = (const char *)row + column->offset;

  if (column->get != NULL)
    cell->text = column->get (row); /* or its table */
  else if (type == PS_COLUMN_TEXT)
    cell->text = g_strdup (*(char *const *)(gconstpointer)at);
  else if (is_one_of (type, REALS))
    cell->ratio = *(const double *)(gconstpointer)at;
  else
    cell->integer = column->size == sizeof (gint64)    ? *(const gint64 *)(gconstpointer)at
                    : column->size == sizeof (guint16) ? *(const guint16 *)(gconstpointer)at
                    : column->size == sizeof (guint8)  ? *(const guint8 *)at
                                                       : *(const guint *)(gconstpointer)at;
  if (type == PS_COLUMN_TEXT || type == PS_COLUMN_TABLE)
    cell->set = cell->text != NULL;
  else if (is_one_of (type, REALS))
    cell->set = !isnan (cell->ratio) && (!column->known || cell->ratio > 0);
  else
    cell->set = !column->known || cell->integer > 0;
}

void ps_table_add (PsTable *table, gconstpointer row)
{
  ps_table_add_row (table);
  Cell *cells = table->rows->pdata[table->rows->len - 1];
  for (guint c = 0; c < table->n_columns; c++)
    if (table->columns[c].get != NULL || table->columns[c].size > 0)
      take_cell (&cells[c], &table->columns[c], row);
}

static guint find_column (const PsTable *table, const char *key)
{
  for (guint c = 0; c < table->n_columns; c++)
    if (g_str_equal (table->columns[c].column.key, key))
      return c;
  g_error ("no column '%s'", key);
}

void ps_table_set_title (PsTable *table, const char *key, const char *title)
{
  table->columns[find_column (table, key)].column.title = title;
}

/* The cleared cell of the last row under that key, marked as set. */
static Cell *touch (PsTable *table, const char *key, guint types)
{
  guint c = find_column (table, key);

  g_assert (table->rows->len > 0);
  g_assert (is_one_of (table->columns[c].column.type, types));
  Cell *cell = (Cell *)table->rows->pdata[table->rows->len - 1] + c;
  cell_clear (cell, table->columns[c].column.type);
  cell->set = TRUE;
  return cell;
}

void ps_table_set_text (PsTable *table, const char *key, const char *value)
{
  touch (table, key, BIT (PS_COLUMN_TEXT))->text = g_strdup (value != NULL ? value : "");
}

void ps_table_set_integer (PsTable *table, const char *key, gint64 value)
{
  touch (table, key, INTEGERS)->integer = value;
}

void ps_table_set_ratio (PsTable *table, const char *key, double value)
{
  Cell *cell = touch (table, key, REALS);

  cell->ratio = value;
  cell->set = !isnan (value);
}

void ps_table_set_boolean (PsTable *table, const char *key, gboolean value)
{
  touch (table, key, BIT (PS_COLUMN_BOOLEAN))->integer = value;
}

void ps_table_set_table (PsTable *table, const char *key, PsTable *value)
{
  Cell *cell = touch (table, key, BIT (PS_COLUMN_TABLE));

  cell->table = value;
  cell->set = value != NULL;
}

void ps_table_set_json (PsTable *table, const char *key, char *value)
{
  touch (table, key, BIT (PS_COLUMN_JSON))->text = value;
}

void ps_table_set_numbers (PsTable *table, const char *key, const double *values, guint n)
{
  GString *json = g_string_new ("[");

  for (guint i = 0; i < n; i++)
    ps_json_append_double (i ? g_string_append (json, ", ") : json, values[i]);
  ps_table_set_json (table, key, g_string_free (g_string_append_c (json, ']'), FALSE));
}

guint ps_table_n_rows (const PsTable *table)
{
  return table->rows->len;
}

/* Sorting */

typedef struct {
  guint column;
  PsColumnType type;
  gboolean descending;
} SortKey;

static int compare_rows (gconstpointer a, gconstpointer b, gpointer data)
{
  const SortKey *key = data;
  const Cell *x = *(Cell *const *)a + key->column, *y = *(Cell *const *)b + key->column;

  if (!x->set || !y->set)
    return y->set - x->set;
  int order = key->type == PS_COLUMN_TEXT    ? strcmp (x->text, y->text)
              : is_one_of (key->type, REALS) ? PS_COMPARE (x->ratio, y->ratio)
                                             : PS_COMPARE (x->integer, y->integer);
  return key->descending ? -order : order;
}

void ps_table_sort (PsTable *table, const char *key, gboolean descending)
{
  guint c = find_column (table, key);
  SortKey sort = { c, table->columns[c].column.type, descending };

  g_assert (!is_one_of (sort.type, NESTED));
  g_ptr_array_sort_with_data (table->rows, compare_rows, &sort);
}

/* The columns that a printed table shows, and what people call them. */

const PsOption ps_column_rows[] = {
  PS_OPTION ("columns", 0, PS_LIST (PsColumnChoice, columns), "NAME,...",
             "Columns of the printed table, by their headings or JSON keys, in this order",
             .otherwise = "the usual ones", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("wide", 0, PS_FLAG (PsColumnChoice, wide), NULL, "Print all columns", .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

static char simplify (char letter)
{
  return letter == '_' || letter == ' ' ? '-' : g_ascii_tolower (letter);
}

static gboolean is_alike (const char *a, const char *b)
{
  for (; *a != '\0' && simplify (*a) == simplify (*b); a++)
    b++;
  return *a == *b;
}

gboolean ps_column_is_called (const PsColumn *column, const char *name)
{
  return is_alike (column->key, name) || (column->title != NULL && is_alike (column->title, name));
}

/* The flat column that is called so; n_columns: there is none. */
static guint find_called (const PsTable *table, const char *name)
{
  guint c = 0;

  while (
      c < table->n_columns
      && (is_one_of (table->columns[c].column.type, NESTED) || !ps_column_is_called (&table->columns[c].column, name)))
    c++;
  return c;
}

static gboolean has_title (const PsTable *table, guint c)
{
  return table->columns[c].column.title != NULL && !is_one_of (table->columns[c].column.type, NESTED);
}

gboolean ps_column_choice_check (const PsColumnChoice *choice, GError **error)
{
  if (!choice->json || (!choice->wide && choice->columns == NULL))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--%s: is for printed tables; the JSON holds all columns",
                    choice->wide ? "wide" : "columns");
}

gboolean ps_tables_choose (PsTable *const *tables, guint n, const PsColumnChoice *choice, GError **error)
{
  g_autoptr (GPtrArray) titles = g_ptr_array_new ();

  for (guint t = 0; t < n; t++)
    for (guint c = 0; c < tables[t]->n_columns; c++)
      if (has_title (tables[t], c)
          && !g_ptr_array_find_with_equal_func (titles, tables[t]->columns[c].column.title, g_str_equal, NULL))
        g_ptr_array_add (titles, (gpointer)tables[t]->columns[c].column.title);
  for (guint i = 0; choice->columns != NULL && choice->columns[i] != NULL; i++) {
    guint t = 0;

    while (t < n && find_called (tables[t], choice->columns[i]) == tables[t]->n_columns)
      t++;
    g_autofree char *problem = g_strdup_printf ("--columns: '%s' is no column; there are", choice->columns[i]);
    if (t == n)
      return ps_refuse_name (error, problem, choice->columns[i], (const char *const *)titles->pdata, titles->len);
  }
  for (guint t = 0; t < n; t++)
    tables[t]->choice = choice;
  return TRUE;
}

gboolean ps_table_choose (PsTable *table, const PsColumnChoice *choice, const char *const *wide, GError **error)
{
  table->wide = wide;
  return choice == NULL || (ps_column_choice_check (choice, error) && ps_tables_choose (&table, 1, choice, error));
}

/* The indices (guint) of the columns that are printed, in their order. Free with g_array_unref. */
static GArray *table_shown (const PsTable *table)
{
  GArray *shown = g_array_new (FALSE, FALSE, sizeof (guint));
  const PsColumnChoice *choice = table->choice;
  gboolean all = table->wide == NULL || (choice != NULL && choice->wide);

  for (guint i = 0; choice != NULL && choice->columns != NULL && choice->columns[i] != NULL; i++) {
    guint c = find_called (table, choice->columns[i]);

    if (c < table->n_columns)
      g_array_append_val (shown, c);
  }
  for (guint c = 0; (choice == NULL || choice->columns == NULL) && c < table->n_columns; c++)
    if (has_title (table, c) && (all || !g_strv_contains (table->wide, table->columns[c].column.key)))
      g_array_append_val (shown, c);
  return shown;
}

/* Aligned text */

#define NARROWEST_TEXT 16  /* columns of text get no narrower */
#define WIDEST_WINDOW 1000 /* columns that COLUMNS may say */
#define GAP 2              /* blanks between two columns, where there is room */

static char *cell_to_text (const Cell *cell, PsColumnType type)
{
  if (!cell->set)
    return g_strdup ("-");
  switch (type) {
  case PS_COLUMN_TEXT:
    return ps_format_line (cell->text);
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
  default:
    g_assert (type == PS_COLUMN_INTEGER);
    return g_strdup_printf ("%" G_GINT64_FORMAT, cell->integer);
  }
}

static gboolean is_left (PsColumnType type)
{
  return type == PS_COLUMN_TEXT || type == PS_COLUMN_BOOLEAN;
}

/* A column of a table on its way to text. */
typedef struct {
  PsColumnType type;
  char **texts; /* of the rows, the heading first; ends with NULL */
  glong width;
} SheetColumn;

typedef struct {
  GArray *columns; /* SheetColumn */
  guint n_rows;    /* the heading included */
  guint gap;
  guint n_keys; /* columns that tell the rows apart; 0 in a table of one part */
  guint first;  /* the part after them: first to end - 1 */
  guint end;
} Sheet;

static SheetColumn *column_at (const Sheet *sheet, guint c)
{
  return &g_array_index (sheet->columns, SheetColumn, c);
}

static void column_clear (gpointer column)
{
  g_strfreev (((SheetColumn *)column)->texts);
}

static void sheet_clear (Sheet *sheet)
{
  g_array_unref (sheet->columns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sheet, sheet_clear)

/* The longest part of the texts from row `first` on, below `end`; separator: " " for words, "\n" for whole texts. */
static glong longest_part (const SheetColumn *column, guint first, guint end, const char *separator)
{
  glong longest = 0;

  for (guint r = first; r < end; r++) {
    g_auto (GStrv) parts = g_strsplit (column->texts[r], separator, -1);

    for (guint i = 0; parts[i] != NULL; i++)
      longest = MAX (longest, g_utf8_strlen (parts[i], -1));
  }
  return longest;
}

static void sheet_init (Sheet *sheet, const PsTable *table)
{
  g_autoptr (GArray) shown = table_shown (table);
  guint n_rows = table->rows->len + 1;

  *sheet = (Sheet){ g_array_new (FALSE, FALSE, sizeof (SheetColumn)), .n_rows = n_rows, .gap = GAP, .end = shown->len };
  g_array_set_clear_func (sheet->columns, column_clear);
  for (guint i = 0; i < shown->len; i++) {
    guint c = g_array_index (shown, guint, i);
    const PsColumn *own = &table->columns[c].column;
    SheetColumn column = { .type = own->type, .texts = g_new0 (char *, n_rows + 1) };

    column.texts[0] = g_strdup (own->title != NULL ? own->title : own->key);
    for (guint r = 1; r < n_rows; r++)
      column.texts[r] = cell_to_text ((Cell *)table->rows->pdata[r - 1] + c, own->type);
    column.width = longest_part (&column, 0, n_rows, "\n");
    g_array_append_val (sheet->columns, column);
  }
}

static gboolean is_there (const Sheet *sheet, guint c)
{
  return c < sheet->n_keys || (c >= sheet->first && c < sheet->end);
}

static glong total_width (const Sheet *sheet)
{
  glong width = -(glong)sheet->gap;

  for (guint c = 0; c < sheet->columns->len; c++)
    if (is_there (sheet, c))
      width += column_at (sheet, c)->width + sheet->gap;
  return width;
}

/* Lets headings of several words take several lines; all else is as wide as at first. */
static void stack_headings (Sheet *sheet)
{
  sheet->gap = GAP;
  for (guint c = 0; c < sheet->columns->len; c++) {
    SheetColumn *column = column_at (sheet, c);

    column->width = MAX (longest_part (column, 1, sheet->n_rows, "\n"), longest_part (column, 0, 1, " "));
  }
}

/* Takes columns whose rows are all equal, from the right, out of the table and into a line above it. */
static void fold_columns (Sheet *sheet, glong window, GString *text)
{
  g_autoptr (GString) folded = g_string_new (NULL);

  for (guint c = sheet->columns->len; c-- > 1 && sheet->n_rows > 2 && total_width (sheet) > window;) {
    char **texts = column_at (sheet, c)->texts;
    guint r = 2;

    while (r < sheet->n_rows && g_str_equal (texts[r], texts[1]))
      r++;
    if (r < sheet->n_rows)
      continue;
    if (!g_str_equal (texts[1], "-")) { /* it says nothing of any row */
      g_autofree char *entry = g_strdup_printf ("%s %s%s", texts[0], texts[1], folded->len > 0 ? ", " : "");

      g_string_prepend (folded, entry);
    }
    g_array_remove_index (sheet->columns, c);
    sheet->end = sheet->columns->len;
  }
  if (folded->len > 0)
    ps_text_wrap (g_string_prepend (folded, "in every row: ")->str, window, text);
}

/* Makes the columns that are there as narrow as they must be: first the widest columns of text, whose words stay whole.
 */
static void narrow (Sheet *sheet, glong window)
{
  g_autofree glong *least = g_new0 (glong, sheet->columns->len + 1);
  guint widest = 1;

  for (guint c = 1; c < sheet->columns->len; c++)
    if (is_there (sheet, c) && column_at (sheet, c)->type == PS_COLUMN_TEXT)
      least[c] = MAX (longest_part (column_at (sheet, c), 0, sheet->n_rows, " "), NARROWEST_TEXT);
  for (glong excess = total_width (sheet) - window; excess > 0 && widest > 0; excess--) {
    widest = 0;
    for (guint c = 1; c < sheet->columns->len; c++)
      if (least[c] > 0 && column_at (sheet, c)->width > least[c]
          && (widest == 0 || column_at (sheet, c)->width > column_at (sheet, widest)->width))
        widest = c;
    if (widest > 0)
      column_at (sheet, widest)->width--;
  }
  if (total_width (sheet) > window)
    sheet->gap = 1;
}

/* A row takes as many lines as its longest cell; headings end on one line. */
static void append_row (GString *text, const Sheet *sheet, guint row)
{
  guint n = sheet->columns->len;
  g_autofree const char **rest = g_new0 (const char *, n);
  gboolean more = TRUE;

  for (guint c = 0; c < n; c++)
    rest[c] = is_there (sheet, c) ? column_at (sheet, c)->texts[row] : NULL;
  while (more) {
    g_autoptr (GString) line = g_string_new (NULL);

    more = FALSE;
    for (guint c = 0; c < n; c++)
      if (rest[c] != NULL) {
        const SheetColumn *column = column_at (sheet, c);
        g_autofree char *cell = ps_text_next_line (&rest[c], column->width);
        int pad = (int)(column->width - g_utf8_strlen (cell, -1)), left = is_left (column->type) ? pad : 0;

        g_string_append_printf (line, "%*s%s%*s", pad - left, "", cell, left + (int)sheet->gap, "");
        more |= *rest[c] != '\0';
      }
    g_string_append_printf (text, "%s\n", g_strchomp (line->str));
  }
}

static void append_rows (GString *text, const Sheet *sheet)
{
  for (guint r = 0; sheet->columns->len > 0 && r < sheet->n_rows; r++)
    append_row (text, sheet, r);
}

guint ps_window_columns (void)
{
  const char *text = g_getenv ("COLUMNS");
  struct winsize window = { 0 };
  gint64 columns;

  if (text != NULL && ps_parse_integer ("COLUMNS", text, 1, WIDEST_WINDOW, &columns, NULL))
    return (guint)columns;
  return ioctl (STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

char *ps_fit_sentence (const char *text, guint otherwise)
{
  guint window = ps_window_columns ();
  g_autofree char *lines = g_strchomp (g_strdup (text));
  GString *page = g_string_new (NULL);

  if (*lines != '\0')
    ps_text_wrap (lines, window > 0 ? window : otherwise > 0 ? otherwise : G_MAXINT, page);
  return g_string_free (page, FALSE);
}

/* Whether no two rows are equal in the first n columns. */
static gboolean tell_rows_apart (const Sheet *sheet, guint n)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gboolean apart = TRUE;

  for (guint r = 1; r < sheet->n_rows && apart; r++) {
    GString *key = g_string_new (NULL);

    for (guint c = 0; c < n; c++)
      g_string_append_printf (key, "%s\n", column_at (sheet, c)->texts[r]);
    apart = g_hash_table_add (seen, g_string_free (key, FALSE));
  }
  return apart;
}

/* Parts one below the other. Each begins with the columns that tell the rows apart: at least one, not the last one, and
 * no further than half of the window. A part is the rest of the table if that can be made narrow enough, else all
 * columns with room. */
static void append_parts (GString *text, Sheet *sheet, glong window)
{
  guint n = sheet->columns->len;

  stack_headings (sheet);
  for (sheet->end = 1; sheet->end + 1 < n && !tell_rows_apart (sheet, sheet->end);)
    sheet->end++;
  while (sheet->end > 1 && total_width (sheet) > window / 2)
    sheet->end--;
  sheet->n_keys = MIN (sheet->end, n - 1);
  for (sheet->first = sheet->n_keys; sheet->first < n; sheet->first = sheet->end) {
    gboolean fits = FALSE;

    for (sheet->end = n + 1; !fits;) {
      gboolean last = --sheet->end == sheet->first + 1;

      stack_headings (sheet);
      if (last || sheet->end == n)
        narrow (sheet, window);
      fits = last || total_width (sheet) <= window;
    }
    g_string_append (text, sheet->first > sheet->n_keys ? "\n" : "");
    append_rows (text, sheet);
  }
}

char *ps_table_to_text (const PsTable *table)
{
  glong window = ps_window_columns ();
  GString *text = g_string_new (NULL);
  g_auto (Sheet) sheet = { 0 };

  sheet_init (&sheet, table);
  if (window > 0 && total_width (&sheet) > window) {
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

char *ps_table_to_markdown (const PsTable *table)
{
  g_auto (Sheet) sheet = { 0 };
  GString *text = g_string_new (NULL);

  sheet_init (&sheet, table);
  for (guint r = 0; r < sheet.n_rows; r++) {
    g_string_append_c (text, '|');
    for (guint c = 0; c < sheet.columns->len; c++) {
      g_auto (GStrv) parts = g_strsplit (column_at (&sheet, c)->texts[r], "|", -1);
      g_autofree char *escaped = g_strjoinv ("\\|", parts); /* a bar would end the cell */

      g_string_append_printf (text, " %s |", escaped);
    }
    g_string_append (text, r == 0 ? "\n|" : "\n");
    for (guint c = 0; r == 0 && c < sheet.columns->len; c++)
      g_string_append (text, is_left (column_at (&sheet, c)->type) ? " --- |" : " ---: |");
    g_string_append (text, r == 0 ? "\n" : "");
  }
  return g_string_free (text, FALSE);
}

/* JSON */

static void append_object (GString *json, const PsTable *table, guint row, int indent);

static void append_objects (GString *json, const PsTable *table, int indent)
{
  for (guint r = 0; r < table->rows->len; r++) {
    g_string_append_printf (json, "%s\n%*s", r ? "," : "", indent + 2, "");
    append_object (json, table, r, indent + 2);
  }
  if (table->rows->len > 0)
    g_string_append_printf (json, "\n%*s", indent, "");
}

static void append_cell (GString *json, const Cell *cell, PsColumnType type, int indent)
{
  if (type == PS_COLUMN_TEXT)
    ps_json_append_string (json, cell->text);
  else if (is_one_of (type, REALS))
    ps_json_append_double (json, cell->ratio);
  else if (type == PS_COLUMN_BOOLEAN)
    g_string_append (json, cell->integer ? "true" : "false");
  else if (type == PS_COLUMN_JSON)
    g_string_append (json, cell->text);
  else if (is_one_of (type, INTEGERS))
    g_string_append_printf (json, "%" G_GINT64_FORMAT, cell->integer);
  else {
    g_string_append_c (json, '[');
    append_objects (json, cell->table, indent);
    g_string_append_c (json, ']');
  }
}

static void append_object (GString *json, const PsTable *table, guint row, int indent)
{
  const Cell *cells = table->rows->pdata[row];

  g_string_append_c (json, '{');
  for (guint c = 0; c < table->n_columns; c++) {
    g_string_append_printf (json, "%s\n%*s\"%s\": ", c ? "," : "", indent + 2, "", table->columns[c].column.key);
    if (cells[c].set)
      append_cell (json, &cells[c], table->columns[c].column.type, indent + 2);
    else
      g_string_append (json, "null");
  }
  g_string_append_printf (json, "\n%*s}", indent, "");
}

char *ps_table_to_json_with (const PsTable *table, const char *format, const char *const *extra,
                             const char *const *values)
{
  GString *json = g_string_new ("{\n  \"format\": ");

  ps_json_append_string (json, format);
  for (; extra != NULL && extra[0] != NULL; extra += 2) {
    g_string_append_printf (json, ",\n  \"%s\": ", extra[0]);
    ps_json_append_string (json, extra[1]);
  }
  for (; values != NULL && values[0] != NULL; values += 2)
    g_string_append_printf (json, ",\n  \"%s\": %s", values[0], values[1]);
  g_string_append (json, ",\n  \"results\": [");
  append_objects (json, table, 2);
  g_string_append (json, "]\n}\n");
  return g_string_free (json, FALSE);
}

char *ps_table_to_json (const PsTable *table, const char *format, const char *const *extra)
{
  return ps_table_to_json_with (table, format, extra, NULL);
}

/* Comma-separated values */

static void append_csv_text (GString *csv, const char *cell)
{
  g_autofree char *line = ps_format_line (cell);
  const char *text = line;

  if (strpbrk (text, ",\"") == NULL) {
    g_string_append (csv, text);
    return;
  }
  g_string_append_c (csv, '"');
  for (; *text; text++)
    g_string_append_printf (csv, *text == '"' ? "\"\"" : "%c", *text);
  g_string_append_c (csv, '"');
}

char *ps_table_to_csv (const PsTable *table)
{
  gboolean chosen = table->choice != NULL && table->choice->columns != NULL;
  g_autoptr (GArray) columns = chosen ? table_shown (table) : g_array_new (FALSE, FALSE, sizeof (guint));
  GString *csv = g_string_new (NULL);

  for (guint c = 0; !chosen && c < table->n_columns; c++)
    if (!is_one_of (table->columns[c].column.type, NESTED))
      g_array_append_val (columns, c);
  for (guint r = 0; r <= table->rows->len; r++) {
    for (guint i = 0; i < columns->len; i++) {
      guint c = g_array_index (columns, guint, i);

      g_string_append (csv, i > 0 ? "," : "");
      const Cell *cell = r > 0 ? (const Cell *)table->rows->pdata[r - 1] + c : NULL;
      PsColumnType type = table->columns[c].column.type;
      if (cell == NULL)
        append_csv_text (csv, table->columns[c].column.key);
      else if (cell->set && type == PS_COLUMN_TEXT)
        append_csv_text (csv, cell->text);
      else if (cell->set)
        append_cell (csv, cell, type, 0);
    }
    g_string_append_c (csv, '\n');
  }
  return g_string_free (csv, FALSE);
}

/* Printing */

static gboolean print_page (const char *text, gboolean coloured, GError **error)
{
  g_autofree char *page = ps_format_page (text, coloured);

  return ps_write_stream (stdout, page, strlen (page))
         || ps_refuse (error, PS_ERROR_IO, "standard output: %s", g_strerror (errno));
}

gboolean ps_print (const char *text, GError **error)
{
  return print_page (text, FALSE, error);
}

gboolean ps_print_coloured (const char *text, GError **error)
{
  return print_page (text, TRUE, error);
}

gboolean ps_table_print (const PsTable *table, const char *format, const char *const *extra, GError **error)
{
  g_autofree char *text = table->choice != NULL && table->choice->json ? ps_table_to_json (table, format, extra)
                                                                       : ps_table_to_text (table);

  return ps_print (text, error);
}
