/* folder-rig.h - files of tests, in a folder of their own that goes with everything in it when they have run. */
#pragma once

#include "error-rig.h"

#include <glib.h>
#include <glib/gstdio.h>

static char *folder; /* of this run of the tests; made by run_in_folder */

static inline char *path_of (const char *name)
{
  return g_build_filename (folder, name, NULL);
}

/* With everything in it. Links are removed, not followed. */
static inline void remove_folder (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL) {
    g_autofree char *inner = g_build_filename (path, name, NULL);

    if (g_remove (inner) != 0)
      remove_folder (inner);
  }
  g_rmdir (path);
}

/* Runs the tests that have been added. */
static inline int run_in_folder (void)
{
  folder = g_dir_make_tmp ("pipesim-test-XXXXXX", NULL);
  int result = g_test_run ();
  remove_folder (folder);
  g_free (folder);
  return result;
}
