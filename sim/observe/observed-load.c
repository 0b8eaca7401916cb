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

static void
scale (GPtrArray *timelines, double factor)
{
  for (guint i = 0; i < timelines->len; i++)
    {
      PsTimeline *timeline = timelines->pdata[i];

      scale_spans (timeline->ops, factor);
      scale_spans (timeline->transfers, factor);
      scale_spans (timeline->posts, factor);
      scale_spans (timeline->waits, factor);
      timeline->iteration_ns = llround ((double)timeline->iteration_ns * factor);
    }
}

static gint64
usual_iteration (GPtrArray *timelines)
{
  g_autofree gint64 *times = g_new (gint64, MAX (timelines->len, 1));

  for (guint i = 0; i < timelines->len; i++)
    times[i] = ((const PsTimeline *)timelines->pdata[i])->iteration_ns;
  return timelines->len > 0 ? ps_median (times, timelines->len) : 0;
}

/* Divides "PATH=T" where there is no file of that name. *step_ns: T; -1: there is none. */
static gboolean
split_path (const char *text, char **path, gint64 *step_ns, GError **error)
{
  const char *equals = strrchr (text, '=');

  *step_ns = -1;
  *path = g_strdup (text);
  if (equals == NULL || equals == text || g_file_test (text, G_FILE_TEST_EXISTS))
    return TRUE;
  (*path)[equals - text] = '\0';
  return ps_parse_time (text, equals + 1, step_ns, error);
}

#define MIN_FACTOR 0.5 /* no profiler doubles the time of a step, */
#define MAX_FACTOR 1.1 /* and noise alone makes one shorter */

/* The factors in order, and the median among them is possible. One disturbed run does no harm. */
static gboolean
check_factors (GArray *factors, const char *path, GError **error)
{
  g_array_sort (factors, ps_compare_double);
  double factor = factors->len > 0 ? g_array_index (factors, double, factors->len / 2) : 1;
  if (factor >= MIN_FACTOR && factor <= MAX_FACTOR)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_INPUT,
      "%s: T is %.3g of the time that an iteration takes in the trace, and no profiler does that; the time "
      "of a step with the profiler off would be right",
      path, factor);
}

/* The timelines of a path become the last element of runs, its name that of names; a log is added at once. */
static gboolean
load_path (PsObserved *observed, const char *text, GPtrArray *runs, GPtrArray *names, GArray *factors, GError **error)
{
  g_autofree char *path = NULL;
  g_autoptr (GBytes) log = NULL;
  gint64 step_ns;
  gboolean ok = split_path (text, &path, &step_ns, error);
  GPtrArray *timelines = ok ? ps_timelines_load_or_log (path, &log, error) : NULL;

  if (log != NULL && step_ns >= 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is a log of timers, without profiler; PATH without =T would be right",
                      path);
  if (log != NULL)
    return ps_observed_add_log (observed, path, log, error);
  if (timelines == NULL)
    return FALSE;
  g_ptr_array_add (names, g_steal_pointer (&path));
  g_ptr_array_add (runs, timelines);
  double factor = (double)step_ns / (double)MAX (usual_iteration (timelines), 1);
  if (step_ns >= 0)
    g_array_append_val (factors, factor);
  return TRUE;
}

static gboolean
add_run (PsObserved *observed, const char *path, GPtrArray *timelines, const GArray *factors, GError **error)
{
  if (factors->len == 0)
    return ps_observed_add (observed, path, timelines, error);
  double factor = g_array_index (factors, double, factors->len / 2);
  scale (timelines, factor);
  g_autofree char *where = g_strdup_printf ("%s, times x %.3f as without profiler", path, factor);
  return ps_observed_add (observed, where, timelines, error);
}

gboolean
ps_observed_load (PsObserved *observed, const char *const *paths, guint n, GError **error)
{
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GArray) factors = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < n; i++)
    if (!load_path (observed, paths[i], runs, names, factors, error))
      return FALSE;
  if (runs->len > 0 && !check_factors (factors, names->pdata[0], error))
    return FALSE;
  for (guint i = 0; i < runs->len; i++)
    if (!add_run (observed, names->pdata[i], runs->pdata[i], factors, error))
      return FALSE;
  return TRUE;
}
