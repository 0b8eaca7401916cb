/* json-check.h - checks that a text is JSON. Private to the JSON reader. */
#pragma once

#include <pipesim/base.h>

/* The first objects and arrays directly in the outermost one that are long enough to be worth a jump over them. */
#define PS_JSON_N_LONG 8
#define PS_JSON_LONG_BYTES 4096

typedef struct
{
  guint n;
  const char *begin[PS_JSON_N_LONG]; /* the opening bracket */
  const char *end[PS_JSON_N_LONG];   /* the place after the closing one */
} PsJsonLong;

/* Checks that the text is one object or array by RFC 8259, nested at most max_depth (up to 64) deep, and nothing else.
 * Strings must be UTF-8 and hold no NUL. Errors: PS_ERROR_INPUT "where:line:column: ...". */
gboolean ps_json_check (const char *where, const char *text, gsize length, guint max_depth, PsJsonLong *found,
                        GError **error);
