/* Tests of costdb.h on files: foreign, older, newer and damaged databases, and directories that allow no writing. */

#include "database/costdb-private.h"
#include "costdb-rig.h"

#include <string.h>
#include <unistd.h>

static void
assert_not_opened (const char *path, PsCostDbMode mode, int code, const char *message)
{
  g_autofree char *expected = g_strdup_printf ("%s: %s", path, message);

  refused (ps_costdb_open (path, mode, &error), code, expected);
}

static void
test_refused (void)
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

/* Another program's database is refused and not touched. */
static void
test_foreign (void)
{
  g_autofree char *path = path_of ("foreign.db");
  g_autofree char *before = NULL, *after = NULL;
  gsize n_before, n_after;
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);

  g_assert_true (ps_database_script (db->file, "PRAGMA application_id = 7; PRAGMA journal_mode = DELETE", NULL));
  ps_costdb_close (db);
  g_assert_true (g_file_get_contents (path, &before, &n_before, NULL));
  assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_INPUT, "an SQLite database, but not a pipesim cost database");
  assert_not_opened (path, PS_COSTDB_WRITE, PS_ERROR_INPUT, "an SQLite database, but not a pipesim cost database");
  g_assert_true (g_file_get_contents (path, &after, &n_after, NULL));
  g_assert_cmpmem (before, n_before, after, n_after);
}

static void
test_newer (void)
{
  g_autofree char *path = path_of ("newer.db");
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);

  g_assert_true (ps_database_script (db->file, "PRAGMA user_version = 99", NULL));
  ps_costdb_close (db);
  assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_INPUT, "cost database of version 99; this pipesim knows version 6");
  assert_not_opened (path, PS_COSTDB_WRITE, PS_ERROR_INPUT,
                     "cost database of version 99; this pipesim knows version 6");
}

/* What sqlite_schema says, but for what SQLite keeps for itself. */
static char *
schema_of (PsCostDb *db)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (db->file, NULL, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name", "");
  GString *text = g_string_new (NULL);
  gboolean found = TRUE;

  while (ps_rows_next (rows, &found, NULL) && found)
    {
      g_autofree char *sql = ps_rows_text (rows, 0);

      g_string_append_printf (text, "%s\n", sql);
    }
  return g_string_free (text, FALSE);
}

static void
copy_old (const char *path)
{
  g_autofree char *old = g_test_build_filename (G_TEST_DIST, "fuzz", "corpus", "costdb", "version-1.db", NULL);
  g_autofree char *contents = NULL;
  gsize length;

  g_assert_true (g_file_get_contents (old, &contents, &length, NULL));
  g_assert_true (g_file_set_contents (path, contents, (gssize)length, NULL));
}

/* The file has one profile with 39 measurements and 107 samples; F of layers=4,head on 2 busy devices took 29273895 ns.
 */
static void
assert_old_contents (PsCostDb *db)
{
  g_autoptr (GPtrArray) all = ps_costdb_measurements (db, "here", TRUE, NULL);
  g_autoptr (GPtrArray) sentinels = ps_costdb_sentinels (db, "here", NULL);
  guint n_samples = 0, n_found = 0;

  g_assert_cmpuint (all->len, ==, 39);
  g_assert_cmpuint (sentinels->len, ==, 0);
  for (guint i = 0; i < all->len; i++)
    {
      const PsMeasurement *m = all->pdata[i];

      n_samples += m->n_samples;
      g_assert_cmpuint (m->sharing, ==, 1);
      g_assert_cmpint (m->cache, ==, PS_CACHE_RUN);
      g_assert_cmpint (m->device_ns, ==, 0);
      g_assert_cmpuint (m->before.throttle, ==, 0);
      if (m->subject == PS_SUBJECT_OP && m->kind == PS_OP_F && m->devices == 2
          && g_str_equal (m->shape, "layers=4,head"))
        {
          g_assert_cmpint (m->time.median_ns, ==, 29273895);
          n_found++;
        }
    }
  g_assert_cmpuint (n_samples, ==, 107);
  g_assert_cmpuint (n_found, ==, 1);
}

/* Read as if it were of this version, and left as it is. */
static void
test_old_read (void)
{
  g_autofree char *path = path_of ("old.db");
  g_autofree char *before = NULL, *after = NULL;
  gsize n_before, n_after;

  copy_old (path);
  g_assert_true (g_file_get_contents (path, &before, &n_before, NULL));
  PsCostDb *db = open_db (path, PS_COSTDB_READ);
  assert_old_contents (db);
  ps_costdb_close (db);
  g_assert_true (g_file_get_contents (path, &after, &n_after, NULL));
  g_assert_cmpmem (before, n_before, after, n_after);
  remove_database (path);
}

/* Brought to this version: the schema is that of a new file, word for word, everything is still there and more fits. */
static void
test_old_written (void)
{
  g_autofree char *path = path_of ("old.db");
  g_autofree char *new_path = path_of ("new.db");
  gint64 n_wrong, version;

  copy_old (path);
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  assert_old_contents (db);
  PsCostDb *new = open_db (new_path, PS_COSTDB_WRITE);
  g_autofree char *schema = schema_of (db), *expected = schema_of (new);
  g_assert_cmpstr (schema, ==, expected);
  ps_costdb_close (new);
  g_assert_true (ps_database_integer (db->file, "SELECT count (*) FROM pragma_foreign_key_check", &n_wrong, NULL));
  g_assert_cmpint (n_wrong, ==, 0);
  gint64 profile = begin (db, "p");
  store (db, profile, new_op (PS_OP_F, "layers=4", 2, 1000));
  ps_costdb_close (db);
  db = open_db (path, PS_COSTDB_READ);
  assert_old_contents (db);
  g_assert_true (ps_database_integer (db->file, "PRAGMA user_version", &version, NULL));
  g_assert_cmpint (version, ==, PS_COSTDB_VERSION);
  ps_costdb_close (db);
  remove_database (path);
  remove_database (new_path);
}

static gint64
number_in (PsCostDb *db, const char *sql)
{
  gint64 number = -1;

  g_assert_true (ps_database_integer (db->file, sql, &number, NULL));
  return number;
}

/* The last version before this one: its only calibrations are the first of their names, measured where they are. */
static void
test_version_4 (void)
{
  static const char *const kept[] = { "SELECT count (*) FROM profile",
                                      "SELECT count (*) FROM measurement",
                                      "SELECT sum (median_ns + id) FROM measurement",
                                      "SELECT count (*) FROM sample",
                                      "SELECT count (*) FROM condition",
                                      "SELECT count (*) FROM run" };
  g_autofree char *old = g_test_build_filename (G_TEST_DIST, "fuzz", "corpus", "costdb", "version-4-final.db", NULL);
  g_autofree char *path = path_of ("version-4.db"), *new_path = path_of ("new.db"), *contents = NULL;
  PsDatabaseKind fourth = { .what = "cost database", .application_id = 0x50534442, .version = 4 };
  gint64 before[G_N_ELEMENTS (kept)];
  gsize length;

  g_assert_true (g_file_get_contents (old, &contents, &length, NULL));
  g_assert_true (g_file_set_contents (path, contents, (gssize)length, NULL));
  PsDatabase *file = ps_database_open (path, &fourth, TRUE, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    g_assert_true (ps_database_integer (file, kept[i], &before[i], NULL));
  ps_database_close (file);
  g_assert_cmpint (before[1], >, 0);
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE), *new = open_db (new_path, PS_COSTDB_WRITE);
  g_autofree char *schema = schema_of (db), *expected = schema_of (new);
  g_assert_cmpstr (schema, ==, expected);
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    g_assert_cmpint (number_in (db, kept[i]), ==, before[i]);
  g_assert_cmpint (number_in (db, "SELECT count (*) FROM pragma_foreign_key_check"), ==, 0);
  g_assert_cmpint (number_in (db, "SELECT count (*) FROM profile WHERE number <> 1 OR source <> ''"), ==, 0);
  ps_costdb_close (db);
  ps_costdb_close (new);
  remove_database (path);
  remove_database (new_path);
}

/* A migration that fails half way leaves the file as it was. */
static void
test_old_broken (void)
{
  g_autofree char *path = path_of ("old.db");
  gint64 version, n;

  copy_old (path);
  PsDatabaseKind first = { .what = "cost database", .application_id = 0x50534442, .version = 1 };
  PsDatabase *file = ps_database_open (path, &first, TRUE, NULL);
  g_assert_true (ps_database_script (file, "CREATE TABLE sentinel (in_the_way)", NULL));
  ps_database_close (file);
  refused (ps_costdb_open (path, PS_COSTDB_WRITE, &error), PS_ERROR_IO, "*sentinel*");
  file = ps_database_open (path, &first, FALSE, NULL);
  g_assert_true (ps_database_integer (file, "PRAGMA user_version", &version, NULL));
  g_assert_true (ps_database_integer (file, "SELECT count (*) FROM measurement", &n, NULL));
  g_assert_cmpint (version, ==, 1);
  g_assert_cmpint (n, ==, 39);
  ps_database_close (file);
  remove_database (path);
}

/* Whatever length is left of a database, it is refused, never half read. */
static void
test_truncated (void)
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
  for (gsize kept = 1; kept < length; kept += kept < 200 ? 33 : 1999)
    {
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
static void
test_read_only_directory (void)
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
  if (eaccess (path, R_OK) != 0)
    {
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
static void
test_reading_is_clean (void)
{
  g_autofree char *path = path_of ("clean.db");
  g_autofree char *log = g_strconcat (path, "-wal", NULL);
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);

  begin (db, "p");
  ps_costdb_close (db);
  db = open_db (path, PS_COSTDB_READ);
  refused (ps_database_script (db->file, "DELETE FROM profile", &error), PS_ERROR_IO,
           "*clean.db: attempt to write a readonly database");
  ps_costdb_close (db);
  g_assert_false (g_file_test (log, G_FILE_TEST_EXISTS));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/costdb-files/refused", test_refused);
  g_test_add_func ("/costdb-files/foreign", test_foreign);
  g_test_add_func ("/costdb-files/newer", test_newer);
  g_test_add_func ("/costdb-files/old-read", test_old_read);
  g_test_add_func ("/costdb-files/old-written", test_old_written);
  g_test_add_func ("/costdb-files/version-4", test_version_4);
  g_test_add_func ("/costdb-files/old-broken", test_old_broken);
  g_test_add_func ("/costdb-files/truncated", test_truncated);
  g_test_add_func ("/costdb-files/read-only-directory", test_read_only_directory);
  g_test_add_func ("/costdb-files/reading-is-clean", test_reading_is_clean);
  return run_in_folder ();
}
