/* test-sweep.c - specs, points, and predictions that are those of one setting at a time. */
#include "cases.h"
#include "error-rig.h"
#include "plan/sweep-private.h"
#include "costdb-rig.h"

#include <pipesim/simulate.h>

#include <string.h>
#include <glib/gstdio.h>

static PsSweep *parse (const char *text)
{
  return fine (ps_sweep_parse ("s.ini", text, strlen (text), &error));
}

/* The command line of a point, read as pipesim predict reads it. */
static PsSetting *setting_of (const PsSweep *sweep, const PsSweepPoint *point, GError **error)
{
  PsSetting *setting = ps_setting_new ();
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  g_strv_builder_add (builder, "predict");
  for (guint i = 0; i < sweep->axes->len; i++) {
    const PsOption *field = g_array_index (sweep->axes, PsSweepAxis, i).field;
    const char *value = point->values[i]->text;
    g_autofree char *argument = field->type == PS_OPTION_FLAG ? g_strdup_printf ("--%s", field->name)
                                                              : g_strdup_printf ("--%s=%s", field->name, value);

    if (!field->hidden && g_strcmp0 (value, field->none) != 0 && !g_str_equal (value, "no"))
      g_strv_builder_add (builder, argument);
  }
  g_auto (GStrv) arguments = g_strv_builder_end (builder);
  ps_options_add (ps_setting_options, setting, context);
  g_assert_true (g_option_context_parse_strv (context, &arguments, NULL));
  if (ps_setting_check (setting, error))
    return setting;
  ps_setting_free (setting);
  return NULL;
}

static const PsValue *value (const PsResult *result, const char *column)
{
  return &result->values[ps_result_column_find (column)];
}

/* The peaks of `predict`, of `--memory` and of the timeline that is written are the same. */
static void check_peaks (const PsPrediction *prediction)
{
  const PsMetrics *metrics = &prediction->metrics;
  g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (prediction);
  g_autofree char *json = ps_timeline_to_json (timeline);
  g_autoptr (PsTimeline) again = ps_timeline_parse_json ("t.json", json, -1, NULL);
  g_auto (PsMetrics) written = { 0 };

  ps_metrics_from_timeline (again, &written);
  for (guint d = 0; d < metrics->n_devices; d++) {
    g_assert_cmpint (memory->device[d].peak_bytes, ==, metrics->device[d].peak_memory_bytes);
    g_assert_cmpint (written.device[d].peak_memory_bytes, ==, metrics->device[d].peak_memory_bytes);
  }
}

static void check_figures (const PsResult *result, const PsPrediction *prediction)
{
  const PsMetrics *metrics = &prediction->metrics;

  g_assert_cmpint (value (result, "makespan_ns")->integer, ==, metrics->makespan_ns);
  g_assert_cmpint (value (result, "max_span_ns")->integer, ==, metrics->max_span_ns);
  g_assert_cmpint (value (result, "iteration_ns")->integer, ==, metrics->iteration_ns);
  g_assert_cmpfloat (value (result, "bubble_ratio")->real, ==, metrics->bubble_ratio);
  g_assert_cmpint (value (result, "lower_bound_ns")->integer, ==, prediction->lower_bound_ns);
  g_assert_cmpint (value (result, "peak_memory_bytes")->integer, ==, metrics->peak_memory_bytes);
  g_assert_cmpint (value (result, "feasible")->integer, ==, prediction->feasible);
  g_assert_cmpint (value (result, "first_token_ns")->integer, ==, prediction->mean_first_token_ns);
  g_assert_cmpint (value (result, "period_iterations")->integer, ==, prediction->iteration.n_iterations);
  g_assert_cmpfloat (value (result, "bubble_ratio_span")->real, ==, metrics->bubble_ratio_span);
  g_assert_cmpint (value (result, "asynchronous")->integer, ==, prediction->program->schedule->asynchronous);
  g_assert_cmpfloat (value (result, "unrest")->real, ==, prediction->costs->unrest);
  g_assert_cmpstr (value (result, "origin")->text, ==, "simulated");
  g_assert_cmpstr (value (result, "costs_origin")->text, ==, ps_origin_name (prediction->costs->time_origin));
  g_assert_cmpstr (value (result, "transfers_origin")->text, ==, ps_origin_name (prediction->costs->transfer_origin));
  g_assert_cmpstr (value (result, "memory_origin")->text, ==, ps_origin_name (prediction->costs->memory_origin));
}

/* "[[busy, span, peak, activations],[..]]": a list of each device's figures. */
static void check_detail (const PsResult *result, const PsMetrics *metrics)
{
  g_autoptr (GString) text = g_string_new ("[");

  for (guint d = 0; d < metrics->n_devices; d++)
    g_string_append_printf (text, "%s[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%u]",
                            d > 0 ? "," : "", metrics->device[d].busy_ns, metrics->device[d].span_ns,
                            metrics->device[d].peak_memory_bytes, metrics->device[d].peak_activations);
  g_string_append (text, "]");
  g_assert_cmpstr (value (result, "devices_detail")->text, ==, text->str);
}

/* Columns of the setting that a prediction knows better, and those that any setting has. */
static void check_columns (const PsResult *result, const PsSetting *setting, const PsPrediction *prediction)
{
  static const char *const found[] = { "schedule",  "devices",        "microbatches",    "chunks", "slices",
                                       "placement", "global_batch",   "microbatch_size", "layout", "comm_order",
                                       "precision", "link_bandwidth", "link_latency_ns", NULL };
  const PsSchedule *schedule = prediction->program->schedule;
  g_autofree char *layout = ps_prediction_layout (prediction);
  gint64 size
      = value (result, "microbatch_size")->type == PS_VALUE_NONE ? 0 : value (result, "microbatch_size")->integer;

  if (setting->microbatch_size > 0)
    g_assert_cmpint (size, ==, setting->microbatch_size);
  if (layout == NULL)
    g_assert_cmpint (value (result, "layout")->type, ==, PS_VALUE_NONE);
  else
    g_assert_cmpstr (value (result, "layout")->text, ==, layout);
  g_assert_cmpint (value (result, "chunks")->integer, ==, ps_placement_max_chunks (schedule->placement));
  g_assert_cmpint (value (result, "slices")->integer, ==, schedule->n_slices);
  g_assert_cmpstr (value (result, "placement")->text, ==, ps_placement_name (schedule->placement->kind));
  g_assert_cmpint (value (result, "global_batch")->integer, ==,
                   (gint64)schedule->n_microbatches * MAX (size, 1) * setting->n_replicas);
  for (guint i = 0; i < ps_setting_n_options; i++) {
    const char *key = ps_setting_options[i].sweep->column.key;

    if (g_strv_contains (found, key) || g_str_has_prefix (key, "cost_"))
      continue;
    const PsValue wanted = ps_setting_column (&ps_setting_options[i], setting), *has = value (result, key);
    if (wanted.type != PS_VALUE_NONE && has->type != wanted.type)
      g_error ("%s: type %d", key, has->type);
    if (wanted.type == PS_VALUE_TEXT)
      g_assert_cmpstr (has->text, ==, wanted.text);
    else if (wanted.type == PS_VALUE_REAL)
      g_assert_cmpfloat (has->real, ==, wanted.real);
    else if (wanted.type == PS_VALUE_INTEGER)
      g_assert_cmpint (has->integer, ==, wanted.integer);
  }
}

/* A point that was predicted after other points than before. */
static void check_same (const PsResult *result, const PsResult *before)
{
  g_assert_cmpstr (result->digest, ==, before->digest);
  g_assert_cmpstr (result->reason, ==, before->reason);
  for (guint i = 0; result->reason == NULL && i < ps_setting_n_options + PS_N_STORED_FIGURES; i++) {
    const PsValue *a = &result->values[i], *b = &before->values[i];

    g_assert_cmpint (a->type, ==, b->type);
    if (a->type == PS_VALUE_TEXT)
      g_assert_cmpstr (a->text, ==, b->text);
    else if (a->type == PS_VALUE_REAL)
      g_assert_cmpfloat (a->real, ==, b->real);
    else if (a->type == PS_VALUE_INTEGER)
      g_assert_cmpint (a->integer, ==, b->integer);
  }
}

/* One point, as a command line predicts it. */
static void check_point (const PsSweep *sweep, PsSweepPoint *point, const PsResult *result)
{
  g_autoptr (GError) reason = NULL;

  ps_sweep_point_set (point, sweep, result->point);
  g_autoptr (PsSetting) setting = setting_of (sweep, point, &reason);
  g_autoptr (PsPrediction) prediction = setting != NULL ? ps_predict (setting, point->schedule, &reason) : NULL;
  if (prediction == NULL) {
    g_assert_cmpstr (result->reason, ==, reason->message);
    return;
  }
  g_assert_cmpstr (result->reason, ==, NULL);
  check_figures (result, prediction);
  check_detail (result, &prediction->metrics);
  check_columns (result, setting, prediction);
  if (result->point % 8 == 0)
    check_peaks (prediction);
  g_assert_cmpstr (value (result, "schedule")->text, ==, point->schedule);
  g_assert_cmpint (value (result, "devices")->integer, ==, setting->n_devices);
  g_assert_cmpint (value (result, "microbatches")->integer, ==, setting->n_microbatches);
}

/* Every point, in the sweep's order and then backwards, so that what is kept from other points is of no concern. An odd
 * stride meets all values of an axis. */
static void check_against_predict (const char *text, guint least_predicted, guint least_skipped)
{
  g_autoptr (PsSweep) sweep = parse (text);
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  guint64 n = ps_sweep_n_points (sweep), stride = n / n_cases ((guint)n) | 1;
  g_autoptr (GPtrArray) seen = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);
  guint predicted = 0, skipped = 0;
  PsSweepPoint point;

  ps_sweep_point_init (&point, sweep);
  g_ptr_array_set_size (seen, (gint)n);
  for (guint64 i = 0; i < 2 * n; i += stride) {
    g_autoptr (GError) error = NULL;
    guint64 index = i < n ? i : 2 * n - 1 - i;
    g_autoptr (PsResult) result = ps_sweep_worker_predict (worker, index, &error);

    g_assert_no_error (error);
    g_assert_cmpuint (result->point, ==, index);
    if (result->reason == NULL)
      predicted++;
    else
      skipped++;
    if (seen->pdata[index] != NULL) {
      check_same (result, seen->pdata[index]);
      continue;
    }
    check_point (sweep, &point, result);
    seen->pdata[index] = g_steal_pointer (&result);
  }
  ps_sweep_point_clear (&point);
  g_assert_cmpuint (stride * predicted, >=, 2 * least_predicted);
  g_assert_cmpuint (stride * skipped, >=, 2 * least_skipped);
}

static const PsValue *value_at (PsSweepWorker *worker, guint64 point, const char *column, PsResult **result)
{
  g_clear_pointer (result, ps_result_free);
  *result = ps_sweep_worker_predict (worker, point, NULL);
  g_assert_cmpstr ((*result)->reason, ==, NULL);
  return value (*result, column);
}

#define COSTS "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB\n"
#define ENOUGH "[sweep]\nschedule = 1f1b\nmicrobatches = 8\n" COSTS

/* Ranges */

static void check_expanded (const char *field, const char *text, const char *expected)
{
  gboolean costs = g_str_equal (field, "costs");
  g_autofree char *spec = g_strdup_printf ("[sweep]\nschedule = 1f1b\n%s%s = %s\n",
                                           costs ? "" : "costs = f=1ms,b=1ms,w=1ms\n", field, text);
  g_autoptr (PsSweep) sweep = parse (spec);
  const GPtrArray *values = ps_sweep_axis (sweep, field)->values;
  g_autoptr (GString) joined = g_string_new (NULL);

  for (guint i = 0; i < values->len; i++)
    g_string_append_printf (joined, "%s%s", i ? " " : "", ((const PsSweepValue *)values->pdata[i])->text);
  g_assert_cmpstr (joined->str, ==, expected);
}

static void test_ranges (void)
{
  check_expanded ("devices", "4", "4");
  check_expanded ("devices", "4, 8 ,16", "4 8 16");
  check_expanded ("devices", "4..8", "4 5 6 7 8");
  check_expanded ("devices", "4 .. 4", "4");
  check_expanded ("devices", "4..14 step 4", "4 8 12");
  check_expanded ("devices", "4..12 step 4", "4 8 12");
  check_expanded ("devices", "4..64 x2", "4 8 16 32 64");
  check_expanded ("devices", "4..63 x2", "4 8 16 32");
  check_expanded ("devices", "1, 4..16 x2, 20..21", "1 4 8 16 20 21");
  /* 8 * 1.5 = 12, 18, 27, 40.5 > 40 */
  check_expanded ("chunk", "512..2048 x2, 4096:512, even-work:16", "512 1024 2048 4096:512 even-work:16");
  check_expanded ("bandwidth-factor", "8..40 x1.5", "8 12 18 27");
  check_expanded ("bandwidth-factor", "0.1..0.5 step 0.1", "0.1 0.2 0.3 0.4 0.5");
  check_expanded ("memory-limit", "8GiB..32GiB x2", "8GiB 16GiB 32GiB");
  check_expanded ("memory-limit", "0.5..1.5GiB step 0.5, none", "0.5GiB 1GiB 1.5GiB none");
  check_expanded ("memory-limit", "1GiB:2GiB, 3GiB", "1GiB:2GiB 3GiB");
  check_expanded ("costs", "f=1ms,bw=1ms ; f=2ms,bw=1ms", "f=1ms,bw=1ms f=2ms,bw=1ms");
}

static void check_spec_error (const char *text, const char *wanted)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSweep) sweep = ps_sweep_parse ("s.ini", text, strlen (text), &error);

  g_assert_null (sweep);
  g_assert_nonnull (error);
  if (strstr (error->message, wanted) == NULL || strchr (error->message, '\n') != NULL)
    g_error ("'%s': '%s' is not in '%s'", text, wanted, error->message);
}

static void test_errors (void)
{
  check_spec_error ("", "s.ini: is empty");
  check_spec_error ("# nothing\n", "s.ini: holds no schedule");
  check_spec_error ("devices = 4\n", "s.ini:1: expected [sweep]");
  check_spec_error ("[swep]\n", "s.ini:1: unknown group '[swep]'");
  check_spec_error ("[sweep\n", "s.ini:1: '[sweep' is no group");
  check_spec_error ("[zip]\n", "s.ini:1: unknown group '[zip]'");
  check_spec_error ("[sweep]\n[sweep]\n", "s.ini:2: group '[sweep]' appears twice");
  check_spec_error ("[sweep]\n\ndevises = 4\n",
                    "s.ini:3: unknown field 'devises'; did you mean devices? (known are: schedule, devices,");
  check_spec_error ("[sweep]\ndevices = 4\ndevices = 8\n", "s.ini:3: field 'devices' appears twice");
  check_spec_error ("[sweep]\ndevices = 4\np = 8\n", "s.ini:3: field 'p' appears twice");
  check_spec_error ("[sweep]\ndevices = 4\n[zip a]\ndevices = 8\n", "s.ini:4: field 'devices' appears twice");
  check_spec_error ("[sweep]\ndevices\n", "s.ini:2: 'devices' is neither 'field = values'");
  check_spec_error ("[sweep]\n= 4\n", "s.ini:2: '= 4' is neither");
  check_spec_error ("[sweep]\ndevices =\n", "s.ini:2: devices: '' holds no value");
  check_spec_error ("[sweep]\ndevices = 4,,8\n", "s.ini:2: devices: '4,,8' has an empty value");
  check_spec_error ("[sweep]\ndevices = 4,8,4\n", "s.ini:2: devices: '4' appears twice");
  check_spec_error ("[sweep]\ndevices = 0\n", "s.ini:2: -p/--devices: '0' is not an integer from 1 to 4096");
  check_spec_error ("[sweep]\ndevices = 4..x\n", "s.ini:2: devices: '4..x' is no range");
  check_spec_error ("[sweep]\ndevices = ..4\n", "is no range");
  check_spec_error ("[sweep]\ndevices = 4..\n", "is no range");
  check_spec_error ("[sweep]\ndevices = 8..4\n", "'8..4' goes down");
  check_spec_error ("[sweep]\ndevices = 4..8 step 0\n", "ends in neither 'step NUMBER'");
  check_spec_error ("[sweep]\ndevices = 4..8 x1\n", "with a factor above 1");
  check_spec_error ("[sweep]\ndevices = 4..8 by 2\n", "ends in neither");
  check_spec_error ("[sweep]\neager = 0..8 x2\n", "multiplies 0");
  check_spec_error ("[sweep]\nmemory-limit = 1MiB..2GiB x2\n", "has two units");
  check_spec_error ("[sweep]\nmicrobatches = 1..2000000\n", "too many values");
  check_spec_error ("[sweep]\nmicrobatches = 1..1000000000000000000000\n", "is no range");
  check_spec_error ("[sweep]\nbandwidth-factor = 0.0000001..1 step 0.0000001\n", "is no range");
  check_spec_error ("[sweep]\nbandwidth-factor = 0\n", "s.ini:2: --bandwidth-factor: '0' is not a number from 1e-06");
  check_spec_error ("[sweep]\nblocking = true\n", "s.ini:2: --blocking: 'true' is neither yes nor no");
  check_spec_error ("[sweep]\ncomm = pears\n", "s.ini:2: --comm: 'pears' is not one of");
  check_spec_error ("[sweep]\nschedule = 1f2b\n", "s.ini:2: schedule '1f2b': no such family or file");
  check_spec_error ("[sweep]\nschedule = a..b.csv\n", "s.ini:2: a..b.csv: cannot read: No such file");
  check_spec_error ("[sweep]\nschedule = /nowhere.json\n", "s.ini:2: /nowhere.json: cannot read: No such file");
  check_spec_error ("[sweep]\nglobal-batch = 0\n", "s.ini:2: global-batch: '0' is not an integer");
  check_spec_error (ENOUGH "global-batch = 8\n", "s.ini: holds both global-batch and microbatches");
  check_spec_error ("[sweep]\nschedule = all\n",
                    "s.ini: holds no costs; give costs, costs-from, db, or model and cluster");
  check_spec_error (ENOUGH "model = no-such-model\n", "s.ini: model: 'no-such-model': neither a file");
  check_spec_error (ENOUGH "[zip a]\ndevices = 4, 8\nchunks = 1\n",
                    "s.ini:7: chunks: has 1 values, the other fields of [zip a] have 2");
  check_spec_error (ENOUGH "[zip a]\ndevices = 4, 8, 4\nchunks = 1, 1, 1\n",
                    "s.ini: [zip a]: value 3 of its fields is that of an earlier one");
  check_spec_error (ENOUGH "devices = 1..4000\nchunks = 1..4000\nslices = 1..255\n", "s.ini: has more than 1000000000");
  check_spec_error ("[sweep]\ncosts.x = 1ms\n",
                    "s.ini:2: unknown field 'costs.x'; did you mean costs.f? (known are: schedule");
  check_spec_error ("[sweep]\ncosts.c = 1\n", "s.ini:2: costs.c: '1' ");
  check_spec_error ("[sweep]\ncosts.f = 1ms:2ms\n", "s.ini:2: costs.f: '1ms:2ms' has a value per stage");
  check_spec_error (ENOUGH "costs.c = 0, 1us\n", "s.ini: holds costs.c, and c= in costs 'f=1ms,b=1ms,w=1ms,c=100us");
  check_spec_error ("[sweep]\ndevices = \x80\n", "s.ini: is not UTF-8 text");
}

/* Points */

static void test_order (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = gpipe, 1f1b\n" COSTS "microbatches = 4, 8\n"
                                     "[zip sizes]\ndevices = 2, 4\nmemory-limit = 1GiB, 2GiB\nreplicas = 1, 1\n");
  g_autoptr (GHashTable) digests = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  PsSweepPoint point;

  /* 2 schedules * 2 m * 2 zipped: the zip stands where devices do, in front; the schedule changes fastest. */
  g_assert_cmpuint (ps_sweep_n_points (sweep), ==, 8);
  ps_sweep_point_init (&point, sweep);
  for (guint i = 0; i < 8; i++) {
    char digest[PS_DIGEST_LENGTH + 1];

    ps_sweep_point_set (&point, sweep, i);
    g_assert_cmpstr (point.schedule, ==, i % 2 ? "1f1b" : "gpipe");
    g_assert_cmpuint (point.setting.n_microbatches, ==, i / 2 % 2 ? 8 : 4);
    g_assert_cmpuint (point.setting.n_devices, ==, i / 4 ? 4 : 2);
    g_assert_cmpint (point.setting.memory_limit[0], ==, (i / 4 ? 2 : 1) * ((gint64)1 << 30));
    ps_sweep_point_digest (sweep, i, digest);
    g_assert_cmpuint (strlen (digest), ==, PS_DIGEST_LENGTH);
    g_assert_true (g_hash_table_add (digests, g_strdup (digest)));
  }
  ps_sweep_point_clear (&point);
}

/* Neither the order of the lines nor how values are written makes another sweep; a value or a file does. */
static void test_identity (void)
{
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "sweep-cluster.ini", NULL), *text = NULL;
  g_autoptr (PsSweep) a = parse (ENOUGH "devices = 4, 8, 16\n"),
                      b = parse ("# the same\n[sweep] # as before\ndevices=4..16 x2\t# 4, 8\n#x\n" COSTS
                                 "microbatches = 8\nschedule =1f1b");
  g_autoptr (PsSweep) c = parse (ENOUGH "devices = 4, 8\n"), d = NULL, e = NULL;

  g_assert_cmpstr (a->text, ==, b->text);
  g_assert_cmpstr (a->digest, ==, b->digest);
  g_assert_cmpstr (a->digest, !=, c->digest);
  g_assert_cmpstr (
      a->text, ==,
      "[sweep]\ndevices = 4, 8, 16\ncosts = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB\nmicrobatches = 8\n"
      "schedule = 1f1b\n");
#define CLUSTER                                                                                                        \
  "[cluster]\nnodes = 1\ndevices_per_node = 8\npeak_flops = 1e12\nefficiency = 0.5\nlink_latency = 5us\n"              \
  "link_bandwidth = "
  text = g_strdup_printf ("[sweep]\nschedule = 1f1b\ndevices = 4\nmicrobatches = 8\nmodel = tiny-gpt\ncluster = %s\n",
                          path);
  g_assert_true (g_file_set_contents (path, CLUSTER "1GB/s\n", -1, NULL));
  d = parse (text);
  g_assert_true (g_file_set_contents (path, CLUSTER "2GB/s\n", -1, NULL));
  e = parse (text);
  g_assert_cmpstr (d->text, ==, e->text);
  g_assert_cmpstr (d->digest, !=, e->digest);
  g_unlink (path);
}

/* The digest of a sweep whose `field` names a file with that content. */
static char *digest_with (const char *field, const char *content)
{
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "sweep-named.csv", NULL);
  g_autofree char *text = g_strdup_printf ("[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 2\n"
                                           "model = tiny-gpt\ncluster = a100-80gb\n%s = %s\n",
                                           field, path);

  g_assert_true (g_file_set_contents (path, content, -1, NULL));
  g_autoptr (PsSweep) sweep = parse (text);
  g_unlink (path);
  return g_strdup (sweep->digest);
}

/* A resumed sweep refuses files that have changed. */
static void test_named_files (void)
{
  static const char *const cases[][3]
      = { { "lengths", "factor\n1\n2\n", "factor\n1\n3\n" }, { "layout", "Et*2|t*2L", "Et|t*3L" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *before = digest_with (cases[i][0], cases[i][1]), *same = digest_with (cases[i][0], cases[i][1]);
    g_autofree char *after = digest_with (cases[i][0], cases[i][2]);

    g_assert_cmpstr (before, ==, same);
    g_assert_cmpstr (before, !=, after);
  }
}

/* Predictions */

static void test_families (void)
{
  check_against_predict ("[sweep]\nschedule = all\ndevices = 2..4\nmicrobatches = 4, 6\nchunks = auto, 2\n"
                         "costs = f=1ms,b=2ms,w=1ms,c=300us,act=2MiB,wact=1MiB; f=1ms,b=1ms,w=2ms,o=1ms,act=1MiB\n"
                         "memory-limit = none, 5MiB\nbandwidth-factor = 0.5, 1\n",
                         500, 100);
}

static void test_channels (void)
{
  check_against_predict ("[sweep]\nschedule = 1f1b, zb-h1, interleaved, dualpipe-v, pipedream\ndevices = 4\n"
                         "microbatches = 8\n"
                         "costs = f=1ms,b=2ms,w=1ms,c=300us,msg=1MiB,act=2MiB,wact=1MiB\n"
                         "comm = latency, pair, rank\ncomm-order = asap, deferred, planned\nblocking = no, yes\n"
                         "bandwidth-factor = 0.2, 1\n"
                         "ready-order = none, 3\nspeed = 1, 0.5:1:1:2\nsync = global, bypass\n",
                         100, 100);
}

static void test_models (void)
{
  check_against_predict ("[sweep]\nschedule = 1f1b, zb-v, zb-auto\ndevices = 4\nmicrobatches = 8\n"
                         "cluster = a100-80gb, h100-80gb\nmodel = gpt-1.5b\nbandwidth-factor = 0.25, 1\n"
                         "latency-factor = 1, 3\nrecompute = none, full\nreplicas = 1, 2\nzero = 0, 1\n"
                         "share-links = no, yes\nreduce = overlapped, exposed\n",
                         100, 50);
}

/* Families that look at costs order for the synchronisation, too. */
static void test_auto (void)
{
  check_against_predict ("[sweep]\nschedule = zb-auto, zb-v-auto\ndevices = 4\nmicrobatches = 3\n"
                         "costs = f=5ms,b=1ms,w=9ms,c=1ms,act=12MiB,wact=4MiB\nsync = global, bypass\n",
                         4, 0);
}

/* global-batch 48 on 2 replicas: 48 / (2 b) microbatches, 24 for b = 1 and 6 for b = 4; 48 is no multiple of 2 * 5. The
 * modelled microbatch of b sequences takes b times the operations of one. */
static void test_global_batch (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = gpipe\ndevices = 2\nglobal-batch = 48\nreplicas = 2\n"
                                     "microbatch-size = 1, 4, 5\nmodel = gpt-1.5b\ncluster = a100-80gb\n");
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  g_autoptr (PsResult) one = ps_sweep_worker_predict (worker, 0, NULL),
                       four = ps_sweep_worker_predict (worker, 1, NULL),
                       five = ps_sweep_worker_predict (worker, 2, NULL);

  g_assert_cmpint (value (one, "microbatches")->integer, ==, 24);
  g_assert_cmpint (value (four, "microbatches")->integer, ==, 6);
  g_assert_cmpint (value (one, "microbatch_size")->integer, ==, 1);
  g_assert_cmpint (value (four, "microbatch_size")->integer, ==, 4);
  g_assert_cmpint (value (one, "global_batch")->integer, ==, 48);
  g_assert_cmpint (value (four, "global_batch")->integer, ==, 48);
  g_assert_cmpstr (five->reason, ==,
                   "global-batch 48: is no multiple of 10, the sequences of one microbatch on all replicas");
  /* gpipe: (m + p - 1) (F + B) without transfers: 25 units against 4 (6 + 1) = 28 at most. Small microbatches wait for
   * the host to launch their kernels: 25 units of one are no shorter than 7 of it. */
  double ratio = (double)value (four, "makespan_ns")->integer / (double)value (one, "makespan_ns")->integer;
  g_assert_cmpfloat (ratio, >, 7.0 / 25);
  g_assert_cmpfloat (ratio, <, 28.0 / 25 + 0.03);
}

/* A batch of more microbatches than there may be is no multiple either. */
static void test_large_batch (void)
{
  g_autofree char *text = g_strdup_printf ("[sweep]\nschedule = gpipe\ndevices = 1\nglobal-batch = %d, %d\n"
                                           "costs = f=1us,bw=1us\n",
                                           PS_MAX_MICROBATCHES, PS_MAX_MICROBATCHES + 1);
  g_autoptr (PsSweep) sweep = parse (text);
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  g_autoptr (PsResult) most = ps_sweep_worker_predict (worker, 0, NULL),
                       more = ps_sweep_worker_predict (worker, 1, NULL);

  g_assert_cmpint (value (most, "microbatches")->integer, ==, PS_MAX_MICROBATCHES);
  g_assert_true (g_str_has_prefix (more->reason, "global-batch 1048577: is no multiple of 1, the sequences"));
}

/* Twice the bandwidth and three times the latency: alpha + n / beta becomes 3 alpha + n / (2 beta). */
static void test_link_factors (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 1\nmodel = gpt-1.5b\n"
                                     "cluster = a100-80gb\nbandwidth-factor = 1, 2\nlatency-factor = 1, 3\n");
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  g_autoptr (PsCluster) cluster = ps_cluster_load ("a100-80gb", NULL);
  g_autoptr (PsModel) model = ps_model_load ("gpt-1.5b", NULL);
  double bytes = (double)ps_model_boundary_bytes (model);
  gint64 makespan[4];

  for (guint i = 0; i < 4; i++) {
    g_autoptr (PsResult) result = ps_sweep_worker_predict (worker, i, NULL);

    makespan[i] = value (result, "makespan_ns")->integer;
    g_assert_cmpfloat (value (result, "link_bandwidth")->real, ==, cluster->link_bandwidth * (1 + i / 2));
    g_assert_cmpint (value (result, "link_latency_ns")->integer, ==, cluster->link_latency_ns * (1 + 2 * (i % 2)));
  }
  /* One microbatch: an activation goes there, a gradient comes back; 2 transfers. */
  g_assert_cmpint (makespan[1] - makespan[0], ==, 2 * 2 * cluster->link_latency_ns);
  g_assert_cmpfloat_with_epsilon ((double)(makespan[0] - makespan[2]), bytes / cluster->link_bandwidth * 1e9, 2);
}

static void check_shard (const char *text, guint index, guint n)
{
  g_autoptr (GError) error = NULL;
  PsShard shard;

  g_assert_true (ps_shard_parse ("--shard", text, &shard, &error));
  g_assert_cmpuint (shard.index, ==, index);
  g_assert_cmpuint (shard.n, ==, n);
}

static void refuse_shard (const char *text)
{
  g_autoptr (GError) error = NULL;
  PsShard shard;

  g_assert_false (ps_shard_parse ("--shard", text, &shard, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_nonnull (strstr (error->message, text));
}

static void test_shards (void)
{
  static const char *const wrong[] = { "", "1", "2/2", "-1/2", "0/0", "1/2/3", "a/b", "slurm", "mpi" };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    refuse_shard (wrong[i]);
  check_shard ("0/1", 0, 1);
  check_shard ("6/7", 6, 7);
  check_shard ("0/1000000000", 0, 1000000000);
  refuse_shard ("0/1000000001");
}

/* Sweeps over single keys of costs and over measured profiles. */

/* Keys by themselves predict what the same costs written out do; their columns hold them as numbers. */
static void test_cost_keys (void)
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
  for (guint i = 0; i < 12; i++) {
    g_assert_cmpint (value_at (a, i, "iteration_ns", &x)->integer, ==, value_at (b, i, "iteration_ns", &y)->integer);
    g_assert_cmpint (value (x, "peak_memory_bytes")->integer, ==, value (y, "peak_memory_bytes")->integer);
    g_assert_cmpint (value (x, "cost_c_ns")->integer, ==, 50000 * (gint64)(i / 4));
    g_assert_cmpint (value (x, "cost_act_bytes")->integer, ==, (gint64)(1 + i / 2 % 2) << 20);
    g_assert_cmpint (value (x, "cost_f_ns")->type, ==, PS_VALUE_NONE);
    g_assert_cmpstr (value (x, "costs")->text, ==, "f=1ms,b=1ms,w=1ms");
  }
}

/* Every key of costs is a field with a column of its own. */
static void test_all_cost_keys (void)
{
  for (guint key = 0; key < PS_N_COST_KEYS; key++) {
    g_autofree char *name = g_strdup_printf ("costs.%s", ps_cost_key_name ((PsCostKey)key));
    const PsOption *field = ps_sweep_field_find (name);

    g_assert_nonnull (field);
    g_assert_cmpint (field->type, ==, key >= PS_COST_ACT ? PS_OPTION_SIZE : PS_OPTION_TIME);
    g_assert_cmpint (ps_result_column_find (field->sweep->column.key), ==, field - ps_setting_options);
  }
}

/* gpipe on one device: m (F + BW) = 4 (1 + 2) ms. */
static void test_cost_keys_alone (void)
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
static void store_profile (PsCostDb *db, const char *name, guint b)
{
  static const struct {
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

static char *measured_database (void)
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
static void test_measured (void)
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
  for (guint i = 0; i < 4; i++) {
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

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sweep/ranges", test_ranges);
  g_test_add_func ("/sweep/errors", test_errors);
  g_test_add_func ("/sweep/order", test_order);
  g_test_add_func ("/sweep/identity", test_identity);
  g_test_add_func ("/sweep/named-files", test_named_files);
  g_test_add_func ("/sweep/families", test_families);
  g_test_add_func ("/sweep/channels", test_channels);
  g_test_add_func ("/sweep/auto", test_auto);
  g_test_add_func ("/sweep/models", test_models);
  g_test_add_func ("/sweep/global-batch", test_global_batch);
  g_test_add_func ("/sweep/large-batch", test_large_batch);
  g_test_add_func ("/sweep/link-factors", test_link_factors);
  g_test_add_func ("/sweep/shards", test_shards);
  g_test_add_func ("/sweep-costs/keys", test_cost_keys);
  g_test_add_func ("/sweep-costs/all-keys", test_all_cost_keys);
  g_test_add_func ("/sweep-costs/keys-alone", test_cost_keys_alone);
  g_test_add_func ("/sweep-costs/measured", test_measured);
  return run_in_folder ();
}
