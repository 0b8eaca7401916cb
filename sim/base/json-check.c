/* json-check.c - the grammar of JSON, walked without recursion. */
#include "json-check.h"

typedef struct
{
  const char *at;
  const char *end;
  const char *problem; /* what is wrong at `at`; NULL: nothing yet */
  guint depth;
  guint max_depth;
  guint64 objects; /* bit per open bracket, the innermost lowest: it is an object's */
} Check;

static gboolean
refuse (Check *check, const char *problem)
{
  check->problem = problem;
  return FALSE;
}

static inline char
peek (const Check *check)
{
  return check->at < check->end ? *check->at : '\0';
}

static inline void
skip_space (Check *check)
{
  while (check->at < check->end
         && (*check->at == ' ' || *check->at == '\n' || *check->at == '\r' || *check->at == '\t'))
    check->at++;
}

/* Four hexadecimal digits; -1 where there are others. */
static int
hex_value (const Check *check, const char *digits)
{
  int value = 0;

  for (guint i = 0; i < 4; i++)
    {
      int digit = digits + i < check->end ? g_ascii_xdigit_value (digits[i]) : -1;

      if (digit < 0)
        return -1;
      value = value * 16 + digit;
    }
  return value;
}

/* Called after the 'u'. The two halves of a character beyond U+FFFF must come together. */
static gboolean
check_code (Check *check)
{
  int code = hex_value (check, check->at);

  if (code < 0)
    return refuse (check, "\\u wants four hexadecimal digits");
  if (code == 0)
    return refuse (check, "a string cannot hold \\u0000");
  if (code >= 0xdc00 && code < 0xe000)
    return refuse (check, "half a character");
  check->at += 4;
  if (code < 0xd800 || code >= 0xdc00)
    return TRUE;
  int second = check->end - check->at >= 6 && check->at[0] == '\\' && check->at[1] == 'u'
                   ? hex_value (check, check->at + 2)
                   : -1;
  if (second < 0xdc00 || second >= 0xe000)
    return refuse (check, "half a character");
  check->at += 6;
  return TRUE;
}

static gboolean
check_escape (Check *check)
{
  check->at++;
  switch (peek (check))
    {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      check->at++;
      return TRUE;
    case 'u':
      check->at++;
      return check_code (check);
    default:
      return refuse (check, "no escape of JSON");
    }
}

static gboolean
check_utf8 (Check *check)
{
  const char *stop = check->at;

  while (stop < check->end && (guchar)*stop >= 0x80)
    stop++;
  if (!g_utf8_validate_len (check->at, (gsize)(stop - check->at), &check->at))
    return refuse (check, "no UTF-8");
  return TRUE;
}

/* The first letter that is more than one of a string. */
static inline const char *
skip_plain (const char *at, const char *end)
{
  while (at < end && (guchar)*at >= 0x20 && (guchar)*at < 0x80 && *at != '"' && *at != '\\')
    at++;
  return at;
}

static gboolean
check_string (Check *check)
{
  if (peek (check) != '"')
    return refuse (check, "a string is missing");
  for (check->at++; check->at < check->end;)
    {
      check->at = skip_plain (check->at, check->end);
      if (check->at == check->end)
        break;
      guchar c = (guchar)*check->at;
      if (c == '"')
        {
          check->at++;
          return TRUE;
        }
      if (c < 0x20)
        return refuse (check, "a control character in a string");
      if (c == '\\' ? !check_escape (check) : !check_utf8 (check))
        return FALSE;
    }
  return refuse (check, "the string does not end");
}

static gboolean
check_digits (Check *check)
{
  if (!g_ascii_isdigit (peek (check)))
    return refuse (check, "a digit is missing");
  while (g_ascii_isdigit (peek (check)))
    check->at++;
  return TRUE;
}

static gboolean
check_number (Check *check)
{
  check->at += peek (check) == '-';
  if (peek (check) == '0' && check->end - check->at > 1 && g_ascii_isdigit (check->at[1]))
    return refuse (check, "a number with a leading 0");
  if (!check_digits (check))
    return FALSE;
  if (peek (check) == '.' && (check->at++, !check_digits (check)))
    return FALSE;
  if (peek (check) != 'e' && peek (check) != 'E')
    return TRUE;
  check->at++;
  check->at += peek (check) == '+' || peek (check) == '-';
  return check_digits (check);
}

static gboolean
check_word (Check *check, const char *word)
{
  const char *at = check->at;

  for (; *word; word++, at++)
    if (at == check->end || *at != *word)
      return refuse (check, "no value of JSON");
  check->at = at;
  return TRUE;
}

static gboolean
check_scalar (Check *check)
{
  switch (peek (check))
    {
    case '"':
      return check_string (check);
    case 't':
      return check_word (check, "true");
    case 'f':
      return check_word (check, "false");
    case 'n':
      return check_word (check, "null");
    default:
      if (g_ascii_isdigit (peek (check)) || peek (check) == '-')
        return check_number (check);
      return refuse (check, "no value of JSON");
    }
}

static gboolean
check_key (Check *check)
{
  skip_space (check);
  if (!check_string (check))
    return FALSE;
  skip_space (check);
  if (peek (check) != ':')
    return refuse (check, "':' is missing after a key");
  check->at++;
  return TRUE;
}

static inline gboolean
in_object (const Check *check)
{
  return check->objects & 1;
}

/* Steps over an opening bracket. A first value must follow unless the bracket closes at once. */
static gboolean
open_bracket (Check *check)
{
  if (check->depth == check->max_depth)
    return refuse (check, "nested too deeply");
  check->depth++;
  check->objects = check->objects << 1 | (*check->at++ == '{');
  return TRUE;
}

static gboolean
close_bracket (Check *check)
{
  if (peek (check) != (in_object (check) ? '}' : ']'))
    return FALSE;
  check->at++;
  check->depth--;
  check->objects >>= 1;
  return TRUE;
}

/* Called after a value: closes brackets that end here, and stops before the next value; at depth 0 the text is done. */
static gboolean
check_separator (Check *check)
{
  while (check->depth > 0)
    {
      skip_space (check);
      if (peek (check) == ',')
        {
          check->at++;
          return !in_object (check) || check_key (check);
        }
      if (!close_bracket (check))
        return refuse (check, in_object (check) ? "',' or '}' is missing" : "',' or ']' is missing");
    }
  return TRUE;
}

static gboolean
check_value (Check *check)
{
  skip_space (check);
  if (peek (check) != '{' && peek (check) != '[')
    return check_scalar (check) && check_separator (check);
  if (!open_bracket (check))
    return FALSE;
  skip_space (check);
  if (close_bracket (check))
    return check_separator (check);
  return !in_object (check) || check_key (check);
}

static gboolean
check_text (Check *check)
{
  do
    if (!check_value (check))
      return FALSE;
  while (check->depth > 0);
  skip_space (check);
  return check->at == check->end || refuse (check, "more text after the end");
}

static void
set_error (const Check *check, const char *where, const char *text, GError **error)
{
  guint line = 1, column = 1;

  for (const char *c = text; c < check->at; c++)
    {
      line += *c == '\n';
      column = *c == '\n' ? 1 : column + 1;
    }
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s:%u:%u: %s%s", where, line, column,
               check->at == check->end ? "the text ends too early: " : "", check->problem);
}

gboolean
ps_json_check (const char *where, const char *text, gsize length, guint max_depth, GError **error)
{
  Check check = { .at = text, .end = text + length, .max_depth = max_depth };

  skip_space (&check);
  if (peek (&check) != '{' && peek (&check) != '[')
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is neither a JSON object nor an array", where);
  if (check_text (&check))
    return TRUE;
  set_error (&check, where, text, error);
  return FALSE;
}
