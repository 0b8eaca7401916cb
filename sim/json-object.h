/* json-object.h - reading versioned JSON objects strictly: every key known, every value of its type and range. All
 * errors are PS_ERROR_INPUT "where: key: ...". */
#ifndef PIPESIM_JSON_OBJECT_H
#define PIPESIM_JSON_OBJECT_H

#include "json-text.h"

G_BEGIN_DECLS

/* Checks "format" first ("pipesim-schedule/1"; another version is told apart from a foreign file), then that every
 * required key is there and that there are no others but the optional ones. Lists end with NULL and do not name
 * "format"; optional may be NULL. */
gboolean ps_json_check_format (const char *where, JsonObject *object, const char *format, const char *const *required,
                               const char *const *optional, GError **error);

/* Values of a member that ps_json_check_format has seen. text belongs to the object. */
gboolean ps_json_get_text (const char *where, JsonObject *object, const char *key, const char **text, GError **error);
gboolean ps_json_get_integer (const char *where, JsonObject *object, const char *key, gint64 low, gint64 high,
                              gint64 *value, GError **error);
gboolean ps_json_get_boolean (const char *where, JsonObject *object, const char *key, gboolean *value, GError **error);
JsonArray *ps_json_get_array (const char *where, JsonObject *object, const char *key, GError **error);

/* Elements of an array; key is what messages call the array, such as "order[2]". */
gboolean ps_json_element_text (const char *where, const char *key, JsonArray *array, guint i, const char **text,
                               GError **error);
gboolean ps_json_element_integer (const char *where, const char *key, JsonArray *array, guint i, gint64 low,
                                  gint64 high, gint64 *value, GError **error);
JsonArray *ps_json_element_array (const char *where, const char *key, JsonArray *array, guint i, GError **error);

G_END_DECLS

#endif
