/* main.c - the program pipesim-plot, run as `pipesim plot`: draws timelines, sweeps, measured costs and the accuracy of
 * predictions. */
#include "accuracy-plot.h"
#include "calibration-plot.h"
#include "loss-plot.h"
#include "memory-plot.h"
#include "options.h"
#include "program.h"
#include "timeline-plot.h"
#include "timeline-text.h"

#include <stdio.h>

typedef gboolean (*DrawTimelines) (const PsPlotOptions *options, PsTimeline *const *timelines, guint n, GError **error);

static gboolean
load_and_draw (const PsPlotOptions *options, DrawTimelines draw, GError **error)
{
  g_autoptr (PsTimeline) first = ps_plot_load (options->arguments[1], error);

  if (first == NULL || options->arguments[2] == NULL)
    return first != NULL && draw (options, &first, 1, error);
  g_autoptr (PsTimeline) second = ps_plot_load (options->arguments[2], error);
  return second != NULL && draw (options, (PsTimeline *[]){ first, second }, 2, error);
}

static gboolean
timelines_draw (const PsPlotOptions *options, PsTimeline *const *timelines, guint n, GError **error)
{
  const PsPicture *picture = &options->picture;

  if (picture->terminal)
    {
      g_autofree char *text = ps_timeline_to_text (timelines, n, picture->width / PS_TERMINAL_COLUMN, picture->plain);

      return picture->plain ? ps_print (text, error) : ps_print_coloured (text, error);
    }
  return ps_timeline_plot (picture, timelines, n, error);
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
  g_autofree char *left_out = results != NULL ? ps_question_left_out (results, &options->sweep.question, error) : NULL;

  if (left_out == NULL)
    return FALSE;
  if (*left_out)
    g_printerr ("left out: %s\n", left_out);
  if (options->sweep.pareto)
    return ps_pareto_plot (&options->picture, results, &options->sweep, error);
  if (options->sweep.heat != NULL)
    return ps_heat_plot (&options->picture, results, &options->sweep, error);
  return ps_sweep_plot (&options->picture, results, &options->sweep, error);
}

static gboolean
draw_loss (const PsPlotOptions *options, GError **error)
{
  return ps_loss_plot (&options->picture, options->arguments + 1, g_strv_length (options->arguments + 1), error);
}

static gboolean
draw_accuracy (const PsPlotOptions *options, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (options->arguments[1], PS_COSTDB_READ, error);

  return db != NULL && ps_accuracy_plot (&options->picture, options->arguments[1], db, error);
}

/* A profile as text is JSON; no database begins with its brace. */
static gboolean
is_text (const char *path)
{
  FILE *file = fopen (path, "rb");
  gboolean is = file != NULL && getc (file) == '{';

  if (file != NULL)
    fclose (file);
  return is;
}

static PsProfileContents *
read_text (const PsPlotOptions *options, GError **error)
{
  const char *path = options->arguments[1];
  g_autofree char *text = NULL;
  gsize length;

  if (options->profile != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--profile: '%s' chooses in a database; %s is one profile as text",
                           options->profile, path);
  return ps_read_file (path, &text, &length, error) ? ps_profile_contents_parse (path, text, length, error) : NULL;
}

static PsProfileContents *
read_database (const PsPlotOptions *options, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (options->arguments[1], PS_COSTDB_READ, error);

  return db != NULL ? ps_profile_contents_load (db, options->profile, FALSE, error) : NULL;
}

static gboolean
draw_calibration (const PsPlotOptions *options, GError **error)
{
  const char *path = options->arguments[1];
  g_autoptr (PsProfileContents) contents = is_text (path) ? read_text (options, error) : read_database (options, error);

  return contents != NULL && ps_calibration_plot (&options->picture, path, contents, error);
}

static const PsPlotKind kinds[] = {
  { "timeline", "one or two timelines are", 2, draw_timeline },
  { "memory", "one or two timelines are", 2, draw_memory },
  { "sweep", "one RESULTS.db of pipesim sweep is", 1, draw_sweep },
  { "loss", "up to 8 FILE.csv of pipesim exec --losses are", PS_LOSS_MAX_FILES, draw_loss },
  { "accuracy", "one costs.db with runs of pipesim exec is", 1, draw_accuracy },
  { "calibration", "one costs.db of pipesim calib, or one profile as text, is", 1, draw_calibration },
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
  return ps_plot_program ("pipesim plot", run, argc, argv);
}
