/* Tests of the calibrator with the cuda device and NCCL, on the emulation or on a GPU: everything asked for is
 * measured, under the right key. What the times are matters to no test. */
#include "fill.h"
#include "provenance.h"

#include "costdb-rig.h"
#include "cuda-device-rig.h"
#include "measure.h"
#include "run/transports.h"

#include <string.h>

/* Copies of what came, without samples. */
typedef struct {
  GPtrArray *rows;
  guint n_sentinels;
} Found;

static gboolean want_all (const PsMeasurement *key, gpointer data)
{
  return TRUE;
}

static gboolean keep (const PsMeasurement *m, gpointer data, GError **error)
{
  PsMeasurement *copy = g_memdup2 (m, sizeof *m);

  g_assert_cmpuint (m->n_samples, ==, m->time.n);
  copy->shape = g_strdup (m->shape);
  copy->stop = copy->taken = NULL;
  copy->samples_ns = NULL;
  g_ptr_array_add (((Found *)data)->rows, copy);
  return TRUE;
}

static gboolean count_sentinel (const PsSentinel *sentinel, gpointer data, GError **error)
{
  ((Found *)data)->n_sentinels++;
  return TRUE;
}

static Found found_new (void)
{
  return (Found){ .rows = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free) };
}

static guint count (const Found *found, PsSubject subject, PsCacheState cache, guint devices)
{
  guint n = 0;

  for (guint i = 0; i < found->rows->len; i++) {
    const PsMeasurement *m = found->rows->pdata[i];

    n += m->subject == subject && m->cache == cache && m->devices == devices;
  }
  return n;
}

static guint n_devices = 2;

static guint n_tensor = 1;

static void calibrate_beside (Found *found, const PsTransportClass *transport, guint caches, const guint *shares,
                              guint n_blocks)
{
  static const guint chunks[] = { 1 }, blocks[] = { 0, 8 };
  PsModel model = small_model (n_devices, 32, 2, 8);

  model.name = (char *)"small";
  const PsCalibration calibration = { .device = cuda_device,
                                      .transport = transport,
                                      .model = &model,
                                      .n_devices = n_devices,
                                      .n_local = n_devices,
                                      .shares = shares,
                                      .caches = caches,
                                      .chunks = chunks,
                                      .n_chunks = 1,
                                      .blocks = blocks,
                                      .n_blocks = n_blocks,
                                      .n_tensor = n_tensor,
                                      .rule = { 0.5, 2, 3, G_GINT64_CONSTANT (60000000000) },
                                      .seed = 1,
                                      .wanted = want_all,
                                      .sink = keep,
                                      .sentinel = count_sentinel,
                                      .data = found };

  fine (ps_calibrate (&calibration, &error));
}

static const PsTransportClass *nccl_class (void)
{
  const PsTransportClass *class = ps_transport_find ("nccl", NULL);

  return class != NULL && class->available (NULL) ? class : NULL;
}

static void calibrate (Found *found, const PsTransportClass *transport, guint caches, const guint *shares)
{
  calibrate_beside (found, transport, caches, shares, 0);
}

/* Two shapes of five kinds each, all but O also warm: both devices busy, alone in every state of the caches, and on a
 * whole GPU while 0 and 8 blocks hold multiprocessors. */
static void test_stages (void)
{
  guint n_beside[2] = { 0 };
  Found found = found_new ();

  calibrate_beside (&found, &ps_threads_transport, 1U << PS_CACHE_RUN | 1U << PS_CACHE_COLD | 1U << PS_CACHE_WARM, NULL,
                    2);
  g_assert_cmpuint (count (&found, PS_SUBJECT_OP, PS_CACHE_RUN, 2), ==, 18);
  g_assert_cmpuint (count (&found, PS_SUBJECT_OP, PS_CACHE_RUN, 1), ==, 18 + 2 * 10);
  g_assert_cmpuint (count (&found, PS_SUBJECT_OP, PS_CACHE_COLD, 1), ==, 10);
  g_assert_cmpuint (count (&found, PS_SUBJECT_OP, PS_CACHE_WARM, 1), ==, 10);
  g_assert_cmpuint (found.n_sentinels, ==, 1 + 1 + 1 + 3 * 2 + 2 * 2 + 1);
  for (guint i = 0; i < found.rows->len; i++) {
    const PsMeasurement *m = found.rows->pdata[i];
    const gboolean beside = strstr (m->shape, ",blocks=") != NULL;

    if (beside)
      n_beside[g_str_has_suffix (m->shape, ",blocks=8")]++;
    if (m->subject == PS_SUBJECT_OP)
      g_assert_cmpint (m->launch_ns, >, 0);
    g_assert_cmpuint (m->sharing, ==,
                      m->subject == PS_SUBJECT_SELF_SEND || m->subject == PS_SUBJECT_HOST || beside ? 1 : 2);
  }
  g_assert_cmpuint (n_beside[0], ==, 10);
  g_assert_cmpuint (n_beside[1], ==, 10);
  g_ptr_array_unref (found.rows);
}

/* Not all of a GPU, and nothing of a part. */
static void test_occupy (void)
{
  const PsModel model = small_model (2, 32, 2, 8);
  PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = -1 };
  PsDevice *device = cuda_device->open (&setting, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_true (device->class->attach (device, &error));
  g_assert_true (device->class->occupy (device, 0, &error));
  g_assert_true (device->class->occupy (device, 32, &error));
  g_assert_true (device->class->occupy (device, 4, &error));
  g_assert_true (device->class->occupy (device, 0, &error));
  refused (device->class->occupy (device, 100000, &error), PS_ERROR_USAGE, "*");
  device->class->close (device);
  setting.n_local = 8;
  device = cuda_device->open (&setting, NULL);
  g_assert_true (device->class->attach (device, &error));
  if (device->class->sharing (device) > 1)
    g_assert_false (device->class->occupy (device, 4, NULL));
  device->class->close (device);
}

/* The first input is made on the host, later ones are its copies in memory of their own. */
static void test_inputs (void)
{
  const PsModel model = small_model (2, 32, 2, 8);
  const PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = -1 };
  g_autoptr (GError) error = NULL;
  PsDevice *device = cuda_device->open (&setting, &error);
  PsLoneInputs inputs = { 0 };
  PsMemoryUse use;

  g_assert_no_error (error);
  g_assert_true (device->class->attach (device, &error));
  PsTensor *first = ps_lone_input (&inputs, device, PS_PRECISION_FP32, PS_OP_F, &error);
  PsTensor *second = ps_lone_input (&inputs, device, PS_PRECISION_FP32, PS_OP_F, &error);
  PsTensor *gradient = ps_lone_input (&inputs, device, PS_PRECISION_FP32, PS_OP_B, &error);
  g_autofree float *a = g_malloc (first->bytes), *b = g_malloc (first->bytes), *c = g_malloc (first->bytes);
  g_assert_true (device->class->read (first, a, &error) && device->class->read (second, b, &error)
                 && device->class->read (gradient, c, &error));
  g_assert_true (first->data != second->data && first->data != inputs.activation->data);
  g_assert_cmpmem (a, first->bytes, b, first->bytes);
  /* (0 * k >> 22) / 512 - 1 = -1, times 1 and 1/1000 */
  g_assert_cmpfloat (a[0], ==, -1);
  g_assert_cmpfloat (c[0], ==, -1e-3F);
  device->class->tensor_free (first);
  device->class->tensor_free (second);
  device->class->tensor_free (gradient);
  ps_lone_inputs_clear (&inputs);
  device->class->memory (device, &use);
  g_assert_cmpint (use.current[PS_USE_BUFFER], ==, 0);
  device->class->close (device);
}

/* Every op on its own part, of the 16 pieces that the emulated GPU has. */
static void test_shares (void)
{
  static const guint shares[] = { 3, 1 };
  Found found = found_new ();
  g_autofree char *libraries = NULL;

  calibrate (&found, &ps_threads_transport, 1U << PS_CACHE_RUN, shares);
  libraries = cuda_device->libraries ();
  g_assert_cmpuint (count (&found, PS_SUBJECT_OP, PS_CACHE_RUN, 2), ==, 18);
  g_assert_cmpuint (count (&found, PS_SUBJECT_OP, PS_CACHE_RUN, 1), ==, 18);
  g_test_message ("%s", libraries);
  g_assert_true (cuda_probe ("ps_emulator_memory_in_use") == NULL
                 || strstr (libraries, "green contexts of 96, 32 multiprocessors") != NULL);
  g_ptr_array_unref (found.rows);
}

/* Ops of two devices that share layers, with their sums: over threads on parts of one GPU, over NCCL on two GPUs. */
static void check_shared (const PsTransportClass *transport, guint sharing)
{
  Found found = found_new ();

  calibrate (&found, transport, 1U << PS_CACHE_RUN, NULL);
  g_assert_cmpuint (count (&found, PS_SUBJECT_OP, PS_CACHE_RUN, 1), ==, 9);
  for (guint i = 0; i < found.rows->len; i++) {
    const PsMeasurement *m = found.rows->pdata[i];

    g_assert_true (m->subject != PS_SUBJECT_OP || strstr (m->shape, ",tensor=2") != NULL);
    g_assert_true (m->subject != PS_SUBJECT_OP || m->sharing == sharing);
  }
  g_ptr_array_unref (found.rows);
}

static void test_shared_layers (void)
{
  n_devices = 1;
  n_tensor = 2;
  check_shared (&ps_threads_transport, 2);
  if (nccl_class () != NULL && cuda_probe ("ps_emulator_memory_in_use") != NULL) {
    g_setenv ("PS_EMULATED_GPUS", "2", TRUE);
    check_shared (nccl_class (), 1);
    g_unsetenv ("PS_EMULATED_GPUS");
  }
  n_devices = 2;
  n_tensor = 1;
}

static void measure_profile (PsCostDb *db, guint caches)
{
  static const guint chunks[] = { 1 };
  PsModel model = small_model (1, 24, 2, 8);
  g_autoptr (GError) error = NULL;
  PsFill fill = { 0 };
  const PsCalibration calibration = { .device = cuda_device,
                                      .transport = &ps_threads_transport,
                                      .model = &model,
                                      .n_devices = 1,
                                      .n_local = 1,
                                      .caches = caches,
                                      .chunks = chunks,
                                      .n_chunks = 1,
                                      .rule = { 0.5, 2, 3, G_GINT64_CONSTANT (60000000000) },
                                      .seed = 1 };

  model.name = (char *)"small";
  g_autoptr (PsProfile) profile = ps_profile_new_here ("p", &model, cuda_device, &ps_threads_transport);
  ps_fill_init (&fill, "p");
  fill.db = db;
  g_assert_true (ps_costdb_begin_profile (db, profile, &fill.profile, &error));
  fine (ps_fill_measure (&fill, &calibration, &error));
  ps_fill_clear (&fill);
}

static GBytes *choices_of (PsCostDb *db)
{
  g_autoptr (PsProfile) profile = ps_costdb_profile (db, "p", NULL);
  GBytes *choices;

  g_assert_true (ps_choices_parse ("p", profile->choices, &choices, NULL));
  g_assert_nonnull (choices);
  return choices;
}

/* A profile has the choices of what it holds, and what is added to it later runs with them: here with others than this
 * process made. With PS_CALIB_DB it is left there as it was before that, for tests of the programs. */
static void test_profile (void)
{
  const char *kept = g_getenv ("PS_CALIB_DB");
  g_autofree char *path = kept != NULL ? g_strdup (kept) : path_of ("choices.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);

  measure_profile (db, 1U << PS_CACHE_RUN);
  if (kept != NULL)
    return;
  g_autoptr (GBytes) own = choices_of (db);
  g_autoptr (GBytes) other = altered (own, g_bytes_get_size (own) - 1);
  g_assert_true (ps_costdb_store_choices (db, 1, other, NULL));
  measure_profile (db, 1U << PS_CACHE_WARM);
  g_autoptr (GBytes) later = choices_of (db);
  g_assert_true (g_bytes_equal (later, other));
  remove_database (path);
}

/* 8 B and 512 B, and the boundary of 2 * 8 * 32 floats = 2048 B, under NCCL's own name and among no transfers. */
static void test_self_sends (void)
{
  Found found = found_new ();
  guint n = 0;

  if (nccl_class () == NULL) {
    g_test_skip ("no NCCL here");
    return;
  }
  calibrate (&found, &ps_threads_transport, 1U << PS_CACHE_RUN, NULL);
  for (guint i = 0; i < found.rows->len; i++) {
    const PsMeasurement *m = found.rows->pdata[i];

    if (m->subject != PS_SUBJECT_SELF_SEND)
      continue;
    g_assert_cmpstr (m->shape, ==, "nccl-self");
    g_assert_cmpuint (m->devices, ==, 1);
    g_assert_cmpint (m->bytes, ==, n == 0 ? 8 : n == 1 ? 512 : 2048);
    n++;
  }
  g_assert_cmpuint (n, ==, 3);
  g_ptr_array_unref (found.rows);
}

/* Between GPUs of one process: powers of two from 8 B to 8 KiB, 4 times the boundary; three sizes both ways at once,
 * while these GPUs run ops, and in two pairs where there are four. */
static void test_nccl_transfers (void)
{
  Found found = found_new ();

  if (nccl_class () == NULL || g_getenv ("PS_EMULATED_GPUS") == NULL)
    g_test_skip ("needs several GPUs: PS_EMULATED_GPUS=2 makes them");
  else {
    n_devices = (guint)g_ascii_strtoull (g_getenv ("PS_EMULATED_GPUS"), NULL, 10);
    calibrate (&found, nccl_class (), 0, NULL);
    g_assert_cmpuint (count (&found, PS_SUBJECT_TRANSFER, PS_CACHE_RUN, 2), ==, 11 + 3 + 3);
    g_assert_cmpuint (count (&found, PS_SUBJECT_TRANSFER, PS_CACHE_RUN, 4), ==, n_devices == 4 ? 3 : 0);
  }
  g_ptr_array_unref (found.rows);
}

/* Emptying the caches changes no number. */
static void test_flush (void)
{
  Rig plain, flushed;

  rig_open (&plain, cuda_device, cuda_model (PS_PRECISION_FP32, PS_MLP_GELU), 2, 1);
  rig_open (&flushed, cuda_device, cuda_model (PS_PRECISION_FP32, PS_MLP_GELU), 2, 1);
  PsTensor *activation = run (&plain, PS_OP_F, 0, 0, NULL), *same = run (&flushed, PS_OP_F, 0, 0, NULL);
  fine (flushed.device->class->flush_cache (flushed.device, &error));
  run (&plain, PS_OP_F, 1, 0, activation);
  run (&flushed, PS_OP_F, 1, 0, same);
  g_assert_cmpfloat (plain.device->class->loss (plain.device, 0), ==, flushed.device->class->loss (flushed.device, 0));
  g_assert_cmpuint (plain.device->class->sharing (plain.device), ==, 1);
  rig_clear (&plain);
  rig_clear (&flushed);
}

int main (int argc, char **argv)
{
  cuda_init (&argc, &argv);
  cuda_add ("/cuda-calib/stages", test_stages);
  cuda_add ("/cuda-calib/occupy", test_occupy);
  cuda_add ("/cuda-calib/inputs", test_inputs);
  cuda_add ("/cuda-calib/shared-layers", test_shared_layers);
  cuda_add ("/cuda-calib/shares", test_shares);
  cuda_add ("/cuda-calib/profile", test_profile);
  cuda_add ("/cuda-calib/self-sends", test_self_sends);
  cuda_add_emulated ("/cuda-calib/nccl-transfers", test_nccl_transfers);
  cuda_add ("/cuda-calib/flush", test_flush);
  return run_in_folder ();
}
