/* json-text.c - JSON texts: writing strings and numbers, parsing files from outside. */
#include "json-text.h"

#include <math.h>
#include <string.h>

#define MAX_DEPTH 64

void
ps_json_append_string (GString *json, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);

  g_string_append_c (json, '"');
  for (const char *c = valid; *c; c++)
    {
      if (*c == '"' || *c == '\\')
        g_string_append_c (json, '\\');
      if ((guchar)*c < 0x20)
        g_string_append_printf (json, "\\u%04x", (guint)*c);
      else
        g_string_append_c (json, *c);
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

/* How brackets nest, walked one character at a time. */
typedef struct
{
  guint depth;
  gboolean in_string;
  gboolean closed; /* the outermost bracket */
} Nesting;

/* What is wrong with this character where it stands; NULL: nothing. */
static const char *
nesting_problem (Nesting *nesting, char c)
{
  if (nesting->in_string)
    {
      nesting->in_string = c != '"';
      return NULL;
    }
  if (nesting->closed)
    return g_ascii_isspace (c) ? NULL : "more text behind the end of the object";
  if (c == '"')
    nesting->in_string = TRUE;
  else if (c == '[' || c == '{')
    return ++nesting->depth > MAX_DEPTH ? "nested too deeply" : NULL;
  else if (c == ']' || c == '}')
    nesting->closed = nesting->depth == 0 || --nesting->depth == 0;
  return NULL;
}

static gboolean
check_nesting (const char *where, const char *text, gsize length, GError **error)
{
  Nesting nesting = { 0 };
  guint line = 1, column = 1;

  for (gsize i = 0; i < length; i++, column++)
    {
      const char *problem;

      if (nesting.in_string && text[i] == '\\')
        {
          i++;
          column++;
          continue;
        }
      problem = nesting_problem (&nesting, text[i]);
      if (problem)
        {
          g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s:%u:%u: %s", where, line, column, problem);
          return FALSE;
        }
      if (text[i] == '\n')
        {
          line++;
          column = 0;
        }
    }
  return TRUE;
}

/* json-glib writes "<data>:line:column: Parse error: ..." for some errors and no place for others. */
static void
set_syntax_error (const char *where, const char *message, GError **error)
{
  const char *place = g_str_has_prefix (message, "<data>") ? message + strlen ("<data>") : NULL;

  if (place)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s%s", where, place);
  else
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s", where, message);
}

/* *root is NULL for an empty text. */
static JsonParser *
parse (const char *where, const char *text, gssize length, JsonNode **root, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GError) cause = NULL;
  gsize n = length < 0 ? strlen (text) : (gsize)length;

  if (!check_nesting (where, text, n, error))
    return NULL;
  if (!json_parser_load_from_data (parser, text, (gssize)n, &cause))
    {
      set_syntax_error (where, cause->message, error);
      return NULL;
    }
  *root = json_parser_get_root (parser);
  return g_steal_pointer (&parser);
}

JsonParser *
ps_json_parse (const char *where, const char *text, gssize length, GError **error)
{
  JsonNode *root;
  g_autoptr (JsonParser) parser = parse (where, text, length, &root, error);

  if (parser && (!root || !JSON_NODE_HOLDS_OBJECT (root)))
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: is no JSON object", where);
      return NULL;
    }
  return g_steal_pointer (&parser);
}

JsonParser *
ps_json_parse_any (const char *where, const char *text, gssize length, GError **error)
{
  JsonNode *root;
  g_autoptr (JsonParser) parser = parse (where, text, length, &root, error);

  if (parser && (!root || (!JSON_NODE_HOLDS_OBJECT (root) && !JSON_NODE_HOLDS_ARRAY (root))))
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: is neither a JSON object nor an array", where);
      return NULL;
    }
  return g_steal_pointer (&parser);
}
