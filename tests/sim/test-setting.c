/* Tests of setting.h: what the shared options accept, what they refuse and with which words, and schedules of them. */
#include "setting-rig.h"

static void test_options (void)
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

static void test_options_unset (void)
{
  g_autoptr (PsSetting) setting = parse_good ("");

  g_assert_cmpuint (setting->n_devices, ==, 0);
  g_assert_cmpuint (setting->n_chunks, ==, 0);
  g_assert_cmpuint (setting->n_memory_limits, ==, 0);
  g_assert_null (setting->memory_limit);
}

static void test_options_refused (void)
{
  static const struct {
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
    { "--offload 0.5 --offload-modules core_attn", "--offload and --offload-modules", "one of them" },
    { "--offload-modules heads", "--offload-modules: 'heads'", "none, attn_norm" },
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

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsSetting) setting = parse (cases[i].line, &error);

    g_test_message ("%s", cases[i].line);
    g_assert_null (setting);
    assert_usage (error, cases[i].where, cases[i].value);
  }
}

static void test_costs (void)
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

static void test_costs_of_model (void)
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

static PsSchedule *schedule_of (const PsSetting *setting, const char *name, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);

  return ps_predictor_schedule (predictor, name, error);
}

static void test_schedule (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 3 -m 5");
  g_autoptr (PsSchedule) schedule = schedule_of (setting, "gpipe", NULL);
  g_autoptr (PsSchedule) chunks = schedule_of (setting, "interleaved", NULL);

  g_assert_cmpstr (schedule->name, ==, "gpipe");
  g_assert_cmpuint (ps_schedule_n_ops (schedule), ==, 3 * 5 * 2);
  /* The family's default of two chunks. */
  g_assert_cmpuint (chunks->placement->n_stages, ==, 6);
}

static void test_schedule_refused (void)
{
  static const struct {
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

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (PsSetting) setting = parse_good (cases[i].line);
    g_autoptr (GError) error = NULL;

    g_test_message ("%s %s", cases[i].line, cases[i].name);
    g_assert_null (schedule_of (setting, cases[i].name, &error));
    assert_usage (error, cases[i].where, cases[i].value);
  }
}

static void test_schedule_file (void)
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
static void test_schedule_file_invalid (void)
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
static void test_training_of_stages (void)
{
  static const char *const recompute[] = { "full:layers=1", "none", "selective", "core_attn+mlp" }, *const offload[]
                                                                                                    = { "0", "0.5" };
  const char *line = "--model tiny-gpt --cluster a100-80gb --layout even";
  g_autofree char *each
      = g_strconcat (line, " --recompute full:layers=1:none:selective:core_attn+mlp --offload 0:0.5:0:0.5", NULL);
  g_autoptr (PsSetting) setting = parse_good (each);
  g_autofree char *typed = ps_setting_typed (setting);
  g_autoptr (PsSetting) again = parse_good (typed);
  g_autoptr (PsCosts) costs = ps_setting_costs (again, 4, 1, NULL);

  for (guint stage = 0; stage < 4; stage++) {
    g_autofree char *all
        = g_strdup_printf ("%s --recompute %s --offload %s", line, recompute[stage], offload[stage % 2]);
    g_autoptr (PsSetting) alike = parse_good (all);
    g_autoptr (PsCosts) same = ps_setting_costs (alike, 4, 1, NULL);

    for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
      g_assert_cmpmem (ps_costs_op (costs, kind, stage), sizeof (PsOpCost), ps_costs_op (same, kind, stage),
                       sizeof (PsOpCost));
  }
}

/* What goes together, and what does not: each line is refused with that beginning, or is right. */
static void test_together (void)
{
  static const struct {
    const char *line, *message;
  } rows[] = {
    { "--blocking --ready-order 2", "--blocking and --ready-order: *" },
    { "--blocking", NULL },
    { "--ready-order 2", NULL },
    { "--model tiny-gpt --cluster h100-80gb --share-links", NULL },
    { "--costs f=1ms,bw=2ms --network-factor 2", "--network-factor: needs --cluster FILE, *" },
    { "--latency-factor 2", "--latency-factor: needs --cluster FILE, *" },
    { "--model tiny-gpt --cluster h100-80gb --latency-factor 2", NULL },
    { "--costs f=1ms,bw=1ms --layout even", "--layout: needs a model, *" },
    { "--layout even", NULL },
    { "--model tiny-gpt --cluster h100-80gb --recompute full:none --layout even", NULL },
    { "--costs f=1ms,bw=1ms --recompute full:none", NULL },
    { "--model tiny-gpt --cluster h100-80gb --offload 1:0", "--recompute, --offload: values for each stage *" },
    { "--recompute auto", "--recompute auto: is for pipesim search; *" },
    { "--microbatch-order best", "--microbatch-order: needs --lengths FILE; *" },
    { "--microbatch-order given", NULL },
    { "--microbatch-order best --lengths x", NULL },
    { "--sequence 5", "--sequence: needs --model FILE, *" },
    { "--costs f=1ms,bw=1ms --optimizer muon", "--optimizer muon: needs --model FILE with --cluster FILE; *" },
    { "--costs f=1ms,bw=1ms --tp-comm-overlap", "--tp-comm-overlap: needs --model FILE with --cluster FILE; *" },
    { "--sequence 5 --model tiny-gpt", NULL },
    { "--zero 1", "--zero 1: needs --replicas D of 2 or more to spread the optimizer state over" },
    { "--zero 3", "--zero 3: needs --replicas D of 2 or more to spread weights and optimizer state over" },
    { "--zero 0", NULL },
    { "--zero 3 --replicas 2 --sync bypass", "--zero 3: not with --sync bypass" },
    { "--zero 2 --replicas 2 --sync bypass", NULL },
    { "--zero 3 --replicas 2", NULL },
    { "--zero 3 --replicas 2 --comm pair", "--zero 3: not with channels, links or speeds *" },
    { "--zero 3 --replicas 2 --blocking", "--zero 3: not with channels, links or speeds *" },
    { "--zero 3 --replicas 2 --speed 1:2", "--zero 3: not with channels, links or speeds *" },
    { "--zero 3 --replicas 2 --overlap-slowdown 1.1", "--zero 3: not with channels, links or speeds *" },
    { "--zero 3 --replicas 2 --ready-order 1", "--zero 3: not with channels, links or speeds *" },
    { "--zero 3 --replicas 2 --model tiny-gpt --cluster h100-80gb --share-links", "--zero 3: not with channels, *" },
    { "--zero 2 --replicas 2 --comm pair", NULL },
    { "--zero 1 --context 2 --model tiny-gpt --cluster h100-80gb", NULL },
    { "--context 2", "--context 2: needs modelled costs, --model with --cluster" },
    { "--experts 2", "--experts 2: needs modelled costs, --model with --cluster" },
    { "--experts 2 --context 4", "--context 4: needs modelled costs, --model with --cluster" },
    { "--tensor 2", NULL },
    { "--tensor 2 --costs f=1ms,bw=1ms", "--tensor 2: needs modelled costs, *" },
    { "--tensor 1 --costs f=1ms,bw=1ms", NULL },
    { "--tensor 2 --db x", NULL },
    { "--tensor 2 --costs-from x", "--tensor 2: needs modelled costs, *" },
    { "--tensor 2 --model tiny-gpt --cluster h100-80gb", NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_test_message ("%s", rows[i].line);
    if (rows[i].message != NULL)
      refused (parse (rows[i].line, &error), PS_ERROR_USAGE, rows[i].message);
    else
      ps_setting_free (parse_good (rows[i].line));
  }
}

/* Optimizer state is spread by itself where a cluster is known and several hold a stage. */
static void test_zero (void)
{
  static const struct {
    const char *line;
    guint zero;
  } rows[] = { { "", 0 },
               { "--replicas 2", 0 },
               { "--model tiny-gpt --cluster h100-80gb", 0 },
               { "--model tiny-gpt --cluster h100-80gb --replicas 2", 1 },
               { "--model tiny-gpt --cluster h100-80gb --context 2", 1 },
               { "--model tiny-gpt --cluster h100-80gb --replicas 2 --zero 0", 0 },
               { "--replicas 2 --zero 2", 2 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsSetting) setting = parse_good (rows[i].line);

    g_assert_cmpuint (ps_setting_zero (setting), ==, rows[i].zero);
  }
}

/* What makes transfers wait, and what else asks for events. */
static void test_events (void)
{
  static const struct {
    const char *line;
    gboolean wait, events;
  } rows[] = { { "", FALSE, FALSE },
               { "--comm latency", FALSE, FALSE },
               { "--comm direction", TRUE, TRUE },
               { "--blocking", TRUE, TRUE },
               { "--model tiny-gpt --cluster h100-80gb --share-links", TRUE, TRUE },
               { "--speed 2", FALSE, TRUE },
               { "--overlap-slowdown 1.5", FALSE, TRUE },
               { "--overlap-slowdown 1", FALSE, FALSE },
               { "--ready-order 1", FALSE, TRUE } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsSetting) setting = parse_good (rows[i].line);

    g_assert_cmpint (ps_setting_transfers_wait (setting), ==, rows[i].wait);
    g_assert_cmpint (ps_setting_needs_events (setting), ==, rows[i].events);
  }
}

/* One factor is all devices', several are one for each. */
static void test_speeds (void)
{
  static const struct {
    const char *line;
    double speeds[3];
    const char *message;
  } rows[] = { { "--speed 0.5", { 0.5, 0.5, 0.5 }, NULL },
               { "--speed 1:2:4", { 1, 2, 4 }, NULL },
               { "--speed 1:2", { 0 }, "--speed: 2 factors for 3 devices; one factor, or 3, would be right" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsSetting) setting = parse_good (rows[i].line);
    g_autofree double *speeds = NULL;

    if (rows[i].message != NULL) {
      refused (ps_setting_speeds (setting, 3, &speeds, &error), PS_ERROR_USAGE, rows[i].message);
      continue;
    }
    fine (ps_setting_speeds (setting, 3, &speeds, &error));
    for (guint d = 0; d < 3; d++)
      g_assert_cmpfloat (speeds[d], ==, rows[i].speeds[d]);
  }
  g_autoptr (PsSetting) none = parse_good ("");
  g_autofree double *speeds = NULL;
  fine (ps_setting_speeds (none, 3, &speeds, &error));
  g_assert_null (speeds);
  g_autoptr (PsSetting) stages = parse_good ("--costs f=1ms,bw=1ms --recompute full:none --offload 0:1:0");
  refused (ps_setting_check_stages (stages, 3, &error), PS_ERROR_USAGE,
           "--recompute: 2 kinds for 3 stages; one kind, *");
  refused (ps_setting_check_stages (stages, 2, &error), PS_ERROR_USAGE,
           "--offload: 3 ratios for 2 stages; one ratio, *");
}

int main (int argc, char **argv)
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
  g_test_add_func ("/setting/together", test_together);
  g_test_add_func ("/setting/zero", test_zero);
  g_test_add_func ("/setting/events", test_events);
  g_test_add_func ("/setting/speeds", test_speeds);
  return g_test_run ();
}
