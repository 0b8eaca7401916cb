/* Tests of costdb.h: what goes in comes out, foreign and damaged files are refused. What becomes of measured rows is in
 * test-costdb-costs.c. */
#include "database/costdb-private.h"
#include "costdb-rig.h"

#include <string.h>
#include <unistd.h>

static void
test_round_trip (void)
{
  g_autofree char *path = path_of ("round.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");
  store (db, profile, new_transfer (64, 2, 500));
  store (db, profile, new_op (PS_OP_BW, "layers=4", 2, 3000));
  store (db, profile, new_op (PS_OP_F, "layers=4", 2, 1000));
  g_clear_pointer (&db, ps_costdb_close);

  db = open_db (path, PS_COSTDB_READ);
  g_autoptr (GPtrArray) all = ps_costdb_measurements (db, "p", TRUE, NULL);
  g_assert_cmpuint (all->len, ==, 3);
  const PsMeasurement *f = all->pdata[0], *bw = all->pdata[1], *transfer = all->pdata[2];
  g_assert_cmpint (f->subject, ==, PS_SUBJECT_OP);
  g_assert_cmpint (f->kind, ==, PS_OP_F);
  g_assert_cmpint (bw->kind, ==, PS_OP_BW);
  g_assert_cmpint (transfer->subject, ==, PS_SUBJECT_TRANSFER);
  g_assert_cmpint (transfer->bytes, ==, 64);
  g_assert_cmpstr (f->shape, ==, "layers=4");
  g_assert_cmpstr (f->stop, ==, "converged");
  g_assert_cmpstr (f->taken, ==, "2026-01-01T00:00:01Z");
  g_assert_cmpint (f->time.median_ns, ==, 1000);
  g_assert_cmpint (f->time.q1_ns, ==, 998);
  g_assert_cmpint (f->time.q3_ns, ==, 1005);
  g_assert_cmpint (f->time.mad_ns, ==, 2);
  g_assert_cmpint (f->time.min_ns, ==, 998);
  g_assert_cmpuint (f->time.n, ==, 3);
  g_assert_cmpint (bw->take_bytes, ==, 100 + PS_OP_BW);
  g_assert_cmpint (bw->give_bytes, ==, 10 + PS_OP_BW);
  g_assert_cmpint (bw->state_bytes, ==, 7000);
  const gint64 samples[] = { 1005, 998, 1000 };
  g_assert_cmpmem (f->samples_ns, f->n_samples * sizeof (gint64), samples, sizeof samples);
  remove_database (path);
}

static void
test_profiles (void)
{
  g_autofree char *path = path_of ("profiles.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  g_assert_cmpint (begin (db, "b"), ==, begin (db, "b"));
  g_assert_cmpint (begin (db, "a"), !=, begin (db, "b"));
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, NULL);
  g_assert_cmpuint (profiles->len, ==, 2);
  const PsProfile *first = profiles->pdata[0];
  g_assert_cmpstr (first->name, ==, "a");
  g_assert_cmpstr (first->processor, ==, "Fast CPU");
  g_assert_cmpstr (first->created, ==, "2026-01-01T00:00:00Z");
  g_autoptr (PsModel) model = ps_costdb_model (db, "a", NULL);
  g_autofree char *digest = ps_model_digest (model);
  g_assert_cmpstr (digest, ==, first->model_digest);

  g_autoptr (PsProfile) other = new_profile ("a");
  g_autoptr (GError) error = NULL;
  gint64 id;
  g_free (other->processor);
  other->processor = g_strdup ("Slow CPU");
  g_assert_false (ps_costdb_begin_profile (db, other, &id, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_autofree char *expected = g_strdup_printf (
      "%s: profile 'a' was measured with processor 'Fast CPU', this is 'Slow CPU'; choose another --profile name",
      path);
  g_assert_cmpstr (error->message, ==, expected);

  g_clear_error (&error);
  g_free (other->processor);
  other->processor = g_strdup ("Fast CPU");
  g_free (other->shares);
  other->shares = g_strdup ("4,3,2,1");
  g_assert_false (ps_costdb_begin_profile (db, other, &id, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_nonnull (strstr (error->message, "'a' was measured with shares 'equal', this is '4,3,2,1'; choose another"));

  g_clear_error (&error);
  g_free (other->model_name);
  other->model_name = g_strdup ("large");
  memset (other->model_digest, 'f', 64);
  g_assert_false (ps_costdb_begin_profile (db, other, &id, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_true (g_pattern_match_simple ("*: profile 'a' was measured with model 'tiny-gpt (digest *)', this is "
                                         "'large (digest ffffffff)'; choose another --profile name",
                                         error->message));
  remove_database (path);
}

/* The last choices count, and only their profile has them; what is no base64 is no choices. */
static void
test_choices (void)
{
  g_autofree char *path = path_of ("choices.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  const gint64 profile = begin (db, "a");
  g_autoptr (GBytes) first = g_bytes_new_static ("\0first", 6), second = g_bytes_new_static ("\377second", 7);
  g_autoptr (GBytes) none = NULL, back = NULL;
  g_autoptr (GError) error = NULL;
  g_assert_true (ps_costdb_store_choices (db, profile, first, NULL)
                 && ps_costdb_store_choices (db, profile, second, NULL));
  begin (db, "b");
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, NULL);
  const PsProfile *a = profiles->pdata[0], *b = profiles->pdata[1];
  g_assert_true (ps_choices_parse ("a.db", a->choices, &back, NULL) && g_bytes_equal (back, second));
  g_assert_true (ps_choices_parse ("a.db", b->choices, &none, NULL) && none == NULL);
  g_assert_false (ps_choices_parse ("a.db", "YWJj!", &none, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_cmpstr (error->message, ==, "a.db: choices: are no base64");
  remove_database (path);
}

/* A key is measured once; the failed second attempt leaves nothing behind and the database usable. */
static void
test_once (void)
{
  g_autofree char *path = path_of ("once.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  g_autoptr (PsMeasurement) f = new_op (PS_OP_F, "layers=4", 2, 1000);
  g_autoptr (GError) error = NULL;
  gint64 profile = begin (db, "p"), n;
  gboolean found;
  g_assert_true (ps_costdb_has (db, profile, f, &found, NULL));
  g_assert_false (found);
  g_assert_true (ps_costdb_store (db, profile, f, NULL));
  g_assert_true (ps_costdb_has (db, profile, f, &found, NULL));
  g_assert_true (found);
  f->devices = 1;
  g_assert_true (ps_costdb_has (db, profile, f, &found, NULL));
  g_assert_false (found);
  f->devices = 2;
  f->share = 3;
  g_assert_true (ps_costdb_has (db, profile, f, &found, NULL));
  g_assert_false (found);
  f->share = 0;
  g_assert_false (ps_costdb_store (db, profile, f, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_nonnull (strstr (error->message, "UNIQUE"));
  g_assert_true (ps_database_integer (db->file, "SELECT count (*) FROM sample", &n, NULL));
  g_assert_cmpint (n, ==, 3);
  store (db, profile, new_op (PS_OP_B, "layers=4", 2, 1000));
  remove_database (path);
}

/* Only the row of that key goes, with its samples; without one a row is added. */
static void
test_replace (void)
{
  g_autofree char *path = path_of ("replace.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  g_autoptr (PsMeasurement) f = new_op (PS_OP_F, "layers=4", 2, 1000);
  g_autoptr (PsMeasurement) again = new_op (PS_OP_F, "layers=4", 2, 3000);
  gint64 profile = begin (db, "p"), other = begin (db, "q"), n;
  g_assert_true (ps_costdb_replace (db, profile, f, NULL));
  g_assert_true (ps_costdb_replace (db, other, f, NULL));
  g_assert_true (ps_costdb_replace (db, profile, again, NULL));
  g_autoptr (GPtrArray) rows = ps_costdb_measurements (db, "p", TRUE, NULL);
  g_assert_cmpuint (rows->len, ==, 1);
  g_assert_cmpint (((const PsMeasurement *)rows->pdata[0])->time.median_ns, ==, 3000);
  g_assert_cmpint (((const PsMeasurement *)rows->pdata[0])->samples_ns[0], ==, 3005);
  g_assert_true (ps_database_integer (db->file, "SELECT count (*) FROM sample", &n, NULL));
  g_assert_cmpint (n, ==, 6);
  remove_database (path);
}

/* The schema itself refuses what makes no sense. */
static void
test_constraints (void)
{
  g_autofree char *path = path_of ("constraints.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");
  for (guint i = 0; i < 5; i++)
    {
      g_autoptr (PsMeasurement) m = new_op (PS_OP_F, i == 0 ? "" : "layers=4", i == 1 ? 0 : 2, 1000);
      g_autoptr (GError) error = NULL;
      if (i == 2)
        m->time.q1_ns = 2000;
      else if (i == 3)
        m->take_bytes = -1;
      g_assert_false (ps_costdb_store (db, i == 4 ? profile + 1 : profile, m, &error));
      g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
      g_assert_nonnull (strstr (error->message, i == 4 ? "FOREIGN KEY" : "CHECK"));
    }
  remove_database (path);
}

static void
assert_not_opened (const char *path, PsCostDbMode mode, int code, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *expected = g_strdup_printf ("%s: %s", path, message);
  PsCostDb *db = ps_costdb_open (path, mode, &error);
  g_assert_null (db);
  g_assert_error (error, PS_ERROR, code);
  if (!g_pattern_match_simple (expected, error->message))
    g_assert_cmpstr (error->message, ==, expected);
  g_assert_null (strchr (error->message, '\n'));
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
  remove_database (path);
}

static void
test_newer (void)
{
  g_autofree char *path = path_of ("newer.db");
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  g_assert_true (ps_database_script (db->file, "PRAGMA user_version = 99", NULL));
  ps_costdb_close (db);
  assert_not_opened (path, PS_COSTDB_READ, PS_ERROR_INPUT, "cost database of version 99; this pipesim knows version 4");
  assert_not_opened (path, PS_COSTDB_WRITE, PS_ERROR_INPUT,
                     "cost database of version 99; this pipesim knows version 4");
  remove_database (path);
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

/* A migration that fails half way leaves the file as it was. */
static void
test_old_broken (void)
{
  g_autofree char *path = path_of ("old.db");
  g_autoptr (GError) error = NULL;
  gint64 version, n;
  copy_old (path);
  PsDatabaseKind first = { .what = "cost database", .application_id = 0x50534442, .version = 1 };
  PsDatabase *file = ps_database_open (path, &first, TRUE, NULL);
  g_assert_true (ps_database_script (file, "CREATE TABLE sentinel (in_the_way)", NULL));
  ps_database_close (file);
  g_assert_null (ps_costdb_open (path, PS_COSTDB_WRITE, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_IO);
  g_assert_nonnull (strstr (error->message, "sentinel"));
  file = ps_database_open (path, &first, FALSE, NULL);
  g_assert_true (ps_database_integer (file, "PRAGMA user_version", &version, NULL));
  g_assert_true (ps_database_integer (file, "SELECT count (*) FROM measurement", &n, NULL));
  g_assert_cmpint (version, ==, 1);
  g_assert_cmpint (n, ==, 39);
  ps_database_close (file);
  remove_database (path);
}

/* What version 2 added comes back, too; what is not known stays so. */
static void
test_conditions (void)
{
  g_autofree char *path = path_of ("conditions.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");
  PsMeasurement *m = new_op (PS_OP_F, "layers=4", 2, 1000);
  m->sharing = 4;
  m->cache = PS_CACHE_COLD;
  m->device_ns = 900;
  m->share = 3;
  m->before = (PsCondition){ 1980, 3201, 55, 420500, PS_THROTTLE_KNOWN };
  m->during = (PsCondition){ .clock_mhz = 1800, .throttle = PS_THROTTLE_KNOWN };
  m->after = (PsCondition){ .clock_mhz = 1755, .throttle = PS_THROTTLE_KNOWN | PS_THROTTLE_POWER | PS_THROTTLE_HEAT };
  store (db, profile, m);
  store (db, profile, new_op (PS_OP_F, "layers=4", 2, 1000));
  g_autoptr (GPtrArray) all = ps_costdb_measurements (db, "p", FALSE, NULL);
  gboolean known;
  g_assert_cmpuint (all->len, ==, 2);
  const PsMeasurement *plain = all->pdata[0], *cold = all->pdata[1];
  g_assert_cmpuint (plain->sharing, ==, 1);
  g_assert_false (ps_condition_throttled (&plain->before, &plain->after, &known));
  g_assert_false (known);
  g_assert_cmpuint (cold->sharing, ==, 4);
  g_assert_cmpuint (plain->share, ==, 0);
  g_assert_cmpuint (cold->share, ==, 3);
  g_assert_cmpint (cold->cache, ==, PS_CACHE_COLD);
  g_assert_cmpint (cold->device_ns, ==, 900);
  g_assert_cmpint (cold->before.clock_mhz, ==, 1980);
  g_assert_cmpint (cold->before.memory_clock_mhz, ==, 3201);
  g_assert_cmpint (cold->before.temperature_c, ==, 55);
  g_assert_cmpint (cold->before.power_mw, ==, 420500);
  g_assert_cmpint (cold->before.throttle, ==, PS_THROTTLE_KNOWN);
  g_assert_cmpint (ps_measurement_clock_mhz (cold), ==, 1800);
  g_assert_cmpint (ps_measurement_clock_mhz (plain), ==, 0);
  g_assert_cmpint (cold->during.temperature_c, ==, 0);
  g_assert_cmpint (cold->after.clock_mhz, ==, 1755);
  g_assert_cmpint (cold->after.power_mw, ==, 0);
  g_assert_true (ps_condition_throttled (&cold->before, &cold->after, &known));
  g_autofree char *reasons = ps_throttle_to_text (cold->after.throttle);
  g_assert_cmpstr (reasons, ==, "power heat");
  remove_database (path);
}

static void
test_sentinels (void)
{
  g_autofree char *path = path_of ("sentinels.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 a = begin (db, "a"), b = begin (db, "b");
  for (gint64 i = 0; i < 3; i++)
    {
      PsSentinel reading = { (char *)"F of layers=1", 100 + i, 10, (char *)"2026-01-01T00:00:00Z" };
      g_assert_true (ps_costdb_store_sentinel (db, i == 1 ? b : a, &reading, NULL));
    }
  g_autoptr (GPtrArray) series = ps_costdb_sentinels (db, "a", NULL);
  g_assert_cmpuint (series->len, ==, 2);
  g_assert_cmpint (((const PsSentinel *)series->pdata[0])->median_ns, ==, 100);
  g_assert_cmpint (((const PsSentinel *)series->pdata[1])->median_ns, ==, 102);
  g_assert_cmpstr (((const PsSentinel *)series->pdata[1])->what, ==, "F of layers=1");
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
  remove_database (path);
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
  g_autoptr (GError) error = NULL;
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  begin (db, "p");
  ps_costdb_close (db);
  db = open_db (path, PS_COSTDB_READ);
  g_assert_false (ps_database_script (db->file, "DELETE FROM profile", &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_IO);
  ps_costdb_close (db);
  g_assert_false (g_file_test (log, G_FILE_TEST_EXISTS));
  remove_database (path);
}

/* A full disk fails one measurement; those before stay, and there is room again later. */
static void
test_full (void)
{
  g_autofree char *path = path_of ("full.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  g_autoptr (GPtrArray) kept = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (PsMeasurement) large = new_op (PS_OP_W, "layers=4", 2, 1000);
  gint64 profile = begin (db, "p");
  store (db, profile, new_op (PS_OP_F, "layers=4", 2, 1000));
  g_assert_true (ps_database_script (db->file, "PRAGMA max_page_count = 1", NULL)); /* no more than there are */
  g_free (large->samples_ns);
  large->n_samples = 10000;
  large->samples_ns = g_new (gint64, 10000);
  for (guint i = 0; i < 10000; i++)
    large->samples_ns[i] = 998;
  g_assert_false (ps_costdb_store (db, profile, large, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_IO);
  g_autofree char *expected = g_strdup_printf ("%s: database or disk is full", path);
  g_assert_cmpstr (error->message, ==, expected);
  kept = ps_costdb_measurements (db, "p", FALSE, NULL);
  g_assert_cmpuint (kept->len, ==, 1);
  g_assert_true (ps_database_script (db->file, "PRAGMA max_page_count = 100000", NULL));
  g_assert_true (ps_costdb_store (db, profile, large, NULL));
  remove_database (path);
}

static void
test_runs (void)
{
  g_autofree char *path = path_of ("runs.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  g_autoptr (GError) error = NULL;
  PsRunRecord run = { .profile = (char *)"p",
                      .schedule = (char *)"1f1b",
                      .device = (char *)"cpu",
                      .transport = (char *)"threads",
                      .n_devices = 2,
                      .n_chunks = 1,
                      .n_microbatches = 8,
                      .n_steps = 3,
                      .predicted_iteration_ns = 110,
                      .measured_iteration_ns = 100,
                      .predicted_peak_bytes = 80,
                      .measured_peak_bytes = 100,
                      .clock_mhz = 1980,
                      .check = (char *)"bit-equal",
                      .started = (char *)"2026-01-01T00:00:00Z" };
  gint64 permille;
  g_assert_true (ps_costdb_store_run (db, &run, &error));
  g_assert_no_error (error);
  g_assert_true (
      ps_database_integer (db->file, "SELECT round (1000 * iteration_error) FROM accuracy", &permille, NULL));
  g_assert_cmpint (permille, ==, 100);
  g_assert_true (
      ps_database_integer (db->file, "SELECT round (1000 * peak_memory_error) FROM accuracy", &permille, NULL));
  g_assert_cmpint (permille, ==, -200);
  g_autoptr (GPtrArray) runs = ps_costdb_runs (db, NULL);
  g_assert_cmpint (((const PsRunRecord *)runs->pdata[0])->clock_mhz, ==, 1980);
  g_assert_cmpstr (((const PsRunRecord *)runs->pdata[0])->check, ==, "bit-equal");
  run.check = (char *)"perhaps";
  g_assert_false (ps_costdb_store_run (db, &run, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  remove_database (path);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/costdb/round-trip", test_round_trip);
  g_test_add_func ("/costdb/profiles", test_profiles);
  g_test_add_func ("/costdb/choices", test_choices);
  g_test_add_func ("/costdb/once", test_once);
  g_test_add_func ("/costdb/constraints", test_constraints);
  g_test_add_func ("/costdb/refused", test_refused);
  g_test_add_func ("/costdb/foreign", test_foreign);
  g_test_add_func ("/costdb/newer", test_newer);
  g_test_add_func ("/costdb/old-read", test_old_read);
  g_test_add_func ("/costdb/old-written", test_old_written);
  g_test_add_func ("/costdb/old-broken", test_old_broken);
  g_test_add_func ("/costdb/conditions", test_conditions);
  g_test_add_func ("/costdb/sentinels", test_sentinels);
  g_test_add_func ("/costdb/replace", test_replace);
  g_test_add_func ("/costdb/truncated", test_truncated);
  g_test_add_func ("/costdb/read-only-directory", test_read_only_directory);
  g_test_add_func ("/costdb/reading-is-clean", test_reading_is_clean);
  g_test_add_func ("/costdb/full", test_full);
  g_test_add_func ("/costdb/runs", test_runs);
  return run_in_folder ();
}
