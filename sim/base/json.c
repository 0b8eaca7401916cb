/* json.c - reading and writing JSON: the grammar, values, versioned objects, a window that moves over a text, strings
 * and numbers. */
#include "json.h"

#include "text.h"

#include <math.h>
#include <string.h>

/* The grammar, walked without recursion. */

typedef struct {
  const char *at;
  const char *end;
  const char *problem; /* what is wrong at `at`; NULL: nothing yet */
  guint depth;
  guint64 objects; /* bit per open bracket, the innermost lowest: it is an object's */
} Check;

static gboolean fail_check (Check *check, const char *problem)
{
  check->problem = problem;
  return FALSE;
}

static inline char peek_char (const Check *check)
{
  return check->at < check->end ? *check->at : '\0';
}

static inline void skip_check_space (Check *check)
{
  while (check->at < check->end
         && (*check->at == ' ' || *check->at == '\n' || *check->at == '\r' || *check->at == '\t'))
    check->at++;
}

/* Four hexadecimal digits; -1 where there are others. */
static int hex_value (const Check *check, const char *digits)
{
  int value = 0;

  for (guint i = 0; i < 4; i++) {
    int digit = digits + i < check->end ? g_ascii_xdigit_value (digits[i]) : -1;

    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Called after the 'u'. The two halves of a character beyond U+FFFF must come together. */
static gboolean check_code (Check *check)
{
  int code = hex_value (check, check->at);

  if (code < 0)
    return fail_check (check, "\\u wants four hexadecimal digits");
  if (code == 0)
    return fail_check (check, "a string cannot hold \\u0000");
  if (code >= 0xdc00 && code < 0xe000)
    return fail_check (check, "half a character");
  check->at += 4;
  if (code < 0xd800 || code >= 0xdc00)
    return TRUE;
  int second = check->end - check->at >= 6 && check->at[0] == '\\' && check->at[1] == 'u'
                   ? hex_value (check, check->at + 2)
                   : -1;
  if (second < 0xdc00 || second >= 0xe000)
    return fail_check (check, "half a character");
  check->at += 6;
  return TRUE;
}

static gboolean check_escape (Check *check)
{
  check->at++;
  switch (peek_char (check)) {
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
    return fail_check (check, "no escape of JSON");
  }
}

static gboolean check_utf8 (Check *check)
{
  const char *stop = check->at;

  while (stop < check->end && (guchar)*stop >= 0x80)
    stop++;
  if (!g_utf8_validate_len (check->at, (gsize)(stop - check->at), &check->at))
    return fail_check (check, "no UTF-8");
  return TRUE;
}

/* The first letter that is more than one of a string. */
static inline const char *skip_plain (const char *at, const char *end)
{
  while (at < end && (guchar)*at >= 0x20 && (guchar)*at < 0x80 && *at != '"' && *at != '\\')
    at++;
  return at;
}

static gboolean check_string (Check *check)
{
  if (peek_char (check) != '"')
    return fail_check (check, "a string is missing");
  for (check->at++; check->at < check->end;) {
    check->at = skip_plain (check->at, check->end);
    if (check->at == check->end)
      break;
    guchar c = (guchar)*check->at;
    if (c == '"') {
      check->at++;
      return TRUE;
    }
    if (c < 0x20)
      return fail_check (check, "a control character in a string");
    if (c == '\\' ? !check_escape (check) : !check_utf8 (check))
      return FALSE;
  }
  return fail_check (check, "the string does not end");
}

static gboolean check_digits (Check *check)
{
  if (!g_ascii_isdigit (peek_char (check)))
    return fail_check (check, "a digit is missing");
  while (g_ascii_isdigit (peek_char (check)))
    check->at++;
  return TRUE;
}

static gboolean check_number (Check *check)
{
  check->at += peek_char (check) == '-';
  if (peek_char (check) == '0' && check->end - check->at > 1 && g_ascii_isdigit (check->at[1]))
    return fail_check (check, "a number with a leading 0");
  if (!check_digits (check))
    return FALSE;
  if (peek_char (check) == '.' && (check->at++, !check_digits (check)))
    return FALSE;
  if (peek_char (check) != 'e' && peek_char (check) != 'E')
    return TRUE;
  check->at++;
  check->at += peek_char (check) == '+' || peek_char (check) == '-';
  return check_digits (check);
}

static gboolean check_word (Check *check, const char *word)
{
  const char *at = check->at;

  for (; *word; word++, at++)
    if (at == check->end || *at != *word)
      return fail_check (check, "no value of JSON");
  check->at = at;
  return TRUE;
}

static gboolean check_scalar (Check *check)
{
  switch (peek_char (check)) {
  case '"':
    return check_string (check);
  case 't':
    return check_word (check, "true");
  case 'f':
    return check_word (check, "false");
  case 'n':
    return check_word (check, "null");
  default:
    if (g_ascii_isdigit (peek_char (check)) || peek_char (check) == '-')
      return check_number (check);
    return fail_check (check, "no value of JSON");
  }
}

static gboolean check_key (Check *check)
{
  skip_check_space (check);
  if (!check_string (check))
    return FALSE;
  skip_check_space (check);
  if (peek_char (check) != ':')
    return fail_check (check, "':' is missing after a key");
  check->at++;
  return TRUE;
}

static inline gboolean in_object (const Check *check)
{
  return check->objects & 1;
}

/* Steps over an opening bracket. A first value must follow unless the bracket closes at once. */
static gboolean open_bracket (Check *check)
{
  if (check->depth == PS_JSON_MAX_DEPTH)
    return fail_check (check, "nested too deeply");
  check->depth++;
  check->objects = check->objects << 1 | (*check->at++ == '{');
  return TRUE;
}

static gboolean close_bracket (Check *check)
{
  if (peek_char (check) != (in_object (check) ? '}' : ']'))
    return FALSE;
  check->at++;
  check->depth--;
  check->objects >>= 1;
  return TRUE;
}

/* Called after a value: closes brackets that end here, and stops before the next value; at depth 0 the text is done. */
static gboolean check_separator (Check *check)
{
  while (check->depth > 0) {
    skip_check_space (check);
    if (peek_char (check) == ',') {
      check->at++;
      return !in_object (check) || check_key (check);
    }
    if (!close_bracket (check))
      return fail_check (check, in_object (check) ? "',' or '}' is missing" : "',' or ']' is missing");
  }
  return TRUE;
}

static gboolean check_value (Check *check)
{
  skip_check_space (check);
  if (peek_char (check) != '{' && peek_char (check) != '[')
    return check_scalar (check) && check_separator (check);
  if (!open_bracket (check))
    return FALSE;
  skip_check_space (check);
  if (close_bracket (check))
    return check_separator (check);
  return !in_object (check) || check_key (check);
}

static gboolean check_text (Check *check)
{
  do
    if (!check_value (check))
      return FALSE;
  while (check->depth > 0);
  skip_check_space (check);
  return check->at == check->end || fail_check (check, "more text after the end");
}

static void set_error (const Check *check, const char *where, const char *text, GError **error)
{
  guint line = 1, column = 1;

  for (const char *c = text; c < check->at; c++) {
    line += *c == '\n';
    column = *c == '\n' ? 1 : column + 1;
  }
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s:%u:%u: %s%s", where, line, column,
               check->at == check->end ? "the text ends too early: " : "", check->problem);
}

/* Checks that the text is one object or array, nested at most PS_JSON_MAX_DEPTH deep, and nothing else. Strings must be
 * UTF-8 and hold no NUL. Errors: PS_ERROR_INPUT "where:line:column: ...". */
static gboolean check_json (const char *where, const char *text, gsize length, GError **error)
{
  Check check = { .at = text, .end = text + length };

  skip_check_space (&check);
  if (peek_char (&check) != '{' && peek_char (&check) != '[')
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is neither a JSON object nor an array", where);
  if (check_text (&check))
    return TRUE;
  set_error (&check, where, text, error);
  return FALSE;
}

/* Values of a text that has been checked: nothing here looks for mistakes any more. */

static inline void skip_space (PsJsonReader *reader)
{
  while (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t')
    reader->at++;
}

gboolean ps_json_reader_init (PsJsonReader *reader, const char *where, const char *text, gssize length, GError **error)
{
  *reader = (PsJsonReader){ .where = where, .at = text };
  if (!check_json (where, text, length < 0 ? strlen (text) : (gsize)length, error))
    return FALSE;
  skip_space (reader);
  return TRUE;
}

void ps_json_reader_clear (PsJsonReader *reader)
{
  g_clear_pointer (&reader->key.text, g_free);
  g_clear_pointer (&reader->value.text, g_free);
}

static gboolean enter (PsJsonReader *reader, char bracket)
{
  if (*reader->at != bracket)
    return FALSE;
  reader->at++;
  return TRUE;
}

gboolean ps_json_enter_object (PsJsonReader *reader)
{
  return enter (reader, '{');
}

gboolean ps_json_enter_array (PsJsonReader *reader)
{
  return enter (reader, '[');
}

/* Goes to the next_value key or element. At the closing bracket, steps over it and returns FALSE. */
static gboolean next_value (PsJsonReader *reader)
{
  skip_space (reader);
  if (*reader->at == ']' || *reader->at == '}') {
    reader->at++;
    return FALSE;
  }
  if (*reader->at == ',') {
    reader->at++;
    skip_space (reader);
  }
  return TRUE;
}

gboolean ps_json_next_element (PsJsonReader *reader)
{
  return next_value (reader);
}

/* The place after the string that begins at `at`; *plain: it holds no escapes. */
static const char *string_end (const char *at, gboolean *plain)
{
  *plain = TRUE;
  for (at++; *at != '"'; at++)
    if (*at == '\\') {
      *plain = FALSE;
      at++;
    }
  return at + 1;
}

static gunichar read_code (const char *digits)
{
  gunichar code = 0;

  for (guint i = 0; i < 4; i++)
    code = code * 16 + (gunichar)g_ascii_xdigit_value (digits[i]);
  return code;
}

/* Writes the character of an escape and returns how long the escape is. */
static gsize copy_escape (const char *at, char **to)
{
  static const char letters[] = "bfnrt", characters[] = "\b\f\n\r\t";

  if (at[1] != 'u') {
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
static void copy_string (PsJsonReader *reader, PsJsonString *string)
{
  gboolean plain;
  const char *from = reader->at + 1, *end = string_end (reader->at, &plain);
  gsize length = (gsize)(end - 1 - from);

  if (length >= string->allocated) {
    string->allocated = MAX (64, 2 * length);
    string->text = g_realloc (string->text, string->allocated);
  }
  reader->at = end;
  char *to = string->text;
  if (plain) {
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

const char *ps_json_next_key (PsJsonReader *reader)
{
  if (!next_value (reader))
    return NULL;
  copy_string (reader, &reader->key);
  skip_space (reader);
  reader->at++;
  skip_space (reader);
  return reader->key.text;
}

guint ps_json_count_elements (const PsJsonReader *reader)
{
  PsJsonReader ahead = { .at = reader->at };
  guint n = 0;

  for (; ps_json_next_element (&ahead); n++)
    ps_json_skip_value (&ahead);
  return n;
}

gboolean ps_json_read_text (PsJsonReader *reader, const char **text)
{
  if (*reader->at != '"')
    return FALSE;
  copy_string (reader, &reader->value);
  *text = reader->value.text;
  return TRUE;
}

gboolean ps_json_read_integer (PsJsonReader *reader, gint64 *value)
{
  const char *at = reader->at + (*reader->at == '-');
  guint64 digits = 0, max = (guint64)G_MAXINT64 + (*reader->at == '-');

  if (!g_ascii_isdigit (*at))
    return FALSE;
  for (; g_ascii_isdigit (*at); at++) {
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

gboolean ps_json_read_number (PsJsonReader *reader, double *value)
{
  char *end;

  if (*reader->at != '-' && !g_ascii_isdigit (*reader->at))
    return FALSE;
  *value = g_ascii_strtod (reader->at, &end);
  reader->at = end;
  return TRUE;
}

gboolean ps_json_read_boolean (PsJsonReader *reader, gboolean *value)
{
  if (*reader->at != 't' && *reader->at != 'f')
    return FALSE;
  *value = *reader->at == 't';
  reader->at += *value ? strlen ("true") : strlen ("false");
  return TRUE;
}

/* The place after the bracket that closes the one at `at`. */
static const char *bracket_end (const char *at)
{
  guint depth = 0;
  gboolean plain;

  do
    if (*at == '"')
      at = string_end (at, &plain);
    else {
      depth += (guint)(*at == '[' || *at == '{') - (guint)(*at == ']' || *at == '}');
      at++;
    }
  while (depth > 0);
  return at;
}

void ps_json_skip_value (PsJsonReader *reader)
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

/* Versioned objects. */

/* For place (): the whole value, not an element of it. */
#define WHOLE G_MAXUINT

/* "where: key", or "where: key[i]" for element i. */
static char *place (const PsJsonReader *reader, const char *key, guint i)
{
  return i == WHOLE ? g_strdup_printf ("%s: %s", reader->where, key)
                    : g_strdup_printf ("%s: %s[%u]", reader->where, key, i);
}

PsJsonReader *ps_json_object_go (const PsJsonObject *object, const char *key)
{
  object->reader->at = g_hash_table_lookup (object->places, key);
  return object->reader;
}

static gboolean check_format (const PsJsonObject *object, const char *format, GError **error)
{
  gsize family = (gsize)(strchr (format, '/') + 1 - format);
  const char *found = "";

  if (!ps_json_object_has (object, "format"))
    return ps_refuse_at (place (object->reader, "format", WHOLE), error, "is missing; %s would be right", format);
  ps_json_read_text (ps_json_object_go (object, "format"), &found);
  if (g_str_equal (found, format))
    return TRUE;
  if (strncmp (found, format, family) == 0)
    return ps_refuse_at (place (object->reader, "format", WHOLE), error,
                         "'%s' is another version; this pipesim reads %s", found, format);
  return ps_refuse_at (place (object->reader, "format", WHOLE), error, "'%s' is not %s", found, format);
}

static gboolean is_known (const char *key, const char *format, const char *const *required, const char *const *optional)
{
  return (format != NULL && g_str_equal (key, "format")) || g_strv_contains (required, key)
         || (optional != NULL && g_strv_contains (optional, key));
}

gboolean ps_json_object_init (PsJsonObject *object, PsJsonReader *reader, const char *format,
                              const char *const *required, const char *const *optional, GError **error)
{
  g_autofree char *unknown = NULL, *twice = NULL;
  const char *key;

  *object = (PsJsonObject){ reader, g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  if (!ps_json_enter_object (reader))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is no JSON object", reader->where);
  while ((key = ps_json_next_key (reader)) != NULL) {
    if (unknown == NULL && !is_known (key, format, required, optional))
      unknown = g_strdup (key);
    if (!g_hash_table_insert (object->places, g_strdup (key), (gpointer)reader->at) && twice == NULL)
      twice = g_strdup (key);
    ps_json_skip_value (reader);
  }
  if (format != NULL && !check_format (object, format, error))
    return FALSE;
  for (guint i = 0; required[i] != NULL; i++)
    if (!ps_json_object_has (object, required[i]))
      return ps_refuse_at (place (reader, required[i], WHOLE), error, "is missing");
  if (unknown != NULL)
    return ps_refuse_at (place (reader, unknown, WHOLE), error, "is no key of %s",
                         format != NULL ? format : "this object");
  return twice == NULL || ps_refuse_at (place (reader, twice, WHOLE), error, "is there twice");
}

void ps_json_object_clear (PsJsonObject *object)
{
  g_clear_pointer (&object->places, g_hash_table_unref);
}

gboolean ps_json_object_has (const PsJsonObject *object, const char *key)
{
  return g_hash_table_contains (object->places, key);
}

gboolean ps_json_element_text (PsJsonReader *reader, const char *key, guint i, const char **text, GError **error)
{
  return ps_json_read_text (reader, text) || ps_refuse_at (place (reader, key, i), error, "is no text");
}

gboolean ps_json_element_integer (PsJsonReader *reader, const char *key, guint i, gint64 low, gint64 high,
                                  gint64 *value, GError **error)
{
  if (!ps_json_read_integer (reader, value))
    return ps_refuse_at (place (reader, key, i), error, "is no integer");
  if (*value >= low && *value <= high)
    return TRUE;
  return ps_refuse_at (place (reader, key, i), error,
                       "%" G_GINT64_FORMAT " is not between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, *value, low,
                       high);
}

gboolean ps_json_element_array (PsJsonReader *reader, const char *key, guint i, GError **error)
{
  return ps_json_enter_array (reader) || ps_refuse_at (place (reader, key, i), error, "is no array");
}

gboolean ps_json_get_text (const PsJsonObject *object, const char *key, char **text, GError **error)
{
  const char *found;

  if (!ps_json_element_text (ps_json_object_go (object, key), key, WHOLE, &found, error))
    return FALSE;
  *text = g_strdup (found);
  return TRUE;
}

gboolean ps_json_get_integer (const PsJsonObject *object, const char *key, gint64 low, gint64 high, gint64 *value,
                              GError **error)
{
  return ps_json_element_integer (ps_json_object_go (object, key), key, WHOLE, low, high, value, error);
}

gboolean ps_json_get_boolean (const PsJsonObject *object, const char *key, gboolean *value, GError **error)
{
  PsJsonReader *reader = ps_json_object_go (object, key);

  return ps_json_read_boolean (reader, value)
         || ps_refuse_at (place (reader, key, WHOLE), error, "is neither true nor false");
}

gboolean ps_json_get_array (const PsJsonObject *object, const char *key, GError **error)
{
  return ps_json_element_array (ps_json_object_go (object, key), key, WHOLE, error);
}

/* A window that moves over a text. */

#define WINDOW_BYTES (1 << 18)

void ps_json_stream_init (PsJsonStream *stream, const char *where, const char *data, gsize size)
{
  *stream = (PsJsonStream){ .where = where,
                            .unpacker = ps_unpacker_new (data, size),
                            .buffer = g_malloc0 (WINDOW_BYTES),
                            .allocated = WINDOW_BYTES };
}

void ps_json_stream_clear (PsJsonStream *stream)
{
  g_clear_pointer (&stream->unpacker, ps_unpacker_free);
  g_clear_pointer (&stream->buffer, g_free);
}

void ps_json_stream_rewind (PsJsonStream *stream)
{
  ps_unpacker_rewind (stream->unpacker);
  stream->begin = stream->end = 0;
  stream->ended = FALSE;
  stream->n_values = 0;
}

static gboolean refuse_stream (const PsJsonStream *stream, const char *problem, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: value %" G_GUINT64_FORMAT ": %s%s", stream->where, stream->n_values + 1,
                    stream->ended && stream->begin == stream->end ? "the text ends too early: " : "", problem);
}

/* Moves what is there to the front and unpacks more after it. */
static gboolean fill (PsJsonStream *stream, GError **error)
{
  gsize n;

  stream->end -= stream->begin;
  memmove (stream->buffer, stream->buffer + stream->begin, stream->end);
  stream->begin = 0;
  if (stream->allocated - stream->end < WINDOW_BYTES / 2) {
    if (stream->end > PS_JSON_STREAM_VALUE)
      return refuse_stream (stream, "is larger than 256 MiB", error);
    stream->allocated *= 2;
    stream->buffer = g_realloc (stream->buffer, stream->allocated);
  }
  gsize room = stream->allocated - stream->end - 1; /* and a NUL */
  if (!ps_unpacker_read (stream->unpacker, stream->where, stream->buffer + stream->end, room, &n, error))
    return FALSE;
  stream->end += n;
  stream->buffer[stream->end] = '\0';
  stream->ended = n < room;
  return TRUE;
}

gboolean ps_json_stream_peek (PsJsonStream *stream, char *next, GError **error)
{
  for (;; stream->begin++) {
    if (stream->begin == stream->end && !stream->ended && !fill (stream, error))
      return FALSE;
    *next = stream->begin < stream->end ? stream->buffer[stream->begin] : '\0';
    if (stream->begin == stream->end || (*next != ' ' && *next != '\n' && *next != '\r' && *next != '\t'))
      return TRUE;
  }
}

void ps_json_stream_enter (PsJsonStream *stream)
{
  stream->begin++;
  stream->fresh = TRUE;
}

/* Bytes of the longest token but for strings, "\\ud83d\\ude00": one that is cut at the end of what is there begins
 * within so many bytes of that end. */
#define LONGEST_TOKEN 12

gboolean ps_json_stream_value (PsJsonStream *stream, PsJsonReader *reader, GError **error)
{
  gboolean whole = FALSE, cut = TRUE;
  Check check;
  char next;

  if (!ps_json_stream_peek (stream, &next, error))
    return FALSE;
  while (cut) {
    check = (Check){ .at = stream->buffer + stream->begin, .end = stream->buffer + stream->end };
    do
      whole = check_value (&check);
    while (whole && check.depth > 0);
    cut = !stream->ended && check.end - check.at <= LONGEST_TOKEN;
    if (cut && !fill (stream, error))
      return FALSE;
  }
  reader->where = stream->where;
  reader->at = stream->buffer + stream->begin;
  if (!whole) {
    g_autofree char *where = g_strdup_printf ("%s: value %" G_GUINT64_FORMAT, stream->where, stream->n_values + 1);

    set_error (&check, where, reader->at, error);
    return FALSE;
  }
  stream->begin = (gsize)(check.at - stream->buffer);
  stream->n_values++;
  return TRUE;
}

gboolean ps_json_stream_next (PsJsonStream *stream, char close, char **key, gboolean *found, GError **error)
{
  PsJsonReader reader = { 0 };
  gboolean done;
  const char *text;
  char next;

  if (!ps_json_stream_peek (stream, &next, error))
    return FALSE;
  *found = next != close;
  if (*found && !stream->fresh) {
    if (next != ',')
      return refuse_stream (stream, "',' is missing", error);
    stream->begin++;
  } else if (!*found)
    stream->begin++;
  stream->fresh = FALSE;
  if (!*found || key == NULL)
    return TRUE;
  done = ps_json_stream_value (stream, &reader, error)
         && (ps_json_read_text (&reader, &text) || refuse_stream (stream, "a key is missing", error));
  g_free (*key);
  *key = done ? g_strdup (text) : NULL;
  ps_json_reader_clear (&reader);
  if (!done || !ps_json_stream_peek (stream, &next, error))
    return FALSE;
  if (next != ':')
    return refuse_stream (stream, "':' is missing after a key", error);
  stream->begin++;
  return TRUE;
}

gboolean ps_json_stream_end (PsJsonStream *stream, GError **error)
{
  char next;

  return ps_json_stream_peek (stream, &next, error)
         && (stream->begin == stream->end || refuse_stream (stream, "more text after the end", error));
}

/* Strings and numbers. */

void ps_json_append_string (GString *json, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);

  g_string_append_c (json, '"');
  for (const char *c = valid; *c; c = g_utf8_next_char (c)) {
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

void ps_json_append_double (GString *json, double value)
{
  static const char *const formats[] = { "%.15g", "%.16g", "%.17g" };
  char buffer[G_ASCII_DTOSTR_BUF_SIZE] = "null";

  for (guint i = 0; isfinite (value) && i < G_N_ELEMENTS (formats); i++) {
    g_ascii_formatd (buffer, sizeof buffer, formats[i], value);
    if (g_ascii_strtod (buffer, NULL) == value)
      break;
  }
  g_string_append (json, buffer);
}
