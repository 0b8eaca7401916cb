/* report-main.c - the program pipesim-report, run as `pipesim report`: one HTML file about a sweep. */
#include "page.h"
#include "sweep-plot.h"

#include <pipesim/option.h>
#include <pipesim/sweep.h>
#include <pipesim/formats.h>

#define TOP_SETTINGS 3 /* for each number of devices */
#define MAX_FRONTS 100 /* each takes some 30 KB of the page */

static const char front_help[]
    = "Each mark is the fastest setting of the sweep for a schedule, number of devices and peak "
      "memory. Each line joins, for one number of devices, the settings that are faster "
      "than all that need less memory. "
      "Point at a mark to see its setting.";

static char *best_to_html (PsResults *results, const PsQuestion *asked, const char *database, char **about,
                           GError **error)
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

/* Appends a choice for each circumstance that is held apart. */
static void append_choices (GString *html, const PsSweepRows *rows)
{
  g_string_append (html, "<p id=\"circumstances\">");
  for (guint i = rows->n_own; rows->columns[i] != NULL; i++) {
    g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
    const char *title = ps_sweep_rows_title (rows, i);

    g_string_append_printf (html, "<label>%s <select name=\"%s\">", title, title);
    for (guint row = 0; row < rows->values->n_rows; row++) {
      char *text = ps_sweep_rows_text (rows, row, i);
      g_autofree char *safe = g_markup_escape_text (text, -1);

      if (g_hash_table_add (seen, text))
        g_string_append_printf (html, "<option>%s</option>", safe);
    }
    g_string_append (html, "</select></label> ");
  }
  g_string_append (html, "</p>\n");
}

/* A picture of time against memory for each combination of what is held apart, and the choices among them. *left_out:
 * how many the page has no room for. */
static gboolean append_fronts (GString *choices, GString *figures, PsResults *results, const PsQuestion *asked,
                               guint *left_out, GError **error)
{
  const PsSweepPicture what = { .pareto = TRUE, .question = { .where = asked->where, .by = asked->by } };
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_auto (PsSweepRows) rows = { 0 };

  if (!ps_front_read (&rows, results, &what, error))
    return FALSE;
  append_choices (choices, &rows);
  for (guint row = 0; row < rows.values->n_rows; row++) {
    char *apart = ps_sweep_rows_apart (&rows, row);
    g_autofree char *svg = NULL, *safe = g_markup_escape_text (apart, -1);

    if (!g_hash_table_add (seen, apart) || g_hash_table_size (seen) > MAX_FRONTS)
      continue;
    if (!ps_front_plot (&(PsPicture){ .inlined = &svg }, &rows, &what, apart, error))
      return FALSE;
    g_string_append_printf (figures, "<figure class=\"front wide\" data-apart=\"%s\">\n%s</figure>\n", safe, svg);
  }
  *left_out = g_hash_table_size (seen) - MIN (g_hash_table_size (seen), MAX_FRONTS);
  return TRUE;
}

/* Makes the page: the best settings for each number of devices, time against memory, and the timelines. Only `where`
 * and `by` of the question count. Free with g_free. Errors: PS_ERROR_USAGE for unknown columns, PS_ERROR_INPUT if no
 * setting is left. */
static char *report_page (PsResults *results, const PsQuestion *question, const char *title, const char *database,
                          const GPtrArray *timelines, const char *origin, GError **error)
{
  g_autofree char *about = NULL, *table = best_to_html (results, question, database, &about, error);
  g_autofree char *left_out = table != NULL ? ps_question_left_out (results, question, error) : NULL;
  g_autoptr (GString) body = g_string_new (NULL), figures = g_string_new (NULL);
  guint n_left = 0;

  if (left_out == NULL || !append_fronts (body, figures, results, question, &n_left, error))
    return NULL;
  g_autofree char *drawings = ps_page_timelines (timelines, origin, error);
  if (drawings == NULL)
    return NULL;
  g_string_append_printf (body,
                          "<h2>Best settings</h2>\n<div class=\"wide\">%s</div>\n<h2>Time against peak memory</h2>\n"
                          "<p class=\"note\">%s",
                          table, front_help);
  if (n_left > 0)
    g_string_append_printf (body, " %u pictures are left out, they would make the page too large; --where chooses.",
                            n_left);
  g_string_append_printf (body, "</p>\n%s%s", figures->str, drawings);
  g_autofree char *wheres = question->where != NULL ? g_strjoinv (", ", question->where) : g_strdup ("");
  g_autofree char *note = g_markup_printf_escaped (
      "Simulated with pipesim %s from the sweep in %s%s%s; %s. The column costs origin says where "
      "the costs of a row come from.%s%s",
      PS_VERSION, database, *wheres ? ", settings with " : "", wheres, about, *left_out ? " Left out: " : "", left_out);
  return ps_page (title != NULL ? title : "Pipeline schedules", note, body->str);
}

#define MAX_OPS 50000 /* in simulated timelines: some 10 MB of page */

typedef struct {
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
  .summary = "Writes a page that needs nothing but a browser. It shows the best settings of a sweep, time against "
             "memory, and timelines to zoom and drag: of the fastest setting for each number of devices, simulated "
             "again, and of the files given (of pipesim predict -o or pipesim exec --trace).",
  .examples = "pipesim report results.db -o report.html\n"
              "pipesim report results.db measured.json -o report.html --title 'Four GPUs'\n"
              "pipesim report results.db -o p4.html --where devices=4\n",
};

static void options_clear (Options *options)
{
  ps_options_reset (rows, options);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean usage_error (GError **error, const char *text)
{
  return ps_refuse (error, PS_ERROR_USAGE, "%s", text);
}

static gboolean parse_options (int argc, char **argv, Options *options, GError **error)
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

static gboolean load_timelines (const Options *options, GPtrArray *timelines, GError **error)
{
  for (guint i = 1; options->arguments[i] != NULL; i++) {
    PsTimeline *timeline = ps_plot_load (options->arguments[i], error);

    if (timeline == NULL)
      return FALSE;
    g_ptr_array_add (timelines, timeline);
  }
  return TRUE;
}

/* Each timeline, of the same rows, says what tells it from others. */
static void name_timelines (PsResults *results, const PsQuestion *question, const GPtrArray *timelines)
{
  static const char *const own[] = { "devices", NULL };
  g_auto (PsSweepRows) rows = { 0 };
  gboolean known = ps_sweep_rows_read (&rows, results, question, own, NULL);

  for (guint i = 0; known && i < timelines->len; i++) {
    PsTimeline *timeline = timelines->pdata[i];

    g_free (timeline->remark);
    timeline->remark = ps_sweep_rows_apart (&rows, i);
  }
}

/* Simulates the timelines of the fastest settings. Settings whose files have changed cannot be simulated again. Returns
 * the text in which the page says where timelines come from or why they are missing. */
static char *simulate_timelines (const Options *options, PsResults *results, GPtrArray *timelines)
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

static gboolean run (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (GPtrArray) timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_autofree char *about = NULL, *text = NULL;

  if (!parse_options (argc, argv, &options, error))
    return FALSE;
  g_autoptr (PsResults) results = ps_results_open (options.arguments[0], PS_RESULTS_READ, error);
  if (results == NULL)
    return FALSE;
  about = simulate_timelines (&options, results, timelines);
  if (!load_timelines (&options, timelines, error))
    return FALSE;
  text = report_page (results, &options.question, options.title, options.arguments[0], timelines, about, error);
  return text != NULL && ps_write_file (options.output, text, -1, error);
}

int main (int argc, char **argv)
{
  return ps_plot_program ("pipesim report", run, argc, argv);
}
