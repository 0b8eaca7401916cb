/* text.c - texts that users write. */
#include "text.h"

#include <string.h>

#define MAX_QUOTED 60

gboolean
ps_text_check (const char *where, const char *text, gsize length, gsize max_length, GError **error)
{
  const char *wrong = NULL;
  g_autofree char *limit = ps_format_size ((gint64)max_length);

  if (length == 0)
    wrong = "is empty";
  else if (length > max_length)
    wrong = "is too long, more than ";
  else if (memchr (text, '\0', length) != NULL)
    wrong = "is not a text file (it contains NUL bytes)";
  else if (!g_utf8_validate (text, (gssize)length, NULL))
    wrong = "is not UTF-8 text";
  if (wrong != NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s%s", where, wrong, length > max_length ? limit : "");
  return wrong == NULL;
}

char *
ps_text_quote (const char *text)
{
  g_autofree char *escaped = g_strescape (text, NULL);

  return strlen (escaped) <= MAX_QUOTED ? g_strdup_printf ("'%s'", escaped)
                                        : g_strdup_printf ("'%.*s...'", MAX_QUOTED, escaped);
}

gboolean
ps_refuse_at (char *where, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  ps_refuse (error, PS_ERROR_INPUT, "%s: %s", where, what);
  g_free (where);
  return FALSE;
}

gboolean
ps_text_blame_input (GError **error)
{
  if (error != NULL && *error != NULL)
    (*error)->code = PS_ERROR_INPUT;
  return FALSE;
}

char *
ps_text_next_line (const char **rest, glong width)
{
  const char *end = *rest, *blank = NULL;

  for (glong i = 0; *end != '\0' && i < width; i++, end = g_utf8_next_char (end))
    if (*end == ' ')
      blank = end;
  if (*end != '\0' && *end != ' ' && blank != NULL)
    end = blank;
  char *line = g_strndup (*rest, (gsize)(end - *rest));
  *rest = *end == ' ' ? end + 1 : end;
  return line;
}

/* Where the lines after a cut one begin: under the first letter, or under the one after the first gap of two blanks or
 * more. */
static glong
find_indent (const char *line, glong width)
{
  const char *text = line + strspn (line, " "), *gap = strstr (text, "  ");
  const char *after = gap != NULL ? gap + strspn (gap, " ") : "";
  glong indent = g_utf8_pointer_to_offset (line, *after != '\0' ? after : text);

  return 2 * indent < width ? indent : 0;
}

void
ps_text_wrap (const char *text, glong width, GString *page)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      const char *rest = lines[i];
      glong indent = 0;

      do
        {
          g_autofree char *line = ps_text_next_line (&rest, width - indent);

          g_string_append_printf (page, "%*s%s\n", (int)indent, "", line);
          indent = find_indent (lines[i], width);
        }
      while (*rest != '\0');
    }
}
