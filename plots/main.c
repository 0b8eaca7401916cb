/* main.c - the program pipesim-plot, run as `pipesim plot`: draws timelines and their memory. */
#include "gnuplot.h"
#include "memory-plot.h"
#include "timeline-plot.h"

#include <pipesim/formats.h>

#include <locale.h>

#define MIN_SIDE 200
#define MAX_SIDE 16000

typedef struct
{
  PsPicture picture;
  char *size;
  char *limit;
  gint64 limit_bytes; /* 0: none */
  char **arguments;   /* what to draw, then one or two files */
} Options;

static void
options_clear (Options *options)
{
  g_free (options->picture.output);
  g_free (options->picture.title);
  g_free (options->size);
  g_free (options->limit);
  g_strfreev (options->arguments);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
usage_error (GError **error, const char *where, const char *value, const char *right)
{
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: '%s' %s", where, value, right);
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
parse_size (Options *options, GError **error)
{
  g_auto (GStrv) sides = NULL;

  if (!options->size)
    return TRUE;
  sides = g_strsplit (options->size, "x", -1);
  if (g_strv_length (sides) == 2 && parse_side (sides[0], &options->picture.width)
      && parse_side (sides[1], &options->picture.height))
    return TRUE;
  return usage_error (error, "--size", options->size, "is no WIDTHxHEIGHT in pixels, each from 200 to 16000");
}

static gboolean
check_arguments (const Options *options, GError **error)
{
  guint n = options->arguments ? g_strv_length (options->arguments) : 0;
  const char *what = n > 0 ? options->arguments[0] : "";

  if (!g_str_equal (what, "timeline") && !g_str_equal (what, "memory"))
    return usage_error (error, "plot", what, "is nothing to draw; timeline or memory is");
  if (n < 2 || n > 3)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u files given; one or two timelines are wanted", what, n - 1);
      return FALSE;
    }
  if (options->limit && g_str_equal (what, "timeline"))
    return usage_error (error, "--limit", options->limit, "belongs to memory, not to timeline");
  if (options->picture.transfers && g_str_equal (what, "memory"))
    return usage_error (error, "--transfers", what, "shows none; timeline does");
  return TRUE;
}

static gboolean
parse_options (int *argc, char ***argv, Options *options, GError **error)
{
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->picture.output, "picture to write: .svg, .png or .pdf",
      "FILE" },
    { "title", 0, 0, G_OPTION_ARG_STRING, &options->picture.title, "title in place of the schedule's", "TEXT" },
    { "size", 0, 0, G_OPTION_ARG_STRING, &options->size, "pixels (PDF: 1/96 inch)", "WIDTHxHEIGHT" },
    { "limit", 0, 0, G_OPTION_ARG_STRING, &options->limit, "memory: draw this limit", "SIZE" },
    { "transfers", 0, 0, G_OPTION_ARG_NONE, &options->picture.transfers,
      "timeline: draw transfers as lines from the sender to the receiver", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->arguments, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("timeline|memory FILE [FILE2]");

  g_option_context_set_summary (context, "Draws one timeline, or two on one time axis: predicted above measured.");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error) || !check_arguments (options, error)
      || !parse_size (options, error)
      || (options->limit && !ps_parse_size ("--limit", options->limit, &options->limit_bytes, error)))
    return FALSE;
  if (options->picture.output)
    return ps_picture_check (&options->picture, error);
  return usage_error (error, "-o", "", "is missing; name a file ending in .svg, .png or .pdf");
}

static gboolean
draw (const Options *options, PsTimeline *const *timelines, guint n, GError **error)
{
  if (g_str_equal (options->arguments[0], "timeline"))
    return ps_timeline_plot (&options->picture, timelines, n, error);
  return ps_memory_plot (&options->picture, timelines, n, options->limit_bytes, error);
}

static gboolean
run (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (PsTimeline) first = NULL;
  g_autoptr (PsTimeline) second = NULL;

  if (!parse_options (&argc, &argv, &options, error))
    return FALSE;
  first = ps_timeline_load (options.arguments[1], error);
  if (!first || !options.arguments[2])
    return first && draw (&options, &first, 1, error);
  second = ps_timeline_load (options.arguments[2], error);
  return second && draw (&options, (PsTimeline *[]){ first, second }, 2, error);
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
