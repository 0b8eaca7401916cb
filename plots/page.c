/* page.c - fills report.html. */
#include "page.h"

#include "gnuplot.h"
#include "timeline-plot.h"

#include <string.h>

/* Makes a line of a Markdown table a row of HTML; bars inside cells are escaped in the table. */
static void append_row (GString *html, const char *line, const char *cell)
{
  g_autoptr (GString) safe = g_string_new (line);

  g_string_replace (safe, "\\|", "\x01", 0);
  g_auto (GStrv) cells = g_strsplit (safe->str, "|", -1);
  guint n = g_strv_length (cells);
  g_string_append (html, "<tr>");
  for (guint i = 1; i + 1 < n; i++) {
    g_autofree char *text = g_markup_escape_text (g_strstrip (g_strdelimit (cells[i], "\x01", '|')), -1);

    g_string_append_printf (html, "<%s>%s</%s>", cell, text, cell);
  }
  g_string_append (html, "</tr>\n");
}

char *ps_page_table (const PsTable *table, const char *id)
{
  g_autofree char *markdown = ps_table_to_markdown (table);
  g_auto (GStrv) lines = g_strsplit (markdown, "\n", -1);
  g_autoptr (GString) html = g_string_new (NULL);

  g_string_append_printf (html, "<table id=\"%s\">\n", id);
  for (guint i = 0; lines[i] != NULL && *lines[i]; i++)
    if (i != 1) /* i = 1 is the rule below the heading */
      append_row (html, lines[i], i == 0 ? "th" : "td");
  g_string_append (html, "</table>");
  return g_string_free (g_steal_pointer (&html), FALSE);
}

/* Appends the ops, which the page names where the pointer is. A < occurs only in strings; it is escaped, so that it
 * cannot end the script. */
static void append_ops (GString *html, const PsTimeline *timeline)
{
  g_autoptr (GArray) no_spans = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  g_autoptr (GArray) no_points = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));
  PsTimeline shown = *timeline;

  shown.transfers = shown.posts = shown.waits = no_spans;
  shown.memory = no_points;
  g_autofree char *json = ps_timeline_to_json (&shown);
  g_autoptr (GString) text = g_string_new (json);
  g_string_replace (text, "<", "\\u003c", 0);
  g_string_append (html, text->str);
}

/* Each op kind that occurs, with its colour. */
static void append_key (GString *html, const GPtrArray *timelines)
{
  guint kinds = 0;

  for (guint i = 0; i < timelines->len; i++)
    kinds |= ps_timeline_kinds (timelines->pdata[i]);
  g_string_append (html, "<p>");
  for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
    if (kinds & 1U << kind)
      g_string_append_printf (
          html, "<span class=\"key\"><i style=\"background:#%06x\"></i>%s <b id=\"kind-%s\">%s</b></span>",
          ps_plot_op_colour (kind, 0, 1), ps_op_kind_name (kind), ps_op_kind_name (kind), ps_op_kind_title (kind));
  g_string_append (html, "</p>\n");
}

/* The size of a timeline, where it comes from, and what tells it from others, for HTML. Free with g_free. */
static char *timeline_name (const PsTimeline *timeline)
{
  gboolean remarked = timeline->remark != NULL && *timeline->remark != '\0';

  return g_markup_printf_escaped ("%s, %u devices, %u microbatches, %s%s%s", timeline->schedule, timeline->n_devices,
                                  timeline->n_microbatches, ps_origin_name (timeline->origin), remarked ? ", " : "",
                                  remarked ? timeline->remark : "");
}

/* Appends a timeline's picture with its caption. */
static gboolean append_figure (GString *html, PsTimeline *timeline, GError **error)
{
  g_autofree char *svg = NULL, *name = timeline_name (timeline), *time = ps_format_time (timeline->iteration_ns);
  g_autofree char *source = g_markup_escape_text (timeline->source != NULL ? timeline->source : "unknown", -1);

  if (!ps_timeline_plot (&(PsPicture){ .inlined = &svg }, (PsTimeline *[]){ timeline }, 1, error))
    return FALSE;
  g_string_append_printf (html,
                          "<figure class=\"timeline\" tabindex=\"0\" data-row=\"%g\"><figcaption>%s: iteration %s; %s "
                          "%s</figcaption>\n%s</figure>\n",
                          ps_timeline_row_height (timeline), name, time,
                          timeline->origin == PS_ORIGIN_MEASURED ? "on" : "costs:", source, svg);
  return TRUE;
}

static const char timeline_help[]
    = "The wheel and the keys + and - zoom, dragging and the arrow keys move, a double click and Home show all again. "
      "Numbers are microbatches, letters their slices; later chunks of a device, or its second direction, are paler. "
      "Timelines under each other have one time axis; below each is the memory of its devices.";

char *ps_page_timelines (const GPtrArray *timelines, const char *about, GError **error)
{
  g_autoptr (GString) html = g_string_new ("<h2>Timelines</h2>\n"), json = g_string_new (NULL);
  g_autofree char *note = g_markup_printf_escaped ("<p class=\"note\">%s</p>\n", about);

  g_string_append (html, note);
  if (timelines->len == 0)
    return g_string_free (g_steal_pointer (&html), FALSE);
  g_string_append (html, "<p><label>Timelines to show (several with Ctrl) <select id=\"schedule\" multiple>");
  for (guint i = 0; i < timelines->len; i++) {
    g_autofree char *name = timeline_name (timelines->pdata[i]);

    g_string_append_printf (html, "<option value=\"%u\">%s</option>", i, name);
    g_string_append (json, i ? "," : "");
    append_ops (json, timelines->pdata[i]);
  }
  g_string_append (html, "</select></label></p>\n");
  append_key (html, timelines);
  g_string_append_printf (html, "<div id=\"views\" data-left=\"%d\" data-right=\"%d\" data-top=\"%d\">\n",
                          PS_TIMELINE_LEFT, PS_TIMELINE_RIGHT, PS_TIMELINE_TOP);
  for (guint i = 0; i < timelines->len; i++)
    if (!append_figure (html, timelines->pdata[i], error))
      return NULL;
  g_string_append_printf (html,
                          "</div>\n<p id=\"part\"></p>\n<p id=\"hover\"></p>\n<p class=\"note\">%s</p>\n"
                          "<script type=\"application/json\" id=\"timelines\">[%s]</script>\n",
                          timeline_help, json->str);
  return g_string_free (g_steal_pointer (&html), FALSE);
}

/* Replaces each @NAME@ once, from left to right, so that nothing inside a value is replaced. */
static char *fill (const char *template, const char *const *values)
{
  g_autoptr (GString) page = g_string_new (NULL);

  while (*template) {
    guint i = 0;

    while (values[i] != NULL && !(*template == '@' && g_str_has_prefix (template, values[i])))
      i += 2;
    if (values[i] != NULL)
      g_string_append (page, values[i + 1]);
    else
      g_string_append_c (page, *template);
    template += values[i] != NULL ? strlen (values[i]) : 1;
  }
  return g_string_free (g_steal_pointer (&page), FALSE);
}

char *ps_page (const char *title, const char *note, const char *body)
{
  g_autofree char *heading = g_markup_escape_text (title, -1);

  return fill (ps_plot_file ("report.html"), (const char *[]){ "@TITLE@", heading, "@NOTE@", note, "@BODY@", body,
                                                               "@SCRIPT@", ps_plot_file ("report.js"), NULL });
}
