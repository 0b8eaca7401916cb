/* Tests of setting.h: what the shared options accept, what they refuse and with which words, and schedules of them. */
#include "setting-rig.h"

static void
test_options (void)
{
  g_autoptr (PsSetting) setting
      = parse_good ("-p 4 -m 32 -v 2 --memory-limit 1GiB:512MiB:2GiB:64KiB --comm latency --sync global");

  g_assert_cmpuint (setting->n_devices, ==, 4);
  g_assert_cmpuint (setting->n_microbatches, ==, 32);
  g_assert_cmpuint (setting->n_chunks, ==, 2);
  g_assert_cmpuint (setting->n_memory_limits, ==, 4);
  g_assert_cmpint (setting->memory_limit[1], ==, 512 * 1024 * 1024);
  g_assert_cmpint (setting->memory_limit[3], ==, 64 * 1024);
  g_assert_cmpint (setting->comm, ==, PS_CHANNEL_LATENCY);
}

static void
test_options_unset (void)
{
  g_autoptr (PsSetting) setting = parse_good ("");

  g_assert_cmpuint (setting->n_devices, ==, 0);
  g_assert_cmpuint (setting->n_chunks, ==, 0);
  g_assert_cmpuint (setting->n_memory_limits, ==, 0);
  g_assert_null (setting->memory_limit);
}

static void
test_options_refused (void)
{
  static const struct
  {
    const char *line, *where, *value;
  } cases[] = {
    { "-p 0", "-p", "'0'" },
    { "-p -5", "-p", "'-5'" },
    { "-p 4x", "-p", "'4x'" },
    { "-p ''", "-p", "''" },
    { "-p 4097", "-p", "4096" },
    { "-p 99999999999999999999", "-p", "99999999999999999999" },
    { "-m 1000000000", "-m", "1048576" },
    { "-m ' 8'", "-m", "' 8'" },
    { "-v 1.5", "-v", "'1.5'" },
    { "--memory-limit 1GiB:", "--memory-limit", "''" },
    { "--memory-limit -1", "--memory-limit", "'-1'" },
    { "--memory-limit ''", "--memory-limit", "''" },
    { "--comm nccl", "--comm: 'nccl'", "latency, direction, pair, rank" },
    { "--comm-order late", "--comm-order: 'late'", "asap, deferred, planned" },
    { "--eager -1B", "--eager", "'-1B'" },
    { "--speed 1:", "--speed: ''", "from 0.001 to 1000" },
    { "--speed 1:-1", "--speed: '-1'", "from 0.001 to 1000" },
    { "--speed nan", "--speed: 'nan'", "from 0.001 to 1000" },
    { "--speed 0", "--speed: '0'", "from 0.001 to 1000" },
    { "--overlap-slowdown 0.9", "--overlap-slowdown: '0.9'", "from 1 to 8" },
    { "--overlap-slowdown 9", "--overlap-slowdown: '9'", "from 1 to 8" },
    { "--ready-order 0", "--ready-order: '0'", "from 1" },
    { "--ready-order 4 --blocking", "--blocking and --ready-order", "keep the order" },
    { "--share-links", "--share-links", "--cluster" },
    { "--sync none", "--sync: 'none'", "global, bypass" },
    { "--reduce hidden", "--reduce: 'hidden'", "overlapped, exposed" },
    { "--replicas 0", "--replicas", "'0'" },
    { "--zero 4", "--zero", "'4'" },
    { "--zero 1", "--zero 1", "--replicas" },
    { "--recompute some", "--recompute: 'some'", "none, selective, full" },
    { "--recompute full:some", "--recompute: 'some'", "none, selective, full" },
    { "--recompute full:", "--recompute: ''", "none, selective, full" },
    { "--model tiny-gpt --cluster a100-80gb --recompute full:none", "--recompute", "--layout" },
    { "--model tiny-gpt --cluster a100-80gb --layout best --offload 1:0", "--offload", "--layout" },
    { "--offload 1.5", "--offload", "'1.5'" },
    { "--offload -0", "--offload", "'-0'" },
    { "--offload nan", "--offload", "'nan'" },
    { "--offload ''", "--offload", "''" },
    { "--offload 0.5x", "--offload", "'0.5x'" },
    { "--placement custom", "--placement", "'custom'" },
    { "--placement Z", "--placement", "bidirectional" },
    { "--costs f=1ms --db x", "--costs", "--db" },
    { "--costs f=1ms --model x --cluster y", "--costs", "--cluster" },
    { "--db x --model x --cluster y", "--db", "--cluster" },
    { "--profile x", "--profile", "--db" },
    { "--cluster x", "--cluster", "--model" },
    { "--devcies 4", "--devcies", "--devcies" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsSetting) setting = parse (cases[i].line, &error);

      g_test_message ("%s", cases[i].line);
      g_assert_null (setting);
      assert_usage (error, cases[i].where, cases[i].value);
    }
}

static void
test_costs (void)
{
  g_autoptr (PsSetting) none = parse_good ("-p 2");
  g_autoptr (PsSetting) given = parse_good ("--costs f=4ms,b=2ms,w=2ms,c=1us");
  g_autoptr (PsSetting) half = parse_good ("--model tiny-gpt");
  g_autoptr (GError) error = NULL, half_error = NULL;
  g_autoptr (PsCosts) costs = ps_setting_costs (given, 2, 2, NULL);

  /* 4 ms of a device's share over two chunks. */
  g_assert_cmpuint (costs->n_stages, ==, 4);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 3)->duration_ns, ==, 2000000);
  g_assert_null (ps_setting_costs (none, 2, 1, &error));
  assert_usage (error, "--costs", "--db");
  g_assert_null (ps_setting_costs (half, 2, 1, &half_error));
  assert_usage (half_error, "--model", "--cluster");
}

static void
test_costs_of_model (void)
{
  g_autoptr (PsSetting) setting = parse_good ("--model tiny-gpt --cluster no-such-cluster");
  g_autoptr (GError) error = NULL, no_model = NULL;
  g_autoptr (PsModel) model = ps_setting_model (setting, NULL);
  g_autoptr (PsSetting) none = parse_good ("");

  g_assert_cmpstr (model->name, ==, "tiny-gpt");
  g_assert_null (ps_setting_costs (setting, 2, 1, &error));
  g_assert_nonnull (strstr (error->message, "no-such-cluster"));
  g_assert_null (ps_setting_model (none, &no_model));
  assert_usage (no_model, "--model", "--db");
}

static PsSchedule *
schedule_of (const PsSetting *setting, const char *name, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);

  return ps_predictor_schedule (predictor, name, error);
}

static void
test_schedule (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 3 -m 5");
  g_autoptr (PsSchedule) schedule = schedule_of (setting, "gpipe", NULL);
  g_autoptr (PsSchedule) chunks = schedule_of (setting, "interleaved", NULL);

  g_assert_cmpstr (schedule->name, ==, "gpipe");
  g_assert_cmpuint (ps_schedule_n_ops (schedule), ==, 3 * 5 * 2);
  /* The family's default of two chunks. */
  g_assert_cmpuint (chunks->placement->n_stages, ==, 6);
}

static void
test_schedule_refused (void)
{
  static const struct
  {
    const char *line, *name, *where, *value;
  } cases[] = {
    { "-p 4 -m 8", "1f2b", "1f2b", "zb-h1" },
    { "-m 8", "1f1b", "-p", "1f1b" },
    { "-p 4", "1f1b", "-m", "1f1b" },
    { "-p 4096 -m 1048576", "1f1b", "1f1b", "1048576" },
    { "-p 4096 -m 1 -v 16384", "interleaved", "16384", "4096" },
    { "-p 4 -m 8 -v 2", "1f1b", "1f1b", "2" },
    { "-p 4 -m 8 --placement V", "1f1b", "--placement V", "loop" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsSetting) setting = parse_good (cases[i].line);
      g_autoptr (GError) error = NULL;

      g_test_message ("%s %s", cases[i].line, cases[i].name);
      g_assert_null (schedule_of (setting, cases[i].name, &error));
      assert_usage (error, cases[i].where, cases[i].value);
    }
}

static void
test_schedule_file (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 3");
  g_autoptr (PsSetting) bare = parse_good ("");
  g_autoptr (PsSetting) other = parse_good ("-m 4");
  g_autoptr (PsSchedule) schedule = schedule_of (setting, "zb-h1", NULL);
  g_autofree char *text = ps_schedule_to_json (schedule);
  g_autofree char *path = temporary (text);
  g_autoptr (PsSchedule) read = schedule_of (bare, path, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (read->n_microbatches, ==, 3);
  g_assert_cmpmem (read->ops, ps_schedule_n_ops (read) * sizeof (PsOp), schedule->ops,
                   ps_schedule_n_ops (schedule) * sizeof (PsOp));
  g_assert_null (schedule_of (other, path, &error));
  assert_usage (error, "-m 4", "has 3");
  g_unlink (path);
}

/* A file that reads well but breaks a rule is the schedule's error, with the file's name in front. */
static void
test_schedule_file_invalid (void)
{
  g_autoptr (PsSetting) setting = parse_good ("--costs f=1ms,b=1ms,w=1ms");
  g_autofree char *path = temporary (
      "{\"format\": \"pipesim-schedule/1\", \"name\": \"bad\", \"devices\": 1, \"stages\": 1, \"microbatches\": 1,"
      " \"slices\": 1, \"placement\": [[0]], \"order\": [[\"B0.0\", \"F0.0\", \"W0.0\"]]}");
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_predict (setting, path, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
  g_assert_true (g_str_has_prefix (error->message, path));
  g_assert_nonnull (strstr (error->message, "device 0"));
  g_unlink (path);
}

/* A stage costs what it costs where all stages do as it does. */
static void
test_training_of_stages (void)
{
  static const char *const recompute[] = { "full", "none", "selective", "none" }, *const offload[] = { "0", "0.5" };
  const char *line = "--model tiny-gpt --cluster a100-80gb --layout even";
  g_autofree char *each = g_strconcat (line, " --recompute full:none:selective:none --offload 0:0.5:0:0.5", NULL);
  g_autoptr (PsSetting) setting = parse_good (each);
  g_autofree char *typed = ps_setting_typed (setting);
  g_autoptr (PsSetting) again = parse_good (typed);
  g_autoptr (PsCosts) costs = ps_setting_costs (again, 4, 1, NULL);

  for (guint stage = 0; stage < 4; stage++)
    {
      g_autofree char *all
          = g_strdup_printf ("%s --recompute %s --offload %s", line, recompute[stage], offload[stage % 2]);
      g_autoptr (PsSetting) alike = parse_good (all);
      g_autoptr (PsCosts) same = ps_setting_costs (alike, 4, 1, NULL);

      for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
        g_assert_cmpmem (ps_costs_op (costs, kind, stage), sizeof (PsOpCost), ps_costs_op (same, kind, stage),
                         sizeof (PsOpCost));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/setting/options", test_options);
  g_test_add_func ("/setting/options-unset", test_options_unset);
  g_test_add_func ("/setting/options-refused", test_options_refused);
  g_test_add_func ("/setting/costs", test_costs);
  g_test_add_func ("/setting/costs-of-model", test_costs_of_model);
  g_test_add_func ("/setting/schedule", test_schedule);
  g_test_add_func ("/setting/schedule-refused", test_schedule_refused);
  g_test_add_func ("/setting/schedule-file", test_schedule_file);
  g_test_add_func ("/setting/schedule-file-invalid", test_schedule_file_invalid);
  g_test_add_func ("/setting/training-of-stages", test_training_of_stages);
  return g_test_run ();
}
