/* options.c - the command line of pipesim plot. */
#include "options.h"

#include <sys/ioctl.h>
#include <unistd.h>

#define MIN_SIDE 200
#define MAX_SIDE 16000

void
ps_plot_options_clear (PsPlotOptions *options)
{
  g_free (options->picture.output);
  g_free (options->picture.title);
  g_free (options->sweep.x);
  g_free (options->sweep.y);
  g_free (options->sweep.series);
  g_free (options->sweep.heat);
  g_free (options->sweep.log);
  g_free (options->sweep.question.by);
  g_strfreev (options->sweep.question.where);
  g_free (options->profile);
  g_free (options->size);
  g_free (options->limit);
  g_strfreev (options->arguments);
}

static gboolean
usage_error (GError **error, const char *where, const char *value, const char *right)
{
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: '%s' %s", where, value, right);
  return FALSE;
}

static gboolean
missing (GError **error, const char *option, const char *right)
{
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: missing; %s", option, right);
  return FALSE;
}

static gboolean
parse_side (const char *text, guint *side)
{
  gint64 value;

  if (!ps_parse_integer ("--size", text, MIN_SIDE, MAX_SIDE, &value, NULL))
    return FALSE;
  *side = (guint)value;
  return TRUE;
}

static gboolean
parse_size (PsPlotOptions *options, GError **error)
{
  g_auto (GStrv) sides = NULL;

  if (options->size == NULL)
    return TRUE;
  sides = g_strsplit (options->size, "x", -1);
  if (g_strv_length (sides) == 2 && parse_side (sides[0], &options->picture.width)
      && parse_side (sides[1], &options->picture.height))
    return TRUE;
  return usage_error (error, "--size", options->size, "is no WIDTHxHEIGHT in pixels, each from 200 to 16000");
}

/* A side of the window: from the environment, else from the system, else the usual size. */
static guint
window_side (const char *variable, guint least, guint system, guint usual)
{
  const char *text = g_getenv (variable);
  gint64 value;

  if (text != NULL && ps_parse_integer (variable, text, least, 1000, &value, NULL))
    return (guint)value;
  return CLAMP (system ? system : usual, least, 1000);
}

static gboolean
parse_window (PsPlotOptions *options, GError **error)
{
  struct winsize window = { 0 };

  if (options->picture.output != NULL)
    return usage_error (error, "--terminal", options->picture.output, "does not go with it; -o writes a file");
  if (options->size != NULL)
    return usage_error (error, "--terminal", options->size, "does not go with it; COLUMNS and LINES say its size");
  if (ioctl (STDOUT_FILENO, TIOCGWINSZ, &window) != 0)
    window = (struct winsize){ 0 };
  options->picture.width = PS_TERMINAL_COLUMN * window_side ("COLUMNS", 60, window.ws_col, 100);
  options->picture.height = PS_TERMINAL_ROW * (window_side ("LINES", 20, window.ws_row, 41) - 1);
  options->picture.plain = !isatty (STDOUT_FILENO) || g_getenv ("NO_COLOR") != NULL;
  return TRUE;
}

static const PsPlotKind *
find_kind (const PsPlotKind *kinds, const char *name, GError **error)
{
  g_autoptr (GString) names = g_string_new (NULL);

  for (guint i = 0; kinds[i].name != NULL; i++)
    if (g_str_equal (kinds[i].name, name))
      return &kinds[i];
    else
      g_string_append_printf (names, "%s%s", i == 0 ? "" : kinds[i + 1].name != NULL ? ", " : " or ", kinds[i].name);
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "plot: '%s' is nothing to draw; %s is", name, names->str);
  return NULL;
}

/* Refuses options of other sorts of pictures. */
static gboolean
check_owner (const PsPlotOptions *options, GError **error)
{
  const PsSweepPicture *sweep = &options->sweep;
  const struct
  {
    const char *option;
    const char *kind;
    gboolean given;
  } owners[] = {
    { "--limit", "memory", options->limit != NULL },
    { "--transfers", "timeline", options->picture.transfers },
    { "--profile", "calibration", options->profile != NULL },
    { "--x", "sweep", sweep->x != NULL },
    { "--y", "sweep", sweep->y != NULL },
    { "--series", "sweep", sweep->series != NULL },
    { "--heat", "sweep", sweep->heat != NULL },
    { "--pareto", "sweep", sweep->pareto },
    { "--log", "sweep", sweep->log != NULL },
    { "--by", "sweep", sweep->question.by != NULL },
    { "--where", "sweep", sweep->question.where != NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (owners); i++)
    if (owners[i].given && !g_str_equal (owners[i].kind, options->kind->name))
      {
        g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: belongs to %s, not to %s", owners[i].option, owners[i].kind,
                     options->kind->name);
        return FALSE;
      }
  return TRUE;
}

/* Checks that lines and maps have both axes; a front has its own. */
static gboolean
check_sweep (const PsPlotOptions *options, GError **error)
{
  static const char *const axes[] = { "none", "x", "y", "xy", NULL };
  const PsSweepPicture *sweep = &options->sweep;

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
    return missing (error, sweep->x != NULL ? "--y" : "--x", "give --x FIELD --y FIELD, or --pareto");
  return TRUE;
}

static gboolean
check_arguments (PsPlotOptions *options, const PsPlotKind *kinds, GError **error)
{
  guint n = options->arguments != NULL ? g_strv_length (options->arguments) : 0;

  options->kind = find_kind (kinds, n > 0 ? options->arguments[0] : "", error);
  if (options->kind == NULL)
    return FALSE;
  if (n >= 2 && n - 1 <= options->kind->max_files)
    return check_owner (options, error) && check_sweep (options, error);
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u files given; %s wanted", options->kind->name, n - 1,
               options->kind->files);
  return FALSE;
}

static void
add_options (GOptionContext *context, PsPlotOptions *options)
{
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->picture.output, "picture to write: .svg, .png or .pdf",
      "FILE" },
    { "terminal", 0, 0, G_OPTION_ARG_NONE, &options->picture.terminal,
      "draw as text on standard output, as large as the window (COLUMNS x LINES), in place of -o", NULL },
    { "title", 0, 0, G_OPTION_ARG_STRING, &options->picture.title, "title in place of the picture's own", "TEXT" },
    { "size", 0, 0, G_OPTION_ARG_STRING, &options->size, "pixels (PDF: 1/96 inch)", "WIDTHxHEIGHT" },
    { "limit", 0, 0, G_OPTION_ARG_STRING, &options->limit, "memory: draw this limit", "SIZE" },
    { "transfers", 0, 0, G_OPTION_ARG_NONE, &options->picture.transfers,
      "timeline: draw transfers as lines from the sender to the receiver", NULL },
    { "profile", 0, 0, G_OPTION_ARG_STRING, &options->profile, "calibration: profile to draw (default: the only one)",
      "NAME" },
    { "x", 0, 0, G_OPTION_ARG_STRING, &options->sweep.x, "sweep: column along the horizontal axis", "FIELD" },
    { "y", 0, 0, G_OPTION_ARG_STRING, &options->sweep.y, "sweep: column along the vertical axis", "FIELD" },
    { "series", 0, 0, G_OPTION_ARG_STRING, &options->sweep.series,
      "sweep: one line or colour for each value of this column", "FIELD" },
    { "pareto", 0, 0, G_OPTION_ARG_NONE, &options->sweep.pareto,
      "sweep: draw time against peak memory, and the front for each number of devices", NULL },
    { "heat", 0, 0, G_OPTION_ARG_STRING, &options->sweep.heat,
      "sweep: draw a map over x and y coloured by this column; schedule shows who wins where", "FIELD" },
    { "log", 0, 0, G_OPTION_ARG_STRING, &options->sweep.log,
      "sweep: logarithmic axes (default: where values spread over a factor of eight or crowd near the least)",
      "none|x|y|xy" },
    { "by", 0, 0, G_OPTION_ARG_STRING, &options->sweep.question.by,
      "sweep: of several settings at one point draw the one with the smallest FIELD (default: sequence_ns)", "FIELD" },
    { "where", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->sweep.question.where,
      "sweep: only settings with this value; != <= >= < > also work; several must all hold", "FIELD=VALUE" },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->arguments, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

gboolean
ps_plot_options_parse (PsPlotOptions *options, const PsPlotKind *kinds, int argc, char **argv, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new ("timeline|memory|sweep|accuracy|calibration FILE [FILE2]");

  g_option_context_set_summary (
      context,
      "timeline, memory: draws one timeline, or two on one time axis: predicted above measured.\n"
      "sweep:            draws RESULTS.db of pipesim sweep: lines (--x, --y), a front (--pareto), a map (--heat).\n"
      "accuracy:         draws predicted against measured iteration times of all runs in a costs.db.\n"
      "calibration:      draws a profile of a costs.db, or of calib export: messages with the fitted alpha + beta n,\n"
      "                  and ops.");
  g_option_context_set_description (context,
                                    "The bubble ratio of all families against m:\n"
                                    "  pipesim plot sweep results.db --x microbatches --y bubble_ratio --series "
                                    "schedule -o bubbles.svg\n");
  add_options (context, options);
  if (!g_option_context_parse (context, &argc, &argv, error) || !check_arguments (options, kinds, error)
      || !parse_size (options, error)
      || (options->limit != NULL && !ps_parse_size ("--limit", options->limit, &options->limit_bytes, error)))
    return FALSE;
  if (options->sweep.question.by == NULL)
    options->sweep.question.by = g_strdup ("sequence_ns");
  if (options->picture.terminal)
    return parse_window (options, error);
  if (options->picture.output != NULL)
    return ps_picture_check (&options->picture, error);
  return missing (error, "-o", "name a file ending in .svg, .png or .pdf, or give --terminal");
}
