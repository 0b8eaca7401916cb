/* report-main.c - the program pipesim-report, run as `pipesim report`: one HTML file about a sweep. */
#include "report-page.h"

#include <locale.h>

typedef struct
{
  char *output;
  char *title;
  PsQuestion question;
  char **arguments; /* RESULTS.db, then timelines */
} Options;

static void
options_clear (Options *options)
{
  g_free (options->output);
  g_free (options->title);
  g_free (options->question.by);
  g_strfreev (options->question.where);
  g_strfreev (options->arguments);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
usage_error (GError **error, const char *text)
{
  g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, text);
  return FALSE;
}

static gboolean
parse_options (int argc, char **argv, Options *options, GError **error)
{
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output, "page to write", "FILE.html" },
    { "title", 0, 0, G_OPTION_ARG_STRING, &options->title, "title of the page", "TEXT" },
    { "by", 0, 0, G_OPTION_ARG_STRING, &options->question.by, "what is to be small (default: sequence_ns)", "FIELD" },
    { "where", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->question.where,
      "only settings like that, or with != <= >= < >; several must all hold", "FIELD=VALUE" },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->arguments, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("RESULTS.db [TIMELINE...]");

  g_option_context_set_summary (context,
                                "Writes a page that needs nothing but a browser: the best settings of a sweep, "
                                "time against memory,\nand timelines (of pipesim predict -o or pipesim exec "
                                "--trace) to zoom and drag.");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, error))
    return FALSE;
  if (!options->question.by)
    options->question.by = g_strdup ("sequence_ns");
  if (!options->arguments)
    return usage_error (error, "no database; give the RESULTS.db of pipesim sweep");
  return options->output ? TRUE : usage_error (error, "-o: '' is missing; name the page to write");
}

static gboolean
run (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (GPtrArray) timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_autoptr (PsResults) results = NULL;
  g_autofree char *page = NULL;

  if (!parse_options (argc, argv, &options, error)
      || !(results = ps_results_open (options.arguments[0], PS_RESULTS_READ, error)))
    return FALSE;
  for (guint i = 1; options.arguments[i]; i++)
    {
      PsTimeline *timeline = ps_timeline_load (options.arguments[i], error);

      if (!timeline)
        return FALSE;
      g_ptr_array_add (timelines, timeline);
    }
  page = ps_report_page (results, options.arguments[0], &options.question, options.title, timelines, error);
  return page && ps_write_file (options.output, page, -1, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *line = NULL;

  g_log_writer_default_set_use_stderr (TRUE);
  setlocale (LC_CTYPE, "");
  g_set_prgname ("pipesim report");
  if (run (argc, argv, &error))
    return 0;
  line = g_strdelimit (g_strdup (error->message), "\n\r", ' ');
  g_printerr ("pipesim report: %s\n", line);
  return ps_error_exit_code (error);
}
