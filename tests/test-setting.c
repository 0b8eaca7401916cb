/* Tests of setting.h: what the shared options accept, what they refuse and with which words, and the chain to a
 * prediction. */
#include <pipesim/setting.h>

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

/* Reads a command line as a subcommand would. */
static PsSetting *
parse (const char *line, GError **error)
{
  g_autofree char *whole = g_strconcat ("test ", line, NULL);
  g_auto (GStrv) argv = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (PsSetting) setting = ps_setting_new ();
  int argc;

  g_assert_true (g_shell_parse_argv (whole, &argc, &argv, NULL));
  ps_setting_add_options (setting, context);
  if (!g_option_context_parse_strv (context, &argv, error) || !ps_setting_finish (setting, error))
    return NULL;
  return g_steal_pointer (&setting);
}

static PsSetting *
parse_good (const char *line)
{
  g_autoptr (GError) error = NULL;
  PsSetting *setting = parse (line, &error);

  g_assert_no_error (error);
  return setting;
}

/* The error must be a usage error, one line, and hold both texts. */
static void
assert_usage (const GError *error, const char *where, const char *value)
{
  g_assert_nonnull (error);
  g_assert_cmpint (ps_error_exit_code (error), ==, 2);
  g_assert_null (strchr (error->message, '\n'));
  if (!strstr (error->message, where) || !strstr (error->message, value))
    g_error ("'%s' names not both '%s' and '%s'", error->message, where, value);
}

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
  g_assert_cmpint (setting->channel, ==, PS_CHANNEL_LATENCY);
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
    { "--comm rank", "--comm", "latency" },
    { "--sync bypass", "--sync", "global" },
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

static void
test_schedule (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 3 -m 5");
  g_autoptr (PsSchedule) schedule = ps_setting_schedule (setting, "gpipe", NULL);
  g_autoptr (PsSchedule) chunks = ps_setting_schedule (setting, "interleaved", NULL);

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
      g_assert_null (ps_setting_schedule (setting, cases[i].name, &error));
      assert_usage (error, cases[i].where, cases[i].value);
    }
}

/* Writes text to a temporary file; free the name with g_free after removing it. */
static char *
temporary (const char *text)
{
  g_autoptr (GError) error = NULL;
  char *path = NULL;
  int fd = g_file_open_tmp ("test-setting-XXXXXX.json", &path, &error);

  g_assert_no_error (error);
  close (fd);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return path;
}

static void
test_schedule_file (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 3");
  g_autoptr (PsSetting) bare = parse_good ("");
  g_autoptr (PsSetting) other = parse_good ("-m 4");
  g_autoptr (PsSchedule) schedule = ps_setting_schedule (setting, "zb-h1", NULL);
  g_autofree char *text = ps_schedule_to_json (schedule);
  g_autofree char *path = temporary (text);
  g_autoptr (PsSchedule) read = ps_setting_schedule (bare, path, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (read->n_microbatches, ==, 3);
  g_assert_cmpmem (read->ops, ps_schedule_n_ops (read) * sizeof (PsOp), schedule->ops,
                   ps_schedule_n_ops (schedule) * sizeof (PsOp));
  g_assert_null (ps_setting_schedule (other, path, &error));
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

/* 1F1B without transfers takes (m + p - 1) (f + b + w) = (8 + 3) * 6 ms and is busy for 8 * 6 ms on each device. Device
 * 0 keeps p = 4 microbatches. */
static void
test_predict (void)
{
  g_autoptr (PsSetting) setting
      = parse_good ("-p 4 -m 8 --costs f=1ms,b=2ms,w=3ms,act=10MiB,weights=1MiB --memory-limit 41MiB");
  g_autoptr (GError) error = NULL;
  g_autoptr (PsPrediction) prediction = ps_predict (setting, "1f1b", &error);

  g_assert_no_error (error);
  g_assert_cmpint (prediction->metrics.makespan_ns, ==, 66000000);
  g_assert_cmpint (prediction->metrics.iteration_ns, ==, 66000000);
  g_assert_cmpfloat_with_epsilon (prediction->metrics.bubble_ratio, 3.0 / 11, 1e-12);
  g_assert_cmpint (prediction->metrics.device[2].busy_ns, ==, 48000000);
  g_assert_cmpint (prediction->metrics.peak_memory_bytes, ==, 41 << 20);
  g_assert_cmpint (prediction->lower_bound_ns, <=, 66000000);
  g_assert_cmpint (prediction->lower_bound_ns, >=, 48000000);
  g_assert_true (prediction->feasible);
}

static void
test_predict_memory_limit (void)
{
  static const struct
  {
    const char *limit;
    gboolean feasible;
  } cases[] = {
    /* Device r needs 1 MiB + (4 - r) 10 MiB. */
    { "40.9MiB", FALSE },
    { "41MiB:31MiB:21MiB:11MiB", TRUE },
    { "41MiB:31MiB:21MiB:10MiB", FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *line = g_strdup_printf (
          "-p 4 -m 8 --costs f=1ms,b=2ms,w=3ms,act=10MiB,weights=1MiB --memory-limit %s", cases[i].limit);
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPrediction) prediction = ps_predict (setting, "1f1b", NULL);

      g_assert_cmpint (prediction->feasible, ==, cases[i].feasible);
    }
}

static void
test_predict_refused (void)
{
  static const struct
  {
    const char *line, *where, *value;
  } cases[] = {
    { "-p 4 -m 8", "--costs", "--db" },
    { "-p 4 -m 8 --costs f=1ms,b=1ms,w=1ms --memory-limit 1:2", "--memory-limit", "4" },
    { "-p 4 -m 8 --costs f=1ms:1ms,b=1ms,w=1ms", "f has 2 values", "4" },
    { "-p 4 -m 8 --costs f=-1ms,b=1ms,w=1ms", "f", "'-1ms'" },
    { "-p 4 -m 8 --costs f=nan,b=1ms,w=1ms", "f", "'nan'" },
    { "-p 4 -m 8 --costs f=1e30s,b=1ms,w=1ms", "f", "'1e30s'" },
    /* Each op is within bounds, but a thousand of each on every device is not. */
    { "-p 16 -m 1024 --costs f=1000000s,b=1000000s,w=1000000s", "stage", "1024" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsSetting) setting = parse_good (cases[i].line);
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", cases[i].line);
      g_assert_null (ps_predict (setting, "1f1b", &error));
      assert_usage (error, cases[i].where, cases[i].value);
    }
}

/* Three stages on two devices have no cost per device. */
static void
test_predict_uneven (void)
{
  g_autoptr (PsSetting) setting = parse_good ("--costs f=1ms,bw=2ms");
  g_autofree char *path = temporary (
      "{\"format\": \"pipesim-schedule/1\", \"name\": \"odd\", \"devices\": 2, \"stages\": 3, \"microbatches\": 1,"
      " \"slices\": 1, \"placement\": [[0, 1, 1]],"
      " \"order\": [[\"F0.0\", \"BW0.0\"], [\"F0.1\", \"F0.2\", \"BW0.2\", \"BW0.1\"]]}");
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_predict (setting, path, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
  g_assert_nonnull (strstr (error->message, "3 stages do not divide over 2 devices"));
  g_unlink (path);
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
  g_test_add_func ("/setting/predict", test_predict);
  g_test_add_func ("/setting/predict-memory-limit", test_predict_memory_limit);
  g_test_add_func ("/setting/predict-refused", test_predict_refused);
  g_test_add_func ("/setting/predict-uneven", test_predict_uneven);
  return g_test_run ();
}
