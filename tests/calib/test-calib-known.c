/* test-calib-known.c - calibrations, checks and what is made of them, on a device whose every time is known: each
 * median, each reading and each prediction follows from a formula of this file. No clock decides anything. */
#include "costdb-rig.h"
#include "fake-device.h"

#include "check.h"
#include "clock.h"
#include "fill.h"
#include "train/devices.h"
#include "run/transports.h"

#include <math.h>

#define MS G_GINT64_CONSTANT (1000000)
#define N_SAMPLES 10
#define BOUNDARY 512 /* of the model: 8 tokens of 16 floats */
#define N_SIZES 9    /* 8 bytes, doubled up to 4 boundaries */

/* Ops of a kind last this many ms, ... */
static const gint64 op_ms[PS_N_OP_KINDS]
    = { [PS_OP_F] = 1, [PS_OP_B] = 2, [PS_OP_W] = 3, [PS_OP_BW] = 5, [PS_OP_O] = 7 };

/* ... and this many ns more: 100000 for each layer, 1000 times its index, 100 times the devices that split its
 * accelerator, 10 if warm. */
static gint64 known_ns (PsOpKind kind, guint n_layers, guint index, guint n_local, gboolean warm)
{
  return op_ms[kind] * MS + 100000 * n_layers + 1000 * index + 100 * n_local + (warm ? 10 : 0);
}

static gint scale = 1;          /* of all ops' times; atomic */
static gint sentinel_scale = 1; /* of the sentinel's; atomic */
static guint noisy_layers;      /* every third op of stages with so many layers takes half as long again; 0: none */
static guint slow_link;         /* bits of both indices of a link that takes twice the time; 0: none */
static gboolean noisy_link;     /* three of six messages take 3 ms more, so that the medians of batches differ */
static const guint *restless;   /* [] percents that readings of the sentinel take more; 0 after the last one */
static guint n_restless, n_readings; /* readings begun */
static GString *opened;              /* what settings devices were opened with, one line for each; NULL: not noted */

typedef struct {
  FakeDevice fake; /* first */
  PsOp last, before;
  guint n_ops[PS_N_OP_KINDS];
} KnownDevice;

static PsDeviceClass known;
/* Self-sends open a whole accelerator, too, and run nothing. */
static gboolean is_sentinel (const PsDeviceSetting *setting)
{
  return setting->n_local == 1 && setting->n_stages == PS_LAYER_STAGES;
}

static PsDevice *known_open (const PsDeviceSetting *setting, GError **error)
{
  KnownDevice *device = g_new0 (KnownDevice, 1);
  PsDevice *fake = fake_open (setting, error);

  device->fake = *(FakeDevice *)fake;
  g_free (fake);
  device->fake.base.class = &known;
  n_readings += is_sentinel (setting);
  if (opened != NULL)
    g_string_append_printf (opened, "index %u of %u core %d part %u of %u %s%s\n", setting->index, setting->n_local,
                            setting->core, setting->tensor, setting->n_tensor,
                            is_sentinel (setting) ? "sentinel" : "stages", setting->shares != NULL ? " shares" : "");
  return &device->fake.base;
}

static gboolean known_run (PsDevice *base, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  KnownDevice *device = (KnownDevice *)base;

  device->before = device->last;
  device->last = op;
  return fake_run (base, op, input, output, error);
}

/* F takes memory that was just freed, others data that was just made. */
static gboolean is_warm (PsOp before, PsOp op)
{
  static const PsOpKind maker[PS_N_OP_KINDS] = { [PS_OP_B] = PS_OP_F, [PS_OP_BW] = PS_OP_F, [PS_OP_W] = PS_OP_B };

  if (op.kind == PS_OP_O)
    return FALSE;
  if (op.kind == PS_OP_F)
    return before.kind == PS_OP_W || before.kind == PS_OP_BW;
  return before.kind == maker[op.kind] && before.stage == op.stage && before.microbatch == op.microbatch;
}

/* The sentinel is the only op on a whole accelerator. */
static gint64 known_op_ns (PsDevice *base)
{
  KnownDevice *device = (KnownDevice *)base;
  const PsDeviceSetting *setting = &device->fake.setting;
  const PsOp op = device->last;
  const guint n_layers = device->fake.shapes[op.stage].n_layers;
  gint64 ns = g_atomic_int_get (is_sentinel (setting) ? &sentinel_scale : &scale)
              * known_ns ((PsOpKind)op.kind, n_layers, setting->index, setting->n_local, is_warm (device->before, op));

  if (is_sentinel (setting))
    return ns * (100 + (n_readings <= n_restless ? restless[n_readings - 1] : 0)) / 100;
  return n_layers == noisy_layers && device->n_ops[op.kind]++ % 3 == 1 ? ns * 3 / 2 : ns;
}

static guint n_adopted;

static GBytes *known_choices (PsDevice *base)
{
  return g_bytes_new_static ("abc", 3);
}

static gboolean adopt_known (PsDevice *base, GBytes *choices, GError **error)
{
  g_assert_cmpmem (g_bytes_get_data (choices, NULL), g_bytes_get_size (choices), "abc", 3);
  g_atomic_int_inc (&n_adopted);
  return TRUE;
}

/* Threads, but each message takes the time of its link and size. It calls itself exclusive, so that nobody measures
 * host times, which nobody knows. */
static PsTransportClass carrier;

static gint n_messages; /* of a transport; atomic */

static PsTransport *carrier_open (const PsTransportSetting *setting, GError **error)
{
  PsTransport *transport = ps_threads_transport.open (setting, error);

  transport->class = &carrier;
  g_atomic_int_set (&fake_indices, 0);
  g_atomic_int_set (&n_messages, 0);
  return transport;
}

/* 1000 ns, 1 ns for each 64 bytes, 300 ns more to the higher of both devices. */
static PsTensor *carrier_wait (PsTransport *transport, guint at, guint from, PsOp message, PsDevice *into,
                               PsTransferTimes *times, GError **error)
{
  PsTensor *tensor = ps_threads_transport.wait (transport, at, from, message, into, times, error);
  const guint link = (guint)g_atomic_int_get (&fake_indices);

  if (tensor == NULL)
    return NULL;
  times->start_ns = 1;
  times->end_ns = 1 + (link == slow_link ? 2 : 1) * (1000 + (gint64)tensor->bytes / 64) + (at > from ? 300 : 0);
  if (g_atomic_int_add (&n_messages, 1) % 6 < 3 && noisy_link)
    times->end_ns += 3 * MS;
  return tensor;
}

static gint64 link_ns (gint64 bytes)
{
  return 1000 + bytes / 64;
}

static void set_up (void)
{
  known = split_class;
  known.name = "cpu"; /* as the rig's profile says */
  known.computes = TRUE;
  known.tensor = TRUE;
  known.open = known_open;
  known.run = known_run;
  known.op_ns = known_op_ns;
  known.condition = NULL;
  known.choices = known_choices;
  known.adopt_choices = adopt_known;
  known.loss = ps_device_no_loss;
  known.gradients = ps_device_no_gradients;
  carrier = ps_threads_transport;
  carrier.exclusive = TRUE;
  carrier.open = carrier_open;
  carrier.wait = carrier_wait;
}

static PsCalibration new_calibration (const PsModel *model, guint n_devices, const guint *chunks, guint n_chunks)
{
  return (PsCalibration){ .device = &known,
                          .transport = &carrier,
                          .model = model,
                          .n_devices = n_devices,
                          .n_local = n_devices,
                          .caches = 1U << PS_CACHE_RUN,
                          .chunks = chunks,
                          .n_chunks = n_chunks,
                          .n_tensor = 1,
                          .rule = { 0.5, N_SAMPLES, 25, time_limit_ns },
                          .seed = 1 };
}

static PsModel *new_model (void)
{
  PsModel *model = tiny ();

  model->hidden = model->feed_forward = 16;
  model->heads = model->kv_heads = 2;
  model->sequence = 8;
  model->microbatch_size = 1;
  g_assert_cmpint (ps_model_boundary_bytes (model), ==, BOUNDARY);
  return model;
}

/* A database whose profile "here" has everything, measured on p devices. */
typedef struct {
  char *path;
  PsCostDb *db;
  PsModel *model;
  PsProfile *here;
  PsCalibration calibration;
  PsFill fill;
} Calibrated;

static void calibrated_init (Calibrated *c, const char *name, guint n_devices, const guint *chunks, guint n_chunks)
{
  *c = (Calibrated){ .path = path_of (name), .model = new_model (), .here = new_profile ("here") };
  g_free (c->here->model_digest);
  c->here->model_digest = ps_model_digest (c->model);
  g_free (c->here->model_text);
  c->here->model_text = ps_model_to_text (c->model);
  c->db = open_db (c->path, PS_COSTDB_WRITE);
  c->calibration = new_calibration (c->model, n_devices, chunks, n_chunks);
  ps_fill_init (&c->fill, "here");
  c->fill.db = c->db;
  c->fill.here = c->here;
  n_readings = n_restless = 0;
}

static void calibrated_clear (Calibrated *c)
{
  ps_fill_clear (&c->fill);
  ps_costdb_close (c->db);
  remove_database (c->path);
  g_free (c->path);
  ps_model_free (c->model);
  ps_profile_free (c->here);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Calibrated, calibrated_clear)

static void measure_all (Calibrated *c)
{
  fine (ps_costdb_begin_profile (c->db, c->here, &c->fill.profile, &error));
  fine (ps_fill_measure (&c->fill, &c->calibration, &error));
}

static GPtrArray *rows_of (const Calibrated *c)
{
  return fine (ps_costdb_measurements (c->db, "here", TRUE, &error));
}

/* The device whose times of a stage shape are kept, of two devices: the first stage and the middle of v = 2, which both
 * have, are of device 0, the last one is of device 1. */
static guint owner_of (const char *shape)
{
  return strstr (shape, "head") != NULL;
}

/* Each op has the accelerator's own time, that of the device that answers for it, and the rest is launching: none here,
 * for the host was faster than that. Both directions of a message count. The sentinel has the time of one layer on a
 * whole accelerator. */
static void test_times (void)
{
  static const guint chunks[] = { 1, 2 };
  g_auto (Calibrated) c = { 0 };
  guint n_ops = 0, n_transfers = 0;

  calibrated_init (&c, "times.db", 2, chunks, 2);
  carrier.exclusive = FALSE;
  measure_all (&c);
  carrier.exclusive = TRUE;
  g_autoptr (GPtrArray) rows = rows_of (&c);
  for (guint i = 0; i < rows->len; i++) {
    const PsMeasurement *m = rows->pdata[i];
    guint n_layers;

    g_test_message ("%s of %s, %" G_GINT64_FORMAT " bytes, %u devices", ps_op_kind_name (m->kind), m->shape, m->bytes,
                    m->devices);
    if (m->subject == PS_SUBJECT_OP) {
      g_assert_cmpint (sscanf (m->shape, "layers=%u", &n_layers), ==, 1);
      const gboolean warm = g_str_has_suffix (m->shape, PS_WARM_SUFFIX);
      const gint64 ns = known_ns (m->kind, n_layers, owner_of (m->shape), 2, warm);

      g_assert_cmpint (m->time.median_ns, ==, ns);
      g_assert_cmpint (m->time.min_ns, ==, ns);
      g_assert_cmpint (m->time.q3_ns, ==, ns);
      g_assert_cmpint (m->launch_ns, ==, 1);
      g_assert_cmpuint (m->time.n, ==, N_SAMPLES);
      g_assert_cmpstr (m->stop, ==, "converged");
      g_assert_cmpuint (m->sharing, ==, 2);
      n_ops++;
    }
    if (m->subject == PS_SUBJECT_TRANSFER && *m->shape == '\0') {
      g_assert_cmpint (m->time.median_ns, ==, link_ns (m->bytes));
      g_assert_cmpint (m->time.q1_ns, ==, link_ns (m->bytes));
      g_assert_cmpint (m->time.q3_ns, ==, link_ns (m->bytes) + 300);
      g_assert_cmpuint (m->time.n, ==, N_SAMPLES);
      g_assert_cmpuint (m->devices, ==, 2);
      n_transfers++;
    }
  }
  /* Shapes of v = 1: 2, of v = 2: 3. F, B, W, BW and O, and all but O also warm; busy and alone. */
  g_assert_cmpuint (n_ops, ==, 5 * 9 * 2);
  g_assert_cmpuint (n_transfers, ==, N_SIZES);
  g_autoptr (PsProfile) profile = fine (ps_costdb_profile (c.db, "here", &error));
  g_assert_cmpstr (profile->choices, ==, "YWJj"); /* of abc, in base64 */
  g_assert_cmpuint (n_adopted, ==, 0);
  g_autoptr (GPtrArray) readings = ps_costdb_sentinels (c.db, "here", NULL);
  g_assert_cmpuint (readings->len, ==, 9);
  for (guint i = 0; i < readings->len; i++) {
    const PsSentinel *reading = readings->pdata[i];

    g_assert_cmpint (reading->median_ns, ==, known_ns (PS_OP_F, 1, 0, 1, TRUE)); /* right after a BW */
    g_assert_cmpuint (reading->n, >=, PS_MEDIAN_MIN_SAMPLES);
  }
}

static guint count_lines (const char *line)
{
  guint n = 0;

  for (const char *at = strstr (opened->str, line); at != NULL; at = strstr (at + 1, line))
    n++;
  return n;
}

static gboolean want_ops (const PsMeasurement *key, gpointer data)
{
  return key->subject == PS_SUBJECT_OP;
}

static gboolean drop (const PsMeasurement *measurement, gpointer n, GError **error)
{
  ++*(guint *)n;
  return TRUE;
}

static gboolean drop_reading (const PsSentinel *reading, gpointer data, GError **error)
{
  return TRUE;
}

/* Two devices in two parts are four on one accelerator: device i of part k is number 2 k + i. Part 0 alone is sampled.
 * The sentinel has the accelerator to itself. */
static void test_parts (void)
{
  static const guint chunks[] = { 1 };
  g_autoptr (PsModel) model = new_model ();
  guint n_stored = 0;

  for (guint t = 1; t <= 2; t++) {
    PsCalibration calibration = new_calibration (model, 2, chunks, 1);

    n_stored = 0;
    opened = g_string_new (NULL);
    calibration.n_tensor = t;
    calibration.wanted = want_ops;
    calibration.sink = drop;
    calibration.sentinel = drop_reading;
    calibration.data = &n_stored;
    fine (ps_calibrate (&calibration, &error));
    g_assert_cmpuint (n_stored, ==, 2 * 9 * 2);
    for (guint i = 0; i < 2 * t; i++) {
      const int core = 2 * t <= ps_count_cores () ? (int)i : -1;
      g_autofree char *line
          = g_strdup_printf ("index %u of %u core %d part %u of %u stages\n", i, 2 * t, core, i / 2, t);

      /* busy, then each device alone */
      g_assert_cmpuint (count_lines (line), ==, 2);
    }
    g_assert_cmpuint (count_lines ("sentinel\n"), ==, 4);
    g_assert_cmpuint (count_lines ("index 0 of 1 core 0 part 0 of 1 sentinel\n"), ==, 4);
    g_string_free (g_steal_pointer (&opened), TRUE);
  }
}

/* One device at a time in two parts: part k is number k, on core k where there are two. */
static void test_parts_alone (void)
{
  static const guint chunks[] = { 1 };
  g_autoptr (PsModel) model = new_model ();
  PsCalibration calibration = new_calibration (model, 2, chunks, 1);
  guint n_stored = 0;

  opened = g_string_new (NULL);
  calibration.n_local = 1;
  calibration.n_tensor = 2;
  calibration.wanted = want_ops;
  calibration.sink = drop;
  calibration.data = &n_stored;
  fine (ps_calibrate (&calibration, &error));
  g_assert_cmpuint (n_stored, ==, 2 * 9);
  for (guint part = 0; part < 2; part++) {
    g_autofree char *line = g_strdup_printf ("index %u of 2 core %d part %u of 2 stages\n", part,
                                             ps_count_cores () >= 2 ? (int)part : -1, part);

    g_assert_cmpuint (count_lines (line), ==, 2);
  }
  g_string_free (g_steal_pointer (&opened), TRUE);
}

static gboolean want_loaded (const PsMeasurement *key, gpointer data)
{
  return g_str_equal (key->shape, "during-compute");
}

/* While two devices send, the third one runs F and BW of a layer twice in each step. */
static void test_load (void)
{
  static const guint chunks[] = { 1 };
  g_autoptr (PsModel) model = new_model ();
  PsCalibration calibration = new_calibration (model, 3, chunks, 1);
  const int before = n_fake_ops;
  guint n_stored = 0;

  opened = g_string_new (NULL);
  calibration.wanted = want_loaded;
  calibration.sink = drop;
  calibration.data = &n_stored;
  fine (ps_calibrate (&calibration, &error));
  g_assert_cmpuint (n_stored, ==, 3);
  /* Three sizes in two steps or more */
  g_assert_cmpint (n_fake_ops - before, >=, 3 * 2 * 4);
  g_assert_cmpint ((n_fake_ops - before) % 4, ==, 0);
  for (guint i = 0; i < 3; i++) {
    g_autofree char *line = g_strdup_printf ("index %u of 3 core %d", i, 3 <= ps_count_cores () ? (int)i : -1);

    g_assert_cmpuint (count_lines (line), >=, 3);
  }
  g_string_free (g_steal_pointer (&opened), TRUE);
}

/* Unequal shares are those of the devices; the sentinel, on a whole accelerator, has none. */
static void test_shares (void)
{
  static const guint chunks[] = { 1 }, shares[] = { 2, 1 };
  g_autoptr (PsModel) model = new_model ();
  PsCalibration calibration = new_calibration (model, 2, chunks, 1);
  guint n_stored = 0;

  opened = g_string_new (NULL);
  calibration.shares = shares;
  calibration.wanted = want_ops;
  calibration.sink = drop;
  calibration.sentinel = drop_reading;
  calibration.data = &n_stored;
  fine (ps_calibrate (&calibration, &error));
  g_assert_cmpuint (count_lines ("sentinel shares"), ==, 0);
  g_assert_cmpuint (count_lines ("sentinel\n"), ==, 4);
  g_assert_cmpuint (count_lines ("stages shares\n"), >=, 4);
  g_string_free (g_steal_pointer (&opened), TRUE);
}

static const PsMeasurement *find_row (GPtrArray *rows, PsSubject subject, PsOpKind kind, const char *shape,
                                      gint64 bytes, guint devices)
{
  const PsMeasurement *found = NULL;

  for (guint i = 0; i < rows->len; i++) {
    const PsMeasurement *m = rows->pdata[i];

    if (m->subject == subject && m->kind == kind && m->bytes == bytes && m->devices == devices
        && g_str_equal (m->shape, shape))
      found = m;
  }
  return found;
}

/* Of four devices alike, a link that takes twice the time of its class makes a second round measure the link that was
 * not looked at, also where nothing is measured again. Links that are alike need no second round. */
static void test_links (void)
{
  static const guint chunks[] = { 1 };

  for (guint split = 0; split <= 1; split++) {
    g_auto (Calibrated) c = { 0 };

    calibrated_init (&c, "links.db", 4, chunks, 1);
    c.calibration.places = "a;a;a;a";
    slow_link = split ? 1U << 0 | 1U << 3 : 0;
    measure_all (&c);
    slow_link = 0;
    g_autoptr (GPtrArray) rows = rows_of (&c);
    const PsMeasurement *last = find_row (rows, PS_SUBJECT_TRANSFER, PS_OP_F, "link=0-3", BOUNDARY, 2);
    const PsMeasurement *other = find_row (rows, PS_SUBJECT_TRANSFER, PS_OP_F, "link=2-3", BOUNDARY, 2);

    g_assert_cmpint (last->time.median_ns, ==, (split ? 2 : 1) * link_ns (BOUNDARY));
    g_assert_cmpint (other->time.median_ns, ==, link_ns (BOUNDARY));
    g_assert_cmpint (find_row (rows, PS_SUBJECT_TRANSFER, PS_OP_F, "link=1-2", BOUNDARY, 2) != NULL, ==, split);
    g_assert_null (find_row (rows, PS_SUBJECT_TRANSFER, PS_OP_F, "link=0-1", BOUNDARY, 2));
    g_assert_cmpuint (c.fill.n_measured, ==, rows->len);
    g_assert_cmpuint (c.fill.n_there, ==, 0);
  }
}

/* The readings of one round of v = 1 on two devices: before the ops of both, transfers, the ops of device 0 alone,
 * those of device 1 alone, and at the end. The ops of both devices alone have the fourth one beside them: 9
 * measurements each. They are measured again in as many rounds as `again` says, until the machine is quiet. */
static void test_restless (void)
{
  static const guint chunks[] = { 1 };
  static const guint once[] = { 0, 0, 0, 50 };
  /* The second round reads the sentinel before device 0 alone, before device 1 alone, and at the end. */
  static const guint twice[] = { 0, 0, 0, 50, 0, 0, 50 };
  static const guint still[] = { 0, 0, 0, 3, 0, 0 }; /* as much as a quiet machine may move */
  static const struct {
    const guint *restless;
    guint n, again, n_repeated, n_left;
  } cases[] = { { once, 4, 0, 0, 18 }, { once, 4, 2, 18, 0 }, { twice, 7, 1, 18, 18 }, { still, 6, 1, 0, 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Calibrated) c = { 0 };

    g_test_message ("case %u", i);
    calibrated_init (&c, "restless.db", 2, chunks, 1);
    c.fill.n_again = cases[i].again;
    restless = cases[i].restless;
    n_restless = cases[i].n;
    measure_all (&c);
    g_autoptr (GPtrArray) rows = rows_of (&c);
    g_assert_cmpuint (rows->len, ==, 2 * 9 * 2 + N_SIZES + 3);
    g_assert_cmpuint (c.fill.n_measured, ==, rows->len + cases[i].n_repeated);
    g_assert_cmpuint (c.fill.n_there, ==, 0);
    g_assert_cmpuint (g_hash_table_size (c.fill.disturbed), ==, cases[i].n_left);
    g_autoptr (GPtrArray) readings = ps_costdb_sentinels (c.db, "here", NULL);
    g_assert_cmpuint (readings->len, ==, 5 + cases[i].n_repeated / 18 * 3);
  }
}

/* What is measured again replaces what was there; a profile that has everything gets another calibration beside the
 * first; one that lacks rows gets these alone. */
static void test_again (void)
{
  static const guint chunks[] = { 1 };
  static const guint once[] = { 0, 0, 0, 50 };
  g_auto (Calibrated) c = { 0 };
  const gint64 plain = known_ns (PS_OP_F, 4, 0, 2, FALSE);

  calibrated_init (&c, "again.db", 2, chunks, 1);
  restless = once;
  n_restless = 4;
  measure_all (&c);
  c.fill.n_again = 1;
  n_restless = 0;
  scale = 3;
  measure_all (&c); /* 18 of an unquiet machine; nothing is missing, so this is another calibration */
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (c.db, NULL);
  g_assert_cmpuint (profiles->len, ==, 2);
  g_assert_cmpuint (c.fill.n_measured, ==, 48 + 48);
  for (guint number = 1; number <= 2; number++) {
    g_autofree char *name = g_strdup_printf ("here#%u", number);
    g_autoptr (GPtrArray) rows = ps_costdb_measurements (c.db, name, FALSE, NULL);
    const PsMeasurement *alone = find_row (rows, PS_SUBJECT_OP, PS_OP_F, "layers=4,embedding", 0, 1);

    g_assert_cmpint (alone->time.median_ns, ==, (number == 2 ? 3 : 1) * plain);
  }
  scale = 1;

  g_auto (Calibrated) more = { 0 };
  static const guint both[] = { 1, 2 };
  calibrated_init (&more, "more.db", 2, chunks, 1);
  restless = once;
  n_restless = 4;
  measure_all (&more);
  more.calibration.chunks = both;
  more.calibration.n_chunks = 2;
  more.fill.n_again = 1;
  n_restless = 0;
  scale = 3;
  measure_all (&more); /* goes on: v = 2 is missing, and 18 are taken again */
  scale = 1;
  g_autoptr (GPtrArray) rows = rows_of (&more);
  g_assert_cmpuint (rows->len, ==, 5 * 9 * 2 + N_SIZES + 3);
  g_assert_cmpuint (more.fill.n_measured, ==, rows->len + 18);
  g_assert_cmpuint (more.fill.n_there, ==, 48);
  const PsMeasurement *alone = find_row (rows, PS_SUBJECT_OP, PS_OP_F, "layers=4,embedding", 0, 1);
  const PsMeasurement *busy = find_row (rows, PS_SUBJECT_OP, PS_OP_F, "layers=4,embedding", 0, 2);
  g_assert_cmpint (alone->time.median_ns, ==, 3 * plain);
  g_assert_cmpint (busy->time.median_ns, ==, plain);
}

/* The first half of a budget: each rotation has the limit and its sentinel a tenth of it. So has each size of messages,
 * and the reading before it. On two devices at a time v = 1 and 2 are 2 busy and 4 lonely rotations, and 9 sizes:
 * 6 * 1.1 + 18 * 0.1 = 8.4 limits are half of 84 s. */
static void test_first_limit (void)
{
  static const guint chunks[] = { 1, 2 }, slices[] = { 2, 4 };
  g_autoptr (PsModel) model = new_model ();
  PsCalibration calibration = new_calibration (model, 2, chunks, 2);

  g_assert_cmpint (ps_fill_first_limit (&calibration, 84000), ==, 5000);
  /* Slices are measured busy only: 8 * 1.1 + 1.8 = 10.6. */
  calibration.slices = slices;
  calibration.n_slices = 2;
  g_assert_cmpint (ps_fill_first_limit (&calibration, 106000), ==, 5000);
  /* Four devices, two at a time: 2 * 2 busy and 2 * 4 lonely ones: 12 * 1.1 + 1.8 = 15. */
  calibration.n_slices = 0;
  calibration.n_devices = 4;
  g_assert_cmpint (ps_fill_first_limit (&calibration, 150000), ==, 5000);
  /* One at a time: each is alone already: 2 * 4 * 1.1 + 1.8 = 10.6. */
  calibration.n_local = 1;
  g_assert_cmpint (ps_fill_first_limit (&calibration, 106000), ==, 5000);
  /* One device sends nothing: 2 * 1.1. */
  calibration.n_devices = 1;
  g_assert_cmpint (ps_fill_first_limit (&calibration, 22000), ==, 5000);
  g_assert_cmpint (ps_fill_first_limit (&calibration, 0), ==, 1);
}

static gint64 end_of_time (void)
{
  return ps_clock_now () + 1000 * G_GINT64_CONSTANT (1000000000);
}

/* The rest of a budget goes to what is least known: ops of two layers that jitter, hence v = 2, or messages that do.
 * Later samples are steady, so one turn is enough. It adds ten samples of ops. Of messages, whose two directions
 * differ, it adds the 25 of the cap. All other rows stay as they are. There is no turn that would be shorter than the
 * first measurements were. */
static void test_budget (void)
{
  static const guint chunks[] = { 1, 2 };

  for (guint i = 1; i < 5; i++) {
    g_auto (Calibrated) c = { 0 };

    g_test_message ("case %u", i);
    calibrated_init (&c, "budget.db", 2, chunks, 2);
    noisy_layers = i == 4 ? 4 : i == 2 ? 0 : 2;
    noisy_link = i == 2;
    measure_all (&c);
    noisy_layers = 0;
    noisy_link = FALSE;
    g_autoptr (GPtrArray) before = rows_of (&c);
    fine (
        ps_fill_spend (&c.fill, &c.calibration, i == 3 ? ps_clock_now () + time_limit_ns / 2 : end_of_time (), &error));
    g_autoptr (GPtrArray) after = rows_of (&c);
    g_assert_cmpuint (after->len, ==, before->len);
    for (guint k = 0; k < after->len; k++) {
      const PsMeasurement *m = after->pdata[k], *old = before->pdata[k];
      const gboolean op = m->subject == PS_SUBJECT_OP && m->devices == 2;
      const gboolean boundary = m->subject == PS_SUBJECT_TRANSFER && *m->shape == '\0' && m->bytes == BOUNDARY;
      const gboolean more = (i == 1 && op && g_str_has_prefix (m->shape, "layers=2"))
                            || (i == 4 && op && g_str_has_prefix (m->shape, "layers=4")) || (i == 2 && boundary);

      g_test_message ("%s of %s, %" G_GINT64_FORMAT " bytes, %u devices", ps_op_kind_name (m->kind), m->shape, m->bytes,
                      m->devices);
      g_assert_cmpuint (m->n_samples, ==, old->n_samples + (!more ? 0 : boundary ? 25 : N_SAMPLES));
      g_assert_cmpmem (m->samples_ns, old->n_samples * sizeof (gint64), old->samples_ns,
                       old->n_samples * sizeof (gint64));
      g_assert_cmpuint (m->n_samples, ==, m->time.n);
    }
  }
}

/* Steps of the runs that a check makes, two of each: after the first run devices take 2 times as long as in the
 * profile, after the second one 8 times, and so on. */
static gint n_steps_done;
static gint stop_after; /* steps; 0: nothing stops the check */
static gint stopped;

static gboolean end_step (const PsStepReport *step, gpointer data)
{
  n_steps_done++;
  if (n_steps_done % 2 == 0) {
    g_atomic_int_set (&scale, n_steps_done % 4 == 2 ? 2 : 8);
    g_atomic_int_set (&sentinel_scale, n_steps_done % 4 == 2 ? 2 : 8);
  }
  if (n_steps_done == stop_after)
    g_atomic_int_set (&stopped, 1);
  return TRUE;
}

static void check_init (PsCalibCheck *check, const Calibrated *c, const char *schedules, guint *microbatches,
                        guint n_microbatches)
{
  *check = (PsCalibCheck){ .setting = ps_setting_new (),
                           .schedules = g_strsplit (schedules, ",", -1),
                           .microbatches = microbatches,
                           .n_microbatches = n_microbatches,
                           .n_rounds = 2,
                           .stop = &stopped,
                           .run = { .device = &known,
                                    .transport = &ps_threads_transport,
                                    .model = c->model,
                                    .n_tensor = 1,
                                    .n_steps = 2,
                                    .progress = end_step },
                           .calibration = c->calibration };
  ps_calib_check_init (check);
  check->setting->db = g_strdup (c->path);
  check->setting->profile = g_strdup ("here");
  check->setting->n_devices = 2;
  n_steps_done = stopped = 0;
  scale = sentinel_scale = 4;
}

static void check_clear (PsCalibCheck *check)
{
  ps_setting_free (check->setting);
  ps_calib_check_clear (check);
  scale = sentinel_scale = 1;
}

/* Fresh costs of a run are the samples right before and right after it, as many of each: devices take 4, 2 and 8 times
 * as long as in the profile before, between and after two runs, so the first is predicted to last about 3 times as long
 * with them, and the second 5 times. So much does the sentinel take on the average of both sides. The profile stays as
 * it was. */
static void test_check (void)
{
  static const guint chunks[] = { 1, 2 };
  static guint microbatches[] = { 4 };
  g_auto (Calibrated) c = { 0 };
  PsCalibCheck check;

  calibrated_init (&c, "check.db", 2, chunks, 1);
  measure_all (&c);
  check_init (&check, &c, "1f1b,zb-v", microbatches, 1);
  fine (ps_calib_check_run (&check, &error));
  g_assert_cmpuint (check.runs->len, ==, 2);
  g_assert_true (g_str_has_prefix (check.skipped->str, "zb-v: "));
  for (guint i = 0; i < 2; i++) {
    const PsCheckRun *run = &g_array_index (check.runs, PsCheckRun, i);

    g_assert_cmpstr (run->schedule, ==, "1f1b");
    g_assert_cmpuint (run->n_microbatches, ==, 4);
    g_assert_cmpuint (run->n_chunks, ==, 1);
    g_assert_cmpuint (run->round, ==, i + 1);
    /* 4 F and 4 BW on each device, one F and one BW of the other before or after these, and an O */
    g_assert_cmpfloat_with_epsilon ((double)run->predicted_ns / (double)(5 * 6 * MS + 7 * MS), 1, 0.15);
    g_assert_cmpfloat_with_epsilon ((double)run->fresh_ns / (double)run->predicted_ns, i == 0 ? 3 : 5, 0.3);
    g_assert_cmpfloat_with_epsilon (run->slowdown.factor, i == 0 ? 3 : 5, 1e-6);
    /* over the lower quartile of 4, 2, 2, 8 */
    g_assert_cmpfloat_with_epsilon (run->shift, i == 0 ? 1 : 3, 1e-6);
    g_assert_cmpint (run->measured_ns, >, 0);
  }
  g_assert_cmpint (check.last_fresh->interval.p50_ns, ==, g_array_index (check.runs, PsCheckRun, 1).interval.p50_ns);
  g_assert_cmpint (check.last_measured->origin, ==, PS_ORIGIN_MEASURED);
  /* Three times ops were measured: a reading before them, before the message, and at the end. */
  g_assert_cmpuint (check.sentinels->len, ==, 9);
  g_autoptr (GPtrArray) readings = ps_costdb_sentinels (c.db, "here", NULL), rows = rows_of (&c);
  g_assert_cmpuint (readings->len, ==, 5 + 9);
  const PsMeasurement *f = find_row (rows, PS_SUBJECT_OP, PS_OP_F, "layers=4,embedding", 0, 2);
  g_assert_cmpint (f->time.median_ns, ==, known_ns (PS_OP_F, 4, 0, 2, FALSE));
  g_assert_cmpuint (f->n_samples, ==, N_SAMPLES);
  g_autoptr (GPtrArray) runs = ps_costdb_runs (c.db, NULL);
  g_assert_cmpuint (runs->len, ==, 2);
  const PsRunRecord *record = runs->pdata[1];
  g_assert_cmpstr (record->profile, ==, "here#1");
  g_assert_cmpstr (record->device, ==, "cpu");
  g_assert_cmpuint (record->n_microbatches, ==, 4);
  g_assert_cmpuint (record->n_steps, ==, 2);
  g_assert_cmpint (record->predicted_iteration_ns, ==, g_array_index (check.runs, PsCheckRun, 1).predicted_ns);
  g_assert_cmpint (record->measured_iteration_ns, ==, g_array_index (check.runs, PsCheckRun, 1).measured_ns);
  check_clear (&check);
}

/* Every schedule runs once in each round with each number of microbatches; those of one number of chunks one after the
 * other, each with fresh costs of its stages. A budget, or a signal, ends it after the run under way. */
static void test_check_rounds (void)
{
  static const guint chunks[] = { 1, 2 };
  static guint microbatches[] = { 2, 4 };
  g_auto (Calibrated) c = { 0 };

  calibrated_init (&c, "rounds.db", 2, chunks, 2);
  measure_all (&c);
  for (guint i = 0; i < 3; i++) {
    PsCalibCheck check;
    guint n_seen[2][2][2] = { 0 };

    g_test_message ("case %u", i);
    check_init (&check, &c, "1f1b,zb-v", microbatches, 2);
    check.budget_ns = i == 1 ? 1 : i == 2 ? 1000 * G_GINT64_CONSTANT (1000000000) : 0;
    stop_after = i == 2 ? 2 * 3 : 0;
    fine (ps_calib_check_run (&check, &error));
    g_assert_cmpuint (check.runs->len, ==, i == 0 ? 8 : i == 1 ? 1 : 3);
    for (guint k = 0; k < check.runs->len; k++) {
      const PsCheckRun *run = &g_array_index (check.runs, PsCheckRun, k);
      const gboolean v = g_str_equal (run->schedule, "zb-v");

      g_assert_cmpuint (run->round, ==, 1 + k / 4);
      g_assert_cmpuint (run->n_chunks, ==, 1 + k / 2 % 2);
      g_assert_cmpuint (run->n_chunks, ==, 1 + v);
      g_assert_cmpuint (n_seen[run->round - 1][v][run->n_microbatches / 4]++, ==, 0);
      g_assert_cmpfloat_with_epsilon ((double)run->fresh_ns / (double)run->predicted_ns, k == 0 ? 3 : 5,
                                      k == 0 ? 0.6 : 1.5);
    }
    g_assert_cmpstr (check.skipped->str, ==, "");
    check_clear (&check);
  }
  stop_after = 0;
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  set_up ();
  g_test_add_func ("/calib/known/times", test_times);
  g_test_add_func ("/calib/known/parts", test_parts);
  g_test_add_func ("/calib/known/parts-alone", test_parts_alone);
  g_test_add_func ("/calib/known/load", test_load);
  g_test_add_func ("/calib/known/shares", test_shares);
  g_test_add_func ("/calib/known/links", test_links);
  g_test_add_func ("/calib/known/restless", test_restless);
  g_test_add_func ("/calib/known/again", test_again);
  g_test_add_func ("/calib/known/first-limit", test_first_limit);
  g_test_add_func ("/calib/known/budget", test_budget);
  g_test_add_func ("/calib/known/check", test_check);
  g_test_add_func ("/calib/known/check-rounds", test_check_rounds);
  return run_in_folder ();
}
