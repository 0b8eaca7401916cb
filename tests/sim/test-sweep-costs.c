/* test-sweep-costs.c - sweeps over single keys of costs and over measured profiles. */
#include "costdb-rig.h"
#include "sweep-rig.h"

/* Keys by themselves predict what the same costs written out do; their columns hold them as numbers. */
static void
test_cost_keys (void)
{
  g_autoptr (PsSweep) keys = parse ("[sweep]\nschedule = 1f1b, zb-auto\ndevices = 4\nmicrobatches = 8\n"
                                    "costs = f=1ms,b=1ms,w=1ms\ncosts.c = 0, 50us..100us step 50us\n"
                                    "costs.act = 1MiB, 2MiB\n");
  g_autoptr (PsSweep) whole = parse ("[sweep]\nschedule = 1f1b, zb-auto\ndevices = 4\nmicrobatches = 8\n"
                                     "costs = f=1ms,b=1ms,w=1ms,c=0,act=1MiB; f=1ms,b=1ms,w=1ms,c=0,act=2MiB;"
                                     "f=1ms,b=1ms,w=1ms,c=50us,act=1MiB; f=1ms,b=1ms,w=1ms,c=50us,act=2MiB;"
                                     "f=1ms,b=1ms,w=1ms,c=100us,act=1MiB; f=1ms,b=1ms,w=1ms,c=100us,act=2MiB\n");
  g_autoptr (PsSweepWorker) a = ps_sweep_worker_new (keys), b = ps_sweep_worker_new (whole);
  g_autoptr (PsResult) x = NULL, y = NULL;

  g_assert_cmpuint (ps_sweep_n_points (keys), ==, 12);
  g_assert_cmpuint (ps_sweep_n_points (whole), ==, 12);
  for (guint i = 0; i < 12; i++)
    {
      g_assert_cmpint (value_at (a, i, "iteration_ns", &x)->integer, ==, value_at (b, i, "iteration_ns", &y)->integer);
      g_assert_cmpint (value (x, "peak_memory_bytes")->integer, ==, value (y, "peak_memory_bytes")->integer);
      g_assert_cmpint (value (x, "cost_c_ns")->integer, ==, 50000 * (gint64)(i / 4));
      g_assert_cmpint (value (x, "cost_act_bytes")->integer, ==, (gint64)(1 + i / 2 % 2) << 20);
      g_assert_cmpint (value (x, "cost_f_ns")->type, ==, PS_VALUE_NONE);
      g_assert_cmpstr (value (x, "costs")->text, ==, "f=1ms,b=1ms,w=1ms");
    }
}

/* Every key of costs is a field with a column of its own. */
static void
test_all_cost_keys (void)
{
  for (guint key = 0; key < PS_N_COST_KEYS; key++)
    {
      g_autofree char *name = g_strdup_printf ("costs.%s", ps_cost_key_name ((PsCostKey)key));
      const PsOption *field = ps_sweep_field_find (name);

      g_assert_nonnull (field);
      g_assert_cmpint (field->type, ==, key >= PS_COST_ACT ? PS_OPTION_SIZE : PS_OPTION_TIME);
      g_assert_cmpint (ps_result_column_find (field->sweep->column.key), ==, field - ps_setting_options);
    }
}

/* gpipe on one device: m (F + BW) = 4 (1 + 2) ms. */
static void
test_cost_keys_alone (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = gpipe\ndevices = 1\nmicrobatches = 4\n"
                                     "costs.f = 1ms\ncosts.bw = 2ms\n");
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  g_autoptr (PsResult) result = NULL;

  g_assert_cmpint (value_at (worker, 0, "makespan_ns", &result)->integer, ==, 12000000);
  g_assert_cmpint (value (result, "costs")->type, ==, PS_VALUE_NONE);
}

/* A profile of tiny-gpt with b sequences per microbatch, measured on pipelines of 2 and of 4 devices: every layer takes
 * b us in F and B and half of it in W. */
static void
store_profile (PsCostDb *db, const char *name, guint b)
{
  static const struct
  {
    const char *shape;
    guint devices, layers;
  } stages[] = {
    { "layers=4,embedding", 2, 4 }, { "layers=4,head", 2, 4 }, { "layers=2,embedding", 4, 2 },
    { "layers=2", 4, 2 },           { "layers=2,head", 4, 2 },
  };
  static const gint64 halves[] = { [PS_OP_F] = 2, [PS_OP_B] = 2, [PS_OP_W] = 1, [PS_OP_BW] = 3, [PS_OP_R] = 2 };
  g_autoptr (PsProfile) profile = new_profile (name);
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  gint64 id = 0;

  model->microbatch_size = b;
  g_free (profile->model_digest);
  g_free (profile->model_text);
  profile->model_digest = ps_model_digest (model);
  profile->model_text = ps_model_to_text (model);
  g_assert_true (ps_costdb_begin_profile (db, profile, &id, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (stages); i++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      store (db, id,
             new_op ((PsOpKind)kind, stages[i].shape, stages[i].devices,
                     kind == PS_OP_O ? 10 : (gint64)stages[i].layers * b * halves[kind] * 500));
  store (db, id, new_transfer (ps_model_boundary_bytes (model), 2, 100 * b));
  store (db, id, new_transfer (ps_model_boundary_bytes (model), 4, 100 * b));
}

static char *
measured_database (void)
{
  g_autofree char *path = path_of ("costs.db");
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);

  store_profile (db, "b1", 1);
  store_profile (db, "b4", 4);
  ps_costdb_close (db);
  return g_steal_pointer (&path);
}

/* Profiles are of one microbatch size each: 16 sequences are 16 microbatches of b1 and 4 of b4. gpipe over p stages of
 * 8 / p layers takes (m + p - 1) (F + BW) and two transfers per boundary. */
static void
test_measured (void)
{
  g_autofree char *path = measured_database ();
  g_autofree char *text = g_strdup_printf ("[sweep]\nschedule = gpipe\ndevices = 2, 4\nglobal-batch = 16\n"
                                           "db = %s\nprofile = b1, b4\n",
                                           path);
  g_autofree char *both
      = g_strdup_printf ("[sweep]\nschedule = all\ndevices = 2, 4\nmicrobatches = 4, 8\nchunks = 1\n"
                         "db = %s\nprofile = b1, b4, b2\nbandwidth-factor = 1, 0.5\nrecompute = none, full\n",
                         path);
  g_autoptr (PsSweep) sweep = parse (text);
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  g_autoptr (PsResult) result = NULL;

  g_assert_cmpuint (ps_sweep_n_points (sweep), ==, 4);
  for (guint i = 0; i < 4; i++)
    {
      guint p = i / 2 ? 4 : 2, b = i % 2 ? 4 : 1, m = 16 / b;
      gint64 expected = (gint64)(m + p - 1) * (8 / p) * b * 2500 + 2 * (p - 1) * 100 * (gint64)b;

      g_assert_cmpint (value_at (worker, i, "makespan_ns", &result)->integer, ==, expected);
      g_assert_cmpstr (value (result, "profile")->text, ==, b == 4 ? "b4" : "b1");
      g_assert_cmpint (value (result, "microbatch_size")->integer, ==, b);
      g_assert_cmpint (value (result, "microbatches")->integer, ==, m);
      g_assert_cmpint (value (result, "global_batch")->integer, ==, 16);
      g_assert_cmpstr (value (result, "costs_origin")->text, ==, "measured");
    }
  check_against_predict (both, 100, 20);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sweep-costs/keys", test_cost_keys);
  g_test_add_func ("/sweep-costs/all-keys", test_all_cost_keys);
  g_test_add_func ("/sweep-costs/keys-alone", test_cost_keys_alone);
  g_test_add_func ("/sweep-costs/measured", test_measured);
  return run_in_folder ();
}
