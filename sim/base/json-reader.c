/* json-reader.c - values of a JSON text that has been checked: nothing here looks for mistakes any more. */
#include "json-reader.h"

#include <string.h>

static inline void
skip_space (PsJsonReader *reader)
{
  while (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t')
    reader->at++;
}

gboolean
ps_json_reader_init (PsJsonReader *reader, const char *where, const char *text, gssize length, GError **error)
{
  *reader = (PsJsonReader){ .where = where, .at = text };
  if (!ps_json_check (where, text, length < 0 ? strlen (text) : (gsize)length, PS_JSON_MAX_DEPTH, error))
    return FALSE;
  skip_space (reader);
  return TRUE;
}

void
ps_json_reader_clear (PsJsonReader *reader)
{
  g_clear_pointer (&reader->key.text, g_free);
  g_clear_pointer (&reader->value.text, g_free);
}

static gboolean
enter (PsJsonReader *reader, char bracket)
{
  if (*reader->at != bracket)
    return FALSE;
  reader->at++;
  return TRUE;
}

gboolean
ps_json_enter_object (PsJsonReader *reader)
{
  return enter (reader, '{');
}

gboolean
ps_json_enter_array (PsJsonReader *reader)
{
  return enter (reader, '[');
}

/* Goes to the next key or element. At the closing bracket, steps over it and returns FALSE. */
static gboolean
next (PsJsonReader *reader)
{
  skip_space (reader);
  if (*reader->at == ']' || *reader->at == '}')
    {
      reader->at++;
      return FALSE;
    }
  if (*reader->at == ',')
    {
      reader->at++;
      skip_space (reader);
    }
  return TRUE;
}

gboolean
ps_json_next_element (PsJsonReader *reader)
{
  return next (reader);
}

/* The place after the string that begins at `at`; *plain: it holds no escapes. */
static const char *
string_end (const char *at, gboolean *plain)
{
  *plain = TRUE;
  for (at++; *at != '"'; at++)
    if (*at == '\\')
      {
        *plain = FALSE;
        at++;
      }
  return at + 1;
}

static gunichar
read_code (const char *digits)
{
  gunichar code = 0;

  for (guint i = 0; i < 4; i++)
    code = code * 16 + (gunichar)g_ascii_xdigit_value (digits[i]);
  return code;
}

/* Writes the character of an escape and returns how long the escape is. */
static gsize
copy_escape (const char *at, char **to)
{
  static const char letters[] = "bfnrt", characters[] = "\b\f\n\r\t";

  if (at[1] != 'u')
    {
      const char *letter = strchr (letters, at[1]);

      *(*to)++ = letter != NULL ? characters[letter - letters] : at[1];
      return 2;
    }
  gunichar code = read_code (at + 2);
  gboolean halves = code >= 0xd800 && code < 0xdc00;
  if (halves)
    code = 0x10000 + ((code - 0xd800) << 10) + (read_code (at + 8) - 0xdc00);
  *to += g_unichar_to_utf8 (code, *to);
  return halves ? 12 : 6;
}

/* No escape is shorter than its character. */
static void
copy_string (PsJsonReader *reader, PsJsonString *string)
{
  gboolean plain;
  const char *from = reader->at + 1, *end = string_end (reader->at, &plain);
  gsize length = (gsize)(end - 1 - from);

  if (length >= string->allocated)
    {
      string->allocated = MAX (64, 2 * length);
      string->text = g_realloc (string->text, string->allocated);
    }
  reader->at = end;
  char *to = string->text;
  if (plain)
    {
      memcpy (to, from, length);
      to += length;
    }
  while (!plain && from < end - 1)
    if (*from == '\\')
      from += copy_escape (from, &to);
    else
      *to++ = *from++;
  *to = '\0';
}

const char *
ps_json_next_key (PsJsonReader *reader)
{
  if (!next (reader))
    return NULL;
  copy_string (reader, &reader->key);
  skip_space (reader);
  reader->at++;
  skip_space (reader);
  return reader->key.text;
}

guint
ps_json_count_elements (const PsJsonReader *reader)
{
  PsJsonReader ahead = { .at = reader->at };
  guint n = 0;

  for (; ps_json_next_element (&ahead); n++)
    ps_json_skip_value (&ahead);
  return n;
}

gboolean
ps_json_read_text (PsJsonReader *reader, const char **text)
{
  if (*reader->at != '"')
    return FALSE;
  copy_string (reader, &reader->value);
  *text = reader->value.text;
  return TRUE;
}

gboolean
ps_json_read_integer (PsJsonReader *reader, gint64 *value)
{
  const char *at = reader->at + (*reader->at == '-');
  guint64 digits = 0, max = (guint64)G_MAXINT64 + (*reader->at == '-');

  if (!g_ascii_isdigit (*at))
    return FALSE;
  for (; g_ascii_isdigit (*at); at++)
    {
      guint digit = (guint)(*at - '0');

      if (digits > (max - digit) / 10)
        return FALSE;
      digits = digits * 10 + digit;
    }
  if (*at == '.' || *at == 'e' || *at == 'E')
    return FALSE;
  *value = *reader->at == '-' ? (gint64)(0 - digits) : (gint64)digits;
  reader->at = at;
  return TRUE;
}

gboolean
ps_json_read_number (PsJsonReader *reader, double *value)
{
  char *end;

  if (*reader->at != '-' && !g_ascii_isdigit (*reader->at))
    return FALSE;
  *value = g_ascii_strtod (reader->at, &end);
  reader->at = end;
  return TRUE;
}

gboolean
ps_json_read_boolean (PsJsonReader *reader, gboolean *value)
{
  if (*reader->at != 't' && *reader->at != 'f')
    return FALSE;
  *value = *reader->at == 't';
  reader->at += *value ? strlen ("true") : strlen ("false");
  return TRUE;
}

/* The place after the bracket that closes the one at `at`. */
static const char *
bracket_end (const char *at)
{
  guint depth = 0;
  gboolean plain;

  do
    if (*at == '"')
      at = string_end (at, &plain);
    else
      {
        depth += (guint)(*at == '[' || *at == '{') - (guint)(*at == ']' || *at == '}');
        at++;
      }
  while (depth > 0);
  return at;
}

void
ps_json_skip_value (PsJsonReader *reader)
{
  gboolean plain;

  if (*reader->at == '"')
    reader->at = string_end (reader->at, &plain);
  else if (*reader->at == '[' || *reader->at == '{')
    reader->at = bracket_end (reader->at);
  else
    while (g_ascii_isalnum (*reader->at) || *reader->at == '-' || *reader->at == '+' || *reader->at == '.')
      reader->at++;
}
