/* report-main.c - the program pipesim-report, run as `pipesim report`: one HTML file about a sweep. */
#include "field.h"
#include "page.h"
#include "sweep-rows.h"
#include "program.h"

#include <pipesim/option.h>
#include <pipesim/sweep.h>
#include <pipesim/formats.h>

#include <math.h>

/* Content of a page besides the results. */
typedef struct
{
  const char *title;    /* NULL: the page's own */
  const char *database; /* name of the source on the page */
  GPtrArray *timelines; /* of PsTimeline, possibly none */
  const char *about;    /* origin of the timelines, or why there are none */
} PsReportPage;

/* The tables and data of a sweep as a page. */

#define TOP_SETTINGS 3 /* for each number of devices */

static const char front_help[]
    = "Each mark is the fastest setting of the sweep for a schedule, number of devices and peak "
      "memory. Each line joins, for one number of devices, the settings that are faster "
      "than all that need less memory. "
      "Point at a mark to see its setting.";

static char *
best_to_html (PsResults *results, const PsQuestion *asked, const char *database, char **about, GError **error)
{
  char *per[] = { (char *)"devices", NULL };
  PsQuestion question = { .per = per, .where = asked->where, .by = asked->by, .top = TOP_SETTINGS };
  g_autoptr (PsAnswer) answer = ps_results_best (results, &question, error);

  if (answer == NULL)
    return NULL;
  *about = g_strdup (answer->about);
  if (ps_table_n_rows (answer->table) > 0)
    return ps_page_table (answer->table, "best");
  ps_question_refuse_none (results, asked, database, error);
  return NULL;
}

/* A column of texts for each circumstance held apart follows these. */
static const PsColumn point_columns[] = {
  { "schedule", "schedule", PS_COLUMN_TEXT }, { "devices", "p", PS_COLUMN_INTEGER },
  { "microbatches", "m", PS_COLUMN_INTEGER }, { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE },
  { "time", "per sequence", PS_COLUMN_TIME },
};

static void
append_point (PsTable *table, const PsSweepRows *rows, guint row)
{
  const PsValue *cells = ps_sweep_rows_at (rows, row);

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", cells[0].text);
  for (guint i = 1; i < rows->n_own; i++)
    ps_table_set_integer (table, point_columns[i].key, (gint64)llround (ps_plot_value_number (&cells[i])));
  for (guint i = rows->n_own; rows->columns[i] != NULL; i++)
    {
      g_autofree char *text = ps_result_value_text (rows->columns[i], &cells[i]);

      ps_table_set_text (table, ps_sweep_rows_title (rows, i), text);
    }
}

static char *
points_to_json (PsResults *results, const PsQuestion *asked, GError **error)
{
  static const char *const columns[]
      = { "schedule", "devices", "microbatches", "peak_memory_bytes", "sequence_ns", NULL };
  char *per[] = { (char *)"schedule", (char *)"devices", (char *)"peak_memory_bytes", NULL };
  const PsQuestion question = { .per = per, .where = asked->where, .by = asked->by };
  g_autoptr (GArray) shown = g_array_new (FALSE, FALSE, sizeof (PsColumn));
  g_auto (PsSweepRows) rows = { 0 };

  if (!ps_sweep_rows_read (&rows, results, &question, columns, error))
    return NULL;
  g_array_append_vals (shown, point_columns, G_N_ELEMENTS (point_columns));
  for (guint i = rows.n_own; rows.columns[i] != NULL; i++)
    {
      const char *title = ps_sweep_rows_title (&rows, i);

      g_array_append_val (shown, ((PsColumn){ title, title, PS_COLUMN_TEXT }));
    }
  g_autoptr (PsTable) table = ps_table_new ((const PsColumn *)(gconstpointer)shown->data, shown->len);
  for (guint row = 0; row < rows.values->n_rows; row++)
    append_point (table, &rows, row);
  g_autofree char *json
      = ps_table_to_json (table, "pipesim-report-points/1", (const char *[]){ "origin", "simulated", NULL });
  return ps_page_embed (json);
}

static char *
body_of (const char *table, const PsReportPage *page)
{
  g_autofree char *timelines = ps_page_timelines (page->timelines, page->about);

  return g_strconcat ("<p id=\"circumstances\"></p>\n<h2>Best settings</h2>\n<div class=\"wide\">", table,
                      "</div>\n<h2>Time against peak memory</h2>\n<p class=\"note\">", front_help,
                      "</p>\n<div id=\"pareto\"></div>\n", timelines, NULL);
}

/* Makes the page: the best settings for each number of devices, time against memory, and the timelines. Only `where`
 * and `by` of the question count. Free with g_free. Errors: PS_ERROR_USAGE for unknown columns, PS_ERROR_INPUT if no
 * setting is left. */
static char *
report_page (PsResults *results, const PsQuestion *question, const PsReportPage *page, GError **error)
{
  g_autofree char *about = NULL, *table = best_to_html (results, question, page->database, &about, error);
  g_autofree char *points = table != NULL ? points_to_json (results, question, error) : NULL;
  g_autofree char *left_out = points != NULL ? ps_question_left_out (results, question, error) : NULL;
  g_autofree char *wheres = question->where != NULL ? g_strjoinv (", ", question->where) : g_strdup ("");
  g_autofree char *note = NULL, *body = NULL;

  if (left_out == NULL)
    return NULL;
  body = body_of (table, page);
  note = g_markup_printf_escaped (
      "Simulated with pipesim %s from the sweep in %s%s%s; %s. The column costs origin says where "
      "the costs of a row come from.%s%s",
      PS_VERSION, page->database, *wheres ? ", settings with " : "", wheres, about, *left_out ? " Left out: " : "",
      left_out);
  return ps_page (page->title != NULL ? page->title : "Pipeline schedules", note, body, points, page->timelines);
}

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
  text = report_page (results, &options.question, &page, error);
  return text != NULL && ps_write_file (options.output, text, -1, error);
}

int
main (int argc, char **argv)
{
  return ps_plot_program ("pipesim report", run, argc, argv);
}
