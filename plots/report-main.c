/* report-main.c - the program pipesim-report, run as `pipesim report`: one HTML file about a sweep. */
#include "program.h"
#include "report-page.h"
#include "sweep-rows.h"

#include <pipesim/command.h>
#include <pipesim/sweep-timelines.h>

#define MAX_OPS 75000 /* in simulated timelines: some 5 MB of page */

typedef struct
{
  char *output;
  char *title;
  PsQuestion question;
  char **arguments; /* RESULTS.db, then timelines */
} Options;

static const PsOption rows[] = {
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE.html", "Page to write", .group = PS_GROUP_OUTPUT,
             .otherwise = ""),
  PS_OPTION ("title", 0, PS_TEXT (Options, title), "TEXT", "Title of the page", .otherwise = "Pipeline schedules",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("by", 0, PS_TEXT (Options, question.by), "COLUMN", "Column that is to be small",
             .otherwise = "sequence_ns"),
  PS_OPTION ("where", 0, PS_TEXTS (Options, question.where), "COLUMN=VALUE",
             "Only settings with this value; != <= >= < > also work; several must all hold"),
  PS_OPTION ("", 0, PS_FILES (Options, arguments), NULL, NULL),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .arguments = "RESULTS.db [TIMELINE...]",
  .summary = "Writes a page that needs nothing but a browser. It shows the best settings of a sweep, time against\n"
             "memory, and timelines to zoom and drag: of the fastest setting for each number of devices, simulated\n"
             "again, and of the files given (of pipesim predict -o or pipesim exec --trace).",
  .examples = "pipesim report results.db -o report.html\n"
              "pipesim report results.db measured.json -o report.html --title 'Four GPUs'\n"
              "pipesim report results.db -o p4.html --where devices=4\n",
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
usage_error (GError **error, const char *text)
{
  return ps_refuse (error, PS_ERROR_USAGE, "%s", text);
}

static gboolean
parse_options (int argc, char **argv, Options *options, GError **error)
{
  if (!ps_command_parse (&help, rows, options, &argc, &argv, error))
    return FALSE;
  if (options->question.by == NULL)
    options->question.by = g_strdup ("sequence_ns");
  if (!ps_result_column_resolve ("--by", &options->question.by, TRUE, error))
    return FALSE;
  if (options->arguments == NULL)
    return usage_error (error, "no database; give the RESULTS.db of pipesim sweep");
  return options->output != NULL ? TRUE : usage_error (error, "-o: missing; name the page to write");
}

static gboolean
load_timelines (const Options *options, GPtrArray *timelines, GError **error)
{
  for (guint i = 1; options->arguments[i] != NULL; i++)
    {
      PsTimeline *timeline = ps_plot_load (options->arguments[i], error);

      if (timeline == NULL)
        return FALSE;
      g_ptr_array_add (timelines, timeline);
    }
  return TRUE;
}

/* Each timeline, of the same rows, says what tells it from others. */
static void
name_timelines (PsResults *results, const PsQuestion *question, const GPtrArray *timelines)
{
  static const char *const own[] = { "devices", NULL };
  g_auto (PsSweepRows) rows = { 0 };
  gboolean known = ps_sweep_rows_read (&rows, results, question, own, NULL);

  for (guint i = 0; known && i < timelines->len; i++)
    {
      GString *name = g_string_new (NULL);

      ps_sweep_rows_append_apart (&rows, i, name);
      g_free (((PsTimeline *)timelines->pdata[i])->remark);
      ((PsTimeline *)timelines->pdata[i])->remark = g_string_free (name, FALSE);
    }
}

/* Simulates the timelines of the fastest settings. Settings whose files have changed cannot be simulated again. Returns
 * the text in which the page says where timelines come from or why they are missing. */
static char *
simulate_timelines (const Options *options, PsResults *results, GPtrArray *timelines)
{
  char *per[] = { (char *)"devices", NULL };
  const PsQuestion question = { .per = per, .where = options->question.where, .by = options->question.by };
  g_autoptr (GError) error = NULL;
  guint n_left = 0;
  g_autoptr (GPtrArray) all = ps_results_timelines (results, &question, MAX_OPS, &n_left, &error);

  if (all == NULL)
    return g_strdup_printf ("The settings of the database could not be simulated again: %s.", error->message);
  name_timelines (results, &question, all);
  g_ptr_array_extend_and_steal (timelines, g_steal_pointer (&all));
  if (n_left > 0)
    return g_strdup_printf (
        "The fastest setting for each number of devices and all that is held apart, simulated again from what the "
        "database holds; the last %u are left out, they would make the page too large.",
        n_left);
  return g_strdup (
      "The fastest setting for each number of devices and all that is held apart, simulated again from what "
      "the database holds.");
}

static gboolean
run (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (GPtrArray) timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_autofree char *about = NULL, *text = NULL;
  PsReportPage page = { .timelines = timelines };

  if (!parse_options (argc, argv, &options, error))
    return FALSE;
  g_autoptr (PsResults) results = ps_results_open (options.arguments[0], PS_RESULTS_READ, error);
  if (results == NULL)
    return FALSE;
  about = simulate_timelines (&options, results, timelines);
  if (!load_timelines (&options, timelines, error))
    return FALSE;
  page.title = options.title;
  page.database = options.arguments[0];
  page.about = about;
  text = ps_report_page (results, &options.question, &page, error);
  return text != NULL && ps_write_file (options.output, text, -1, error);
}

int
main (int argc, char **argv)
{
  return ps_plot_program ("pipesim report", run, argc, argv);
}
