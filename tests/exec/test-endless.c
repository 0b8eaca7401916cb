/* Tests of runtime: schedules that never drain, which weights their ops see, and how they end. */
#include "run-rig.h"

/* What a recording device has seen of each stage: a line per op, "F version" or "O". */
static GPtrArray *seen; /* [stage] of GString */
static guint64 *current;
static PsDeviceClass recording;

static PsDevice *record_open (const PsDeviceSetting *setting, GError **error)
{
  PsDevice *device = ps_null_device.open (setting, error);

  device->class = &recording;
  return device;
}

static gboolean record_version (PsDevice *device, guint stage, guint64 version, GError **error)
{
  current[stage] = version;
  return TRUE;
}

static gboolean record_op (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  GString *text = g_ptr_array_index (seen, op.stage);

  if (op.kind == PS_OP_O)
    g_string_append (text, "O ");
  else
    g_string_append_printf (text, "%s%u:%" G_GUINT64_FORMAT " ", op.kind == PS_OP_F ? "F" : "B", (guint)op.microbatch,
                            current[op.stage]);
  return ps_null_device.run (device, op, input, output, error);
}

static void free_text (gpointer text)
{
  g_string_free (text, TRUE);
}

/* Runs two steps of a family on three devices, and returns what the device of `stage` saw. */
static char *seen_by (const char *family, guint m, guint stage)
{
  g_autoptr (PsProgram) program = family_program (family, 3, m);
  g_autofree guint64 *versions = g_new0 (guint64, 3);

  recording = ps_null_device;
  recording.open = record_open;
  recording.use_version = record_version;
  recording.run = record_op;
  current = versions;
  seen = g_ptr_array_new_with_free_func (free_text);
  for (guint i = 0; i < 3; i++)
    g_ptr_array_add (seen, g_string_new (NULL));
  ps_run_result_free (run (program, run_setting (&recording, NULL, 2)));
  char *text = g_strdup (((GString *)g_ptr_array_index (seen, stage))->str);
  g_ptr_array_unref (seen);
  return text;
}

/* PipeDream: an op of microbatch k on stage s of three sees the weights after k - 2 + s updates: the newest ones when
 * its F runs. With two microbatches only two are under way on stage 0. PipeDream-2BW: microbatches of iteration t see
 * the weights after t - 1 iterations, although those after t are there when most of them run. */
static void test_versions (void)
{
  static const struct {
    const char *family;
    guint m, stage;
    const char *ops;
  } cases[] = {
    { "pipedream", 3, 0, "F0:0 F1:0 F2:0 B0:0 O F0:1 B1:0 O F1:2 B2:0 O F2:3 B0:1 O B1:2 O B2:3 O " },
    { "pipedream", 3, 1, "F0:0 F1:0 B0:0 O F2:1 B1:0 O F0:2 B2:1 O F1:3 B0:2 O F2:4 B1:3 O B2:4 O " },
    { "pipedream", 3, 2, "F0:0 B0:0 O F1:1 B1:1 O F2:2 B2:2 O F0:3 B0:3 O F1:4 B1:4 O F2:5 B2:5 O " },
    { "pipedream", 2, 0, "F0:0 F1:0 B0:0 O F0:1 B1:0 O F1:2 B0:1 O B1:2 O " },
    { "pipedream-2bw", 3, 0, "F0:0 F1:0 F2:0 B0:0 F0:0 B1:0 F1:0 B2:0 O F2:0 B0:0 B1:0 B2:0 O " },
    { "pipedream-2bw", 3, 2, "F0:0 B0:0 F1:0 B1:0 F2:0 B2:0 O F0:0 B0:0 F1:0 B1:0 F2:0 B2:0 O " },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *text = seen_by (cases[i].family, cases[i].m, cases[i].stage);

    g_assert_cmpstr (text, ==, cases[i].ops);
  }
}

static gboolean stop_at_two (const PsStepReport *step, gpointer data)
{
  return step->number < 2;
}

/* An endless run that is told to stop after its second step runs two more that may have begun. */
static void test_endless_stop (void)
{
  g_autoptr (PsProgram) program = family_program ("pipedream", 3, 5);
  PsRunSetting setting = run_setting (&ps_null_device, NULL, 1000);

  setting.progress = stop_at_two;
  g_autoptr (PsRunResult) result = run (program, setting);
  g_assert_cmpuint (result->n_steps, ==, 5);
  assert_runs_program (result->timeline, program, NULL);
}

static void test_endless_refusals (void)
{
  g_autoptr (PsProgram) copies = bidirectional_program ();
  g_autoptr (PsProgram) program = family_program ("pipedream", 2, 4);
  PsRunSetting setting = run_setting (&ps_null_device, NULL, 1);
  PsDeviceClass plain = ps_cpu_device;
  PsModel model = tiny;
  g_autoptr (GError) copied = NULL, tied = NULL, kept = NULL;

  copies->schedule->asynchronous = TRUE;
  g_assert_null (ps_run (copies, &setting, &copied));
  g_assert_cmpstr (copied->message, ==, "schedule 'both ways': has two weight copies that never meet");
  setting.device = &ps_cpu_device;
  setting.model = &model;
  model.tied = TRUE;
  g_assert_null (ps_run (program, &setting, &tied));
  g_assert_cmpstr (tied->message, ==,
                   "schedule 'pipedream': never drains, and embedding and head of the model share a matrix");
  model.tied = FALSE;
  plain.use_version = NULL;
  setting.device = &plain;
  g_assert_null (ps_run (program, &setting, &kept));
  g_assert_error (kept, PS_ERROR, PS_ERROR_UNAVAILABLE);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/endless/versions", test_versions);
  g_test_add_func ("/endless/stop", test_endless_stop);
  g_test_add_func ("/endless/refusals", test_endless_refusals);
  return g_test_run ();
}
