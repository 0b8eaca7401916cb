/* main.c - the program pipesim-plot, run as `pipesim plot`: draws timelines, sweeps, measured costs and the accuracy of
 * predictions. */
#include "calibration-plot.h"
#include "sweep-plot.h"
#include "timeline-plot.h"

#include <pipesim/option.h>

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <stdio.h>

typedef struct _PsPlotOptions PsPlotOptions;

/* One sort of picture. */
typedef struct {
  const char *name;
  const char *files; /* the files that are drawn, for messages: "one or two timelines are" */
  guint max_files;
  gboolean (*draw) (const PsPlotOptions *options, GError **error);
} PsPlotKind;

struct _PsPlotOptions {
  const PsPlotKind *kind;
  PsPicture picture;
  PsSweepPicture sweep;
  char *profile; /* NULL: the only one */
  char *size;
  gint64 limit_bytes; /* 0: none */
  char **arguments;   /* the sort of picture, then the files */
};

/* The command line of pipesim plot. */

#define MIN_SIDE 200
#define MAX_SIDE 16000

/* The help of an option that belongs to one sort of picture begins with its name. */
static const PsOption rows[] = {
  PS_OPTION ("output", 'o', PS_FILE (PsPlotOptions, picture.output), "FILE", "Picture to write: .svg, .png or .pdf",
             .otherwise = "none; --terminal draws without it", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("terminal", 0, PS_FLAG (PsPlotOptions, picture.terminal), NULL,
             "Draw as text on standard output, as large as the window (COLUMNS x LINES), in place of -o",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("title", 0, PS_TEXT (PsPlotOptions, picture.title), "TEXT", "Title", .otherwise = "the picture's own",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("size", 0, PS_TEXT (PsPlotOptions, size), "WIDTHxHEIGHT", "Pixels (PDF: 1/96 inch)",
             .otherwise = "as the picture needs", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("memory-limit", 0, PS_SIZE (PsPlotOptions, limit_bytes), "SIZE", "memory: draw this limit",
             .otherwise = "none"),
  PS_OPTION ("transfers", 0, PS_FLAG (PsPlotOptions, picture.transfers), NULL,
             "timeline: draw transfers as lines from the sender to the receiver"),
  PS_OPTION ("profile", 0, PS_TEXT (PsPlotOptions, profile), "NAME", "calibration: profile to draw",
             .otherwise = "the only one"),
  PS_OPTION ("x", 0, PS_TEXT (PsPlotOptions, sweep.x), "COLUMN", "sweep: column along the horizontal axis"),
  PS_OPTION ("y", 0, PS_TEXT (PsPlotOptions, sweep.y), "COLUMN", "sweep: column along the vertical axis"),
  PS_OPTION ("series", 0, PS_TEXT (PsPlotOptions, sweep.series), "COLUMN",
             "sweep: one line or colour for each value of this column"),
  PS_OPTION ("pareto", 0, PS_FLAG (PsPlotOptions, sweep.pareto), NULL,
             "sweep: draw time against peak memory, and the front for each number of devices"),
  PS_OPTION ("heat", 0, PS_TEXT (PsPlotOptions, sweep.heat), "COLUMN",
             "sweep: draw a map over x and y coloured by this column; schedule shows who wins where"),
  PS_OPTION ("log", 0, PS_TEXT (PsPlotOptions, sweep.log), "none|x|y|xy", "sweep: logarithmic axes",
             .otherwise = "where values spread over a factor of eight or crowd near the least"),
  PS_OPTION ("by", 0, PS_TEXT (PsPlotOptions, sweep.question.by), "COLUMN",
             "sweep: of several settings at one point draw the one with the smallest COLUMN",
             .otherwise = "sequence_ns"),
  PS_OPTION ("where", 0, PS_TEXTS (PsPlotOptions, sweep.question.where), "COLUMN=VALUE",
             "sweep: only settings with this value; != <= >= < > also work; several must all hold"),
  PS_OPTION ("", 0, PS_FILES (PsPlotOptions, arguments), NULL, ""),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .arguments = "timeline|memory|sweep|loss|accuracy|calibration FILE [FILE2...]",
  .summary
  = "timeline, memory: draws one timeline or trace, or two on one time axis: predicted above measured.\n"
    "sweep:            draws RESULTS.db of pipesim sweep: lines (--x, --y), a front (--pareto), a map (--heat).\n"
    "loss:             draws the losses in files of pipesim exec --losses over their steps.\n"
    "accuracy:         draws predicted against measured iteration times of all runs in a costs.db.\n"
    "calibration:      draws a profile of a costs.db, or of calib export: messages with the fitted alpha + beta n, "
    "and ops.",
  .examples = "pipesim plot timeline predicted.json measured.json -o timeline.svg\n"
              "pipesim plot timeline predicted.json --terminal\n"
              "pipesim plot sweep results.db --x microbatches --y bubble_ratio --series schedule -o bubbles.svg\n",
};

static void plot_options_clear (PsPlotOptions *options)
{
  ps_options_reset (rows, options);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsPlotOptions, plot_options_clear)

static gboolean usage_error (GError **error, const char *where, const char *value, const char *right)
{
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' %s", where, value, right);
}

static gboolean missing (GError **error, const char *option, const char *right)
{
  return ps_refuse (error, PS_ERROR_USAGE, "%s: missing; %s", option, right);
}

static gboolean parse_side (const char *text, guint *side)
{
  gint64 value;

  if (!ps_parse_integer ("--size", text, MIN_SIDE, MAX_SIDE, &value, NULL))
    return FALSE;
  *side = (guint)value;
  return TRUE;
}

static gboolean parse_size (PsPlotOptions *options, GError **error)
{
  if (options->size == NULL)
    return TRUE;
  g_auto (GStrv) sides = g_strsplit (options->size, "x", -1);
  if (g_strv_length (sides) == 2 && parse_side (sides[0], &options->picture.width)
      && parse_side (sides[1], &options->picture.height))
    return TRUE;
  return usage_error (error, "--size", options->size, "is no WIDTHxHEIGHT in pixels, each from 200 to 16000");
}

/* The lines of the window: from the environment, else from the system, else the usual number. */
static guint window_lines (void)
{
  const char *text = g_getenv ("LINES");
  struct winsize window = { 0 };
  gint64 value;

  if (text != NULL && ps_parse_integer ("LINES", text, 20, 1000, &value, NULL))
    return (guint)value;
  return ioctl (STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 ? CLAMP (window.ws_row, 20, 1000) : 41;
}

static gboolean parse_window (PsPlotOptions *options, GError **error)
{
  guint columns = ps_window_columns ();

  if (options->picture.output != NULL)
    return usage_error (error, "--terminal", options->picture.output, "does not go with it; -o writes a file");
  if (options->size != NULL)
    return usage_error (error, "--terminal", options->size, "does not go with it; COLUMNS and LINES say its size");
  if (options->picture.transfers)
    return usage_error (error, "--terminal", "--transfers", "does not go with it; text has no lines between devices");
  options->picture.width = PS_TERMINAL_COLUMN * (columns > 0 ? MAX (columns, 60) : 100);
  options->picture.height = PS_TERMINAL_ROW * (window_lines () - 1);
  options->picture.plain = !isatty (STDOUT_FILENO) || g_getenv ("NO_COLOR") != NULL;
  return TRUE;
}

static const PsPlotKind *find_kind (const PsPlotKind *kinds, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *problem = g_strdup_printf ("'%s' is nothing to draw; there are", name);

  for (guint i = 0; kinds[i].name != NULL; i++) {
    if (g_str_equal (kinds[i].name, name))
      return &kinds[i];
    g_ptr_array_add (names, (gpointer)kinds[i].name);
  }
  ps_refuse_name (error, problem, name, (const char *const *)names->pdata, names->len);
  return NULL;
}

/* Refuses options of other sorts of pictures. */
static gboolean check_owner (const PsPlotOptions *options, const PsPlotKind *kinds, GError **error)
{
  for (; kinds->name != NULL; kinds++)
    for (const PsOption *row = rows; row->name != NULL; row++) {
      gsize length = strlen (kinds->name);

      if (kinds == options->kind || strncmp (row->help, kinds->name, length) != 0 || row->help[length] != ':'
          || ps_option_is_initial (row, options))
        continue;
      return ps_refuse (error, PS_ERROR_USAGE, "--%s: belongs to %s, not to %s", row->name, kinds->name,
                        options->kind->name);
    }
  return TRUE;
}

static gboolean resolve_columns (PsSweepPicture *sweep, GError **error)
{
  return (sweep->x == NULL || ps_result_column_resolve ("--x", &sweep->x, TRUE, error))
         && (sweep->y == NULL || ps_result_column_resolve ("--y", &sweep->y, TRUE, error))
         && (sweep->series == NULL || ps_result_column_resolve ("--series", &sweep->series, FALSE, error))
         && (sweep->heat == NULL || ps_result_column_resolve ("--heat", &sweep->heat, FALSE, error))
         && (sweep->question.by == NULL || ps_result_column_resolve ("--by", &sweep->question.by, TRUE, error));
}

/* Checks that lines and maps have both axes; a front has its own. */
static gboolean check_sweep (PsPlotOptions *options, GError **error)
{
  static const char *const axes[] = { "none", "x", "y", "xy", NULL };
  PsSweepPicture *sweep = &options->sweep;

  if (!g_str_equal (options->kind->name, "sweep"))
    return TRUE;
  if (sweep->pareto && (sweep->x != NULL || sweep->y != NULL || sweep->heat != NULL))
    return usage_error (error, "--pareto",
                        sweep->x != NULL   ? "--x"
                        : sweep->y != NULL ? "--y"
                                           : "--heat",
                        "does not go with it; it draws time against peak memory");
  if (sweep->heat != NULL && sweep->series != NULL)
    return usage_error (error, "--heat", "--series", "does not go with it; a map has one box for each pair of values");
  if (sweep->log != NULL && !g_strv_contains (axes, sweep->log))
    return usage_error (error, "--log", sweep->log, "is not one of none, x, y, xy");
  if (!sweep->pareto && (sweep->x == NULL || sweep->y == NULL))
    return missing (error, sweep->x != NULL ? "--y" : "--x", "give --x COLUMN --y COLUMN, or --pareto");
  return resolve_columns (sweep, error);
}

static gboolean check_arguments (PsPlotOptions *options, const PsPlotKind *kinds, GError **error)
{
  guint n = options->arguments != NULL ? g_strv_length (options->arguments) : 0;

  options->kind = find_kind (kinds, n > 0 ? options->arguments[0] : "", error);
  if (options->kind == NULL)
    return FALSE;
  if (n >= 2 && n - 1 <= options->kind->max_files)
    return check_owner (options, kinds, error) && check_sweep (options, error);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u file%s given; %s wanted", options->kind->name, n - 1,
                    n == 2 ? "" : "s", options->kind->files);
}

/* Reads and checks the command line; kinds end with a NULL name. */
static gboolean plot_options_parse (PsPlotOptions *options, const PsPlotKind *kinds, int argc, char **argv,
                                    GError **error)
{
  if (!ps_command_parse (&help, rows, options, &argc, &argv, error) || !check_arguments (options, kinds, error)
      || !parse_size (options, error))
    return FALSE;
  if (options->sweep.question.by == NULL)
    options->sweep.question.by = g_strdup ("sequence_ns");
  if (options->picture.terminal)
    return parse_window (options, error);
  if (options->picture.output != NULL)
    return ps_picture_check (&options->picture, error);
  return missing (error, "-o", "name a file ending in .svg, .png or .pdf, or give --terminal");
}

/* Pictures of real runs: predictions against them, and their losses. */

/* A frame about as high as it is wide, and room for the names right of it. */
#define ACCURACY_WIDTH 828
#define ACCURACY_HEIGHT 640

/* Draws predicted against measured iteration time of all stored runs that have both, with the diagonal and a band of 5
 * % around it. */
static gboolean draw_accuracy (const PsPlotOptions *options, GError **error)
{
  const char *path = options->arguments[1];
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, error);
  g_autoptr (GPtrArray) runs = db != NULL ? ps_costdb_runs (db, error) : NULL, all = ps_plot_series_new ();
  g_autoptr (GArray) millionths = g_array_new (FALSE, FALSE, sizeof (gint64)); /* |predicted - measured| / measured */
  g_autoptr (GString) script = g_string_new (NULL);
  gint64 longest_ns = 0;

  for (guint i = 0; runs != NULL && i < runs->len; i++) {
    const PsRunRecord *run = runs->pdata[i];
    gint64 predicted_ns = run->predicted_iteration_ns, measured_ns = run->measured_iteration_ns;
    g_autofree char *name = g_strdup_printf ("%s on %s", run->schedule, run->device);

    if (predicted_ns <= 0 || measured_ns <= 0)
      continue;
    double deviation = fabs ((double)predicted_ns / (double)measured_ns - 1);
    g_array_append_val (millionths, ((gint64){ llround (MIN (deviation, 1e6) * 1e6) }));
    longest_ns = MAX (longest_ns, MAX (predicted_ns, measured_ns));
    ps_plot_series_add (all, name, run->schedule, (double)measured_ns, (double)predicted_ns, NULL);
  }
  if (runs == NULL)
    return FALSE;
  if (all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no real run with its prediction; pipesim exec --db stores them",
                      path);
  PsPlotUnit unit = ps_plot_time_unit (longest_ns);
  gint64 median = ps_median ((gint64 *)(gpointer)millionths->data, millionths->len);
  g_autofree char *title = g_strdup_printf ("predictions against %u run%s: half of them within %.2f %%",
                                            millionths->len, millionths->len == 1 ? "" : "s", (double)median / 1e4);
  g_autofree char *x_label = g_strdup_printf ("measured iteration time (%s)", unit.name);
  g_autofree char *y_label = g_strdup_printf ("simulated iteration time (%s)", unit.name);
  ps_gnuplot_append_text (script, "x_label", x_label);
  ps_gnuplot_append_text (script, "y_label", y_label);
  ps_plot_series_append (all, "series", unit.size, unit.size, script);
  return ps_gnuplot_draw (&options->picture, title, ACCURACY_WIDTH, ACCURACY_HEIGHT, script->str, "accuracy.gp", error);
}

#define LOSS_WIDTH 720
#define LOSS_HEIGHT 400
#define MAX_LOSS_FILES 8

/* The place of a column in the first line; -1: it has none of that name. */
static int find_column (char *const *head, const char *name)
{
  for (int i = 0; head[i] != NULL; i++)
    if (g_str_equal (head[i], name))
      return i;
  return -1;
}

static gboolean read_number (char *const *cells, int column, double *value)
{
  char *end;

  if ((guint)column >= g_strv_length ((char **)cells))
    return FALSE;
  *value = g_ascii_strtod (cells[column], &end);
  return end != cells[column] && *end == '\0' && fabs (*value) < 1e15;
}

/* Adds the lines of a file, whose end a killed run may have left without a line end. */
static gboolean add_file (GPtrArray *all, const char *path, GError **error)
{
  g_autofree char *text = NULL, *name = g_path_get_basename (path);

  if (!ps_read_file (path, &text, NULL, error))
    return FALSE;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1), head = g_strsplit (lines[0] != NULL ? lines[0] : "", ",", -1);
  int step = find_column (head, "step"), loss = find_column (head, "loss");
  if (step < 0 || loss < 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s:1: has no columns 'step' and 'loss'; pipesim exec --losses writes them", path);
  for (guint i = 1; lines[i] != NULL && *lines[i] != '\0'; i++) {
    g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);
    double x, y;

    if (!read_number (cells, step, &x) || !read_number (cells, loss, &y))
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: step or loss is no number", path, i + 1);
    ps_plot_series_add (all, name, NULL, x, y, NULL);
  }
  return TRUE;
}

/* Draws a line for each file, as pipesim exec --losses writes them: CSV with the columns step and loss among others. */
static gboolean draw_loss (const PsPlotOptions *options, GError **error)
{
  g_autoptr (GPtrArray) all = ps_plot_series_new ();
  g_autoptr (GString) script = g_string_new (NULL);

  for (guint i = 1; options->arguments[i] != NULL; i++)
    if (!add_file (all, options->arguments[i], error))
      return FALSE;
  if (all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: no step has ended", options->arguments[1]);
  ps_plot_series_append (all, "series", 1, 1, script);
  return ps_gnuplot_draw (&options->picture, "measured loss of each step", LOSS_WIDTH, LOSS_HEIGHT, script->str,
                          "loss.gp", error);
}

/* The kinds of pictures. */

/* Draws one or two timelines, or their memory. */
static gboolean draw_timelines (const PsPlotOptions *options, GError **error)
{
  const PsPicture *picture = &options->picture;
  guint n = g_strv_length (options->arguments) - 1;
  g_autoptr (PsTimeline) first = ps_plot_load (options->arguments[1], error);
  g_autoptr (PsTimeline) second = first != NULL && n > 1 ? ps_plot_load (options->arguments[2], error) : NULL;
  PsTimeline *timelines[] = { first, second };

  if (timelines[n - 1] == NULL)
    return FALSE;
  if (g_str_equal (options->kind->name, "memory"))
    return ps_memory_plot (picture, timelines, n, options->limit_bytes, error);
  if (!picture->terminal)
    return ps_timeline_plot (picture, timelines, n, error);
  const PsTimelineText style = { .columns = picture->width / PS_TERMINAL_COLUMN, .colour = !picture->plain };
  g_autofree char *text = ps_timelines_to_text (timelines, n, &style, NULL);
  return picture->plain ? ps_print (text, error) : ps_print_coloured (text, error);
}

static gboolean draw_sweep (const PsPlotOptions *options, GError **error)
{
  g_autoptr (PsResults) results = ps_results_open (options->arguments[1], PS_RESULTS_READ, error);
  g_autofree char *left_out = results != NULL ? ps_question_left_out (results, &options->sweep.question, error) : NULL;

  if (left_out == NULL)
    return FALSE;
  if (*left_out)
    g_printerr ("left out: %s\n", left_out);
  return ps_sweep_plot (&options->picture, results, &options->sweep, error);
}

/* A profile as text is JSON; no database begins with its brace. */
static gboolean is_text (const char *path)
{
  FILE *file = fopen (path, "rb");
  gboolean is = file != NULL && getc (file) == '{';

  if (file != NULL)
    fclose (file);
  return is;
}

static PsProfileContents *read_text (const PsPlotOptions *options, GError **error)
{
  const char *path = options->arguments[1];
  g_autofree char *text = NULL;
  gsize length;

  if (options->profile != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--profile: '%s' chooses in a database; %s is one profile as text",
                           options->profile, path);
  return ps_read_file (path, &text, &length, error) ? ps_profile_contents_parse (path, text, length, error) : NULL;
}

static PsProfileContents *read_database (const PsPlotOptions *options, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (options->arguments[1], PS_COSTDB_READ, error);

  return db != NULL ? ps_profile_contents_load (db, options->profile, FALSE, error) : NULL;
}

static gboolean draw_calibration (const PsPlotOptions *options, GError **error)
{
  const char *path = options->arguments[1];
  g_autoptr (PsProfileContents) contents = is_text (path) ? read_text (options, error) : read_database (options, error);

  return contents != NULL && ps_calibration_plot (&options->picture, path, contents, error);
}

static const PsPlotKind kinds[] = {
  { "timeline", "one or two timelines are", 2, draw_timelines },
  { "memory", "one or two timelines are", 2, draw_timelines },
  { "sweep", "one RESULTS.db of pipesim sweep is", 1, draw_sweep },
  { "loss", "up to 8 FILE.csv of pipesim exec --losses are", MAX_LOSS_FILES, draw_loss },
  { "accuracy", "one costs.db with runs of pipesim exec is", 1, draw_accuracy },
  { "calibration", "one costs.db of pipesim calib, or one profile as text, is", 1, draw_calibration },
  { NULL, NULL, 0, NULL },
};

static gboolean run (int argc, char **argv, GError **error)
{
  g_auto (PsPlotOptions) options = { 0 };

  return plot_options_parse (&options, kinds, argc, argv, error) && options.kind->draw (&options, error);
}

int main (int argc, char **argv)
{
  return ps_plot_program ("pipesim plot", run, argc, argv);
}
