/* json-stream.h - reading JSON texts, packed ones while they unpack: one member of the outermost object, one element of
 * an array, or one of several objects is in memory at a time. Private to libpipesim. */
#pragma once

#include "base-packed.h"
#include "json-reader.h"

/* Most bytes of a value that is read at once. */
#define PS_JSON_STREAM_VALUE (256 << 20)

typedef struct
{
  const char *where; /* the name of the text in messages */
  PsUnpacker *unpacker;
  char *buffer;
  gsize allocated;
  gsize begin;    /* what is read next */
  gsize end;      /* what is unpacked; a NUL follows */
  gboolean ended; /* nothing comes after it */
  gboolean fresh; /* no value was read since a bracket opened */
  guint64 n_values;
} PsJsonStream;

/* The data must outlive the stream. Clear in any case. */
void ps_json_stream_init (PsJsonStream *stream, const char *where, const char *data, gsize size);
void ps_json_stream_clear (PsJsonStream *stream);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsJsonStream, ps_json_stream_clear)

/* Goes back to the beginning. */
void ps_json_stream_rewind (PsJsonStream *stream);

/* The next character that is no space, '\0' at the end of the text. Errors of all functions: PS_ERROR_INPUT with the
 * text's name, and the number of the value within. */
gboolean ps_json_stream_peek (PsJsonStream *stream, char *next, GError **error);

/* Steps over the next character: into the object or array that it begins. */
void ps_json_stream_enter (PsJsonStream *stream);

/* Goes to the next member (its key is in *key, valid until the next call) or, where key is NULL, element. *found is
 * FALSE after the last one: then the bracket is closed. */
gboolean ps_json_stream_next (PsJsonStream *stream, char close, char **key, gboolean *found, GError **error);

/* Takes the next value as a whole and lets the reader begin with it; it is valid until the next call. The value is
 * checked unless the stream has been read before. Clear the reader at the end, not in between. */
gboolean ps_json_stream_value (PsJsonStream *stream, gboolean checked, PsJsonReader *reader, GError **error);

/* Nothing but space may follow. */
gboolean ps_json_stream_end (PsJsonStream *stream, GError **error);
