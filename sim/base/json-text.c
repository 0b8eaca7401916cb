/* json-text.c - strings and numbers of JSON. */
#include "json-text.h"

#include <math.h>

void
ps_json_append_string (GString *json, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);

  g_string_append_c (json, '"');
  for (const char *c = valid; *c; c = g_utf8_next_char (c))
    {
      gunichar letter = g_utf8_get_char (c);

      if (letter == '"' || letter == '\\')
        g_string_append_c (json, '\\');
      if (g_unichar_iscntrl (letter))
        g_string_append_printf (json, "\\u%04x", letter);
      else
        g_string_append_unichar (json, letter);
    }
  g_string_append_c (json, '"');
}

void
ps_json_append_double (GString *json, double value)
{
  static const char *const formats[] = { "%.15g", "%.16g", "%.17g" };
  char buffer[G_ASCII_DTOSTR_BUF_SIZE] = "null";

  for (guint i = 0; isfinite (value) && i < G_N_ELEMENTS (formats); i++)
    {
      g_ascii_formatd (buffer, sizeof buffer, formats[i], value);
      if (g_ascii_strtod (buffer, NULL) == value)
        break;
    }
  g_string_append (json, buffer);
}
