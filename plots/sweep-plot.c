/* sweep-plot.c - pictures of a sweep: what they show, and lines, fronts and maps of it. */
#include "sweep-plot.h"

#include <math.h>
#include <string.h>

#define WIDTH 1000
#define HEIGHT 560
#define MAX_SERIES 40
#define MAX_FRONTS 6

void ps_sweep_rows_clear (PsSweepRows *rows)
{
  ps_scope_free (rows->scope);
  g_strfreev (rows->columns);
  ps_result_values_free (rows->values);
}

gboolean ps_sweep_rows_read (PsSweepRows *rows, PsResults *results, const PsQuestion *question, const char *const *own,
                             GError **error)
{
  g_autoptr (GStrvBuilder) columns = g_strv_builder_new ();

  rows->scope = ps_question_scope (results, question, error);
  if (rows->scope == NULL)
    return FALSE;
  rows->n_own = g_strv_length ((char **)own);
  g_strv_builder_addv (columns, (const char **)own);
  for (guint i = 0; rows->scope->per[i] != NULL; i++)
    if (!g_strv_contains (own, rows->scope->per[i])
        && g_strv_contains ((const char *const *)rows->scope->varying, rows->scope->per[i]))
      g_strv_builder_add (columns, rows->scope->per[i]);
  rows->columns = g_strv_builder_end (columns);
  rows->values = ps_results_values (results, question, (const char *const *)rows->columns, error);
  return rows->values != NULL;
}

static const PsColumn *find_column (const char *field)
{
  guint n;

  return &ps_result_columns (&n)[ps_result_column_find (field)].column;
}

const char *ps_sweep_rows_title (const PsSweepRows *rows, guint i)
{
  return find_column (rows->columns[i])->title;
}

static const PsValue *value_at (const PsSweepRows *rows, guint row, guint i)
{
  return &rows->values->values[row * rows->values->n_columns + i];
}

char *ps_sweep_rows_text (const PsSweepRows *rows, guint row, guint i)
{
  return ps_result_value_text (rows->columns[i], value_at (rows, row, i));
}

char *ps_sweep_rows_apart (const PsSweepRows *rows, guint row)
{
  GString *name = g_string_new (NULL);

  for (guint i = rows->n_own; rows->columns[i] != NULL; i++) {
    g_autofree char *text = ps_sweep_rows_text (rows, row, i);

    g_string_append_printf (name, "%s%s %s", name->len ? ", " : "", ps_sweep_rows_title (rows, i), text);
  }
  return g_string_free (name, FALSE);
}

/* The titles of the columns that are held apart: "bandwidth factor, p"; "" for none. Free with g_free. */
static char *titles_apart (const PsSweepRows *rows)
{
  GString *names = g_string_new (NULL);

  for (guint i = rows->n_own; rows->columns[i] != NULL; i++)
    g_string_append_printf (names, "%s%s", names->len ? ", " : "", ps_sweep_rows_title (rows, i));
  return g_string_free (names, FALSE);
}

/* A value as a number: times in ns, sizes in bytes; NaN if there is none. */
static double number_at (const PsSweepRows *rows, guint row, guint i)
{
  const PsValue *value = value_at (rows, row, i);

  if (value->type == PS_VALUE_INTEGER)
    return (double)value->integer;
  return value->type == PS_VALUE_REAL ? value->real : NAN;
}

/* The name of a field: "bubble ratio" for "bubble_ratio". Free with g_free. */
static char *field_name (const char *field)
{
  g_autoptr (GString) name = g_string_new (field);

  if (g_str_has_suffix (field, "_ns")) {
    g_string_truncate (name, name->len - 3);
    if (g_str_has_suffix (name->str, "sequence") || g_str_has_suffix (name->str, "iteration"))
      g_string_append (name, " time");
  } else if (g_str_has_suffix (field, "_bytes"))
    g_string_truncate (name, name->len - 6);
  g_string_replace (name, "_", " ", 0);
  return g_string_free (g_steal_pointer (&name), FALSE);
}

/* Appends NAME_label, "peak memory (GiB)" for the i-th column, and NAME_is_ratio. Returns the size of the unit, which
 * suits the largest value. */
static double append_axis (GString *script, const char *name, const PsSweepRows *rows, guint i)
{
  PsColumnType type = find_column (rows->columns[i])->type;
  g_autofree char *field = field_name (rows->columns[i]), *variable = g_strconcat (name, "_label", NULL);
  g_autoptr (GString) label = g_string_new (field);
  PsPlotUnit unit = { NULL, 1 };
  double largest = 1;

  for (guint row = 0; row < rows->values->n_rows; row++)
    largest = fmax (largest, number_at (rows, row, i));
  if (type == PS_COLUMN_TIME)
    unit = ps_plot_time_unit ((gint64)largest);
  else if (type == PS_COLUMN_SIZE)
    unit = ps_plot_size_unit ((gint64)largest);
  if (unit.name != NULL)
    g_string_append_printf (label, " (%s)", unit.name);
  ps_gnuplot_append_text (script, variable, label->str);
  g_string_append_printf (script, "%s_is_ratio = %d\n", name, type == PS_COLUMN_RATIO);
  return unit.size;
}

/* Refuses a picture without series, or with more than can be told apart. */
static gboolean check_series (const GPtrArray *all, const PsSweepRows *rows, GError **error)
{
  g_autofree char *apart = titles_apart (rows);

  if (all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "sweep: no setting is left to draw; fewer --where, or other columns");
  if (all->len > MAX_SERIES)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--series: '%s'%s%s has %u values, a picture shows %d; narrow with --where", rows->columns[0],
                      *apart ? " with " : "", apart, all->len, MAX_SERIES);
  return TRUE;
}

static gboolean draw_series (const PsPicture *picture, const PsSweepRows *rows, const PsSweepPicture *what,
                             const char *title, const GString *script, guint n_names, const char *template_name,
                             GError **error)
{
  g_autoptr (GString) whole = g_string_new (script->str);

  ps_gnuplot_append_text (whole, "about", rows->scope->about);
  ps_gnuplot_append_text (whole, "log_axes", what->log != NULL ? what->log : "auto");
  return ps_gnuplot_draw (picture, title, WIDTH, MAX (HEIGHT, 16 * n_names + 96), whole->str, template_name, error);
}

static double last_height (const PsPlotSeries *series)
{
  return g_array_index (series->points, PsPlotPoint, series->points->len - 1).y;
}

/* The line that ends highest comes first, as in the picture. */
static int compare_ends (gconstpointer a, gconstpointer b)
{
  double x = last_height (*(PsPlotSeries *const *)a), y = last_height (*(PsPlotSeries *const *)b);

  return (x < y) - (x > y);
}

static gboolean draw_lines (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error)
{
  const char *series = what->series != NULL ? what->series : what->x;
  const char *columns[] = { series, what->x, what->y, NULL }, *per[] = { series, what->x, "devices", NULL };
  PsQuestion question = what->question;
  g_auto (PsSweepRows) rows = { 0 };
  g_autoptr (GString) script = g_string_new (NULL);
  g_autoptr (GPtrArray) all = ps_plot_series_new ();
  g_autofree char *x = field_name (what->x), *y = field_name (what->y), *by = field_name (series);
  g_autofree char *title = g_strdup_printf ("simulated %s against %s%s%s", y, x, what->series != NULL ? ", by " : "",
                                            what->series != NULL ? by : "");

  question.per = (char **)per;
  if (!ps_sweep_rows_read (&rows, results, &question, columns, error))
    return FALSE;
  for (guint row = 0; row < rows.values->n_rows; row++) {
    g_autofree char *text = what->series != NULL ? ps_sweep_rows_text (&rows, row, 0) : g_strdup ("");
    g_autofree char *apart = ps_sweep_rows_apart (&rows, row);
    g_autofree char *name = g_strconcat (text, *text && *apart ? ", " : "", apart, NULL);
    double at = number_at (&rows, row, 1), value = number_at (&rows, row, 2);

    if (!isnan (at) && !isnan (value))
      ps_plot_series_add (all, name, g_strcmp0 (what->series, "schedule") == 0 ? text : NULL, at, value, NULL);
  }
  if (!check_series (all, &rows, error))
    return FALSE;
  g_ptr_array_sort (all, compare_ends);
  double x_unit = append_axis (script, "x", &rows, 1), y_unit = append_axis (script, "y", &rows, 2);
  ps_plot_series_append (all, "series", x_unit, y_unit, script);
  return draw_series (picture, &rows, what, title, script, all->len, "lines.gp", error);
}

/* Fronts. The columns of their rows: */
enum { SERIES, MEMORY, TIME, DEVICES, MICROBATCHES };

gboolean ps_front_read (PsSweepRows *rows, PsResults *results, const PsSweepPicture *what, GError **error)
{
  const char *series = what->series != NULL ? what->series : "schedule";
  const char *columns[] = { series, "peak_memory_bytes", what->question.by, "devices", "microbatches", NULL };
  const char *per[] = { series, "devices", "peak_memory_bytes", NULL };
  PsQuestion question = what->question;

  question.per = (char **)per;
  return ps_sweep_rows_read (rows, results, &question, columns, error);
}

/* By memory, then time. */
static int compare_rows (gconstpointer a, gconstpointer b, gpointer data)
{
  const guint *x = a, *y = b;
  double memory = number_at (data, *x, MEMORY) - number_at (data, *y, MEMORY);
  double time = number_at (data, *x, TIME) - number_at (data, *y, TIME);

  return memory < 0 ? -1 : memory > 0 ? 1 : (time > 0) - (time < 0);
}

/* By name, in which numbers count as such: "4 devices" comes before "16 devices". */
static int compare_names (gconstpointer a, gconstpointer b)
{
  g_autofree char *x = g_utf8_collate_key_for_filename ((*(PsPlotSeries *const *)a)->name, -1);
  g_autofree char *y = g_utf8_collate_key_for_filename ((*(PsPlotSeries *const *)b)->name, -1);

  return strcmp (x, y);
}

/* A front has each setting that is faster than all with less memory. */
static GPtrArray *find_fronts (const PsSweepRows *rows, GArray *chosen)
{
  GPtrArray *fronts = ps_plot_series_new ();
  g_autoptr (GHashTable) best = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  g_array_sort_with_data (chosen, compare_rows, (gpointer)rows);
  for (guint i = 0; i < chosen->len; i++) {
    guint row = g_array_index (chosen, guint, i);
    g_autofree char *apart = ps_sweep_rows_apart (rows, row);
    g_autofree char *name
        = g_strdup_printf ("%.0f devices%s%s", number_at (rows, row, DEVICES), *apart ? ", " : "", apart);
    double time = number_at (rows, row, TIME), *fastest = g_hash_table_lookup (best, name);

    if (fastest != NULL && time >= *fastest)
      continue;
    ps_plot_series_add (fronts, name, NULL, number_at (rows, row, MEMORY), time, NULL);
    g_hash_table_replace (best, g_steal_pointer (&name), g_memdup2 (&time, sizeof time));
  }
  g_ptr_array_sort (fronts, compare_names);
  return fronts;
}

/* "zb-h1, 4 devices, 8 microbatches: 33.1 ms, 2.4 GiB": a point of a front. */
static char *describe_point (const PsSweepRows *rows, guint row, const char *name)
{
  g_autofree char *devices = ps_sweep_rows_text (rows, row, DEVICES), *m = ps_sweep_rows_text (rows, row, MICROBATCHES);
  g_autofree char *time = ps_sweep_rows_text (rows, row, TIME), *memory = ps_sweep_rows_text (rows, row, MEMORY);

  return g_strdup_printf ("%s, %s devices, %s microbatches: %s, %s", name, devices, m, time, memory);
}

gboolean ps_front_plot (const PsPicture *picture, const PsSweepRows *rows, const PsSweepPicture *what,
                        const char *apart, GError **error)
{
  g_autoptr (GString) script = g_string_new (NULL);
  g_autoptr (GPtrArray) all = ps_plot_series_new ();
  g_autoptr (GArray) chosen = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autofree char *titles = titles_apart (rows);

  for (guint row = 0; row < rows->values->n_rows; row++) {
    g_autofree char *name = ps_sweep_rows_text (rows, row, SERIES), *own = ps_sweep_rows_apart (rows, row);

    if (apart != NULL && !g_str_equal (apart, own))
      continue;
    g_array_append_val (chosen, row);
    ps_plot_series_add (all, name, g_str_equal (rows->columns[SERIES], "schedule") ? name : NULL,
                        number_at (rows, row, MEMORY), number_at (rows, row, TIME), describe_point (rows, row, name));
  }
  if (!check_series (all, rows, error))
    return FALSE;
  g_autoptr (GPtrArray) fronts = find_fronts (rows, chosen);
  if (fronts->len > MAX_FRONTS && picture->inlined == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--pareto: p, %s make %u fronts, a picture shows %d; narrow with --where",
                      titles, fronts->len, MAX_FRONTS);
  double x_unit = append_axis (script, "x", rows, MEMORY), y_unit = append_axis (script, "y", rows, TIME);
  ps_plot_series_append (all, "series", x_unit, y_unit, script);
  ps_plot_series_append (fronts, "front", x_unit, y_unit, script);
  return draw_series (picture, rows, what, "simulated time against peak memory, and the front", script,
                      all->len + fronts->len, "front.gp", error);
}

/* Maps. */

/* One of the different values of a column. */
typedef struct {
  double number; /* texts: NaN */
  char *text;
  guint n; /* rows that have it */
} Value;

static void value_clear (gpointer value)
{
  g_free (((Value *)value)->text);
}

static guint find_value (const GArray *values, double number, const char *text)
{
  guint i = 0;

  for (; i < values->len; i++) {
    const Value *value = &g_array_index (values, Value, i);

    if (value->number == number || (isnan (number) && g_str_equal (value->text, text)))
      break;
  }
  return i;
}

static int compare_numbers (gconstpointer a, gconstpointer b)
{
  return PS_COMPARE (((const Value *)a)->number, ((const Value *)b)->number);
}

PS_DEFINE_FALLING_ORDER (compare_counts, Value, n)

static gboolean has_cell (const PsSweepRows *rows, guint row)
{
  return value_at (rows, row, 0)->type != PS_VALUE_NONE && value_at (rows, row, 1)->type != PS_VALUE_NONE
         && value_at (rows, row, 2)->type != PS_VALUE_NONE;
}

/* The different values of a column: numbers in order; more texts than there are colours by their number of rows. */
static GArray *different_values (const PsSweepRows *rows, guint i)
{
  GArray *values = g_array_new (FALSE, FALSE, sizeof (Value));

  g_array_set_clear_func (values, value_clear);
  for (guint row = 0; row < rows->values->n_rows; row++) {
    g_autofree char *text = has_cell (rows, row) ? ps_sweep_rows_text (rows, row, i) : NULL;
    double number = number_at (rows, row, i);
    guint at = text != NULL ? find_value (values, number, text) : 0;

    if (text == NULL)
      continue;
    if (at == values->len)
      g_array_append_val (values, ((Value){ number, g_steal_pointer (&text), 0 }));
    g_array_index (values, Value, at).n++;
  }
  if (values->len > 0 && !isnan (g_array_index (values, Value, 0).number))
    g_array_sort (values, compare_numbers);
  else if (values->len > PS_PLOT_N_COLOURS)
    g_array_sort (values, compare_counts);
  return values;
}

static void append_names (GString *script, const char *array, const GArray *values)
{
  ps_gnuplot_append_array (script, array, values->len);
  for (guint i = 0; i < values->len; i++)
    ps_gnuplot_append_tick (script, array, i + 1, g_array_index (values, Value, i).text);
}

#define OTHER_COLOUR 0xdddddd /* of texts without a colour of their own */

static guint32 word_colour (const GArray *words, guint i, gboolean of_schedules)
{
  if (i >= PS_PLOT_N_COLOURS)
    return OTHER_COLOUR;
  return of_schedules ? ps_plot_schedule_colour (g_array_index (words, Value, i).text) : ps_plot_series_colour (i);
}

/* Appends n_words, and the arrays word and word_colour: texts with a colour, and one for all others. */
static void append_words (GString *script, const GArray *words, gboolean of_schedules)
{
  guint n = MIN (words->len, PS_PLOT_N_COLOURS + 1);

  g_string_append_printf (script, "n_words = %u\n", n);
  ps_gnuplot_append_array (script, "word", n);
  ps_gnuplot_append_array (script, "word_colour", n);
  for (guint i = 0; i < n; i++) {
    g_autofree char *others = g_strdup_printf ("%u others", words->len - i);

    ps_gnuplot_append_element (script, "word", i + 1,
                               i < PS_PLOT_N_COLOURS ? g_array_index (words, Value, i).text : others);
    g_string_append_printf (script, "word_colour[%u] = %u\n", i + 1, word_colour (words, i, of_schedules));
  }
}

/* Appends the block $cells: column, row, value, text and colour, which counts for words only. */
static void append_cells (GString *script, const PsSweepRows *rows, const GArray *x, const GArray *y,
                          const GArray *words, double unit, gboolean of_schedules)
{
  g_string_append (script, "$cells << EOD\n");
  for (guint row = 0; row < rows->values->n_rows; row++) {
    double value = number_at (rows, row, 2) / unit;
    g_autofree char *word = ps_sweep_rows_text (rows, row, 2), *number = g_strdup_printf ("%.3g", value);
    guint32 colour = words != NULL ? word_colour (words, find_value (words, NAN, word), of_schedules) : 0;

    if (!has_cell (rows, row))
      continue;
    g_string_append_printf (script, "%u %u %.9g ", find_value (x, number_at (rows, row, 0), "") + 1,
                            find_value (y, number_at (rows, row, 1), "") + 1, words != NULL ? 0 : value);
    ps_gnuplot_append_quoted (script, words != NULL ? word : number);
    g_string_append_printf (script, " %u\n", colour);
  }
  g_string_append (script, "EOD\n");
}

static gboolean draw_map (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error)
{
  const char *columns[] = { what->x, what->y, what->heat, NULL }, *per[] = { what->x, what->y, "devices", NULL };
  PsQuestion question = what->question;
  g_auto (PsSweepRows) rows = { 0 };
  g_autoptr (GString) script = g_string_new (NULL);
  g_autofree char *heat = field_name (what->heat), *apart = NULL;
  g_autofree char *x_label = field_name (what->x), *y_label = field_name (what->y);
  g_autofree char *title = g_strdup_printf ("simulated: %s of the fastest setting", heat);

  question.per = (char **)per;
  if (!ps_sweep_rows_read (&rows, results, &question, columns, error))
    return FALSE;
  apart = titles_apart (&rows);
  if (*apart)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--heat: %s: several values, a map shows one; make it --x or --y, or narrow with --where", apart);
  g_autoptr (GArray) x = different_values (&rows, 0), y = different_values (&rows, 1),
                     words = different_values (&rows, 2);
  if (words->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "sweep: no setting is left to draw; fewer --where, or other columns");
  gboolean of_schedules = g_str_equal (what->heat, "schedule");
  if (!isnan (g_array_index (words, Value, 0).number))
    g_array_set_size (words, 0);
  ps_gnuplot_append_text (script, "x_label", x_label);
  ps_gnuplot_append_text (script, "y_label", y_label);
  double unit = append_axis (script, "heat", &rows, 2);
  append_names (script, "x_name", x);
  append_names (script, "y_name", y);
  append_words (script, words, of_schedules);
  append_cells (script, &rows, x, y, words->len > 0 ? words : NULL, unit, of_schedules);
  return draw_series (picture, &rows, what, title, script, 0, "heat.gp", error);
}

gboolean ps_sweep_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error)
{
  g_auto (PsSweepRows) rows = { 0 };

  if (what->pareto)
    return ps_front_read (&rows, results, what, error) && ps_front_plot (picture, &rows, what, NULL, error);
  return what->heat != NULL ? draw_map (picture, results, what, error) : draw_lines (picture, results, what, error);
}
