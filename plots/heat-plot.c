/* heat-plot.c - lays out a map of a sweep in pixels, for heat.gp to draw. */
#include "field.h"
#include "scale.h"
#include "series.h"
#include "sweep-plot.h"
#include "sweep-rows.h"

#include <math.h>

/* Layout in pixels. */
#define WIDTH 1000
#define HEIGHT 560
#define LEFT 110
#define RIGHT 170
#define TOP 64
#define BOTTOM 60
#define SCALE_STEPS 64
#define SHADES 256
#define TICK_WIDTH 44 /* room that a number below the map needs */
#define LETTER 6.0    /* width of a letter in a box */
#define TEXT_COLOUR 0x333333
#define OTHER_COLOUR 0xdddddd /* of texts without a colour of their own */

/* One side of the map: its different values in order, and their names. */
typedef struct
{
  GArray *values;   /* of double */
  GPtrArray *names; /* of char * */
} Side;

static void
side_clear (Side *side)
{
  g_clear_pointer (&side->values, g_array_unref);
  g_clear_pointer (&side->names, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Side, side_clear)

/* One of the different texts. */
typedef struct
{
  char *text;
  guint n; /* cells */
} Word;

static void
word_clear (gpointer word)
{
  g_free (((Word *)word)->text);
}

typedef struct
{
  guint width;
  guint height;
  double right;
  double top;
  Side x;
  Side y;
  PsPlotAxis heat; /* numbers */
  GArray *words;   /* Word, the most frequent first; empty: numbers */
  gboolean of_schedules;
} Map;

static void
map_clear (Map *map)
{
  side_clear (&map->x);
  side_clear (&map->y);
  ps_plot_axis_clear (&map->heat);
  g_clear_pointer (&map->words, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Map, map_clear)

static guint
side_find (const Side *side, double value)
{
  guint i = 0;

  while (i < side->values->len && g_array_index (side->values, double, i) < value)
    i++;
  return i;
}

static void
side_init (Side *side, const PsResultValues *values, guint column, const char *field)
{
  side->values = g_array_new (FALSE, FALSE, sizeof (double));
  side->names = g_ptr_array_new_with_free_func (g_free);
  for (guint row = 0; row < values->n_rows; row++)
    {
      const PsValue *cell = &values->values[row * values->n_columns + column];
      double value = ps_plot_value_number (cell);
      guint at = side_find (side, value);

      if (isnan (value) || (at < side->values->len && g_array_index (side->values, double, at) == value))
        continue;
      g_array_insert_val (side->values, at, value);
      g_ptr_array_insert (side->names, (int)at, ps_result_value_text (field, cell));
    }
}

static const Word *
map_word (const Map *map, guint i)
{
  return &g_array_index (map->words, Word, i);
}

static guint
find_word (const Map *map, const char *text)
{
  guint i = 0;

  while (i < map->words->len && !g_str_equal (map_word (map, i)->text, text))
    i++;
  return i;
}

PS_DEFINE_FALLING_ORDER (compare_words, Word, n)

static void
collect_words (Map *map, const PsResultValues *values)
{
  map->words = g_array_new (FALSE, FALSE, sizeof (Word));
  g_array_set_clear_func (map->words, word_clear);
  for (guint row = 0; row < values->n_rows; row++)
    {
      const PsValue *cell = &values->values[row * values->n_columns + 2];
      guint i = cell->type == PS_VALUE_TEXT ? find_word (map, cell->text) : 0;

      if (cell->type != PS_VALUE_TEXT)
        continue;
      if (i == map->words->len)
        g_array_append_val (map->words, ((Word){ g_strdup (cell->text), 0 }));
      g_array_index (map->words, Word, i).n++;
    }
  if (map->words->len > PS_PLOT_N_COLOURS)
    g_array_sort (map->words, compare_words);
}

/* The colour of the i-th most frequent text. */
static guint32
word_colour (const Map *map, guint i)
{
  if (i >= PS_PLOT_N_COLOURS)
    return OTHER_COLOUR;
  return map->of_schedules ? ps_plot_schedule_colour (ps_plot_schedule_number (map_word (map, i)->text))
                           : ps_plot_series_colour (i);
}

static guint32
shade (double part)
{
  return ps_plot_device_colour ((guint)lround (part * (SHADES - 1)), SHADES);
}

static double
heat_part (const Map *map, double value)
{
  return map->heat.largest > map->heat.smallest
             ? (value / map->heat.unit - map->heat.smallest) / (map->heat.largest - map->heat.smallest)
             : 0;
}

static void
append_box (GString *script, double left, double bottom, double right, double top, guint32 colour)
{
  g_string_append_printf (script, "%.2f %.2f %.2f %.2f %.2f %.2f %u\n", (left + right) / 2, (bottom + top) / 2, left,
                          right, bottom, top, colour);
}

/* The beginning of the i-th of n parts of [from, to]. */
static double
part_of (double from, double to, guint i, guint n)
{
  return from + (to - from) * i / n;
}

static void
append_cell (GString *cells, GString *texts, const Map *map, const PsValue *row)
{
  guint i = side_find (&map->x, ps_plot_value_number (&row[0])),
        k = side_find (&map->y, ps_plot_value_number (&row[1]));
  double left = part_of (LEFT, map->right, i, map->x.values->len),
         right = part_of (LEFT, map->right, i + 1, map->x.values->len),
         bottom = part_of (BOTTOM, map->top, k, map->y.values->len),
         top = part_of (BOTTOM, map->top, k + 1, map->y.values->len);
  gboolean word = row[2].type == PS_VALUE_TEXT;
  double number = word ? 0 : ps_plot_value_number (&row[2]);
  guint32 colour = word ? word_colour (map, find_word (map, row[2].text)) : shade (heat_part (map, number));
  g_autofree char *text = word ? g_strdup (row[2].text) : g_strdup_printf ("%.3g", number / map->heat.unit);

  append_box (cells, left + 0.5, bottom + 0.5, right - 0.5, top - 0.5, colour);
  if (right - left > LETTER * (g_utf8_strlen (text, -1) + 1) && top - bottom > 13)
    ps_gnuplot_append_label (texts, (left + right) / 2, (bottom + top) / 2, text, ps_plot_text_colour (colour));
}

static void
append_cells (GString *script, const Map *map, const PsResultValues *values)
{
  /* A box outside the picture keeps a block from being empty. */
  g_autoptr (GString) texts = g_string_new ("$texts << EOD\n-100 -100 \"\" 0\n");

  g_string_append (script, "$cells << EOD\n");
  for (guint row = 0; row < values->n_rows; row++)
    {
      const PsValue *cells = &values->values[row * values->n_columns];

      if (cells[0].type != PS_VALUE_NONE && cells[1].type != PS_VALUE_NONE && cells[2].type != PS_VALUE_NONE)
        append_cell (script, texts, map, cells);
    }
  g_string_append_printf (script, "EOD\n%sEOD\n", texts->str);
}

/* Appends every value or, if there are too many, every n-th. */
static void
append_ticks (GString *script, const Map *map)
{
  guint n_x = map->x.values->len, n_y = map->y.values->len;
  guint step_x = (guint)ceil (n_x * TICK_WIDTH / (map->right - LEFT)),
        step_y = (guint)ceil (n_y * 15 / (map->top - BOTTOM));

  g_string_append (script, "$x_ticks << EOD\n");
  for (guint i = 0; i < n_x; i += step_x)
    ps_gnuplot_append_label (script, part_of (LEFT, map->right, 2 * i + 1, 2 * n_x), BOTTOM - 14,
                             map->x.names->pdata[i], TEXT_COLOUR);
  g_string_append (script, "EOD\n$y_ticks << EOD\n");
  for (guint i = 0; i < n_y; i += step_y)
    ps_gnuplot_append_label (script, LEFT - 8, part_of (BOTTOM, map->top, 2 * i + 1, 2 * n_y), map->y.names->pdata[i],
                             TEXT_COLOUR);
  g_string_append (script, "EOD\n");
}

static void
append_words (GString *script, const Map *map)
{
  g_autoptr (GString) texts = g_string_new ("$scale_texts << EOD\n");

  g_string_append (script, "$scale << EOD\n");
  for (guint i = 0; i < MIN (map->words->len, PS_PLOT_N_COLOURS + 1); i++)
    {
      double y = map->top - 8 - i * 17;
      g_autofree char *others = g_strdup_printf ("%u others", map->words->len - i);

      append_box (script, map->right + 24, y - 6, map->right + 36, y + 6, word_colour (map, i));
      ps_gnuplot_append_label (texts, map->right + 42, y, i < PS_PLOT_N_COLOURS ? map_word (map, i)->text : others,
                               TEXT_COLOUR);
    }
  g_string_append_printf (script, "EOD\n%sEOD\n", texts->str);
}

static void
append_scale (GString *script, const Map *map)
{
  double left = map->right + 24;

  /* Each box reaches under the next, so that no seam shows. */
  g_string_append (script, "$scale << EOD\n");
  for (guint i = 0; i < SCALE_STEPS; i++)
    append_box (script, left, part_of (BOTTOM, map->top, i, SCALE_STEPS), left + 16,
                part_of (BOTTOM, map->top, MIN (i + 2, SCALE_STEPS), SCALE_STEPS),
                shade ((double)i / (SCALE_STEPS - 1)));
  g_string_append (script, "EOD\n$scale_texts << EOD\n");
  for (guint i = 0; i <= 4; i++)
    g_string_append_printf (script, "%.2f %.2f \"%.3g\"\n", left + 22, part_of (BOTTOM, map->top, i, 4),
                            map->heat.smallest + (map->heat.largest - map->heat.smallest) * i / 4);
  g_string_append (script, "EOD\n");
}

static gboolean
check_map (const Map *map, const PsSweepRows *rows, GError **error)
{
  g_autofree char *apart = ps_sweep_rows_apart (rows);

  if (*apart)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--heat: %s: several values, a map shows one; make it --x or --y, or narrow with --where", apart);
  if (map->x.values->len == 0 || map->y.values->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "sweep: no setting is left to draw; fewer --where, or other columns");
  return TRUE;
}

static void
append_frame (GString *script, const Map *map, const PsPicture *picture, const PsSweepPicture *what)
{
  g_autofree char *x = ps_plot_field_name (what->x), *y = ps_plot_field_name (what->y),
                  *heat = ps_plot_field_name (what->heat);
  g_autofree char *title = g_strdup_printf ("simulated: %s of the fastest setting", heat);

  ps_gnuplot_append_text (script, "title", picture->title != NULL ? picture->title : title);
  ps_gnuplot_append_text (script, "x_label", x);
  ps_gnuplot_append_text (script, "y_label", y);
  ps_gnuplot_append_text (script, "heat_label", map->words->len ? heat : map->heat.label);
  ps_gnuplot_append_number (script, "width", map->width);
  ps_gnuplot_append_number (script, "height", map->height);
  ps_gnuplot_append_number (script, "left", LEFT);
  ps_gnuplot_append_number (script, "right", map->right);
  ps_gnuplot_append_number (script, "bottom", BOTTOM);
  ps_gnuplot_append_number (script, "top", map->top);
}

gboolean
ps_heat_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error)
{
  const char *columns[] = { what->x, what->y, what->heat, NULL }, *per[] = { what->x, what->y, "devices", NULL };
  PsQuestion question = what->question;
  g_auto (PsSweepRows) rows = { 0 };
  g_autoptr (GString) script = g_string_new (NULL);
  g_auto (Map) map = { 0 };

  question.per = (char **)per;
  if (!ps_sweep_rows_read (&rows, results, &question, columns, error))
    return FALSE;
  side_init (&map.x, rows.values, 0, what->x);
  side_init (&map.y, rows.values, 1, what->y);
  ps_plot_axis_init (&map.heat, what->heat, rows.values, 2);
  collect_words (&map, rows.values);
  map.of_schedules = g_str_equal (what->heat, "schedule");
  if (!check_map (&map, &rows, error))
    return FALSE;
  map.width = picture->width > 0 ? picture->width : WIDTH;
  map.height = picture->height > 0 ? picture->height : HEIGHT;
  map.right = map.width - RIGHT;
  map.top = map.height - TOP - ps_plot_append_about (script, rows.scope->about, picture, LEFT, map.width, map.height);
  append_frame (script, &map, picture, what);
  append_cells (script, &map, rows.values);
  append_ticks (script, &map);
  if (map.words->len)
    append_words (script, &map);
  else
    append_scale (script, &map);
  return ps_gnuplot_draw (picture, map.width, map.height, script->str, "heat.gp", error);
}
