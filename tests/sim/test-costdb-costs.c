/* Tests of what costdb.h makes of measured rows: costs, or one line that says what is missing. */
#include "costdb-rig.h"

#include <pipesim/bound.h>
#include <pipesim/costdb.h>
#include <pipesim/setting.h>

#include <math.h>
#include <string.h>

/* All five kinds of one shape; kind k takes (10 + k) * scale nanoseconds. */
static void store_shape (PsCostDb *db, gint64 profile, const char *shape, guint devices, gint64 scale)
{
  const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    store (db, profile, new_op (kinds[i], shape, devices, (10 + (gint64)kinds[i]) * scale));
}

static PsCosts *costs_of (PsCostDb *db, guint n_devices, guint n_chunks)
{
  return fine (ps_costdb_costs (db, NULL, NULL, n_devices, n_chunks, &error));
}

/* What an accelerator takes by itself counts where its host runs ahead, for each kind of op that has it. */
static void test_device_time (void)
{
  g_autoptr (PsCostDb) db = new_db ("device.db");
  gint64 profile = begin (db, "p");
  PsMeasurement *f = new_op (PS_OP_F, "layers=4,embedding", 2, 600);
  PsMeasurement *warm = new_op (PS_OP_W, "layers=4,embedding,warm", 2, 300);

  f->launch_ns = 300;
  warm->launch_ns = 800;
  store (db, profile, f);
  store (db, profile, warm);
  for (guint kind = PS_OP_B; kind <= PS_OP_O; kind++)
    if (kind != PS_OP_R)
      store (db, profile, new_op ((PsOpKind)kind, "layers=4,embedding", 2, 1000));
  store_shape (db, profile, "layers=4,head", 2, 200);
  store (db, profile, new_transfer (196608, 2, 10000));
  g_autoptr (PsCosts) ahead = costs_of (db, 2, 1);
  g_autoptr (PsCosts) op_by_op = fine (ps_costdb_stage_costs (db, NULL, NULL, NULL, 2, 1, TRUE, 1, &error));
  g_assert_cmpint (ps_costs_op (ahead, PS_OP_F, 0)->duration_ns, ==, 600);
  g_assert_cmpint (ps_costs_op (ahead, PS_OP_R, 0)->duration_ns, ==, 600);
  g_assert_cmpint (ps_costs_op (ahead, PS_OP_B, 0)->duration_ns, ==, 1000);
  g_assert_cmpint (ps_costs_op (ahead, PS_OP_F, 1)->duration_ns, ==, 2000);
  g_assert_cmpfloat (ahead->warm[PS_OP_W * 2], ==, 0.3);
  g_assert_cmpint (ps_costs_op (op_by_op, PS_OP_F, 0)->duration_ns, ==, 900);
  g_assert_cmpfloat (op_by_op->warm[PS_OP_W * 2], ==, 1.1);
}

/* tiny-gpt in 2 stages: "layers=4,embedding" and "layers=4,head"; boundary 196608 bytes. */
static void test_costs (void)
{
  g_autoptr (PsCostDb) db = new_db ("costs.db");
  gint64 profile = begin (db, "p");

  store_shape (db, profile, "layers=4,embedding", 2, 100);
  store_shape (db, profile, "layers=4,embedding", 1, 90);
  store_shape (db, profile, "layers=4,head,blocks=8", 2, 300); /* of no plain run */
  store_shape (db, profile, "layers=4,head", 2, 200);
  store (db, profile, new_transfer (131072, 2, 10000));
  store (db, profile, new_transfer (262144, 2, 30000));
  /* Others than those with nothing else going on don't count, and what was not measured as R is F. */
  PsMeasurement *both_ways = new_transfer (196608, 2, 77777);
  g_free (both_ways->shape);
  both_ways->shape = g_strdup ("both-ways");
  store (db, profile, both_ways);
  store (db, profile, new_op (PS_OP_R, "layers=4,embedding", 2, 1050));
  g_autoptr (PsCosts) costs = costs_of (db, 2, 1);
  g_assert_cmpuint (costs->n_stages, ==, 2);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_R, 0)->duration_ns, ==, 1050);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, 1000);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 1)->duration_ns, ==, 2000);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 1)->duration_ns, ==, 2600);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_O, 0)->duration_ns, ==, 1500);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_R, 1)->duration_ns, ==, 2000);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 0)->take_bytes, ==, 100 + PS_OP_W);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 0)->give_bytes, ==, 10 + PS_OP_W);
  g_assert_cmpint (costs->stage[1].weight_bytes, ==, 7000);
  /* half way between the two sizes */
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 0)], ==, 20000);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_backward (costs, 1)], ==, 20000);
  g_assert_cmpint (costs->transfer_ns[PS_TRANSFER_LOCAL], ==, 0);
  g_assert_cmpint (costs->time_origin, ==, PS_ORIGIN_MEASURED);
  g_assert_cmpint (costs->memory_origin, ==, PS_ORIGIN_MEASURED);
  g_assert_cmpint (costs->transfer_origin, ==, PS_ORIGIN_INTERPOLATED);
  g_assert_nonnull (strstr (costs->source, "profile 'p' of "));

  store (db, profile, new_transfer (196608, 2, 12345));
  g_autoptr (PsCosts) exact = costs_of (db, 2, 1);
  g_assert_cmpint (exact->transfer_ns[ps_transfer_forward (exact, 0)], ==, 12345);
  g_assert_cmpint (exact->transfer_origin, ==, PS_ORIGIN_MEASURED);
}

static PsPrediction *predict (const PsSetting *setting, const char *schedule)
{
  return fine (ps_predict (setting, schedule, &error));
}

/* One device, one microbatch, two slices: F0 F1 BW1 BW0. O takes 1500 ns. */
static void test_slices (void)
{
  g_autofree char *path = path_of ("slices.db"), *lengths = path_of ("slices.csv");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");
  g_autoptr (PsSetting) setting = ps_setting_new ();

  store_shape (db, profile, "layers=8,embedding,head", 1, 100);
  setting->db = g_strdup (path);
  setting->n_devices = setting->n_microbatches = 1;
  setting->n_slices = 2;
  g_autoptr (PsPrediction) equal = predict (setting, "seq1f1b");
  g_assert_cmpint (equal->metrics.makespan_ns, ==, 1000 + 1300);

  store_shape (db, profile, "layers=8,embedding,head,slice=0/2", 1, 40); /* F 400, BW 520 */
  g_autoptr (PsPrediction) half = predict (setting, "seq1f1b");
  g_assert_cmpint (half->metrics.makespan_ns, ==, 1000 + 1300);          /* not all slices are there */
  store_shape (db, profile, "layers=8,embedding,head,slice=1/2", 1, 90); /* F 900, BW 1170 */
  g_autoptr (PsPrediction) whole = predict (setting, "seq1f1b");
  g_assert_cmpint (whole->metrics.makespan_ns, ==, 400 + 900 + 520 + 1170);
  g_assert_cmpint (whole->costs->n_lengths, ==, 2);
  g_assert_cmpint (whole->lower_bound_ns, <=, whole->metrics.iteration_ns);

  setting->lengths = g_strdup (lengths);
  g_assert_true (g_file_set_contents (lengths, "factor\n2", -1, NULL));
  g_autoptr (PsPrediction) longer = predict (setting, "seq1f1b");
  g_assert_cmpint (longer->metrics.makespan_ns, ==, 2 * (400 + 900 + 520 + 1170));
  g_unlink (lengths);
}

/* 1F1B of two microbatches on two devices: F0 F1 BW0 BW1 and F0 BW0 F1 BW1. Warm are both BW of the second device and
 * its second F. On the first device BW1 waits, and nothing was freed before a F. */
static void test_warm (void)
{
  g_autofree char *path = path_of ("warm.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");
  g_autoptr (PsSetting) setting = ps_setting_new ();

  store_shape (db, profile, "layers=4,embedding", 2, 100);
  store_shape (db, profile, "layers=4,head", 2, 200);
  store (db, profile, new_transfer (196608, 2, 10));
  setting->db = g_strdup (path);
  setting->n_devices = setting->n_microbatches = 2;
  g_autoptr (PsPrediction) before = predict (setting, "1f1b");
  g_assert_cmpint (ps_costs_op (before->costs, PS_OP_F, 1)->duration_ns, ==, 2000);
  store_shape (db, profile, "layers=4,head,warm", 2, 180);
  store_shape (db, profile, "layers=4,embedding,warm", 1, 10); /* of another number of busy devices */
  g_autoptr (PsPrediction) with = predict (setting, "1f1b"), gpipe = predict (setting, "gpipe");
  g_assert_cmpint (ps_costs_op (with->costs, PS_OP_F, 0)->duration_ns, ==, 1000);
  g_assert_cmpint (ps_costs_op (with->costs, PS_OP_BW, 0)->duration_ns, ==, 1300);
  g_assert_cmpint (ps_costs_op (with->costs, PS_OP_F, 1)->duration_ns, ==, 1900);
  g_assert_cmpint (ps_costs_op (with->costs, PS_OP_BW, 1)->duration_ns, ==, 2340);
  g_assert_cmpint (ps_costs_op (gpipe->costs, PS_OP_F, 1)->duration_ns, ==, 2000);
  g_autoptr (PsCosts) whole = ps_setting_costs (setting, 2, 1, NULL);
  g_autoptr (PsCosts) least = ps_setting_fastest_costs (setting, with->program->schedule->placement, whole, 1, NULL);
  g_assert_cmpint (ps_costs_op (least, PS_OP_F, 1)->duration_ns, ==, 1800);
  g_assert_cmpint (ps_costs_op (least, PS_OP_BW, 0)->duration_ns, ==, 1300);
  /* The bound is of any order, so of every op that may be warm: both schedules have the same ops. */
  g_assert_cmpint (with->lower_bound_ns, ==, gpipe->lower_bound_ns);
  g_assert_cmpint (with->lower_bound_ns, ==, ps_schedule_bound (with->program->schedule, least, FALSE));
}

/* Both weight copies of a stage add up their gradients: 2 devices, 4 where there are two replicas. */
static void test_copies (void)
{
  g_autofree char *path = path_of ("copies.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");
  g_autoptr (PsSetting) setting = ps_setting_new ();

  store_shape (db, profile, "layers=4,embedding", 2, 100);
  store_shape (db, profile, "layers=4,head", 2, 100);
  store (db, profile, new_transfer (196608, 2, 10));
  setting->db = g_strdup (path);
  setting->n_devices = setting->n_microbatches = 2;
  setting->reduce = PS_REDUCE_EXPOSED;
  g_autoptr (PsPrediction) without = predict (setting, "chimera"), one = predict (setting, "1f1b");
  PsMeasurement *sum = new_transfer (1024, 2, 777);
  sum->subject = PS_SUBJECT_ALL_REDUCE;
  store (db, profile, sum);
  g_autoptr (PsPrediction) with = predict (setting, "chimera"), same = predict (setting, "1f1b");
  g_assert_cmpint (with->costs->stage[1].reduce2_ns, ==, 777);
  g_assert_cmpint (with->metrics.iteration_ns, ==, without->metrics.iteration_ns + 2 * 777);
  g_assert_cmpint (same->metrics.iteration_ns, ==, one->metrics.iteration_ns);
}

/* A stage that was measured as it recomputes has these figures; another one gets them by the model's formulas. */
static void test_recompute (void)
{
  g_autoptr (PsCostDb) db = new_db ("recompute.db");
  gint64 profile = begin (db, "p");
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  PsStageShape shapes[2];

  store_shape (db, profile, "layers=4,embedding", 2, 100);
  store_shape (db, profile, "layers=4,head", 2, 200);
  store_shape (db, profile, "layers=4,head,recompute=full", 2, 300);
  store (db, profile, new_transfer (196608, 2, 10000));
  g_assert_true (ps_model_split (model, 2, shapes, NULL));
  shapes[0].recompute = shapes[1].recompute = PS_RECOMPUTE_FULL;
  g_autoptr (PsCosts) costs = ps_costdb_stage_costs (db, NULL, model, shapes, 2, 1, FALSE, 1, NULL);
  g_assert_cmpint (costs->shapes[0].recompute, ==, PS_RECOMPUTE_NONE);
  g_assert_cmpint (costs->shapes[1].recompute, ==, PS_RECOMPUTE_FULL);
  for (guint stage = 0; stage < 2; stage++)
    g_assert_true (ps_costs_recompute (costs, stage, model, NULL, PS_RECOMPUTE_FULL, NULL));
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 0)->duration_ns, ==, 1300 + 1000); /* all of F again */
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 1)->duration_ns, ==, 3900);
  g_assert_cmpint (costs->time_origin, ==, PS_ORIGIN_MODELLED);
}

/* Stages that are known are not cut anew, where the best cut was measured too. */
static void test_known_stages (void)
{
  static const char *const cuts[] = { "layers=4,embedding", "layers=4,head", "layers=5,embedding", "layers=3,head",
                                      "layers=2,embedding", "layers=2",      "layers=2,head" };
  static const gint64 times[] = { 40, 60, 50, 50, 20, 20, 40 };
  g_autofree char *path = path_of ("known.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  PsStageShape shapes[2];

  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    store_shape (db, profile, cuts[i], 2, times[i]);
  store (db, profile, new_transfer (196608, 2, 10));
  setting->db = g_strdup (path);
  setting->n_devices = 2;
  g_autoptr (PsCosts) best = fine (ps_setting_costs (setting, 2, 1, &error));
  g_assert_cmpuint (best->shapes[0].n_layers, ==, 5);
  g_assert_true (ps_model_split (model, 2, shapes, NULL));
  setting->known_shapes = shapes;
  g_autoptr (PsCosts) known = fine (ps_setting_costs (setting, 2, 1, &error));
  g_assert_cmpuint (known->shapes[0].n_layers, ==, 4);
  g_assert_cmpint (ps_costs_op (known, PS_OP_F, 1)->duration_ns, ==, 600);
}

/* Beyond the sizes measured the outermost line goes on; it never falls. */
static void test_extrapolation (void)
{
  g_autoptr (PsCostDb) db = new_db ("beyond.db");
  gint64 profile = begin (db, "p");

  store_shape (db, profile, "layers=4,embedding", 2, 100);
  store_shape (db, profile, "layers=4,head", 2, 100);
  store (db, profile, new_transfer (65536, 2, 5000));
  g_autoptr (PsCosts) single = costs_of (db, 2, 1);
  g_assert_cmpint (single->transfer_ns[1], ==, 5000);
  g_assert_cmpint (single->transfer_origin, ==, PS_ORIGIN_INTERPOLATED);
  store (db, profile, new_transfer (98304, 2, 6000));
  /* 6000 + 98304 more bytes at 1000 per 32768 */
  g_autoptr (PsCosts) rising = costs_of (db, 2, 1);
  g_assert_cmpint (rising->transfer_ns[1], ==, 9000);
  store (db, profile, new_transfer (131072, 2, 4000));
  g_autoptr (PsCosts) falling = costs_of (db, 2, 1);
  g_assert_cmpint (falling->transfer_ns[1], ==, 4000);
}

/* Samples over the median of the row that the costs take: F of stage 0 is 998, 1000, 1005 (median 1000, two devices
 * busy), R has those of F; transfers are those of the measured size at or above the boundary's 196608 bytes. */
static void test_spread (void)
{
  g_autoptr (PsCostDb) db = new_db ("spread.db");
  gint64 profile = begin (db, "p");

  store_shape (db, profile, "layers=4,embedding", 2, 100);
  store_shape (db, profile, "layers=4,embedding", 1, 90);
  store_shape (db, profile, "layers=4,head", 2, 200);
  store (db, profile, new_transfer (131072, 2, 10000));
  store (db, profile, new_transfer (262144, 2, 50));
  g_autoptr (PsCostSpread) spread = fine (ps_costdb_spread (db, NULL, NULL, NULL, 2, 1, &error));
  g_assert_cmpuint (spread->n_stages, ==, 2);
  const double f[] = { 1005.0 / 1000, 998.0 / 1000, 1 }, transfer[] = { 55.0 / 50, 48.0 / 50, 1 };
  g_assert_cmpmem (spread->op[PS_OP_F * 2]->data, spread->op[PS_OP_F * 2]->len * sizeof (double), f, sizeof f);
  g_assert_cmpmem (spread->op[PS_OP_R * 2]->data, spread->op[PS_OP_R * 2]->len * sizeof (double), f, sizeof f);
  g_assert_cmpfloat (g_array_index (spread->op[PS_OP_BW * 2 + 1], double, 0), ==, 2605.0 / 2600);
  g_assert_cmpmem (spread->transfer->data, spread->transfer->len * sizeof (double), transfer, sizeof transfer);
  g_assert_cmpfloat (spread->largest, ==, 1.1);
  refused (ps_costdb_spread (db, "q", NULL, NULL, 2, 1, &error), PS_ERROR_INPUT,
           "*spread.db: no profile 'q'; there are: p");
}

/* A boundary's size that was not measured is known as well as its neighbours tell sizes between them: left out, the
 * middle one of three is 23333 by the line through the others, 2 / 9 less than measured. Of three samples 2 ns apart
 * nearly nothing is added. Ops know nothing of it, nor does a size that was measured. */
static void test_interpolated_spread (void)
{
  for (guint measured = 0; measured <= 1; measured++) {
    g_autofree char *path = path_of ("between.db");
    PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
    gint64 profile = begin (db, "p");

    store_shape (db, profile, "layers=4,embedding", 2, 100000);
    store_shape (db, profile, "layers=4,head", 2, 100000);
    store (db, profile, new_transfer (65536, 2, 10000));
    store (db, profile, new_transfer (131072, 2, 30000));
    store (db, profile, new_transfer (262144, 2, 50000));
    if (measured)
      store (db, profile, new_transfer (196608, 2, 45000));
    g_autoptr (PsCostSpread) spread = fine (ps_costdb_spread (db, NULL, NULL, NULL, 2, 1, &error));
    g_assert_cmpfloat_with_epsilon (spread->deviation[spread->row[PS_N_OP_KINDS * 2]], measured ? 0 : 1.4826 * 2 / 9,
                                    1e-3);
    for (guint i = 0; i < PS_N_OP_KINDS * 2; i++)
      g_assert_cmpfloat (spread->deviation[spread->row[i]], <, 1e-4);
    ps_costdb_close (db);
    remove_database (path);
  }
}

/* What a stage was measured to hold has the parts of the model's formulas, 4, 4 and 8 bytes for each parameter, unless
 * it is less than these. */
static void test_state_parts (void)
{
  g_autoptr (PsModel) model = tiny ();
  const PsStageShape shape = { .n_layers = 4, .embedding = TRUE };
  const gint64 n = ps_model_stage_parameters (model, &shape);

  for (gint64 more = -1; more <= 1; more++) {
    g_autofree char *path = path_of ("state.db");
    PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
    gint64 profile = begin (db, "p");

    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
      PsMeasurement *m = new_op ((PsOpKind)kind, "layers=4,embedding", 2, 1000);

      m->state_bytes = 16 * n + more;
      store (db, profile, m);
    }
    store_shape (db, profile, "layers=4,head", 2, 100);
    store (db, profile, new_transfer (196608, 2, 10000));
    g_autoptr (PsCosts) costs = costs_of (db, 2, 1);
    const PsStageCost *stage = &costs->stage[0];
    g_assert_cmpint (stage->weight_bytes, ==, 16 * n + more);
    g_assert_cmpint (stage->state.weight_bytes, ==, more < 0 ? 0 : 4 * n);
    g_assert_cmpint (stage->state.gradient_bytes, ==, more < 0 ? 0 : 4 * n);
    g_assert_cmpint (stage->state.optimizer_bytes, ==, more < 0 ? 0 : 8 * n);
    ps_costdb_close (db);
    remove_database (path);
  }
}

/* A calibration in which all times are `factor` times as long, and transfers `own` times as long again. */
static void store_calibration (PsCostDb *db, gint64 profile, double factor, double own)
{
  store_shape (db, profile, "layers=4,embedding", 2, (gint64)(1e6 * factor));
  store_shape (db, profile, "layers=4,head", 2, (gint64)(1e6 * factor));
  store (db, profile, new_transfer (131072, 2, (gint64)(1e5 * factor * own)));
}

/* Another calibration moves the common factor where all rows move alike, and the deviation of a row that moves by
 * itself; an earlier one knows nothing of it. */
static void test_calibrations (void)
{
  g_autoptr (PsCostDb) db = new_db ("calibrations.db");
  g_autoptr (PsProfile) profile = new_profile ("p");
  g_autoptr (GError) error = NULL;
  gint64 id = begin (db, "p");

  store_calibration (db, id, 1, 1);
  g_autoptr (PsCostSpread) one = fine (ps_costdb_spread (db, NULL, NULL, NULL, 2, 1, &error));
  g_assert_cmpfloat (one->common, <, 1e-4);
  g_assert_true (ps_costdb_add_calibration (db, profile, &id, &error));
  store_calibration (db, id, 1.1, 1.3);
  g_autoptr (PsCostSpread) two = fine (ps_costdb_spread (db, NULL, NULL, NULL, 2, 1, &error));
  guint transfer = two->row[PS_N_OP_KINDS * 2], op = two->row[PS_OP_F * 2];
  /* Levels 0 and ln 1.1 have a variance of ln (1.1)^2 / 2. Two runs differ by twice that. */
  g_assert_cmpfloat_with_epsilon (two->common, log (1.1), 0.01);
  g_assert_cmpfloat (two->freedom, <, 1.5);
  g_assert_cmpfloat (two->deviation[transfer], >, 0.05);
  g_assert_cmpfloat (two->deviation[op], <, 0.05);
  g_assert_cmpuint (two->row[PS_OP_F * 2 + 1], !=, op);
  g_autoptr (PsCostSpread) first = fine (ps_costdb_spread (db, "p#1", NULL, NULL, 2, 1, &error));
  g_assert_cmpfloat (first->common, ==, one->common);
}

/* The number of busy devices: the wanted one, else the largest below, else the smallest above. */
static void test_busy_devices (void)
{
  const struct {
    guint stored[2]; /* 0: none */
    gint64 expected;
  } rows[] = { { { 2, 4 }, 200 }, { { 3, 5 }, 300 }, { { 1, 3 }, 100 }, { { 3, 0 }, 300 }, { { 1, 2 }, 200 } };
  g_autofree char *path = path_of ("busy.db");

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
    gint64 profile = begin (db, "p");

    for (guint k = 0; k < 2 && rows[i].stored[k]; k++) {
      store_shape (db, profile, "layers=4,embedding", rows[i].stored[k], 10 * (gint64)rows[i].stored[k]);
      store_shape (db, profile, "layers=4,head", rows[i].stored[k], 10 * (gint64)rows[i].stored[k]);
      store (db, profile, new_transfer (196608, rows[i].stored[k], 100 * (gint64)rows[i].stored[k]));
    }
    g_autoptr (PsCosts) costs = costs_of (db, 2, 1);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, rows[i].expected);
    g_assert_cmpint (costs->transfer_ns[1], ==, rows[i].expected);
    g_clear_pointer (&db, ps_costdb_close);
    remove_database (path);
  }
}

/* The same for a share. */
static void store_part (PsCostDb *db, gint64 profile, const char *shape, guint share, gint64 scale)
{
  const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    PsMeasurement *m = new_op (kinds[i], shape, 2, (10 + (gint64)kinds[i]) * scale);

    m->share = share;
    store (db, profile, m);
  }
}

/* tiny-gpt in 4 stages on parts 3 and 1: stages 1 and 2 are of one shape and on parts 1 and 3. */
static void test_shares (void)
{
  g_autoptr (PsCostDb) db = new_db ("shares.db");
  g_autoptr (PsProfile) parts = new_profile ("parts");
  gint64 profile;

  g_free (parts->shares);
  parts->shares = g_strdup ("3,1");
  g_assert_true (ps_costdb_begin_profile (db, parts, &profile, NULL));
  store_part (db, profile, "layers=2,embedding", 3, 100);
  store_part (db, profile, "layers=2", 1, 300);
  store_part (db, profile, "layers=2", 3, 110);
  store (db, profile, new_transfer (196608, 2, 7));
  refused (ps_costdb_costs (db, NULL, NULL, 2, 2, &error), PS_ERROR_INPUT,
           "*has no F of stage shape 'layers=2,head' with share 1; measure it with: * -p 2 -v 2 --sm-shares 3,1");
  store_part (db, profile, "layers=2,head", 1, 330);
  g_autoptr (PsCosts) costs = costs_of (db, 2, 2);
  const gint64 expected[] = { 1000, 3000, 1100, 3300 };
  for (guint stage = 0; stage < 4; stage++)
    g_assert_cmpint (ps_costs_op (costs, PS_OP_F, stage)->duration_ns, ==, expected[stage]);
  g_assert_true (costs->loop_only);
  g_assert_nonnull (strstr (costs->source, ": cpu with shares 3,1 over threads on "));
  g_autoptr (PsCostSpread) spread = fine (ps_costdb_spread (db, NULL, NULL, NULL, 2, 2, &error));
  g_assert_cmpfloat (g_array_index (spread->op[PS_OP_F * 4 + 1], double, 0), ==, 3005.0 / 3000);
  g_assert_cmpfloat (g_array_index (spread->op[PS_OP_F * 4 + 2], double, 0), ==, 1105.0 / 1100);
  refused (ps_costdb_costs (db, NULL, NULL, 4, 1, &error), PS_ERROR_INPUT,
           "*'parts' was measured on 2 devices with shares 3,1: it has no costs for 4*");
}

static void assert_no_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_chunks,
                             const char *pattern)
{
  refused (ps_costdb_costs (db, profile, model, 2, n_chunks, &error), PS_ERROR_INPUT, pattern);
}

static void test_missing (void)
{
  g_autoptr (PsCostDb) db = new_db ("missing.db");
  g_autoptr (PsModel) model = tiny ();

  assert_no_costs (db, NULL, NULL, 1, "*missing.db: holds no profile yet; measure one with: pipesim calib run --db *");
  gint64 profile = begin (db, "p");
  assert_no_costs (db, "q", NULL, 1, "*missing.db: no profile 'q'; there are: p");
  store_shape (db, profile, "layers=4,embedding", 2, 100);
  assert_no_costs (
      db, NULL, NULL, 1,
      "*missing.db: profile 'p' has no F of stage shape 'layers=4,head'; measure it with: pipesim calib run "
      "--db *missing.db --profile p --model FILE -p 2 -v 1");
  store_shape (db, profile, "layers=4,head", 2, 100);
  assert_no_costs (db, NULL, NULL, 1, "*missing.db: profile 'p' has no transfer times; measure it with: *");
  store (db, profile, new_transfer (8, 2, 100));
  assert_no_costs (db, "p", model, 2, "*has no F of stage shape 'layers=2,embedding'; * -p 2 -v 2");
  model->heads++;
  assert_no_costs (
      db, "p", model, 1,
      "*missing.db: profile 'p' was measured with another model than 'tiny-gpt' (its 'tiny-gpt' differs in "
      "some figure)");
  model->microbatch_size = 1;
  assert_no_costs (db, "p", model, 1, "*missing.db: profile 'p' was measured with microbatch_size = 2, not 1");
  model->serves = TRUE;
  assert_no_costs (db, "p", model, 1, "*= 2, not 1; --serve takes prompts one at a time");
  begin (db, "q");
  assert_no_costs (db, NULL, NULL, 1, "*missing.db: several profiles; choose one with --profile: p, q");
}

/* More stages than layers is the caller's mistake, and one device needs no transfers. */
static void test_other_cuts (void)
{
  g_autoptr (PsCostDb) db = new_db ("cuts.db");
  gint64 profile = begin (db, "p");

  refused (ps_costdb_costs (db, NULL, NULL, 4, 3, &error), PS_ERROR_USAGE,
           "model 'tiny-gpt': its 8 layers, embedding and loss cannot be cut into 12 stages (devices times chunks)");
  store_shape (db, profile, "layers=8,embedding,head", 1, 100);
  g_autoptr (PsCosts) costs = costs_of (db, 1, 1);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, 1000);
}

/* Rows of another cache state than that of real runs never count; among rows of as many busy devices the accelerator
 * split as for the wanted number wins. */
static void test_circumstances (void)
{
  g_autoptr (PsCostDb) db = new_db ("circumstances.db");
  gint64 profile = begin (db, "p");

  store_shape (db, profile, "layers=4,embedding", 1, 100);
  store_shape (db, profile, "layers=4,head", 1, 100);
  const struct {
    guint devices, sharing;
    PsCacheState cache;
    gint64 median;
  } rows[] = {
    { 2, 1, PS_CACHE_COLD, 10 }, { 2, 1, PS_CACHE_WARM, 20 }, { 1, 4, PS_CACHE_RUN, 4000 }, { 1, 2, PS_CACHE_RUN, 2000 }
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    PsMeasurement *m = new_op (PS_OP_F, "layers=4,embedding", rows[i].devices, rows[i].median);

    m->sharing = rows[i].sharing;
    m->cache = rows[i].cache;
    store (db, profile, m);
  }
  PsMeasurement *split = new_transfer (196608, 2, 7777);
  split->sharing = 2;
  store (db, profile, new_transfer (196608, 2, 5555));
  store (db, profile, split);
  g_autoptr (PsCosts) costs = costs_of (db, 2, 1);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, 2000);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 1)->duration_ns, ==, 1000);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 0)], ==, 7777);
}

static void test_link_classes (void)
{
  static const char *const rows[][3] = {
    { "a", "a", "machine" },
    { "a", "b", "network" },
    { "a/Package:0/Core:1", "b/Package:0/Core:1", "network" },
    { "a/Package:0/L3:0/Core:0", "a/Package:0/L3:0/Core:1", "l3" },
    { "a/Package:0/L3:0/Core:0", "a/Package:0/L3:1/Core:2", "package" },
    { "a/Package:0/L3:0/Core:0", "a/Package:1/L3:2/Core:4", "machine" },
    { "a/Package:0/Core:3/PU:3", "a/Package:0/Core:3/PU:7", "core" },
    { "a/Package:0/GPU:0000:1b:00.0", "a/Package:0/GPU:0000:1b:00.0", "gpu" },
    { "a/Package:0/GPU:0000:1b:00.0", "a/Package:0/GPU:0000:3b:00.0", "package" },
    { "a/Package:0/GPU:0000:1b:00.0+switch*18", "a/Package:0/GPU:0000:1b:00.0+switch*18", "gpu" },
    { "a/Package:0/GPU:0000:1b:00.0+switch*18", "a/Package:1/GPU:0000:3b:00.0+switch*12", "nvlink*12" },
    { "a/Package:0/GPU:0000:1b:00.0+0000:3b:00.0*4,0000:5e:00.0*2", "a/GPU:0000:5e:00.0+0000:1b:00.0*2", "nvlink*2" },
    { "a/Package:0/GPU:0000:1b:00.0+0000:3b:00.0*4", "a/Package:1/GPU:0000:5e:00.0+switch*2", "machine" },
    { "a/GPU:0000:1b:00.0+switch*18", "b/GPU:0000:1b:00.0+switch*18", "network" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *there = ps_link_class (rows[i][0], rows[i][1]), *back = ps_link_class (rows[i][1], rows[i][0]);

    g_assert_cmpstr (there, ==, rows[i][2]);
    g_assert_cmpstr (back, ==, rows[i][2]);
  }
  g_autofree char *last = ps_places_link_class ("a;a;b", 1, 2), *none = ps_places_link_class ("a;a;b", 1, 3),
                  *unknown = ps_places_link_class ("", 0, 1);
  g_assert_cmpstr (last, ==, "network");
  g_assert_null (none);
  g_assert_null (unknown);
}

static PsMeasurement *new_link_transfer (const char *shape, gint64 median)
{
  PsMeasurement *m = new_transfer (196608, 2, median);

  g_free (m->shape);
  m->shape = g_strdup (shape);
  return m;
}

/* Two devices on each of two hosts: a boundary costs what its link's class does. The link back from the last device has
 * a time of its own, which only counts because it differs by more than the noise. */
static void test_link_costs (void)
{
  PsCostDb *db = new_db ("links.db");
  g_autoptr (PsProfile) profile = new_profile ("links");
  g_autoptr (GError) error = NULL;
  gint64 id = 0;

  g_assert_true (ps_costdb_begin_profile (db, profile, &id, &error));
  store_shape (db, id, "layers=1,embedding", 4, 100);
  store_shape (db, id, "layers=1", 4, 100);
  store_shape (db, id, "layers=1,head", 4, 100);
  store (db, id, new_transfer (196608, 2, 1000));
  g_autoptr (PsCosts) before = fine (ps_costdb_costs (db, NULL, NULL, 4, 2, &error));
  for (guint i = 1; i <= 16; i++)
    g_assert_cmpint (before->transfer_ns[i], ==, 1000);

  g_assert_cmpint (before->transfer_origin, ==, PS_ORIGIN_MEASURED);

  /* The same calibration hears of the places later: transfers over the network have not been measured yet. */
  g_free (profile->places);
  profile->places = g_strdup ("a;a;b;b");
  g_assert_true (ps_costdb_begin_profile (db, profile, &id, &error));
  g_autoptr (PsCosts) common = fine (ps_costdb_costs (db, NULL, NULL, 4, 2, &error));
  g_assert_cmpint (common->transfer_ns[ps_transfer_forward (common, 1)], ==, 1000);
  g_assert_cmpint (common->transfer_origin, ==, PS_ORIGIN_INTERPOLATED);
  g_autofree char *description = ps_costs_describe (common);
  g_assert_true (g_str_has_prefix (description, "measured costs, interpolated transfers: profile 'links'"));
  store (db, id, new_link_transfer ("link=network", 9000));
  store (db, id, new_link_transfer ("link=2-3", 1001));
  store (db, id, new_link_transfer ("link=0-3", 12000));
  g_autoptr (PsCosts) costs = ps_costdb_costs (db, NULL, NULL, 4, 2, &error);
  const gint64 forward[] = { 1000, 9000, 1000, 12000, 1000, 9000, 1000, 12000 },
               backward[] = { 12000, 1000, 9000, 1000, 12000, 1000, 9000, 1000 };
  for (guint stage = 0; stage < 8; stage++) {
    g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, stage)], ==, forward[stage]);
    g_assert_cmpint (costs->transfer_ns[ps_transfer_backward (costs, stage)], ==, backward[stage]);
  }
  g_assert_cmpint (costs->transfer_origin, ==, PS_ORIGIN_MEASURED);
  g_autoptr (PsProfile) back = ps_costdb_profile (db, "links", NULL);
  g_assert_cmpstr (back->places, ==, "a;a;b;b");
  static const char *const later[][2]
      = { { "a;a", "a;a;b;b" }, { "a;c;c;a", "a;a;b;b" }, { "a;a;b;bc", "a;a;b;b" }, { "a;a;b;b;c", "a;a;b;b;c" } };
  for (guint i = 0; i < G_N_ELEMENTS (later); i++) {
    g_free (profile->places);
    profile->places = g_strdup (later[i][0]);
    g_assert_true (ps_costdb_begin_profile (db, profile, &id, &error));
    g_autoptr (PsProfile) now = ps_costdb_profile (db, "links", NULL);
    g_assert_cmpstr (now->places, ==, later[i][1]);
  }
  ps_costdb_close (db);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/costdb-costs/costs", test_costs);
  g_test_add_func ("/costdb-costs/device-time", test_device_time);
  g_test_add_func ("/costdb-costs/slices", test_slices);
  g_test_add_func ("/costdb-costs/copies", test_copies);
  g_test_add_func ("/costdb-costs/warm", test_warm);
  g_test_add_func ("/costdb-costs/recompute", test_recompute);
  g_test_add_func ("/costdb-costs/known-stages", test_known_stages);
  g_test_add_func ("/costdb-costs/extrapolation", test_extrapolation);
  g_test_add_func ("/costdb-costs/spread", test_spread);
  g_test_add_func ("/costdb-costs/interpolated-spread", test_interpolated_spread);
  g_test_add_func ("/costdb-costs/state-parts", test_state_parts);
  g_test_add_func ("/costdb/calibrations", test_calibrations);
  g_test_add_func ("/costdb-costs/busy-devices", test_busy_devices);
  g_test_add_func ("/costdb-costs/missing", test_missing);
  g_test_add_func ("/costdb-costs/shares", test_shares);
  g_test_add_func ("/costdb-costs/other-cuts", test_other_cuts);
  g_test_add_func ("/costdb-costs/link-classes", test_link_classes);
  g_test_add_func ("/costdb-costs/link-costs", test_link_costs);
  g_test_add_func ("/costdb-costs/circumstances", test_circumstances);
  return run_in_folder ();
}
