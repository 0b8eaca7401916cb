/* models-rig.h - models that only tests use. */
#pragma once

#include <glib.h>
#include <glib/gstdio.h>

/* Goes to the folder where the names of these models are files. */
static inline void go_to_models (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "models", NULL);

  g_assert_cmpint (g_chdir (folder), ==, 0);
}
