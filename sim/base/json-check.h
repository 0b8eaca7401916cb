/* json-check.h - checks that a text is JSON. Private to the JSON reader. */
#pragma once

#include <pipesim/base.h>

/* Checks that the text is one object or array by RFC 8259, nested at most max_depth (up to 64) deep, and nothing else.
 * Strings must be UTF-8 and hold no NUL. Errors: PS_ERROR_INPUT "where:line:column: ...". */
gboolean ps_json_check (const char *where, const char *text, gsize length, guint max_depth, GError **error);
