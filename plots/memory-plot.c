/* memory-plot.c - lays out a memory picture in pixels, for memory.gp to draw. */
#include "memory-plot.h"

#include "scale.h"
#include "timeline-plot.h"

/* Layout in pixels. */
#define WIDTH 1000
#define LEFT 80
#define RIGHT 130 /* names of the devices */
#define TOP 40
#define BOTTOM 48
#define CAPTION 24
#define PANEL 300
#define GAP 14
#define MAX_NAMES 16 /* devices that are named one by one */
#define GRAIN 2      /* of the time axis, if the picture is coarse */

typedef struct
{
  guint width;
  guint height;
  double panel;
  gint64 end_ns;
  gint64 top_bytes;
  PsPlotUnit time;
  PsPlotUnit size;
} Layout;

static void
layout_init (Layout *layout, const PsPicture *picture, PsTimeline *const *timelines, guint n, gint64 limit_bytes)
{
  double extra = TOP + BOTTOM + n * (CAPTION + GAP);

  layout->top_bytes = limit_bytes;
  for (guint i = 0; i < n; i++)
    {
      layout->end_ns = MAX (layout->end_ns, ps_timeline_end (timelines[i]));
      layout->top_bytes = MAX (layout->top_bytes, ps_timeline_max_memory (timelines[i]));
    }
  layout->width = picture->width > 0 ? picture->width : WIDTH;
  layout->panel = picture->height > 0 ? MAX (20, (picture->height - extra) / n) : PANEL;
  layout->height = picture->height > 0 ? picture->height : (guint)(extra + n * layout->panel);
  layout->time = ps_plot_time_unit (layout->end_ns);
  layout->size = ps_plot_size_unit (layout->top_bytes);
}

/* Finds the smallest and largest memory of the devices before their first op, which they hold throughout. */
static void
find_baseline (const PsTimeline *timeline, gint64 *low, gint64 *high)
{
  int device = -1;

  *low = G_MAXINT64;
  *high = 0;
  for (guint i = 0; i < timeline->memory->len; i++)
    {
      const PsMemoryPoint *point = &g_array_index (timeline->memory, PsMemoryPoint, i);

      if (point->device == device)
        continue;
      device = point->device;
      *low = MIN (*low, point->bytes);
      *high = MAX (*high, point->bytes);
    }
}

static void
append_indexed (GString *script, const char *name, guint n, double value)
{
  g_autofree char *indexed = g_strdup_printf ("%s[%u]", name, n);

  ps_gnuplot_append_number (script, indexed, value);
}

static double
panel_top (const Layout *layout, guint n)
{
  return layout->height - TOP - CAPTION - (n - 1) * (layout->panel + CAPTION + GAP);
}

/* Names the devices in their colours beside each panel; of many only the first and the last. */
static void
append_names (GString *script, const Layout *layout, PsTimeline *const *timelines, guint n)
{
  g_string_append (script, "$names << EOD\n");
  for (guint i = 0; i < n; i++)
    {
      guint n_devices = timelines[i]->n_devices, step = n_devices <= MAX_NAMES ? 1 : n_devices - 1;

      for (guint d = 0, row = 0; d < n_devices; d += step, row++)
        g_string_append_printf (script, "%u %g \"%sdevice %u\" %u\n", layout->width - RIGHT + 30,
                                panel_top (layout, i + 1) - 8 - row * 16, step > 1 && row > 0 ? "to " : "", d,
                                ps_plot_device_colour (d, n_devices));
    }
  g_string_append (script, "EOD\n");
}

static void
append_panel (GString *script, const Layout *layout, const PsTimeline *timeline, gboolean coarse, guint n)
{
  g_autofree char *caption = ps_timeline_caption (timeline);
  g_autofree char *name = g_strdup_printf ("caption[%u]", n);
  g_autofree char *text = g_strconcat (caption, coarse ? "; of every 2 pixels the largest is drawn" : "", NULL);
  double top = panel_top (layout, n), pixel_ns = (double)layout->end_ns / (layout->width - LEFT - RIGHT);
  gint64 low, high;

  ps_gnuplot_append_text (script, name, text);
  g_string_append_printf (script, "$memory%u << EOD\n", n);
  ps_timeline_append_memory (script, timeline, layout->time.size, layout->size.size, layout->end_ns,
                             coarse ? (gint64)(GRAIN * pixel_ns) : 0);
  g_string_append (script, "EOD\n");
  find_baseline (timeline, &low, &high);
  append_indexed (script, "weights_low", n, (double)low / layout->size.size);
  append_indexed (script, "weights_high", n, (double)high / layout->size.size);
  append_indexed (script, "panel_top", n, top);
  append_indexed (script, "panel_bottom", n, top - layout->panel);
}

static void
append_picture (GString *script, const PsPicture *picture, const Layout *layout, PsTimeline *const *timelines, guint n,
                gint64 limit_bytes)
{
  g_autofree char *own_title = ps_timeline_title (timelines, n);
  g_autofree char *time_label = g_strdup_printf ("time (%s)", layout->time.name);
  g_autofree char *size_label = g_strdup_printf ("memory (%s)", layout->size.name);
  g_autofree char *limit = ps_format_size (limit_bytes);
  g_autofree char *limit_label = g_strdup_printf ("limit %s", limit);
  double end = (double)layout->end_ns / layout->time.size, top = (double)layout->top_bytes / layout->size.size;

  ps_gnuplot_append_text (script, "title", picture->title != NULL ? picture->title : own_title);
  ps_gnuplot_append_text (script, "time_label", time_label);
  ps_gnuplot_append_text (script, "size_label", size_label);
  ps_gnuplot_append_text (script, "limit_label", limit_label);
  ps_gnuplot_append_number (script, "limit", (double)limit_bytes / layout->size.size);
  ps_gnuplot_append_number (script, "width", layout->width);
  ps_gnuplot_append_number (script, "height", layout->height);
  ps_gnuplot_append_number (script, "left", LEFT);
  ps_gnuplot_append_number (script, "right", layout->width - RIGHT);
  ps_gnuplot_append_number (script, "time_end", end);
  ps_gnuplot_append_number (script, "time_tick", ps_plot_tick_step (end, 10));
  ps_gnuplot_append_number (script, "size_top", top * 1.08);
  ps_gnuplot_append_number (script, "size_tick", ps_plot_tick_step (top, 6));
  g_string_append_printf (script, "panels = %u\n", n);
  g_string_append (script, "array caption[2]\narray weights_low[2]\narray weights_high[2]\narray panel_top[2]\n"
                           "array panel_bottom[2]\n");
}

gboolean
ps_memory_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, gint64 limit_bytes, GError **error)
{
  g_autoptr (GString) script = g_string_new (NULL);
  Layout layout = { 0 };

  g_return_val_if_fail (n >= 1 && n <= 2, FALSE);
  for (guint i = 0; i < n; i++)
    if (ps_timeline_max_memory (timelines[i]) == 0)
      return ps_refuse (error, PS_ERROR_INPUT, "timeline %u (%s): knows no memory", i + 1, timelines[i]->schedule);
  layout_init (&layout, picture, timelines, n, limit_bytes);
  append_picture (script, picture, &layout, timelines, n, limit_bytes);
  append_names (script, &layout, timelines, n);
  for (guint i = 0; i < n; i++)
    append_panel (script, &layout, timelines[i], ps_timeline_is_coarse (picture, timelines[i]), i + 1);
  return ps_gnuplot_draw (picture, layout.width, layout.height, script->str, "memory.gp", error);
}
