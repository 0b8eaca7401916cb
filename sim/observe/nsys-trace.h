/* nsys-trace.h - timelines from Nsight Systems exports: SQLite databases. Private to sim/observe. */
#pragma once

#include "trace-ranks.h"

/* Whether a file is an SQLite database. */
gboolean ps_nsys_recognise (const char *path);

/* Reads the exports of one run from n files. A list of PsTimeline. Errors: PS_ERROR_IO, PS_ERROR_INPUT. */
GPtrArray *ps_nsys_read (const char *where, const char *const *paths, guint n, GError **error);
