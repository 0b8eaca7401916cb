/* diagnose-page.c - the sections of a diagnosis, and its timelines. */
#include "diagnose-page.h"

#include "page.h"

static char *
sections_to_html (const PsDiagnosis *diagnosis)
{
  g_autoptr (GPtrArray) sections = ps_diagnosis_sections (diagnosis, G_MAXUINT);
  GString *html = g_string_new (NULL);

  for (guint i = 0; i < sections->len; i++)
    {
      const PsDiagnosisSection *section = sections->pdata[i];
      g_autofree char *title = g_markup_escape_text (section->title, -1);
      g_autofree char *id = g_strdup_printf ("section-%u", i + 1);
      g_autofree char *table = section->table != NULL ? ps_page_table (section->table, id) : g_strdup ("");

      title[0] = g_ascii_toupper (title[0]);
      g_string_append_printf (html, "<h2>%s</h2>\n<div class=\"wide\">%s</div>\n", title, table);
    }
  return g_string_free (html, FALSE);
}

/* The lines of the summary, one below the other. */
static char *
summary_to_html (const PsDiagnosis *diagnosis)
{
  g_autofree char *summary = ps_diagnosis_summary (diagnosis);
  g_autofree char *escaped = g_markup_escape_text (g_strchomp (summary), -1);
  g_autoptr (GString) html = g_string_new (escaped);

  g_string_replace (html, "\n", "<br>\n", 0);
  return g_string_free (g_steal_pointer (&html), FALSE);
}

char *
ps_diagnose_page (const PsDiagnosis *diagnosis, const char *title)
{
  g_autoptr (GPtrArray) timelines = g_ptr_array_new ();
  g_autofree char *sections = sections_to_html (diagnosis), *note = summary_to_html (diagnosis);
  g_autofree char *own = g_strdup_printf ("Where the time of %s goes", diagnosis->run->schedule);
  g_autofree char *drawings = NULL, *body = NULL;

  g_ptr_array_add (timelines, (gpointer)diagnosis->run);
  drawings = ps_page_timelines (timelines, "The median iteration of the run.");
  body = g_strconcat (sections, drawings, NULL);
  return ps_page (title != NULL ? title : own, note, body, "null", timelines);
}
