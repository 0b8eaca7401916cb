/* observed-load.c - reads what runs left on disk, traces and logs, and takes the profiler's share from traces. */
#include <pipesim/observe.h>

#include "timeline-private.h"

#include <math.h>
#include <string.h>

/* Reading runs */

static void
scale_spans (GArray *spans, double factor)
{
  for (guint i = 0; i < spans->len; i++)
    {
      PsSpan *span = &g_array_index (spans, PsSpan, i);

      span->start_ns = llround ((double)span->start_ns * factor);
      span->end_ns = llround ((double)span->end_ns * factor);
    }
}

#define MIN_FACTOR 0.5 /* no profiler doubles the time of a step, */
#define MAX_FACTOR 1.1 /* and noise alone makes one shorter */

/* Reads the run at "PATH", or at "PATH=T" where there is no file of that name. Its timelines become the last element of
 * runs, its name that of names; a log is added at once. T over the time that an iteration takes goes to factors. */
static gboolean
load_path (PsObserved *observed, const char *text, GPtrArray *runs, GPtrArray *names, GArray *factors, GError **error)
{
  const char *equals = strrchr (text, '=');
  g_autofree char *path = g_strdup (text);
  g_autoptr (GBytes) log = NULL;
  gint64 step_ns = -1;

  if (equals != NULL && equals > text && !g_file_test (text, G_FILE_TEST_EXISTS))
    {
      path[equals - text] = '\0';
      if (!ps_parse_time (text, equals + 1, &step_ns, error))
        return FALSE;
    }
  GPtrArray *timelines = ps_timelines_load_or_log (path, &log, error);
  if (log != NULL && step_ns >= 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is a log of timers, without profiler; PATH without =T would be right",
                      path);
  if (log != NULL)
    return ps_observed_add_log (observed, path, log, error);
  if (timelines == NULL)
    return FALSE;
  g_ptr_array_add (names, g_steal_pointer (&path));
  g_ptr_array_add (runs, timelines);
  double factor = (double)step_ns / (double)MAX (ps_iteration_spread (timelines).median_ns, 1);
  if (step_ns >= 0)
    g_array_append_val (factors, factor);
  return TRUE;
}

/* Adds a run whose times are multiplied; factor 0: as they are. */
static gboolean
add_run (PsObserved *observed, const char *path, GPtrArray *timelines, double factor, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s, times x %.3f as without profiler", path, factor);

  for (guint i = 0; i < timelines->len && factor > 0; i++)
    {
      PsTimeline *timeline = timelines->pdata[i];

      scale_spans (timeline->ops, factor);
      scale_spans (timeline->transfers, factor);
      scale_spans (timeline->posts, factor);
      scale_spans (timeline->waits, factor);
      timeline->iteration_ns = llround ((double)timeline->iteration_ns * factor);
    }
  return ps_observed_add (observed, factor > 0 ? where : path, timelines, error);
}

/* Of the factors the median counts: one disturbed run does no harm. */
gboolean
ps_observed_load (PsObserved *observed, const char *const *paths, guint n, GError **error)
{
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GArray) factors = g_array_new (FALSE, FALSE, sizeof (double));
  double factor = 0;

  for (guint i = 0; i < n; i++)
    if (!load_path (observed, paths[i], runs, names, factors, error))
      return FALSE;
  g_array_sort (factors, ps_compare_double);
  if (factors->len > 0)
    {
      factor = g_array_index (factors, double, factors->len / 2);
      if (factor < MIN_FACTOR || factor > MAX_FACTOR)
        return ps_refuse (error, PS_ERROR_INPUT,
                          "%s: T is %.3g of the time that an iteration takes in the trace, and no profiler does that; "
                          "the time of a step with the profiler off would be right",
                          (const char *)names->pdata[0], factor);
    }
  for (guint i = 0; i < runs->len; i++)
    if (!add_run (observed, names->pdata[i], runs->pdata[i], factor, error))
      return FALSE;
  return TRUE;
}
