/* page.c - fills report.html. */
#include "page.h"

#include "field.h"
#include "scale.h"

#include <gio/gio.h>
#include <pipesim/schedule.h>
#include <string.h>

#define N_SHADES 64 /* of devices */

static const char *
resource_text (GBytes **bytes, const char *name)
{
  g_autofree char *path = g_strconcat ("/pipesim/plots/", name, NULL);

  *bytes = g_resources_lookup_data (path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  g_assert (*bytes != NULL);
  return g_bytes_get_data (*bytes, NULL);
}

char *
ps_page_embed (const char *json)
{
  g_autoptr (GString) text = g_string_new (json);

  g_string_replace (text, "<", "\\u003c", 0);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Makes a line of a Markdown table a row of HTML; bars inside cells are escaped in the table. */
static void
append_row (GString *html, const char *line, const char *cell)
{
  g_autoptr (GString) safe = g_string_new (line);

  g_string_replace (safe, "\\|", "\x01", 0);
  g_auto (GStrv) cells = g_strsplit (safe->str, "|", -1);
  guint n = g_strv_length (cells);
  g_string_append (html, "<tr>");
  for (guint i = 1; i + 1 < n; i++)
    {
      g_autofree char *text = g_markup_escape_text (g_strstrip (g_strdelimit (cells[i], "\x01", '|')), -1);

      g_string_append_printf (html, "<%s>%s</%s>", cell, text, cell);
    }
  g_string_append (html, "</tr>\n");
}

char *
ps_page_table (const PsTable *table, const char *id)
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

/* {"schedules": {"naive": ["#0072b2", 0], ...}, "kinds": {"F": ...}}: colours and marks as in the other pictures. Free
 * with g_free. */
static char *
colours_to_json (void)
{
  g_autoptr (GString) json = g_string_new ("{\"schedules\": {");
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    g_string_append_printf (json, "%s\"%s\": [\"#%06x\", %u]", i ? ", " : "", families[i]->name,
                            ps_plot_schedule_colour (i), i);
  g_string_append (json, "}, \"kinds\": {");
  for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
    g_string_append_printf (json, "%s\"%s\": \"#%06x\"", kind ? ", " : "", ps_op_kind_name (kind),
                            ps_plot_op_colour (kind, 0, 1));
  g_string_append (json, "}, \"devices\": [");
  for (guint i = 0; i < N_SHADES; i++)
    g_string_append_printf (json, "%s\"#%06x\"", i ? ", " : "", ps_plot_device_colour (i, N_SHADES));
  g_string_append (json, "]}");
  return g_string_free (g_steal_pointer (&json), FALSE);
}

/* A timeline for the page, which draws ops and memory. */
static char *
timeline_to_json (const PsTimeline *timeline)
{
  g_autoptr (GArray) no_spans = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  PsTimeline shown = *timeline;

  shown.transfers = shown.posts = shown.waits = no_spans;
  return ps_timeline_to_json (&shown);
}

static char *
timelines_to_json (const GPtrArray *timelines)
{
  g_autoptr (GString) json = g_string_new ("[");

  for (guint i = 0; i < timelines->len; i++)
    {
      g_autofree char *one = timeline_to_json (timelines->pdata[i]);

      g_string_append_printf (json, "%s%s", i ? "," : "", one);
    }
  g_string_append_c (json, ']');
  return ps_page_embed (json->str);
}

static const char timeline_help[]
    = "The wheel and the keys + and - zoom, dragging and the arrow keys move, a double click and Home show all again. "
      "Numbers are microbatches, letters their slices; later chunks of a device, or its second direction, are paler. "
      "Timelines under each other have one time axis; below each is the memory of its devices.";

static void
append_choice (GString *html, const GPtrArray *timelines)
{
  g_string_append (html, "<p><label>Timelines to show (several with Ctrl) <select id=\"schedule\" multiple>");
  for (guint i = 0; i < timelines->len; i++)
    {
      const PsTimeline *timeline = timelines->pdata[i];
      g_autofree char *name = g_markup_escape_text (timeline->schedule, -1);
      g_autofree char *remark = g_markup_escape_text (timeline->remark != NULL ? timeline->remark : "", -1);

      g_string_append_printf (html, "<option value=\"%u\">%s, %u devices, %u microbatches, %s%s%s</option>", i, name,
                              timeline->n_devices, timeline->n_microbatches, ps_origin_name (timeline->origin),
                              *remark ? ", " : "", remark);
    }
  g_string_append (html, "</select></label></p>\n");
}

char *
ps_page_timelines (const GPtrArray *timelines, const char *about)
{
  g_autoptr (GString) html = g_string_new ("<h2>Timelines</h2>\n");
  g_autofree char *note = g_markup_printf_escaped ("<p class=\"note\">%s</p>\n", about);

  g_string_append (html, note);
  if (timelines->len == 0)
    return g_string_free (g_steal_pointer (&html), FALSE);
  append_choice (html, timelines);
  g_string_append_printf (
      html,
      "<p id=\"kinds\"></p>\n<div id=\"views\"><p></p><canvas id=\"timeline\" tabindex=\"0\" role=\"img\" "
      "aria-label=\"timeline\"></canvas></div>\n<p id=\"hover\"></p>\n<p class=\"note\">%s</p>",
      timeline_help);
  return g_string_free (g_steal_pointer (&html), FALSE);
}

/* Replaces each @NAME@ once, from left to right, so that nothing inside a value is replaced. */
static char *
fill (const char *template, const char *const *values)
{
  g_autoptr (GString) page = g_string_new (NULL);

  while (*template)
    {
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

char *
ps_page (const char *title, const char *note, const char *body, const char *points, const GPtrArray *timelines)
{
  g_autoptr (GBytes) template = NULL;
  g_autoptr (GBytes) script = NULL;
  g_autofree char *heading = g_markup_escape_text (title, -1), *colours = colours_to_json ();
  g_autofree char *data = timelines_to_json (timelines);

  return fill (resource_text (&template, "report.html"),
               (const char *[]){ "@TITLE@", heading, "@NOTE@", note, "@BODY@", body, "@COLOURS@", colours, "@POINTS@",
                                 points, "@DATA@", data, "@SCRIPT@", resource_text (&script, "report.js"), NULL });
}
