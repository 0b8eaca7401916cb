/* Tests of costdb.h on files: foreign, older, newer and damaged databases, and directories that allow no writing. */

#include "store/database.h"
#include "costdb-rig.h"

#include <string.h>
#include <unistd.h>

static void assert_not_opened (const char *path, PsCostDbMode mode, int code, const char *message)
{
  g_autofree char *expected = g_strdup_printf ("%s: %s", path, message);

  refused (ps_costdb_open (path, mode, &error), code, expected);
}

static void test_refused (void)
{
  g_autofree char *path = path_of ("bad.db");
  g_autofree char *nowhere = path_of ("none/bad.db");
  g_autofree char *noise = g_strnfill (5000, 'x');

  assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_IO, "No such file or directory");
  assert_not_opened (nowhere, PS_COSTDB_WRITE, PS_ERROR_IO, "cannot be opened: No such file or directory");
  assert_not_opened (folder, PS_COSTDB_READ, PS_ERROR_IO, "is a directory");
  assert_not_opened (folder, PS_COSTDB_WRITE, PS_ERROR_IO, "is a directory");
  assert_not_opened ("/dev/full", PS_COSTDB_WRITE, PS_ERROR_IO, "is not a plain file");
  g_assert_true (g_file_set_contents (path, "", 0, NULL));
  assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_INPUT, "is empty, not a cost database");
  g_assert_true (g_file_set_contents (path, noise, 5000, NULL));
  assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_INPUT, "not an SQLite database");
  assert_not_opened (path, PS_COSTDB_WRITE, PS_ERROR_INPUT, "not an SQLite database");
  g_unlink (path);
}

/* Another program's database is refused and not touched. So is one of an unreleased pipesim, which counted its versions
 * under another application_id. */
static void test_foreign (void)
{
  g_autofree char *path = path_of ("foreign.db");
  g_autofree char *before = NULL, *after = NULL;
  gsize n_before, n_after;
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);

  g_assert_true (ps_database_script (db, "PRAGMA application_id = 7; PRAGMA journal_mode = DELETE", NULL));
  ps_costdb_close (db);
  g_assert_true (g_file_get_contents (path, &before, &n_before, NULL));
  assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_INPUT, "an SQLite database, but not a pipesim cost database");
  assert_not_opened (path, PS_COSTDB_WRITE, PS_ERROR_INPUT, "an SQLite database, but not a pipesim cost database");
  g_assert_true (g_file_get_contents (path, &after, &n_after, NULL));
  g_assert_cmpmem (before, n_before, after, n_after);
}

static void test_other_version (void)
{
  for (guint i = 0; i < 2; i++) {
    g_autofree char *path = path_of (i == 0 ? "newer.db" : "older.db");
    const char *message = i == 0 ? "cost database of version 99; this pipesim knows version 1"
                                 : "cost database of version 0; this pipesim knows version 1";
    PsCostDb *db = open_db (path, PS_COSTDB_WRITE);

    g_assert_true (ps_database_script (db, i == 0 ? "PRAGMA user_version = 99" : "PRAGMA user_version = 0", NULL));
    ps_costdb_close (db);
    assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_INPUT, message);
    assert_not_opened (path, PS_COSTDB_WRITE, PS_ERROR_INPUT, message);
  }
}

/* Whatever length is left of a database, it is refused, never half read. */
static void test_truncated (void)
{
  g_autofree char *path = path_of ("cut.db");
  g_autofree char *whole = NULL;
  gsize length;
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");

  for (guint i = 1; i <= 50; i++)
    store (db, profile, new_op (PS_OP_F, "layers=4", i, 1000));
  ps_costdb_close (db);
  g_assert_true (g_file_get_contents (path, &whole, &length, NULL));
  for (gsize kept = 1; kept < length; kept += kept < 200 ? 33 : 1999) {
    g_autoptr (GError) error = NULL;

    remove_database (path);
    g_assert_true (g_file_set_contents (path, whole, (gssize)kept, NULL));
    db = ps_costdb_open (path, PS_COSTDB_READ, &error);
    g_assert_null (db);
    g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
    g_assert_true (g_str_has_prefix (error->message, path));
    g_assert_null (strchr (error->message, '\n'));
  }
}

/* Reading must work where nothing can be written: the super-user steps down for that. */
static void test_read_only_directory (void)
{
  g_autofree char *inner = path_of ("locked");
  g_autofree char *path = g_build_filename (inner, "costs.db", NULL);
  uid_t user = geteuid ();

  g_assert_cmpint (g_mkdir (inner, 0755), ==, 0);
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  begin (db, "p");
  ps_costdb_close (db);
  g_assert_cmpint (g_chmod (folder, 0755), ==, 0);
  g_assert_cmpint (g_chmod (path, 0444), ==, 0);
  g_assert_cmpint (g_chmod (inner, 0555), ==, 0);
  g_assert_true (user != 0 || seteuid (65534) == 0);
  /* Where a folder further up keeps that user out, there is nothing to see. */
  if (eaccess (path, R_OK) != 0) {
    g_assert_true (user != 0 || seteuid (0) == 0);
    g_test_skip ("an ordinary user cannot reach the temporary folder");
    g_chmod (inner, 0755);
    remove_database (path);
    g_rmdir (inner);
    return;
  }

  db = open_db (path, PS_COSTDB_READ);
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, NULL);
  g_assert_cmpuint (profiles->len, ==, 1);
  ps_costdb_close (db);
  assert_not_opened (path, PS_COSTDB_WRITE, PS_ERROR_IO, "cannot be written to");
  g_autofree char *fresh = g_build_filename (inner, "new.db", NULL);
  assert_not_opened (fresh, PS_COSTDB_WRITE, PS_ERROR_IO, "cannot be opened: Permission denied");

  g_assert_true (user != 0 || seteuid (0) == 0);
  g_chmod (inner, 0755);
  remove_database (path);
  g_rmdir (inner);
}

/* Reading leaves no files beside the database and cannot write. */
static void test_reading_is_clean (void)
{
  g_autofree char *path = path_of ("clean.db");
  g_autofree char *log = g_strconcat (path, "-wal", NULL);
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);

  begin (db, "p");
  ps_costdb_close (db);
  db = open_db (path, PS_COSTDB_READ);
  refused (ps_database_script (db, "DELETE FROM profile", &error), PS_ERROR_IO,
           "*clean.db: attempt to write a readonly database");
  ps_costdb_close (db);
  g_assert_false (g_file_test (log, G_FILE_TEST_EXISTS));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/costdb-files/refused", test_refused);
  g_test_add_func ("/costdb-files/foreign", test_foreign);
  g_test_add_func ("/costdb-files/other-version", test_other_version);
  g_test_add_func ("/costdb-files/truncated", test_truncated);
  g_test_add_func ("/costdb-files/read-only-directory", test_read_only_directory);
  g_test_add_func ("/costdb-files/reading-is-clean", test_reading_is_clean);
  return run_in_folder ();
}
