/* Tests of the calibrator: what a device sees while it is being measured. No test depends on how long anything takes.
 */
#include "fake-device.h"
#include "links.h"

#include <string.h>

/* What a calibration has stored so far. */
typedef struct {
  GHashTable *stored; /* key text -> PsMeasurement (copied: what is checked later) */
  const char *only;   /* wanted: this key alone; NULL: all that is not stored */
  guint fail_after;   /* sink fails from then on; 0: never */
  guint n_sentinels;
} Store;

static char *key_text (const PsMeasurement *m)
{
  const char *cache = m->cache == PS_CACHE_RUN ? "" : m->cache == PS_CACHE_COLD ? " cold" : " warm";
  g_autofree char *sharing = m->sharing > 1 ? g_strdup_printf (" /%u", m->sharing) : g_strdup ("");
  g_autofree char *share = m->share > 0 ? g_strdup_printf (" *%u", m->share) : g_strdup ("");

  return g_strdup_printf ("%s %s %" G_GINT64_FORMAT " %u%s%s%s",
                          m->subject == PS_SUBJECT_OP ? ps_op_kind_name (m->kind) : "-", m->shape, m->bytes, m->devices,
                          sharing, share, cache);
}

static gboolean store_wanted (const PsMeasurement *key, gpointer data)
{
  Store *store = data;
  g_autofree char *text = key_text (key);

  return store->only != NULL ? g_str_equal (store->only, text) : !g_hash_table_contains (store->stored, text);
}

static gboolean store_sink (const PsMeasurement *measurement, gpointer data, GError **error)
{
  Store *store = data;

  if (fake_throttle == PS_THROTTLE_HEAT)
    g_assert_cmpstr (measurement->stop, ==, "no accepted samples");
  g_assert_cmpuint (measurement->n_samples, >=, fake_throttle == PS_THROTTLE_HEAT ? 0 : 10);
  g_assert_cmpuint (measurement->n_samples, ==, measurement->time.n);
  g_assert_nonnull (measurement->stop);
  g_assert_nonnull (measurement->taken);
  if (store->fail_after && g_hash_table_size (store->stored) >= store->fail_after) {
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "store is full");
    return FALSE;
  }
  PsMeasurement *copy = g_new0 (PsMeasurement, 1);
  copy->time = measurement->time;
  copy->launch_ns = measurement->launch_ns;
  copy->before = measurement->before;
  copy->during = measurement->during;
  copy->after = measurement->after;
  copy->take_bytes = measurement->take_bytes;
  copy->give_bytes = measurement->give_bytes;
  copy->state_bytes = measurement->state_bytes;
  g_assert_true (g_hash_table_insert (store->stored, key_text (measurement), copy)); /* never twice */
  return TRUE;
}

static gboolean store_sentinel (const PsSentinel *sentinel, gpointer data, GError **error)
{
  Store *store = data;

  g_assert_cmpstr (sentinel->what, ==, "F of layers=1");
  g_assert_cmpuint (sentinel->n, >=, fake_throttle == PS_THROTTLE_HEAT ? PS_MEDIAN_MIN_SAMPLES : 10);
  store->n_sentinels++;
  return TRUE;
}

static const char *calibrated_places;

static gboolean calibrate_parts (Store *store, guint n_devices, guint n_local, const guint *shares, guint caches,
                                 GError **error)
{
  static const guint chunks[] = { 1, 2 };
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  PsCalibration calibration = { .device = &fake_class,
                                .transport = ps_transport_find ("threads", NULL),
                                .model = model,
                                .n_devices = n_devices,
                                .n_local = n_local,
                                .shares = shares,
                                .places = calibrated_places,
                                .caches = caches,
                                .chunks = chunks,
                                .n_chunks = 2,
                                .rule = { 0.5, 10, 25, time_limit_ns },
                                .wanted = store_wanted,
                                .sink = store_sink,
                                .sentinel = store_sentinel,
                                .data = store };
  gboolean ok = ps_calibrate (&calibration, error);

  g_assert_cmpint (n_fake_devices, ==, 0);
  g_assert_cmpint (n_fake_tensors, ==, 0);
  return ok;
}

static gboolean calibrate_some (Store *store, guint n_devices, guint n_local, guint caches, GError **error)
{
  return calibrate_parts (store, n_devices, n_local, NULL, caches, error);
}

static gboolean calibrate (Store *store, guint n_devices, GError **error)
{
  return calibrate_some (store, n_devices, n_devices, 1U << PS_CACHE_RUN, error);
}

static Store store_new (void)
{
  return (Store){ .stored
                  = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)ps_measurement_free) };
}

static void assert_memory (const Store *store, const char *key, gint64 take, gint64 give, gint64 state)
{
  const PsMeasurement *m = g_hash_table_lookup (store->stored, key);

  g_assert_nonnull (m);
  g_assert_cmpint (m->take_bytes, ==, take);
  g_assert_cmpint (m->give_bytes, ==, give);
  g_assert_cmpint (m->state_bytes, ==, state);
}

/* Kinds of op that a rotation measures; all but O also warm. */
#define N_OPS (5 + 4)
#define N_HOST 3 /* op, send, receive */

/* 5 shapes (4 layers: first, last; 2 layers: first, middle, last), 5 kinds, busy and alone, and 19 transfers, and 2
 * both ways at once.
 */
static void test_everything_once (void)
{
  Store store = store_new ();
  g_autoptr (GError) error = NULL;

  fine (calibrate (&store, 2, &error));
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 5 * N_OPS * 2 + 19 + 3 + N_HOST);
  assert_memory (&store, "F layers=4,embedding 0 2", 130, 30, 4000);
  assert_memory (&store, "B layers=4,head 0 2", 20, 60, 4000);
  assert_memory (&store, "W layers=2 0 1", 0, 60, 2000);
  assert_memory (&store, "BW layers=2,head 0 1", 20, 120, 2000);
  assert_memory (&store, "O layers=2,embedding 0 2", 0, 0, 2000);
  assert_memory (&store, "B layers=4,head,warm 0 2", 20, 60, 4000);
  g_assert_false (g_hash_table_contains (store.stored, "O layers=4,head,warm 0 2"));
  assert_memory (&store, "-  196608 2", 0, 0, 0);
  assert_memory (&store, "- both-ways 8 2", 0, 0, 0);
  assert_memory (&store, "- both-ways 49152 2", 0, 0, 0);
  assert_memory (&store, "- both-ways 196608 2", 0, 0, 0);
  /* again: nothing left to do, no op runs */
  int before = n_fake_ops;
  g_assert_true (calibrate (&store, 2, &error));
  g_assert_cmpint (n_fake_ops, ==, before);
  g_hash_table_unref (store.stored);
}

/* A transfer over a link, with a time of the test's choice. */
static PsMeasurement *new_link_sample (const char *shape, gint64 ns)
{
  PsMeasurement *m = g_new0 (PsMeasurement, 1);

  *m = (PsMeasurement){ .subject = PS_SUBJECT_TRANSFER,
                        .shape = g_strdup (shape),
                        .bytes = 196608,
                        .devices = 2,
                        .time = { ns, ns - 5, ns + 5, 2, ns - 9, 20 } };
  return m;
}

/* Which links of six devices are looked at: two of a class, all of them once one differs. */
static void test_links (void)
{
  static const char places[] = "a/Package:0/Core:0;a/Package:0/Core:1;a/Package:0/Core:2;a/Package:0/Core:3;b;b";
  g_autoptr (GPtrArray) known = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  g_autoptr (GArray) none = ps_calib_links ("", NULL);

  g_assert_cmpuint (none->len, ==, 0);
  g_ptr_array_add (known, new_link_sample ("", 1000));
  g_ptr_array_add (known, new_link_sample ("link=2-3", 1004));
  for (guint round = 0; round < 2; round++) {
    g_autoptr (GArray) links = ps_calib_links (places, known);
    static const char *const keys[] = { "link=0-1", "link=1-2", "link=2-3", "link=3-4", "link=4-5", "link=0-5" };
    static const char *const shapes[] = { "", "", "", "link=network", "link=machine", "link=network" };

    g_assert_cmpuint (links->len, ==, 6);
    for (guint i = 0; i < 6; i++) {
      const PsCalibLink *link = &g_array_index (links, PsCalibLink, i);

      g_assert_cmpstr (link->key, ==, keys[i]);
      g_assert_cmpstr (link->shape, ==, shapes[i]);
      g_assert_cmpint (link->first, ==, i == 0 || i == 3 || i == 4);
      g_assert_cmpint (link->sampled, ==, i == 1 || i == 2 || i == 5);
      g_assert_cmpint (link->differs, ==, round == 1 && i == 1);
    }
    g_ptr_array_add (known, new_link_sample ("link=1-2", 1200));
  }
  g_autofree char *text = ps_calib_links_to_text (places, known);
  g_assert_cmpstr (text, ==,
                   "links of class package: 0-1 stands for it; 1-2 differs, +20.0 %; 2-3 +0.4 %\n"
                   "links of class network: 3-4 stands for it; 0-5\n"
                   "links of class machine: 4-5 stands for it\n");
  g_autofree char *json = ps_calib_links_to_json ("a;a;a", known);
  g_assert_cmpstr (json, ==,
                   "[\n"
                   "    {\"link\": \"0-1\", \"class\": \"machine\", \"stands_for_class\": true, \"change\": null, "
                   "\"differs\": false},\n"
                   "    {\"link\": \"1-2\", \"class\": \"machine\", \"stands_for_class\": false, \"change\": 0.200000, "
                   "\"differs\": true},\n"
                   "    {\"link\": \"0-2\", \"class\": \"machine\", \"stands_for_class\": false, \"change\": null, "
                   "\"differs\": false}\n  ]");
  /* Four alike: the last two are looked at, and the first too once one of these differs. */
  g_autoptr (GArray) few = ps_calib_links ("a;a;a;a", NULL);
  g_assert_false (g_array_index (few, PsCalibLink, 1).sampled);
  g_assert_true (g_array_index (few, PsCalibLink, 2).sampled && g_array_index (few, PsCalibLink, 3).sampled);
  g_ptr_array_add (known, new_link_sample ("link=0-3", 500));
  g_autoptr (GArray) all = ps_calib_links ("a;a;a;a", known);
  g_assert_true (g_array_index (all, PsCalibLink, 1).sampled && g_array_index (all, PsCalibLink, 3).differs);
}

/* Each class is measured between its own devices, in all sizes. */
static void test_link_measurements (void)
{
  Store store = store_new ();
  g_autoptr (GError) error = NULL;
  const struct {
    const char *only;
    int indices;
  } rows[] = {
    { "-  196608 2", 3 }, { "- link=network 196608 2", 6 }, { "- link=2-3 196608 2", 12 }, { "- link=0-3 196608 2", 9 }
  };

  calibrated_places = "a;a;b;b";
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    store.only = rows[i].only;
    g_assert_true (calibrate_some (&store, 4, 4, 0, &error));
    fake_indices = 0;
    g_hash_table_remove_all (store.stored);
    g_assert_true (calibrate_some (&store, 4, 4, 0, &error));
    g_assert_cmpuint (g_hash_table_size (store.stored), ==, 1);
    g_assert_cmpint (fake_indices & ~1, ==, rows[i].indices & ~1); /* the sentinel is on device 0 */
  }
  store.only = NULL;
  g_hash_table_remove_all (store.stored);
  g_assert_true (calibrate_some (&store, 4, 4, 0, &error));
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 19 + 19 + 2 + 3 * 3 + N_HOST);
  calibrated_places = NULL;
  g_hash_table_unref (store.stored);
}

static void test_only_missing (void)
{
  const char *const keys[] = { "W layers=2,head 0 2", "BW layers=2,warm 0 2", "- send 0 2", "F layers=4,embedding 0 1",
                               "-  1024 2",           "- both-ways 49152 2" };

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++) {
    Store store = store_new ();

    store.only = keys[i];
    g_assert_true (calibrate (&store, 2, NULL));
    g_assert_cmpuint (g_hash_table_size (store.stored), ==, 1);
    g_assert_true (g_hash_table_contains (store.stored, keys[i]));
    g_hash_table_unref (store.stored);
  }
}

/* One device: one shape per cut, no neighbours, no transfers. */
static void test_one_device (void)
{
  Store store = store_new ();

  g_assert_true (calibrate (&store, 1, NULL));
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 3 * N_OPS + 1);
  assert_memory (&store, "F layers=8,embedding,head 0 1", 130, 30, 8000);
  g_hash_table_unref (store.stored);
}

/* More devices than this machine has cores, and stages of two sizes: 8 layers on 3 devices. The third one computes
 * while the others send. */
static void test_three_devices (void)
{
  Store store = store_new ();

  g_assert_true (calibrate (&store, 3, NULL));
  /* v = 1: 3e 3 2h; v = 2: 2e 2 1 1h */
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, (3 + 4) * N_OPS * 2 + 19 + 2 * 3 + N_HOST);
  g_assert_true (g_hash_table_contains (store.stored, "- during-compute 196608 3"));
  g_hash_table_unref (store.stored);
}

/* Two pairs send at the same time. A load that fails ends the calibration with its error. */
static void test_two_pairs (void)
{
  Store store = store_new ();

  store.only = "- pairs=2 49152 4";
  g_assert_true (calibrate (&store, 4, NULL));
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 1);
  g_assert_cmpuint (store.n_sentinels, ==, 2);
  store.only = "- during-compute 49152 4";
  fail_at = n_fake_ops + 50; /* after the sentinel's first ones: mostly the load's */
  refused (calibrate (&store, 4, &error), PS_ERROR_UNAVAILABLE, "*broken on purpose*");
  fail_at = 0;
  g_hash_table_unref (store.stored);
}

static void test_store_fails (void)
{
  Store store = store_new ();

  store.fail_after = 3;
  refused (calibrate (&store, 2, &error), PS_ERROR_IO, "store is full");
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 3);
  g_hash_table_unref (store.stored);
}

/* Whichever op fails, warming up or sampling, all devices stop and the error comes out. */
static void test_device_fails (void)
{
  for (guint after = 1; after < 60; after += 7) {
    Store store = store_new ();

    fail_at = n_fake_ops + (int)after;
    refused (calibrate (&store, 2, &error), PS_ERROR_UNAVAILABLE, "*broken on purpose*");
    g_hash_table_unref (store.stored);
  }
  fail_at = 0;
}

/* Reading the sentinel before each of the groups that has something to do and at the end: busy v = 1 and 2, transfers,
 * host times, alone two devices each for v = 1 and 2, end: 2 + 1 + 1 + 4 + 1. Nothing to do, nothing to read. */
static void test_sentinel (void)
{
  Store store = store_new ();

  g_assert_true (calibrate (&store, 2, NULL));
  g_assert_cmpuint (store.n_sentinels, ==, 9);
  g_assert_true (calibrate (&store, 2, NULL));
  g_assert_cmpuint (store.n_sentinels, ==, 9);
  g_hash_table_unref (store.stored);
}

static int count_cold_samples (GHashTable *stored)
{
  GHashTableIter iter;
  gpointer measurement;
  int n = 0;

  g_hash_table_iter_init (&iter, stored);
  while (g_hash_table_iter_next (&iter, NULL, &measurement))
    if (((const PsMeasurement *)measurement)->cache == PS_CACHE_COLD)
      n += (int)((const PsMeasurement *)measurement)->time.n;
  return n;
}

/* Cold and warm rows are measured alone and are rows of their own; before every cold op, and no other, caches are
 * emptied. The accelerator's own time and its state come with each row. */
static void test_caches (void)
{
  Store store = store_new ();
  g_autoptr (GError) error = NULL;
  guint all = 1U << PS_CACHE_RUN | 1U << PS_CACHE_COLD | 1U << PS_CACHE_WARM;

  refused (calibrate_some (&store, 2, 2, all, &error), PS_ERROR_USAGE, "--caches: device fake can't empty its caches");

  opened_class = &split_class;
  n_fake_flushes = n_fake_conditions = 0;
  fine (calibrate_some (&store, 2, 2, 1U << PS_CACHE_RUN | 1U << PS_CACHE_WARM, &error));
  g_assert_cmpint (n_fake_flushes, ==, 0);
  int before = n_fake_ops;
  g_assert_true (calibrate_some (&store, 2, 2, all, &error));
  /* Once for every cold sample at least, and never for the sentinel's ops. */
  g_assert_cmpint (n_fake_flushes, >=, count_cold_samples (store.stored));
  g_assert_cmpint (n_fake_flushes, <, n_fake_ops - before);
  opened_class = &fake_class;
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 5 * (5 * 4 + 4 * 2) + 19 + 3 + N_HOST);
  g_assert_true (g_hash_table_contains (store.stored, "W layers=2 0 1 /2"));
  g_assert_true (g_hash_table_contains (store.stored, "W layers=2 0 1 /2 warm"));
  const PsMeasurement *cold = g_hash_table_lookup (store.stored, "W layers=2 0 1 /2 cold");
  g_assert_nonnull (cold);
  /* fake_op_ns */
  g_assert_cmpint (cold->time.median_ns, ==, 77);
  g_assert_cmpint (cold->launch_ns, >, 0);
  g_assert_cmpint (cold->before.clock_mhz, >=, 1000);
  g_assert_cmpint (cold->after.clock_mhz, >, cold->before.clock_mhz);
  g_assert_cmpint (cold->during.clock_mhz, >=, 1000);
  g_assert_cmpint (cold->during.clock_mhz, <, cold->after.clock_mhz);
  g_assert_cmpuint (cold->after.throttle, ==, PS_THROTTLE_KNOWN | PS_THROTTLE_POWER);
  g_hash_table_unref (store.stored);
}

/* Hardware that is too hot all the time gives no samples, and measuring ends all the same. */
static void test_heat (void)
{
  Store store = store_new ();

  store.only = "W layers=2 0 1 /2";
  opened_class = &split_class;
  fake_throttle = PS_THROTTLE_HEAT;
  n_fake_conditions = 2;
  time_limit_ns = 1000000;
  fine (calibrate_some (&store, 2, 2, 1U << PS_CACHE_RUN, &error));
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 1);
  time_limit_ns = G_GINT64_CONSTANT (60000000000);
  fake_throttle = PS_THROTTLE_POWER;
  opened_class = &fake_class;
  g_hash_table_unref (store.stored);
}

/* 8 layers for 4 devices, of which two at a time run here: shapes of the first, of the middle and of the last device,
 * in windows 0 1 and 2 3, never more than two busy. */
static void test_two_at_a_time (void)
{
  Store store = store_new ();

  opened_class = &split_class;
  g_assert_true (calibrate_some (&store, 4, 2, 1U << PS_CACHE_RUN, NULL));
  opened_class = &fake_class;
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, (3 + 3) * N_OPS * 2 + 19 + 3 + N_HOST);
  g_assert_true (g_hash_table_contains (store.stored, "F layers=2,embedding 0 2 /2"));
  g_assert_true (g_hash_table_contains (store.stored, "F layers=2,head 0 2 /2"));
  g_assert_true (g_hash_table_contains (store.stored, "F layers=1 0 1 /2"));
  g_assert_true (g_hash_table_contains (store.stored, "-  8 2 /2"));
  g_hash_table_unref (store.stored);
}

/* A shape that two unequal parts hold is measured on both, each with its share: 4 layers (first on 2, last on 1), 2
 * layers (first on 2, middle on 1 and on 2, last on 1). Transfers have no share. */
static void test_shares (void)
{
  static const guint shares[] = { 2, 1 };
  Store store = store_new ();
  g_autoptr (GError) error = NULL;

  opened_class = &split_class;
  g_assert_true (calibrate_parts (&store, 2, 2, shares, 1U << PS_CACHE_RUN, &error));
  opened_class = &fake_class;
  g_assert_no_error (error);
  g_assert_cmpuint (g_hash_table_size (store.stored), ==, 6 * N_OPS * 2 + 19 + 3 + N_HOST);
  g_assert_true (g_hash_table_contains (store.stored, "F layers=2 0 2 /2 *1"));
  g_assert_true (g_hash_table_contains (store.stored, "F layers=2 0 2 /2 *2"));
  g_assert_true (g_hash_table_contains (store.stored, "O layers=2,head 0 1 /2 *1"));
  g_assert_false (g_hash_table_contains (store.stored, "O layers=2,head 0 1 /2 *2"));
  g_assert_true (g_hash_table_contains (store.stored, "-  8 2 /2"));
  g_hash_table_unref (store.stored);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/calib/links", test_links);
  g_test_add_func ("/calib/link-measurements", test_link_measurements);
  g_test_add_func ("/calib/everything-once", test_everything_once);
  g_test_add_func ("/calib/only-missing", test_only_missing);
  g_test_add_func ("/calib/one-device", test_one_device);
  g_test_add_func ("/calib/three-devices", test_three_devices);
  g_test_add_func ("/calib/two-pairs", test_two_pairs);
  g_test_add_func ("/calib/sentinel", test_sentinel);
  g_test_add_func ("/calib/caches", test_caches);
  g_test_add_func ("/calib/heat", test_heat);
  g_test_add_func ("/calib/two-at-a-time", test_two_at_a_time);
  g_test_add_func ("/calib/shares", test_shares);
  g_test_add_func ("/calib/store-fails", test_store_fails);
  g_test_add_func ("/calib/device-fails", test_device_fails);
  return g_test_run ();
}
