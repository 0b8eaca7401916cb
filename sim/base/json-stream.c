/* json-stream.c - a window that moves over a JSON text. */
#include "json-stream.h"

#include <string.h>

#define WINDOW_BYTES (1 << 18)

void
ps_json_stream_init (PsJsonStream *stream, const char *where, const char *data, gsize size)
{
  *stream = (PsJsonStream){ .where = where,
                            .unpacker = ps_unpacker_new (data, size),
                            .buffer = g_malloc0 (WINDOW_BYTES),
                            .allocated = WINDOW_BYTES };
}

void
ps_json_stream_clear (PsJsonStream *stream)
{
  g_clear_pointer (&stream->unpacker, ps_unpacker_free);
  g_clear_pointer (&stream->buffer, g_free);
}

void
ps_json_stream_rewind (PsJsonStream *stream)
{
  ps_unpacker_rewind (stream->unpacker);
  stream->begin = stream->end = 0;
  stream->ended = FALSE;
  stream->n_values = 0;
}

static gboolean
refuse (const PsJsonStream *stream, const char *problem, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: value %" G_GUINT64_FORMAT ": %s%s", stream->where, stream->n_values + 1,
                    stream->ended && stream->begin == stream->end ? "the text ends too early: " : "", problem);
}

/* Unpacks more behind what is there, which moves to the front. */
static gboolean
fill (PsJsonStream *stream, GError **error)
{
  gsize n;

  stream->end -= stream->begin;
  memmove (stream->buffer, stream->buffer + stream->begin, stream->end);
  stream->begin = 0;
  if (stream->allocated - stream->end < WINDOW_BYTES / 2)
    {
      if (stream->end > PS_JSON_STREAM_VALUE)
        return refuse (stream, "is larger than 256 MiB", error);
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

gboolean
ps_json_stream_peek (PsJsonStream *stream, char *next, GError **error)
{
  for (;; stream->begin++)
    {
      if (stream->begin == stream->end && !stream->ended && !fill (stream, error))
        return FALSE;
      *next = stream->begin < stream->end ? stream->buffer[stream->begin] : '\0';
      if (stream->begin == stream->end || (*next != ' ' && *next != '\n' && *next != '\r' && *next != '\t'))
        return TRUE;
    }
}

void
ps_json_stream_enter (PsJsonStream *stream)
{
  stream->begin++;
  stream->fresh = TRUE;
}

/* How far a value has been walked. */
typedef struct
{
  gsize length;
  guint depth;
  gboolean text, escaped;
} Walk;

/* Walks on to the value's end; FALSE: that is not there yet. A value that is none is left to the check. */
static gboolean
walk_on (const PsJsonStream *stream, Walk *walk)
{
  const char *value = stream->buffer + stream->begin;
  gsize length = stream->end - stream->begin;

  for (; walk->length < length; walk->length++)
    {
      char c = value[walk->length];

      if (walk->text)
        {
          walk->text = c != '"' || walk->escaped;
          walk->escaped = c == '\\' && !walk->escaped;
          if (!walk->text && walk->depth == 0)
            {
              walk->length++;
              return TRUE;
            }
        }
      else if (c == '"')
        walk->text = TRUE;
      else if (c == '{' || c == '[')
        walk->depth++;
      else if (c == '}' || c == ']')
        {
          if (walk->depth <= 1)
            {
              walk->length += walk->depth;
              return TRUE;
            }
          walk->depth--;
        }
      else if (walk->depth == 0 && walk->length > 0 && (c == ',' || c == ':' || g_ascii_isspace (c)))
        return TRUE;
    }
  return stream->ended;
}

static gboolean
find_end (PsJsonStream *stream, gsize *length, GError **error)
{
  Walk walk = { 0 };

  while (!walk_on (stream, &walk))
    if (!fill (stream, error))
      return FALSE;
  *length = walk.length;
  return TRUE;
}

/* The check wants an object or array: other values get brackets. */
static gboolean
check_value (const PsJsonStream *stream, gsize length, GError **error)
{
  const char *value = stream->buffer + stream->begin;
  gboolean alone = *value != '{' && *value != '[';
  g_autofree char *where = g_strdup_printf ("%s: value %" G_GUINT64_FORMAT, stream->where, stream->n_values + 1);
  g_autofree char *array = alone ? g_strdup_printf ("[%.*s]", (int)length, value) : NULL;

  return ps_json_check (where, alone ? array : value, alone ? length + 2 : length, PS_JSON_MAX_DEPTH, error);
}

gboolean
ps_json_stream_value (PsJsonStream *stream, gboolean checked, PsJsonReader *reader, GError **error)
{
  gsize length;
  char next;

  if (!ps_json_stream_peek (stream, &next, error) || !find_end (stream, &length, error))
    return FALSE;
  if (length == 0)
    return refuse (stream, "no value of JSON", error);
  if (!checked && !check_value (stream, length, error))
    return FALSE;
  reader->where = stream->where;
  reader->at = stream->buffer + stream->begin;
  stream->begin += length;
  stream->n_values++;
  return TRUE;
}

gboolean
ps_json_stream_next (PsJsonStream *stream, char close, char **key, gboolean *found, GError **error)
{
  PsJsonReader reader = { 0 };
  gboolean done;
  const char *text;
  char next;

  if (!ps_json_stream_peek (stream, &next, error))
    return FALSE;
  *found = next != close;
  if (*found && !stream->fresh)
    {
      if (next != ',')
        return refuse (stream, "',' is missing", error);
      stream->begin++;
    }
  else if (!*found)
    stream->begin++;
  stream->fresh = FALSE;
  if (!*found || key == NULL)
    return TRUE;
  done = ps_json_stream_value (stream, FALSE, &reader, error)
         && (ps_json_read_text (&reader, &text) || refuse (stream, "a key is missing", error));
  g_free (*key);
  *key = done ? g_strdup (text) : NULL;
  ps_json_reader_clear (&reader);
  if (!done || !ps_json_stream_peek (stream, &next, error))
    return FALSE;
  if (next != ':')
    return refuse (stream, "':' is missing after a key", error);
  stream->begin++;
  return TRUE;
}

gboolean
ps_json_stream_end (PsJsonStream *stream, GError **error)
{
  char next;

  return ps_json_stream_peek (stream, &next, error)
         && (stream->begin == stream->end || refuse (stream, "more text after the end", error));
}
