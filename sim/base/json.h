/* json.h - reading JSON texts from outside, packed ones too, and the strings and numbers of JSON. Private to the
 * project.
 *
 * A reader checks the whole text first, strictly by RFC 8259. Then it reads one value after the other in place, so that
 * a file of any size costs no more memory than itself. A stream has one value in memory at a time. */
#pragma once

#include "files.h"

#define PS_JSON_MAX_DEPTH 64

/* A string without its escapes. */
typedef struct {
  char *text;
  gsize allocated;
} PsJsonString;

typedef struct {
  const char *where; /* the name of the text in messages */
  const char *at;    /* the next value to read, or the text after a value. May be noted and gone back to. */
  PsJsonString key;
  PsJsonString value;
} PsJsonReader;

/* Checks the text, which must be one object or array nested at most PS_JSON_MAX_DEPTH deep, and goes to its start.
 * length -1: text ends with NUL. The text must outlive the reader. Errors: PS_ERROR_INPUT "where:line:column: ...",
 * both counted from 1, columns in bytes. Clear in any case. */
gboolean ps_json_reader_init (PsJsonReader *reader, const char *where, const char *text, gssize length, GError **error);
void ps_json_reader_clear (PsJsonReader *reader);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsJsonReader, ps_json_reader_clear)

/* Steps into an object or array. FALSE: the value is none. Each value inside follows a successful call of next_key or
 * next_element, and must be read, stepped into and through, or skipped. At the end next_key returns NULL and
 * next_element FALSE; the object or array has been read then. */
gboolean ps_json_enter_object (PsJsonReader *reader);
gboolean ps_json_enter_array (PsJsonReader *reader);
const char *ps_json_next_key (PsJsonReader *reader); /* valid until the next key */
gboolean ps_json_next_element (PsJsonReader *reader);

/* Elements of the array that was stepped into just now. */
guint ps_json_count_elements (const PsJsonReader *reader);

/* Reads a value. FALSE: the value is of another kind or does not fit; it remains to be read. */
gboolean ps_json_read_text (PsJsonReader *reader, const char **text); /* valid until the next text */
gboolean ps_json_read_integer (PsJsonReader *reader, gint64 *value);
gboolean ps_json_read_number (PsJsonReader *reader, double *value); /* integers too */
gboolean ps_json_read_boolean (PsJsonReader *reader, gboolean *value);
void ps_json_skip_value (PsJsonReader *reader);

/* Versioned JSON objects, read strictly: every key known, every value of its type and range. All errors are
 * PS_ERROR_INPUT "where: key: ...". */

/* The members of an object, in any order. */
typedef struct {
  PsJsonReader *reader;
  GHashTable *places; /* key -> its value in the text */
} PsJsonObject;

/* Reads through the object at the reader's place. Checks "format" first ("pipesim-schedule/1"); another version gets
 * another message than a foreign file. Then checks that every required key is there, no other key but optional ones,
 * and no key twice. Lists end with NULL and do not name "format"; optional may be NULL. format NULL: an object inside
 * another, which has no "format". The reader must outlive the object. Clear in any case. */
gboolean ps_json_object_init (PsJsonObject *object, PsJsonReader *reader, const char *format,
                              const char *const *required, const char *const *optional, GError **error);
void ps_json_object_clear (PsJsonObject *object);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsJsonObject, ps_json_object_clear)

gboolean ps_json_object_has (const PsJsonObject *object, const char *key);

/* Moves the reader to the value of a member that is there. Returns the reader. */
PsJsonReader *ps_json_object_go (const PsJsonObject *object, const char *key);

/* Values of a member that is there. Free *text with g_free. */
gboolean ps_json_get_text (const PsJsonObject *object, const char *key, char **text, GError **error);
gboolean ps_json_get_integer (const PsJsonObject *object, const char *key, gint64 low, gint64 high, gint64 *value,
                              GError **error);
gboolean ps_json_get_boolean (const PsJsonObject *object, const char *key, gboolean *value, GError **error);

/* Steps the reader into a member that is an array. */
gboolean ps_json_get_array (const PsJsonObject *object, const char *key, GError **error);

/* Reads element i of an array, after ps_json_next_element. Messages call the array `key`, such as "order[2]". */
gboolean ps_json_element_text (PsJsonReader *reader, const char *key, guint i, const char **text, GError **error);
gboolean ps_json_element_integer (PsJsonReader *reader, const char *key, guint i, gint64 low, gint64 high,
                                  gint64 *value, GError **error);
gboolean ps_json_element_array (PsJsonReader *reader, const char *key, guint i, GError **error);

/* A stream reads a text, a packed one while it unpacks: one member of the outermost object, one element of an array, or
 * one of several objects at a time. */

/* Most bytes of a value that is read at once. */
#define PS_JSON_STREAM_VALUE (256 << 20)

typedef struct {
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

/* Checks the next value, takes it as a whole and lets the reader begin with it; it is valid until the next call. Clear
 * the reader at the end, not in between. */
gboolean ps_json_stream_value (PsJsonStream *stream, PsJsonReader *reader, GError **error);

/* Nothing but space may follow. */
gboolean ps_json_stream_end (PsJsonStream *stream, GError **error);

/* Writing, for texts that are built row by row. */

/* Appends text in quotes; bytes that are no UTF-8 become U+FFFD. */
void ps_json_append_string (GString *json, const char *text);

/* Appends the shortest text that reads back as exactly this value; null for NaN and the infinities. */
void ps_json_append_double (GString *json, double value);
