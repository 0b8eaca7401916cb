/* json-reader.h - reading JSON texts from outside without a tree. The reader checks the whole text first, strictly by
 * RFC 8259. Then it reads one value after the other in place, so that a file of any size costs no more memory than
 * itself. */
#pragma once

#include "json-check.h"

#define PS_JSON_MAX_DEPTH 64

/* A string without its escapes. */
typedef struct
{
  char *text;
  gsize allocated;
} PsJsonString;

typedef struct
{
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
