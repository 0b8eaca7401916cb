/* Tests of costdb.h: rows that are stored come back. test-costdb-files.c tests foreign and damaged files,
 * test-costdb-costs.c the costs made from rows. */
#include "store/database.h"
#include "costdb-rig.h"

#include <string.h>
#include <unistd.h>

static void test_round_trip (void)
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
}

static gint64 only_median (PsCostDb *db, const char *name)
{
  g_autoptr (GPtrArray) all = ps_costdb_measurements (db, name, FALSE, NULL);

  g_assert_cmpuint (all->len, ==, 1);
  return ((const PsMeasurement *)all->pdata[0])->time.median_ns;
}

/* Calibrations of one name are kept side by side; the name means the last one. */
static void test_calibrations (void)
{
  g_autoptr (PsCostDb) db = new_db ("calibrations.db");
  g_autoptr (PsProfile) profile = new_profile ("p"), numbered = new_profile ("p#2");
  gint64 first = begin (db, "p"), second;

  store (db, first, new_op (PS_OP_F, "layers=4", 2, 1000));
  g_assert_true (ps_costdb_add_calibration (db, profile, &second, NULL));
  store (db, second, new_op (PS_OP_F, "layers=4", 2, 2000));
  g_assert_cmpint (begin (db, "p"), ==, second);
  g_assert_cmpint (only_median (db, "p"), ==, 2000);
  g_assert_cmpint (only_median (db, "p#2"), ==, 2000);
  g_assert_cmpint (only_median (db, "p#1"), ==, 1000);
  g_autoptr (GPtrArray) all = ps_costdb_profiles (db, NULL);
  g_assert_cmpuint (all->len, ==, 2);
  const PsProfile *one = all->pdata[0], *two = all->pdata[1];
  g_assert_cmpstr (one->name, ==, "p#1");
  g_assert_cmpstr (two->name, ==, "p");
  g_assert_cmpuint (two->number, ==, 2);
  g_assert_true (ps_profile_is_same (one, two));
  g_autoptr (PsProfile) asked = ps_costdb_profile (db, "p#1", NULL), only = ps_costdb_profile (db, NULL, NULL);
  g_assert_cmpuint (asked->number, ==, 1);
  g_assert_cmpuint (only->number, ==, 2);
  refused (ps_costdb_add_calibration (db, numbered, &second, &error), PS_ERROR_USAGE,
           "--profile: 'p#2' ends with the number of a calibration; a new one gets its own");
  g_free (profile->host);
  profile->host = g_strdup ("elsewhere");
  refused (ps_costdb_add_calibration (db, profile, &second, &error), PS_ERROR_INPUT,
           "*: profile 'p' was measured with host 'box', this is 'elsewhere'; choose another --profile name");
}

static void test_profiles (void)
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
  refused (ps_costdb_begin_profile (db, other, &id, &error), PS_ERROR_INPUT,
           "*'a' was measured with shares 'equal', this is '4,3,2,1'; choose another*");
  g_free (other->model_name);
  other->model_name = g_strdup ("large");
  memset (other->model_digest, 'f', 64);
  refused (ps_costdb_begin_profile (db, other, &id, &error), PS_ERROR_INPUT,
           "*: profile 'a' was measured with model 'tiny-gpt (digest *)', this is "
           "'large (digest ffffffff)'; choose another --profile name");
}

/* Each circumstance that makes another profile, alone; those that do not. */
static void test_circumstances (void)
{
  static const struct {
    const char *name;
    gsize offset;
    const char *stored, *other;
  } rows[] = { { "device", offsetof (PsProfile, device), "cpu", "cuda" },
               { "transport", offsetof (PsProfile, transport), "threads", "mpi" },
               { "shares", offsetof (PsProfile, shares), "equal", "2,1" },
               { "host", offsetof (PsProfile, host), "box", "case" },
               { "processor", offsetof (PsProfile, processor), "Fast CPU", "Slow CPU" },
               { NULL, offsetof (PsProfile, kernel), "", "Linux 7" },
               { NULL, offsetof (PsProfile, libraries), "", "BLAS 2" },
               { NULL, offsetof (PsProfile, version), "", "0.2.0" },
               { NULL, offsetof (PsProfile, created), "", "2027-01-01T00:00:00Z" } };
  g_autoptr (PsCostDb) db = new_db ("circumstances.db");
  gint64 first = begin (db, "p"), id;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsProfile) other = new_profile ("p");
    char **text = (char **)(gpointer)((char *)other + rows[i].offset);

    g_free (*text);
    *text = g_strdup (rows[i].other);
    if (rows[i].name == NULL) {
      fine (ps_costdb_begin_profile (db, other, &id, &error));
      g_assert_cmpint (id, ==, first);
      continue;
    }
    g_autofree char *message
        = g_strdup_printf ("*: profile 'p' was measured with %s '%s', this is '%s'; choose another --profile name",
                           rows[i].name, rows[i].stored, rows[i].other);
    refused (ps_costdb_begin_profile (db, other, &id, &error), PS_ERROR_INPUT, message);
    refused (ps_costdb_add_calibration (db, other, &id, &error), PS_ERROR_INPUT, message);
  }
}

/* A key has nine parts: rows that differ in one of them alone are two, and each is found and replaced by itself. */
static void test_keys (void)
{
  g_autoptr (PsCostDb) db = new_db ("keys.db");
  gint64 profile = begin (db, "p"), other = begin (db, "q");
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);

  for (guint i = 0; i < 8; i++) {
    PsMeasurement *m = new_op (i == 1 ? PS_OP_B : PS_OP_F, i == 2 ? "layers=3" : "layers=4", i == 3 ? 3 : 2, 1000 + i);

    m->sharing = i == 4 ? 2 : 1;
    m->share = i == 5;
    m->cache = i == 6 ? PS_CACHE_WARM : PS_CACHE_RUN;
    if (i == 7) {
      m->subject = PS_SUBJECT_SELF_SEND;
      m->bytes = 64;
    }
    g_ptr_array_add (keys, m);
    gboolean found;
    g_assert_true (ps_costdb_has (db, profile, m, &found, NULL));
    g_assert_false (found);
    fine (ps_costdb_store (db, profile, m, &error));
    g_assert_true (ps_costdb_has (db, profile, m, &found, NULL));
    g_assert_true (found);
    g_assert_true (ps_costdb_has (db, other, m, &found, NULL));
    g_assert_false (found);
  }
  for (guint i = 0; i < keys->len; i++) {
    PsMeasurement *m = keys->pdata[i];

    m->time.q3_ns = 2000 + i;
    m->n_samples = i % 3;
    fine (ps_costdb_replace (db, profile, m, &error));
  }
  g_autoptr (GPtrArray) rows = ps_costdb_measurements (db, "p", TRUE, NULL);
  g_assert_cmpuint (rows->len, ==, keys->len);
  for (guint i = 0; i < keys->len; i++) {
    const PsMeasurement *row = ps_measurement_find (rows, keys->pdata[i]);

    g_assert_nonnull (row);
    g_assert_cmpint (row->time.median_ns, ==, 1000 + i);
    g_assert_cmpint (row->time.q3_ns, ==, 2000 + i);
    g_assert_cmpuint (row->n_samples, ==, i % 3);
  }
}

/* The last choices count, and only their profile has them; what is no base64 is no choices. */
static void test_choices (void)
{
  g_autoptr (PsCostDb) db = new_db ("choices.db");
  const gint64 profile = begin (db, "a");
  g_autoptr (GBytes) first = g_bytes_new_static ("\0first", 6), second = g_bytes_new_static ("\377second", 7);
  g_autoptr (GBytes) none = NULL, back = NULL;

  g_assert_true (ps_costdb_store_choices (db, profile, first, NULL)
                 && ps_costdb_store_choices (db, profile, second, NULL));
  begin (db, "b");
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, NULL);
  const PsProfile *a = profiles->pdata[0], *b = profiles->pdata[1];
  g_assert_true (ps_choices_parse ("a.db", a->choices, &back, NULL) && g_bytes_equal (back, second));
  g_assert_true (ps_choices_parse ("a.db", b->choices, &none, NULL) && none == NULL);
  refused (ps_choices_parse ("a.db", "YWJj!", &none, &error), PS_ERROR_INPUT, "a.db: choices: are no base64");
}

/* A key is measured once; the failed second attempt leaves nothing behind and the database usable. */
static void test_once (void)
{
  g_autoptr (PsCostDb) db = new_db ("once.db");
  g_autoptr (PsMeasurement) f = new_op (PS_OP_F, "layers=4", 2, 1000);
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
  refused (ps_costdb_store (db, profile, f, &error), PS_ERROR_INPUT, "*UNIQUE*");
  g_assert_true (ps_database_integer (db, "SELECT count (*) FROM sample", &n, NULL));
  g_assert_cmpint (n, ==, 3);
  store (db, profile, new_op (PS_OP_B, "layers=4", 2, 1000));
}

/* Only the row of that key goes, with its samples; without one a row is added. */
static void test_replace (void)
{
  g_autoptr (PsCostDb) db = new_db ("replace.db");
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
  g_assert_true (ps_database_integer (db, "SELECT count (*) FROM sample", &n, NULL));
  g_assert_cmpint (n, ==, 6);
}

/* The schema itself refuses what makes no sense. */
static void test_constraints (void)
{
  g_autoptr (PsCostDb) db = new_db ("constraints.db");
  gint64 profile = begin (db, "p");

  for (guint i = 0; i < 5; i++) {
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
}

/* The state of the hardware comes back, too; what is not known stays so. */
static void test_conditions (void)
{
  g_autoptr (PsCostDb) db = new_db ("conditions.db");
  gint64 profile = begin (db, "p");
  PsMeasurement *m = new_op (PS_OP_F, "layers=4", 2, 1000);

  m->sharing = 4;
  m->cache = PS_CACHE_COLD;
  m->launch_ns = 900;
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
  g_assert_cmpint (cold->launch_ns, ==, 900);
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
}

static void test_sentinels (void)
{
  g_autoptr (PsCostDb) db = new_db ("sentinels.db");
  gint64 a = begin (db, "a"), b = begin (db, "b");

  for (gint64 i = 0; i < 3; i++) {
    PsSentinel reading = { (char *)"F of layers=1", 100 + i, 10, (char *)"2026-01-01T00:00:00Z" };

    g_assert_true (ps_costdb_store_sentinel (db, i == 1 ? b : a, &reading, NULL));
  }
  g_autoptr (GPtrArray) series = ps_costdb_sentinels (db, "a", NULL);
  g_assert_cmpuint (series->len, ==, 2);
  g_assert_cmpint (((const PsSentinel *)series->pdata[0])->median_ns, ==, 100);
  g_assert_cmpint (((const PsSentinel *)series->pdata[1])->median_ns, ==, 102);
  g_assert_cmpstr (((const PsSentinel *)series->pdata[1])->what, ==, "F of layers=1");
}

/* A full disk fails one measurement; those before stay, and there is room again later. */
static void test_full (void)
{
  g_autofree char *path = path_of ("full.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsMeasurement) large = new_op (PS_OP_W, "layers=4", 2, 1000);
  gint64 profile = begin (db, "p");

  store (db, profile, new_op (PS_OP_F, "layers=4", 2, 1000));
  g_assert_true (ps_database_script (db, "PRAGMA max_page_count = 1", NULL)); /* no more than there are */
  g_free (large->samples_ns);
  large->n_samples = 10000;
  large->samples_ns = g_new (gint64, 10000);
  for (guint i = 0; i < 10000; i++)
    large->samples_ns[i] = 998;
  g_assert_false (ps_costdb_store (db, profile, large, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_IO);
  g_autofree char *expected = g_strdup_printf ("%s: database or disk is full", path);
  g_assert_cmpstr (error->message, ==, expected);
  g_autoptr (GPtrArray) kept = ps_costdb_measurements (db, "p", FALSE, NULL);
  g_assert_cmpuint (kept->len, ==, 1);
  g_assert_true (ps_database_script (db, "PRAGMA max_page_count = 100000", NULL));
  g_assert_true (ps_costdb_store (db, profile, large, NULL));
}

static void test_runs (void)
{
  g_autoptr (PsCostDb) db = new_db ("runs.db");
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

  fine (ps_costdb_store_run (db, &run, &error));
  g_assert_true (ps_database_integer (db, "SELECT round (1000 * iteration_error) FROM accuracy", &permille, NULL));
  g_assert_cmpint (permille, ==, 100);
  g_assert_true (ps_database_integer (db, "SELECT round (1000 * peak_memory_error) FROM accuracy", &permille, NULL));
  g_assert_cmpint (permille, ==, -200);
  g_autoptr (GPtrArray) runs = ps_costdb_runs (db, NULL);
  const PsRunRecord *back = runs->pdata[0];
  const char *const texts[][2]
      = { { back->profile, "p" },         { back->schedule, "1f1b" },   { back->device, "cpu" },
          { back->transport, "threads" }, { back->check, "bit-equal" }, { back->started, "2026-01-01T00:00:00Z" } };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_assert_cmpstr (texts[i][0], ==, texts[i][1]);
  const gint64 numbers[] = { back->n_devices,
                             back->n_chunks,
                             back->n_microbatches,
                             back->n_steps,
                             back->predicted_iteration_ns,
                             back->measured_iteration_ns,
                             back->predicted_peak_bytes,
                             back->measured_peak_bytes,
                             back->clock_mhz };
  const gint64 stored[] = { 2, 1, 8, 3, 110, 100, 80, 100, 1980 };
  g_assert_cmpmem (numbers, sizeof numbers, stored, sizeof stored);
  run.check = (char *)"perhaps";
  refused (ps_costdb_store_run (db, &run, &error), PS_ERROR_INPUT, "*CHECK constraint failed: check*");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/costdb/round-trip", test_round_trip);
  g_test_add_func ("/costdb/profiles", test_profiles);
  g_test_add_func ("/costdb/calibrations", test_calibrations);
  g_test_add_func ("/costdb/circumstances", test_circumstances);
  g_test_add_func ("/costdb/keys", test_keys);
  g_test_add_func ("/costdb/choices", test_choices);
  g_test_add_func ("/costdb/once", test_once);
  g_test_add_func ("/costdb/constraints", test_constraints);
  g_test_add_func ("/costdb/conditions", test_conditions);
  g_test_add_func ("/costdb/sentinels", test_sentinels);
  g_test_add_func ("/costdb/replace", test_replace);
  g_test_add_func ("/costdb/full", test_full);
  g_test_add_func ("/costdb/runs", test_runs);
  return run_in_folder ();
}
