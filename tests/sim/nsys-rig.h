/* nsys-rig.h - exports of Nsight Systems, made from the fixture. */
#pragma once

#include "store/database.h"
#include "error-rig.h"

#include <glib/gstdio.h>

/* The text of a fixture; the name of the resource is that of the fixture. */
static inline char *
read_sql (const char *schema G_GNUC_UNUSED)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", "nsys", "megatron.sql", NULL);
  char *sql;

  g_assert_true (g_file_get_contents (path, &sql, NULL, NULL));
  return sql;
}

/* A database of another program in a new folder. Free with g_free. */
static inline char *
make_export (const char *changes)
{
  static const PsDatabaseKind kind
      = { .what = "export", .schema = "schema.sql", .complete = read_sql, .application_id = 0, .version = 1 };
  g_autofree char *folder = g_dir_make_tmp ("pipesim-nsys-XXXXXX", NULL);
  char *path = g_build_filename (folder, "run.sqlite", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsDatabase) db = fine (ps_database_open (path, &kind, TRUE, &error));

  g_assert_true (ps_database_script (db, changes, &error));
  g_assert_true (ps_database_script (db, "PRAGMA journal_mode = DELETE", &error));
  return path;
}

static inline void
remove_export (const char *path)
{
  g_autofree char *folder = g_path_get_dirname (path);

  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}
