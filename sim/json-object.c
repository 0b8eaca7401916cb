/* json-object.c - reading versioned JSON objects strictly. */
#include "json-object.h"

#include <string.h>

static gboolean
has_format (const char *where, JsonObject *object, const char *format, GError **error)
{
  JsonNode *node = json_object_get_member (object, "format");
  const char *found = node && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
  gsize family = (gsize)(strchr (format, '/') + 1 - format);
  if (found && g_str_equal (found, format))
    return TRUE;
  if (found && strncmp (found, format, family) == 0)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: format: '%s' is another version; this pipesim reads %s", where,
                 found, format);
  else
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: format: '%s' is not %s", where, found ? found : "", format);
  return FALSE;
}

static gboolean
is_known (const char *key, const char *const *required, const char *const *optional)
{
  return g_str_equal (key, "format") || g_strv_contains (required, key)
         || (optional && g_strv_contains (optional, key));
}

gboolean
ps_json_check_format (const char *where, JsonObject *object, const char *format, const char *const *required,
                      const char *const *optional, GError **error)
{
  g_autoptr (GList) members = json_object_get_members (object);
  if (!has_format (where, object, format, error))
    return FALSE;
  for (guint i = 0; required[i]; i++)
    if (!json_object_has_member (object, required[i]))
      {
        g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s: is missing", where, required[i]);
        return FALSE;
      }
  for (GList *member = members; member; member = member->next)
    if (!is_known (member->data, required, optional))
      {
        g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s: is no key of %s", where, (const char *)member->data,
                     format);
        return FALSE;
      }
  return TRUE;
}

static gboolean
node_text (const char *where, const char *key, JsonNode *node, const char **text, GError **error)
{
  if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING)
    {
      *text = json_node_get_string (node);
      return TRUE;
    }
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s: is no text", where, key);
  return FALSE;
}

static gboolean
node_integer (const char *where, const char *key, JsonNode *node, gint64 low, gint64 high, gint64 *value,
              GError **error)
{
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s: is no integer", where, key);
      return FALSE;
    }
  *value = json_node_get_int (node);
  if (*value >= low && *value <= high)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: %s: %" G_GINT64_FORMAT " is not between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, where, key,
               *value, low, high);
  return FALSE;
}

static JsonArray *
node_array (const char *where, const char *key, JsonNode *node, GError **error)
{
  if (JSON_NODE_HOLDS_ARRAY (node))
    return json_node_get_array (node);
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s: is no array", where, key);
  return NULL;
}

gboolean
ps_json_get_text (const char *where, JsonObject *object, const char *key, const char **text, GError **error)
{
  return node_text (where, key, json_object_get_member (object, key), text, error);
}

gboolean
ps_json_get_integer (const char *where, JsonObject *object, const char *key, gint64 low, gint64 high, gint64 *value,
                     GError **error)
{
  return node_integer (where, key, json_object_get_member (object, key), low, high, value, error);
}

gboolean
ps_json_get_boolean (const char *where, JsonObject *object, const char *key, gboolean *value, GError **error)
{
  JsonNode *node = json_object_get_member (object, key);
  if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_BOOLEAN)
    {
      *value = json_node_get_boolean (node);
      return TRUE;
    }
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s: is neither true nor false", where, key);
  return FALSE;
}

JsonArray *
ps_json_get_array (const char *where, JsonObject *object, const char *key, GError **error)
{
  return node_array (where, key, json_object_get_member (object, key), error);
}

/* Elements name themselves only when something is wrong: a schedule has many. */
static void
prefix_element (const char *key, guint i, GError **cause, GError **error)
{
  g_autofree char *old = g_strdup_printf (": %s: ", key);
  g_autofree char *new = g_strdup_printf (": %s[%u]: ", key, i);
  g_autoptr (GString) text = g_string_new ((*cause)->message);
  g_string_replace (text, old, new, 1);
  g_set_error_literal (error, (*cause)->domain, (*cause)->code, text->str);
  g_clear_error (cause);
}

gboolean
ps_json_element_text (const char *where, const char *key, JsonArray *array, guint i, const char **text, GError **error)
{
  GError *cause = NULL;
  if (node_text (where, key, json_array_get_element (array, i), text, &cause))
    return TRUE;
  prefix_element (key, i, &cause, error);
  return FALSE;
}

gboolean
ps_json_element_integer (const char *where, const char *key, JsonArray *array, guint i, gint64 low, gint64 high,
                         gint64 *value, GError **error)
{
  GError *cause = NULL;
  if (node_integer (where, key, json_array_get_element (array, i), low, high, value, &cause))
    return TRUE;
  prefix_element (key, i, &cause, error);
  return FALSE;
}

JsonArray *
ps_json_element_array (const char *where, const char *key, JsonArray *array, guint i, GError **error)
{
  GError *cause = NULL;
  JsonArray *element = node_array (where, key, json_array_get_element (array, i), &cause);
  if (!element)
    prefix_element (key, i, &cause, error);
  return element;
}
