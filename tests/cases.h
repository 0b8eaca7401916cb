/* cases.h - how many random cases a test tries. */
#pragma once

#include <glib.h>

/* Returns n times PIPESIM_CASES, at least 1. tests/meson.build sets a share under sanitizers: a part of the cases shows
 * wrong memory. A number above 1 searches longer. */
static inline guint n_cases (guint n)
{
  const char *share = g_getenv ("PIPESIM_CASES");

  return share != NULL ? (guint)MAX (1, n * g_ascii_strtod (share, NULL)) : n;
}
