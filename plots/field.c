/* field.c - the columns of a sweep as axes and legends. */
#include "field.h"

#include "scale.h"

#include <pipesim/schedule.h>

#include <math.h>

void
ps_plot_axis_clear (PsPlotAxis *axis)
{
  g_clear_pointer (&axis->label, g_free);
}

double
ps_plot_value_number (const PsValue *value)
{
  if (value->type == PS_VALUE_INTEGER)
    return (double)value->integer;
  return value->type == PS_VALUE_REAL ? value->real : NAN;
}

static const PsColumn *
find_column (const char *field)
{
  guint n;

  return &ps_result_columns (&n)[ps_result_column_find (field)].column;
}

char *
ps_plot_field_name (const char *field)
{
  g_autoptr (GString) name = g_string_new (field);

  if (g_str_has_suffix (field, "_ns"))
    {
      g_string_truncate (name, name->len - 3);
      g_string_append (name, g_str_has_suffix (name->str, "sequence")    ? " time"
                             : g_str_has_suffix (name->str, "iteration") ? " time"
                                                                         : "");
    }
  else if (g_str_has_suffix (field, "_bytes"))
    g_string_truncate (name, name->len - 6);
  g_string_replace (name, "_", " ", 0);
  return g_string_free (g_steal_pointer (&name), FALSE);
}

/* The values that exist, ascending. */
static GArray *
sorted_numbers (const PsResultValues *values, guint column)
{
  GArray *numbers = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint row = 0; row < values->n_rows; row++)
    {
      double number = ps_plot_value_number (&values->values[row * values->n_columns + column]);

      if (!isnan (number))
        g_array_append_val (numbers, number);
    }
  ps_plot_sort_numbers (numbers);
  return numbers;
}

void
ps_plot_axis_init (PsPlotAxis *axis, const char *field, const PsResultValues *values, guint column)
{
  g_autofree char *name = ps_plot_field_name (field);
  g_autoptr (GArray) numbers = sorted_numbers (values, column);
  PsColumnType type = find_column (field)->type;
  PsPlotUnit unit = { NULL, 1 };
  gboolean none = numbers->len == 0;
  double smallest = none ? INFINITY : g_array_index (numbers, double, 0),
         middle = none ? 0 : g_array_index (numbers, double, numbers->len / 2),
         largest = none ? -INFINITY : g_array_index (numbers, double, numbers->len - 1);

  if (type == PS_COLUMN_TIME)
    unit = ps_plot_time_unit ((gint64)MAX (largest, 1));
  else if (type == PS_COLUMN_SIZE)
    unit = ps_plot_size_unit ((gint64)MAX (largest, 1));
  *axis = (PsPlotAxis){ .label = unit.name != NULL ? g_strdup_printf ("%s (%s)", name, unit.name) : g_strdup (name),
                        .unit = unit.size,
                        .smallest = smallest / unit.size,
                        .middle = middle / unit.size,
                        .largest = largest / unit.size };
}

gboolean
ps_plot_axis_crowds (const PsPlotAxis *axis, const char *field)
{
  gboolean wide = axis->largest >= 8 * axis->smallest, crowded = axis->largest > 3 * axis->middle;

  if (axis->smallest <= 0)
    return FALSE;
  if (find_column (field)->type == PS_COLUMN_RATIO)
    return wide && axis->largest > 6 * axis->middle;
  return wide || crowded;
}

guint32
ps_plot_series_colour (guint series)
{
  static const guint32 colours[PS_PLOT_N_COLOURS]
      = { 0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x333333 };

  return colours[series % PS_PLOT_N_COLOURS];
}

guint
ps_plot_schedule_number (const char *name)
{
  guint n, i = 0;
  const PsFamily *const *families = ps_family_table (&n);

  while (i < n && !g_str_equal (families[i]->name, name))
    i++;
  return i < n ? i : n + g_str_hash (name) % 47;
}

/* The plain colours, then paler ones, then darker ones. */
guint32
ps_plot_schedule_colour (guint number)
{
  guint32 colour = ps_plot_series_colour (number);

  switch (number / PS_PLOT_N_COLOURS % 3)
    {
    case 1:
      return ps_plot_mix_colours (colour, 0xffffff, 0.45);
    case 2:
      return ps_plot_mix_colours (colour, 0x000000, 0.4);
    default:
      return colour;
    }
}
