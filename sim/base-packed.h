/* base-packed.h - gzip files, written and read. */
#pragma once

#include <pipesim/base.h>

/* The contents as a gzip file: fast rather than small. NULL: there is no memory for it. */
GBytes *ps_pack (const char *contents, gsize n);

gboolean ps_is_packed (const char *contents, gsize n);

/* What a gzip file holds, by way of a temporary file: a large trace needs no memory. Errors: PS_ERROR_INPUT and
 * PS_ERROR_IO with path. */
GBytes *ps_unpack (const char *path, GBytes *packed, GError **error);
