/* main.c - the program pipesim-plot, run as `pipesim plot`: draws timelines, sweeps and how good predictions were. */
#include "accuracy-plot.h"
#include "memory-plot.h"
#include "options.h"
#include "timeline-plot.h"

#include <pipesim/formats.h>

#include <locale.h>

typedef gboolean (*DrawTimelines) (const PsPlotOptions *options, PsTimeline *const *timelines, guint n, GError **error);

static gboolean
load_and_draw (const PsPlotOptions *options, DrawTimelines draw, GError **error)
{
  g_autoptr (PsTimeline) first = ps_timeline_load (options->arguments[1], error);
  g_autoptr (PsTimeline) second = NULL;

  if (!first || !options->arguments[2])
    return first && draw (options, &first, 1, error);
  second = ps_timeline_load (options->arguments[2], error);
  return second && draw (options, (PsTimeline *[]){ first, second }, 2, error);
}

static gboolean
timelines_draw (const PsPlotOptions *options, PsTimeline *const *timelines, guint n, GError **error)
{
  return ps_timeline_plot (&options->picture, timelines, n, error);
}

static gboolean
memory_draw (const PsPlotOptions *options, PsTimeline *const *timelines, guint n, GError **error)
{
  return ps_memory_plot (&options->picture, timelines, n, options->limit_bytes, error);
}

static gboolean
draw_timeline (const PsPlotOptions *options, GError **error)
{
  return load_and_draw (options, timelines_draw, error);
}

static gboolean
draw_memory (const PsPlotOptions *options, GError **error)
{
  return load_and_draw (options, memory_draw, error);
}

static gboolean
draw_sweep (const PsPlotOptions *options, GError **error)
{
  g_autoptr (PsResults) results = ps_results_open (options->arguments[1], PS_RESULTS_READ, error);

  if (!results)
    return FALSE;
  if (options->sweep.pareto)
    return ps_pareto_plot (&options->picture, results, &options->sweep, error);
  if (options->sweep.heat)
    return ps_heat_plot (&options->picture, results, &options->sweep, error);
  return ps_sweep_plot (&options->picture, results, &options->sweep, error);
}

static gboolean
draw_accuracy (const PsPlotOptions *options, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (options->arguments[1], PS_COSTDB_READ, error);

  return db && ps_accuracy_plot (&options->picture, options->arguments[1], db, error);
}

static const PsPlotKind kinds[] = {
  { "timeline", "one or two timelines are", 2, draw_timeline },
  { "memory", "one or two timelines are", 2, draw_memory },
  { "sweep", "one RESULTS.db of pipesim sweep is", 1, draw_sweep },
  { "accuracy", "one costs.db with runs of pipesim exec is", 1, draw_accuracy },
  { NULL, NULL, 0, NULL },
};

static gboolean
run (int argc, char **argv, GError **error)
{
  g_auto (PsPlotOptions) options = { 0 };

  return ps_plot_options_parse (&options, kinds, argc, argv, error) && options.kind->draw (&options, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *line = NULL;

  g_log_writer_default_set_use_stderr (TRUE);
  setlocale (LC_CTYPE, "");
  g_set_prgname ("pipesim plot");
  if (run (argc, argv, &error))
    return 0;
  line = g_strdelimit (g_strdup (error->message), "\n\r", ' ');
  g_printerr ("pipesim plot: %s\n", line);
  return ps_error_exit_code (error);
}
