/* calibration-plot.c - lays out the panels of a profile, for calibration.gp to draw. */
#include "calibration-plot.h"

#include "calibration-private.h"
#include "scale.h"

/* Layout in pixels. */
#define WIDTH 1000
#define RIGHT 216 /* room for fits, and for the spread of ops */
#define TOP 62    /* title, and where and how the profile was measured */
#define CAPTION 28
#define AXIS 46 /* ticks and their label */
#define TRANSFERS 330

static void
way_free (gpointer data)
{
  PsCalibrationWay *way = data;

  g_free (way->name);
  g_ptr_array_unref (way->rows);
  g_free (way);
}

static char *
way_name (const PsMeasurement *m)
{
  GString *name = g_string_new (NULL);

  if (m->subject == PS_SUBJECT_SELF_SEND)
    g_string_append_printf (name, "%s, launching only", m->shape);
  else if (m->devices == 1)
    g_string_append (name, "alone");
  else
    g_string_append_printf (name, "%u busy", m->devices);
  if (m->subject == PS_SUBJECT_TRANSFER && *m->shape != '\0')
    g_string_append_printf (name, ", %s", m->shape);
  if (m->subject == PS_SUBJECT_ALL_REDUCE)
    g_string_append (name, ", all-reduce");
  if (m->sharing > 1)
    g_string_append_printf (name, ", %u sharing", m->sharing);
  if (m->share > 0)
    g_string_append_printf (name, ", share %u", m->share);
  if (m->subject == PS_SUBJECT_OP && m->cache != PS_CACHE_RUN)
    g_string_append_printf (name, ", %s", ps_cache_state_name (m->cache));
  return g_string_free (name, FALSE);
}

static PsCalibrationWay *
find_way (GPtrArray *ways, const char *name)
{
  PsCalibrationWay *way;

  for (guint i = 0; i < ways->len; i++)
    {
      way = ways->pdata[i];
      if (g_str_equal (way->name, name))
        return way;
    }
  way = g_new0 (PsCalibrationWay, 1);
  way->name = g_strdup (name);
  way->rows = g_ptr_array_new ();
  g_ptr_array_add (ways, way);
  return way;
}

/* The ways in which messages (ops: FALSE), or ops, were measured, of PsCalibrationWay. Pairs and the host's times are
 * neither. */
static GPtrArray *
find_ways (const PsProfileContents *contents, gboolean ops)
{
  const guint kinds = ops ? 1U << PS_SUBJECT_OP
                          : 1U << PS_SUBJECT_TRANSFER | 1U << PS_SUBJECT_SELF_SEND | 1U << PS_SUBJECT_ALL_REDUCE;
  GPtrArray *ways = g_ptr_array_new_with_free_func (way_free);

  for (guint i = 0; i < contents->measurements->len; i++)
    {
      PsMeasurement *m = contents->measurements->pdata[i];
      g_autofree char *name = way_name (m);

      if (kinds & 1U << m->subject)
        g_ptr_array_add (find_way (ways, name)->rows, m);
    }
  return ways;
}

static void
data_init (PsCalibrationData *data)
{
  *data = (PsCalibrationData){ .script = g_string_new (NULL),
                               .points = g_string_new (NULL),
                               .bars = g_string_new (NULL),
                               .least = g_string_new (NULL),
                               .texts = g_string_new (NULL),
                               .right = g_string_new (NULL),
                               .marks = g_string_new (NULL) };
}

static void
data_clear (PsCalibrationData *data)
{
  GString **all[]
      = { &data->script, &data->points, &data->bars, &data->least, &data->texts, &data->right, &data->marks };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if (*all[i] != NULL)
      g_string_free (g_steal_pointer (all[i]), TRUE);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsCalibrationData, data_clear)

/* "$NAME << EOD"; one point far outside keeps a block from being empty. */
static void
append_block (GString *script, const char *panel, const char *name, const char *outside, GString *rows)
{
  g_string_append_printf (script, "$%s%s << EOD\n%s\n%sEOD\n", panel, name, outside, rows->str);
  g_string_truncate (rows, 0);
}

/* Appends everything that a panel has in its own axes. */
static void
append_panel (PsCalibrationData *data, const char *panel, const PsPanel *place)
{
  g_autofree char *top = g_strconcat (panel, "_top", NULL), *bottom = g_strconcat (panel, "_bottom", NULL);

  append_block (data->script, panel, "_points", "-1 -1 1 0", data->points);
  append_block (data->script, panel, "_bars", "-1 -1 0 0 0", data->bars);
  append_block (data->script, panel, "_least", "-1 -1 0", data->least);
  ps_gnuplot_append_number (data->script, top, place->top);
  ps_gnuplot_append_number (data->script, bottom, place->bottom);
}

/* Heights of the panels, 0 for one with nothing to show. */
typedef struct
{
  guint width;
  guint height;
  double transfers;
  double ops;
} Layout;

static double
fixed_height (gboolean shown)
{
  return shown ? CAPTION + AXIS : 0;
}

/* Sets the heights. Height beyond the need of the ops goes to the transfers, or to the ops if there are no transfers.
 * In a terminal the picture is as high as it needs to be. */
static void
layout_init (Layout *layout, const PsPicture *picture, const GPtrArray *transfers, const GPtrArray *ops)
{
  double fixed = TOP + fixed_height (transfers->len > 0) + fixed_height (ops->len > 0);
  double wanted = picture->terminal ? 0 : picture->height;

  layout->width = picture->width > 0 ? picture->width : WIDTH;
  layout->transfers = transfers->len > 0 ? TRANSFERS : 0;
  layout->ops = ops->len > 0 ? ps_calibration_ops_height (ops, picture->terminal) : 0;
  if (wanted > 0)
    {
      double part = MAX (wanted - fixed, 40) / (layout->transfers + layout->ops);

      layout->transfers *= part;
      layout->ops *= part;
    }
  layout->height = wanted > 0 ? picture->height : (guint)(fixed + layout->transfers + layout->ops);
}

static void
append_frame (PsCalibrationData *data, const PsPicture *picture, const PsProfile *profile, const Layout *layout,
              const PsPanel *place)
{
  g_autofree char *title = g_strdup_printf ("measured: profile '%s', %s over %s, %s", profile->name, profile->device,
                                            profile->transport, profile->model_name);
  gboolean known = *profile->host != '\0';
  g_autofree char *machine = g_strdup_printf ("%s%s%s%sfrom %.10s on", profile->host, known ? ", " : "",
                                              profile->processor, known ? ", " : "", profile->created);

  ps_gnuplot_append_text (data->script, "title", picture->title != NULL ? picture->title : title);
  ps_gnuplot_append_label (data->texts, place->left, layout->height - 40.0, machine, PS_CALIBRATION_FAINT);
  ps_gnuplot_append_number (data->script, "width", layout->width);
  ps_gnuplot_append_number (data->script, "height", layout->height);
  ps_gnuplot_append_number (data->script, "left", place->left);
  ps_gnuplot_append_number (data->script, "right", place->right);
}

static void
append_transfers (PsCalibrationData *data, PsPanel place, const GPtrArray *ways)
{
  g_string_append_printf (data->script, "has_transfers = %d\n", ways->len > 0);
  if (ways->len == 0)
    return;
  ps_gnuplot_append_label (data->texts, place.left, place.top + 10,
                           "messages: median, quartiles and least; a fitted line (predictions interpolate)",
                           PS_CALIBRATION_TEXT);
  ps_calibration_append_transfers (data, &place, ways);
  append_panel (data, "transfers", &place);
}

static void
append_ops (PsCalibrationData *data, PsPanel place, const GPtrArray *ways)
{
  g_string_append_printf (data->script, "has_ops = %d\n", ways->len > 0);
  if (ways->len == 0)
    return;
  ps_gnuplot_append_label (data->texts, place.left, place.top + 10, "ops", PS_CALIBRATION_TEXT);
  ps_calibration_append_ops (data, &place, ways);
  append_panel (data, "ops", &place);
}

gboolean
ps_calibration_plot (const PsPicture *picture, const char *where, const PsProfileContents *contents, GError **error)
{
  g_autoptr (GPtrArray) transfers = find_ways (contents, FALSE);
  g_autoptr (GPtrArray) ops = find_ways (contents, TRUE);
  g_auto (PsCalibrationData) data = { 0 };
  Layout layout = { 0 };

  if (transfers->len + ops->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' holds no measurement", where, contents->profile->name);
  data_init (&data);
  layout_init (&layout, picture, transfers, ops);
  PsPanel place = { .left = ps_calibration_ops_left (ops, ps_picture_letter (picture)),
                    .right = layout.width - RIGHT,
                    .letter = ps_picture_letter (picture) };
  append_frame (&data, picture, contents->profile, &layout, &place);
  place.top = layout.height - TOP - CAPTION;
  place.bottom = place.top - layout.transfers;
  append_transfers (&data, place, transfers);
  place.top = transfers->len > 0 ? place.bottom - AXIS - CAPTION : place.top;
  place.bottom = place.top - layout.ops;
  append_ops (&data, place, ops);
  append_block (data.script, "", "texts", "-100 -100 \"\" 0", data.texts);
  append_block (data.script, "", "right_texts", "-100 -100 \"\" 0", data.right);
  append_block (data.script, "", "marks", "-100 -100 1 0", data.marks);
  return ps_gnuplot_draw (picture, layout.width, layout.height, data.script->str, "calibration.gp", error);
}
