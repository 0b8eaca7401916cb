/* json-object.h - reading versioned JSON objects strictly: every key known, every value of its type and range. All
 * errors are PS_ERROR_INPUT "where: key: ...". */
#pragma once

#include "json-reader.h"

/* The members of an object, in any order. */
typedef struct
{
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
