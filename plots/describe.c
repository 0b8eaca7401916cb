/* describe.c - texts of titles and captions, and memory curves, of a timeline; shared by the pictures. */
#include "scale.h"
#include "timeline-plot.h"

char *
ps_timeline_caption (const PsTimeline *timeline)
{
  g_auto (PsMetrics) metrics = { 0 };
  g_autofree char *iteration = ps_format_time (timeline->iteration_ns);

  ps_metrics_from_timeline (timeline, &metrics);
  gboolean early = timeline->origin == PS_ORIGIN_SIMULATED && timeline->iteration_ns < metrics.makespan_ns;
  g_autofree char *peak = ps_format_size (metrics.peak_memory_bytes);
  return g_strdup_printf (
      "%s %s: iteration %s, bubble %.1f %% of iteration%s%s%s", ps_origin_name (timeline->origin), timeline->schedule,
      iteration, metrics.bubble_ratio * 100, metrics.peak_memory_bytes > 0 ? ", peak memory " : "",
      metrics.peak_memory_bytes > 0 ? peak : "", early ? "; the next one begins before this one ends" : "");
}

char *
ps_timeline_title (PsTimeline *const *timelines, guint n)
{
  const PsTimeline *first = timelines[0], *last = timelines[n - 1];
  gboolean same = g_str_equal (first->schedule, last->schedule) && first->n_devices == last->n_devices
                  && first->n_stages == last->n_stages && first->n_microbatches == last->n_microbatches;

  if (!same)
    return g_strdup_printf ("%s above %s", first->schedule, last->schedule);
  return g_strdup_printf ("%s: %u devices, %u stages, %u microbatches", first->schedule, first->n_devices,
                          first->n_stages, first->n_microbatches);
}

static void
append_point (GArray *points, guint device, gint64 time_ns, gint64 bytes)
{
  const PsMemoryPoint *last = points->len ? &g_array_index (points, PsMemoryPoint, points->len - 1) : NULL;
  const PsMemoryPoint point = { .time_ns = time_ns, .bytes = bytes, .device = (guint16)device };

  if (last == NULL || last->device != device || last->bytes != bytes)
    g_array_append_val (points, point);
}

/* Memory with one point per grain, its largest, and the level that holds after a grain until the next change. */
static GArray *
coarse_memory (const GArray *memory, gint64 grain_ns)
{
  GArray *coarse = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));
  const PsMemoryPoint *points = (const PsMemoryPoint *)(gpointer)memory->data;
  gint64 bytes = 0;

  for (guint i = 0, next; i < memory->len; i = next)
    {
      gint64 begin_ns = points[i].time_ns - points[i].time_ns % grain_ns, end_ns = begin_ns + grain_ns;
      gboolean fresh = i == 0 || points[i - 1].device != points[i].device || points[i].time_ns == begin_ns;
      gint64 largest = fresh ? 0 : bytes;

      for (next = i; next < memory->len && points[next].device == points[i].device && points[next].time_ns < end_ns;)
        {
          bytes = points[next++].bytes;
          largest = MAX (largest, bytes);
        }
      append_point (coarse, points[i].device, begin_ns, largest);
      if (next == memory->len || points[next].device != points[i].device || points[next].time_ns >= end_ns + grain_ns)
        append_point (coarse, points[i].device, end_ns, bytes);
    }
  return coarse;
}

void
ps_timeline_append_memory (GString *script, const PsTimeline *timeline, double x_unit, double y_unit, gint64 end_ns,
                           gint64 grain_ns)
{
  g_autoptr (GArray) memory
      = grain_ns > 0 ? coarse_memory (timeline->memory, grain_ns) : g_array_ref (timeline->memory);
  const PsMemoryPoint *points = (const PsMemoryPoint *)(gpointer)memory->data;

  for (guint i = 0; i < memory->len; i++)
    {
      gboolean last = i + 1 == memory->len || points[i + 1].device != points[i].device;
      gint64 until_ns = last ? end_ns : points[i + 1].time_ns;
      guint32 colour = ps_plot_device_colour (points[i].device, timeline->n_devices);

      for (guint side = 0; side < 2; side++)
        g_string_append_printf (script, "%.9g %.9g %u\n", (double)(side ? until_ns : points[i].time_ns) / x_unit,
                                (double)points[i].bytes / y_unit, colour);
      g_string_append (script, last ? "\n" : "");
    }
}

/* A picture of more ops is coarse: MANY_OPS in SVG, VERY_MANY_OPS elsewhere. */
#define MANY_OPS 4000
#define VERY_MANY_OPS 40000

gboolean
ps_timeline_is_coarse (const PsPicture *picture, const PsTimeline *timeline)
{
  gboolean is_svg = picture->output != NULL && g_str_has_suffix (picture->output, ".svg");

  return timeline->ops->len > (is_svg ? MANY_OPS : VERY_MANY_OPS);
}

gint64
ps_timeline_end (const PsTimeline *timeline)
{
  gint64 end_ns = 1;

  for (guint i = 0; i < timeline->ops->len; i++)
    end_ns = MAX (end_ns, g_array_index (timeline->ops, PsSpan, i).end_ns);
  return end_ns;
}

gint64
ps_timeline_max_memory (const PsTimeline *timeline)
{
  gint64 bytes = 0;

  for (guint i = 0; i < timeline->memory->len; i++)
    bytes = MAX (bytes, g_array_index (timeline->memory, PsMemoryPoint, i).bytes);
  return bytes;
}

gint64
ps_timeline_min_memory (const PsTimeline *timeline)
{
  gint64 bytes = G_MAXINT64;

  for (guint i = 0; i < timeline->memory->len; i++)
    bytes = MIN (bytes, g_array_index (timeline->memory, PsMemoryPoint, i).bytes);
  return bytes;
}

char *
ps_timeline_shades (const PsTimeline *timeline, guint n_chunks)
{
  guint n_slices = ps_timeline_n_slices (timeline), own = MAX (timeline->n_stages / timeline->n_devices, 1);
  g_autofree char *slices
      = n_slices > 1 ? g_strdup_printf ("%u slices of a microbatch: 0a, 0b, ...", n_slices) : g_strdup ("");

  if (n_chunks <= 1)
    return g_steal_pointer (&slices);
  return g_strdup_printf ("%u %s%s%s", n_chunks > own ? 2 : n_chunks,
                          n_chunks > own ? "directions, the second lighter" : "chunks, later ones lighter",
                          *slices ? "; " : "", slices);
}
