/* Tests of runtime: programs run on the null and the paced device, and on devices made to fail or to pretend. */
#include "run/run.h"
#include "run-rig.h"
#include "run/runtime.h"

#include <math.h>
#include <string.h>

static void check_null (const PsProgram *program)
{
  g_autoptr (PsRunResult) result = run (program, run_setting (&ps_null_device, NULL, 7));

  assert_runs_program (result->timeline, program, NULL);
  g_assert_cmpuint (result->n_steps, ==, 7);
  g_assert_cmpint (result->timeline->iteration_ns, ==, result->iteration_ns[result->timeline_step]);
  for (guint i = 0; i < 7 * 8; i++)
    g_assert_true (isnan (result->losses[i]));
}

static void test_null_families (void)
{
  for_each_family (4, 8, check_null);
}

static PsCosts *paced_costs (const PsProgram *program)
{
  guint n_stages = program->schedule->placement->n_stages;
  guint n_devices = program->schedule->placement->n_devices;

  return fine (ps_costs_parse ("f=400us,b=300us,w=200us,c=100us,o=500us,act=200B,wact=80B,weights=1000B", n_devices,
                               n_stages / n_devices, &error));
}

/* Every figure of a simulated timeline is the least that a real one can have: no op ends earlier than simulated. Memory
 * does not depend on time at all, so its peaks are equal. In an endless run an op that starts late still ends on time,
 * and the first op of a step may be one of these. */
static void check_paced (const PsProgram *program)
{
  g_autoptr (PsCosts) costs = paced_costs (program);
  g_autoptr (PsRunResult) result = run (program, run_setting (&ps_paced_device, costs, 3));
  g_auto (PsMetrics) metrics = { 0 };
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  assert_runs_program (result->timeline, program, costs);
  for (guint i = 0; i < result->timeline->ops->len && !program->schedule->asynchronous; i++)
    g_assert_cmpint (g_array_index (result->timeline->ops, PsSpan, i).end_ns, >=,
                     simulation->end_ns[program->step_of[i] + 1]);
  for (guint i = 0; i < (program->schedule->asynchronous ? 1 : 3); i++)
    g_assert_cmpint (result->iteration_ns[i], >=, simulation->makespan_ns + simulation->optimizer_ns);
  ps_metrics_from_timeline (result->timeline, &metrics);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpint (metrics.device[i].peak_memory_bytes, ==, simulation->device[i].peak_bytes);
}

static void test_paced_families (void)
{
  for_each_family (4, 8, check_paced);
}

/* Ops of a device at half the speed take twice as long, O too: that device alone is busy for 8.2 ms, at full speed for
 * 4.1 ms. */
static void test_paced_speed (void)
{
  g_autoptr (PsProgram) program = family_program ("zb-h1", 2, 4);
  g_autoptr (PsCosts) costs = paced_costs (program);
  PsRunSetting setting = run_setting (&ps_paced_device, costs, 2);
  const double speed[] = { 1, 0.5 };

  setting.speed = speed;
  g_autoptr (PsRunResult) result = run (program, setting);
  g_assert_cmpint (result->iteration_ns[0], >=, 4 * 2 * (400000 + 300000 + 200000) + 2 * 500000);
}

/* Two stages on one device hand over without any transfer. */
static void test_one_device (void)
{
  g_autoptr (PsProgram) pipeline = family_program ("1f1b", 3, 4);
  g_autoptr (PsProgram) program = ps_verify_reference (pipeline->schedule, 4);
  g_autoptr (PsRunResult) result = run (program, run_setting (&ps_null_device, NULL, 1));

  g_assert_true (ps_schedule_validate (program->schedule, NULL));
  assert_runs_program (result->timeline, program, NULL);
  g_assert_cmpuint (result->timeline->transfers->len, ==, 0);
  g_assert_cmpuint (result->timeline_step, ==, 0);
  g_assert_cmpint (result->median_iteration_ns, ==, result->iteration_ns[0]);
}

/* Both devices hold both stages: 2 * 1000 B of weights and at most 2 * 200 B of activations. */
static void test_two_copies (void)
{
  g_autoptr (PsProgram) program = bidirectional_program ();
  g_autoptr (PsCosts) costs = paced_costs (program);
  g_autoptr (PsRunResult) result = run (program, run_setting (&ps_paced_device, costs, 2));
  g_auto (PsMetrics) metrics = { 0 };

  assert_runs_program (result->timeline, program, costs);
  ps_metrics_from_timeline (result->timeline, &metrics);
  g_assert_cmpint (metrics.device[0].peak_memory_bytes, ==, 2400);
  g_assert_cmpint (metrics.device[1].peak_memory_bytes, ==, 2400);
}

/* A device that keeps 2 versions of its 1000 B of weights holds 250 B more than one that keeps 1. */
static void test_weight_versions (void)
{
  g_autoptr (PsProgram) program = family_program ("1f1b", 2, 4);
  g_autoptr (PsCosts) costs = paced_costs (program);
  g_auto (PsMetrics) metrics = { 0 };

  costs->stage[0].version_bytes = costs->stage[1].version_bytes = 250;
  program->schedule->weight_versions = g_new (guint, 2);
  program->schedule->weight_versions[0] = 2;
  program->schedule->weight_versions[1] = 1;
  g_autoptr (PsRunResult) result = run (program, run_setting (&ps_paced_device, costs, 1));
  ps_metrics_from_timeline (result->timeline, &metrics);
  /* 1F1B keeps 2 activations of 200 B on the first of two devices, 1 on the second. */
  g_assert_cmpint (metrics.device[0].peak_memory_bytes, ==, 1250 + 400);
  g_assert_cmpint (metrics.device[1].peak_memory_bytes, ==, 1000 + 200);
}

/* F1.0 and BW0.0 as one op of 0.9 ms: spans of equal times that last so long at least. */
static void test_pair (void)
{
  PsScheduleBuilder *builder = ps_schedule_builder_new ("pair", ps_placement_new (PS_PLACEMENT_LOOP, 1, 1), 2);

  add_ops (builder, "F0.0 F1.0+BW0.0 BW1.0");
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_builder_end (builder), PS_COMM_ASAP, NULL);
  g_autoptr (PsCosts) costs = paced_costs (program);
  costs->stage[0].pair_ns = 900000;
  g_autoptr (PsRunResult) result = run (program, run_setting (&ps_paced_device, costs, 2));
  assert_runs_program (result->timeline, program, costs);
  const PsSpan *span = &g_array_index (result->timeline->ops, PsSpan, 1);
  g_assert_cmpint (span[0].start_ns, ==, span[1].start_ns);
  g_assert_cmpint (span[0].end_ns, ==, span[1].end_ns);
  /* F 0.4 ms, the pair 0.9 ms. */
  g_assert_cmpint (span[0].end_ns, >=, 1300000);
}

#define HELD_NS 300000

/* Posts that hold the host, as those of some transports do. */
static gboolean slow_send (PsTransport *transport, guint from, guint to, PsOp message, PsTensor *tensor,
                           gint64 delay_ns, GError **error)
{
  g_usleep (HELD_NS / 1000);
  return ps_threads_transport.send (transport, from, to, message, tensor, delay_ns, error);
}

static gboolean slow_receive (PsTransport *transport, guint at, guint from, PsOp message, GError **error)
{
  g_usleep (2 * HELD_NS / 1000);
  return ps_threads_transport.receive (transport, at, from, message, error);
}

static PsTransportClass slow;

static PsTransport *slow_open (const PsTransportSetting *setting, GError **error)
{
  PsTransport *transport = ps_threads_transport.open (setting, error);

  transport->class = &slow;
  return transport;
}

/* The timeline says of each send and each receive how long it held the host, in the order of the program. */
static void test_posts (void)
{
  g_autoptr (PsProgram) program = family_program ("zb-v", 2, 3);
  PsRunSetting setting = run_setting (&ps_null_device, NULL, 2);
  guint n = 0;

  slow = ps_threads_transport;
  slow.open = slow_open;
  slow.send = slow_send;
  slow.receive = slow_receive;
  setting.transport = &slow;
  g_autoptr (PsRunResult) result = run (program, setting);
  assert_runs_program (result->timeline, program, NULL);
  for (guint device = 0; device < 2; device++)
    for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
      const PsInstruction *instruction = &program->instructions[i];
      const PsSpan *post = &g_array_index (result->timeline->posts, PsSpan, n);

      if (!ps_instruction_is_post (instruction))
        continue;
      g_assert_cmpuint (n++, <, result->timeline->posts->len);
      g_assert_cmpuint (post->post, ==, instruction->type);
      g_assert_cmpuint (post->device, ==, device);
      g_assert_cmpmem (&post->op, sizeof (PsOp), &instruction->op, sizeof (PsOp));
      g_assert_cmpint (post->end_ns - post->start_ns, >=, instruction->type * HELD_NS);
    }
  g_assert_cmpuint (n, ==, result->timeline->posts->len);
  g_assert_cmpuint (n, >, 0);
}

/* Devices that do as the null device does but for some hooks: the class that their open gives them. */
static PsDeviceClass special;

static PsDevice *special_open (const PsDeviceSetting *setting, GError **error)
{
  PsDevice *device = ps_null_device.open (setting, error);

  device->class = &special;
  return device;
}

static void make_special (void)
{
  special = ps_null_device;
  special.open = special_open;
}

static struct {
  const char *hook; /* that fails */
  guint device_opens;
  gint ops_left; /* before run fails; atomic */
} broken;

static gboolean fail_in (const char *hook, GError **error)
{
  return !g_str_equal (hook, broken.hook) || ps_refuse (error, PS_ERROR_UNAVAILABLE, "stage 1: broken %s", hook);
}

static PsDevice *broken_open (const PsDeviceSetting *setting, GError **error)
{
  if (broken.device_opens++ == 2 && !fail_in ("open", error))
    return NULL;
  return special_open (setting, error);
}

static gboolean broken_attach (PsDevice *device, GError **error)
{
  return fail_in ("attach", error);
}

static gboolean broken_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  return stage != 1 || fail_in ("add_stage", error);
}

static gboolean broken_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  if (op.kind == PS_OP_O && op.stage == 1 && !fail_in ("update", error))
    return FALSE;
  if (g_atomic_int_dec_and_test (&broken.ops_left) && !fail_in ("run", error))
    return FALSE;
  return ps_null_device.run (device, op, input, output, error);
}

static void make_broken (void)
{
  make_special ();
  special.open = broken_open;
  special.attach = broken_attach;
  special.add_stage = broken_add_stage;
  special.run = broken_run;
}

/* Wherever a device fails, the run ends, and with that device's error instead of the others'. */
static void test_failures (void)
{
  static const char *const hooks[] = { "open", "attach", "add_stage", "run", "update" };

  make_broken ();
  for (guint i = 0; i < G_N_ELEMENTS (hooks); i++) {
    g_autoptr (PsProgram) program = family_program ("1f1b", 4, 8);
    PsRunSetting setting = run_setting (&special, NULL, 3);
    g_autoptr (GError) error = NULL;
    g_autofree char *message = g_strdup_printf ("stage 1: broken %s", hooks[i]);

    broken.hook = hooks[i];
    broken.device_opens = 0;
    g_atomic_int_set (&broken.ops_left, 5);
    g_assert_null (ps_run (program, &setting, &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
    g_assert_true (g_str_has_suffix (error->message, message));
  }
}

/* Device 0 is stuck in its first op for much longer than the others are ready to wait. */
static gboolean stuck_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  if (op.stage == 0 && op.kind == PS_OP_F)
    g_usleep (400000);
  return ps_null_device.run (device, op, input, output, error);
}

static void test_timeout (void)
{
  g_autoptr (PsProgram) program = family_program ("gpipe", 2, 2);
  PsRunSetting setting = run_setting (&special, NULL, 1);

  make_special ();
  special.run = stuck_run;
  setting.timeout_ns = 20000000;
  refused (ps_run (program, &setting, &error), PS_ERROR_IO, "device 1: waited 0.02 s for F0.0 from device 0");
}

/* A device that says it computes. Microbatch i has loss i + 0.5; stage s has s + 1 gradients of s + 0.25. */
static double pretended_loss (PsDevice *device, guint microbatch)
{
  return microbatch + 0.5;
}

static const float *pretended_gradients (PsDevice *device, guint stage, gsize *n)
{
  static const float gradients[2][2] = { { 0.25f }, { 1.25f, 1.25f } };

  *n = stage + 1;
  return gradients[stage];
}

static void make_pretender (void)
{
  make_special ();
  special.computes = TRUE;
  special.loss = pretended_loss;
  special.gradients = pretended_gradients;
}

static gboolean count_progress (const PsStepReport *step, gpointer data)
{
  guint *n = data;

  g_assert_cmpuint (step->number, ==, ++*n);
  g_assert_cmpint (step->iteration_ns, >, 0);
  g_assert_cmpfloat (step->loss, ==, 2.0);
  return TRUE;
}

static gboolean stop_after_2 (const PsStepReport *step, gpointer data)
{
  return step->number < 2;
}

/* The third step has begun when the run is told to end. */
static void test_stopped (void)
{
  g_autoptr (PsProgram) program = family_program ("1f1b", 3, 4);
  PsRunSetting setting = run_setting (&special, NULL, 1000);

  make_special ();
  setting.progress = stop_after_2;
  g_autoptr (PsRunResult) result = run (program, setting);
  g_assert_cmpuint (result->n_steps, ==, 3);
  g_assert_cmpuint (result->timeline_step, <, 3);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (result->iteration_ns[i], >, 0);
}

/* One bit of one number, a number more, and two numbers that change places all show. */
static void test_digest (void)
{
  float values[41] = { 0 }, first;

  for (guint n = 1; n < G_N_ELEMENTS (values); n++) {
    const guint64 digest = ps_gradients_digest (values, n);

    g_assert_cmpuint (ps_gradients_digest (values, n + 1), !=, digest);
    for (guint i = 0; i < n; i++) {
      values[i] = -0.0f;
      g_assert_cmpuint (ps_gradients_digest (values, n), !=, digest);
      values[i] = 0;
    }
  }
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = (float)i;
  for (guint i = 1; i < G_N_ELEMENTS (values); i++) {
    const guint64 digest = ps_gradients_digest (values, G_N_ELEMENTS (values));

    first = values[0];
    values[0] = values[i];
    values[i] = first;
    g_assert_cmpuint (ps_gradients_digest (values, G_N_ELEMENTS (values)), !=, digest);
  }
}

/* Mean loss of 0.5, 1.5, 2.5 and 3.5 is 2. */
static void test_results (void)
{
  g_autoptr (PsProgram) program = family_program ("1f1b", 2, 4);
  PsRunSetting setting = run_setting (&special, NULL, 3);
  const float expected[] = { 1.25f, 1.25f };
  const guint64 digest = ps_gradients_digest (expected, G_N_ELEMENTS (expected));
  guint n_progress = 0;

  make_pretender ();
  setting.model = &tiny;
  setting.gradients = TRUE;
  setting.progress = count_progress;
  setting.progress_data = &n_progress;
  g_autoptr (PsRunResult) result = run (program, setting);
  g_assert_cmpuint (n_progress, ==, 3);
  for (guint i = 0; i < 12; i++)
    g_assert_cmpfloat (result->losses[i], ==, i % 4 + 0.5);
  g_assert_cmpfloat (ps_run_result_mean_loss (result, 2), ==, 2.0);
  for (guint step = 0; step < 3; step++)
    g_assert_cmpuint (result->gradients->digest[3 + step], ==, digest);
  g_assert_cmpuint (result->gradients->digest[0], !=, digest);
  g_assert_cmpmem (result->gradients->last[1], result->gradients->n[1] * sizeof (float), expected, sizeof expected);
}

static void test_two_copies_refused (void)
{
  const guint16 device[] = { 0, 0 };
  PsScheduleBuilder *builder = ps_schedule_builder_new ("twice", ps_placement_new_custom (1, 1, 2, device), 2);
  PsRunSetting setting = run_setting (&special, NULL, 1);

  add_ops (builder, "F0.0 F1.0 BW1.0 BW0.0");
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  schedule->copy = g_new0 (guint8, 2);
  schedule->copy[1] = 1;
  g_autoptr (PsProgram) program = lower (schedule);
  make_pretender ();
  setting.model = &tiny;
  refused (ps_run (program, &setting, &error), PS_ERROR_UNAVAILABLE,
           "schedule 'twice': device 0 holds both copies of stage 0; devices that compute hold one");
}

/* Iterations of 100, 5, 9 and 7 ns less pauses of 0, 0, 1 and 1: median of 5, 8 and 6 is 6, that of the last step. */
static void test_median_step (void)
{
  PsScript script = { 0 };
  g_autoptr (PsRecorder) recorder = ps_recorder_new (&script, 1, 1, 4);
  g_autoptr (PsRecorder) single = ps_recorder_new (&script, 1, 1, 1);
  const gint64 begin[] = { 1000, 1100, 1105, 1114, 1121 };

  memcpy (recorder->begin_ns, begin, sizeof begin);
  recorder->pause_ns[2] = recorder->pause_ns[3] = 1;
  g_assert_cmpint (ps_recorder_iteration (recorder, 0), ==, 100);
  g_assert_cmpint (ps_recorder_iteration (recorder, 2), ==, 8);
  g_assert_cmpuint (ps_recorder_median_step (recorder), ==, 3);
  g_assert_cmpuint (ps_recorder_median_step (single), ==, 0);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/runtime/null/families", test_null_families);
  g_test_add_func ("/runtime/paced/families", test_paced_families);
  g_test_add_func ("/runtime/paced/speed", test_paced_speed);
  g_test_add_func ("/runtime/one-device", test_one_device);
  g_test_add_func ("/runtime/two-copies", test_two_copies);
  g_test_add_func ("/runtime/weight-versions", test_weight_versions);
  g_test_add_func ("/runtime/pair", test_pair);
  g_test_add_func ("/runtime/posts", test_posts);
  g_test_add_func ("/runtime/failures", test_failures);
  g_test_add_func ("/runtime/timeout", test_timeout);
  g_test_add_func ("/runtime/digest", test_digest);
  g_test_add_func ("/runtime/results", test_results);
  g_test_add_func ("/runtime/stopped", test_stopped);
  g_test_add_func ("/runtime/two-copies-refused", test_two_copies_refused);
  g_test_add_func ("/runtime/median-step", test_median_step);
  return g_test_run ();
}
