/* report-page.c - the tables and data of a sweep as a page. */
#include "report-page.h"

#include "field.h"
#include "page.h"
#include "sweep-rows.h"

#include <math.h>

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

char *
ps_report_page (PsResults *results, const PsQuestion *question, const PsReportPage *page, GError **error)
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
