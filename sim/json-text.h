/* json-text.h - JSON texts: strings and numbers for the writers that build their text row by row, and a parser for
 * files from outside. */
#ifndef PIPESIM_JSON_TEXT_H
#define PIPESIM_JSON_TEXT_H

#include <json-glib/json-glib.h>
#include <pipesim/base.h>

G_BEGIN_DECLS

/* Appends text in quotes; bytes that are no UTF-8 become U+FFFD. */
void ps_json_append_string (GString *json, const char *text);

/* Appends the shortest text that reads back as exactly this value; null for NaN and the infinities. */
void ps_json_append_double (GString *json, double value);

/* Parses a text that must be one JSON object and nothing else. Errors: PS_ERROR_INPUT "where:line:column: ...".
 * json-glib recurses, so absurdly deep nesting is refused before it sees the text. length -1: text ends with NUL. */
JsonParser *ps_json_parse (const char *where, const char *text, gssize length,
                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a text that may be an array too. */
JsonParser *ps_json_parse_any (const char *where, const char *text, gssize length,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
