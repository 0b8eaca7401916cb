/* test-run-report.c - what pipesim-exec says of a run, and what it learns from: reports of runs that are made up, files
 * of losses, the text that ships, and the sentinel beside a run. */
#include "folder-rig.h"
#include "run-rig.h"

#include "exec.h"
#include "train/data.h"

#include <pipesim/setting.h>

#include <math.h>

/* A made-up run of 1f1b on 2 devices with 2 microbatches: predicted to take 3 slots of 3 ms, which is 9 ms. */
typedef struct {
  PsSetting *setting;
  PsPredictor *predictor;
  PsPrediction *prediction;
  PsRunSetting run;
  PsRunResult result;
  gint64 iterations[3];
  double losses[6];
  PsComparedRun compared;
  PsVerdict verdict;
  PsRunReport report;
} Made;

static void add_post (PsTimeline *timeline, guint device, gint64 start_ns, gint64 end_ns)
{
  PsSpan post = { .device = (guint16)device, .start_ns = start_ns, .end_ns = end_ns, .post = PS_INSTRUCTION_SEND };

  g_array_append_val (timeline->posts, post);
}

static void make (Made *made)
{
  *made = (Made){ .setting = ps_setting_new (),
                  .run = { .device = &ps_cpu_device, .transport = &ps_threads_transport, .n_steps = 3 },
                  .losses = { 9, 9, 1, 4, 2, 6 },
                  .verdict = { .check = PS_CHECK_NOT_RUN } };
  made->setting->n_devices = made->setting->n_microbatches = 2;
  g_free (made->setting->costs);
  made->setting->costs = g_strdup ("f=1ms,b=1ms,w=1ms");
  made->predictor = ps_predictor_new (made->setting, NULL);
  made->prediction = fine (ps_predictor_predict (made->predictor, "1f1b", &error));
  g_assert_cmpint (made->prediction->metrics.iteration_ns, ==, 9000000);
  made->prediction->interval
      = (PsInterval){ .low_ns = 8000000, .p10_ns = 8500000, .p50_ns = 9000000, .p90_ns = 9500000, .high_ns = 9900000 };
  made->result = (PsRunResult){ .n_steps = 3,
                                .n_stages = 2,
                                .n_microbatches = 2,
                                .iteration_ns = made->iterations,
                                .median_iteration_ns = 9900000,
                                .clock_mhz = 1980,
                                .n_rollbacks = 1,
                                .losses = made->losses,
                                .timeline = ps_prediction_timeline (made->prediction) };
  made->result.timeline->origin = PS_ORIGIN_MEASURED;
  made->result.timeline->iteration_ns = 9900000;
  add_post (made->result.timeline, 0, 1000, 3000);
  add_post (made->result.timeline, 1, 1000, 5000);
  add_post (made->result.timeline, 0, 6000, 9000);
  made->compared = (PsComparedRun){ .result = &made->result, .replayed_makespan_ns = 8910000 };
  g_autoptr (PsTimeline) predicted = ps_compared_run_prediction (made->prediction);
  made->compared.comparison = fine (ps_compare (predicted, made->result.timeline, &error));
  made->report = (PsRunReport){ .program = made->prediction->program,
                                .setting = &made->run,
                                .compared = &made->compared,
                                .prediction = made->prediction,
                                .verdict = &made->verdict,
                                .slowdown = { NAN, NAN } };
}

static void clear (Made *made)
{
  ps_timeline_free (made->result.timeline);
  ps_comparison_free (made->compared.comparison);
  ps_prediction_free (made->prediction);
  ps_predictor_free (made->predictor);
  ps_setting_free (made->setting);
  ps_verdict_clear (&made->verdict);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Made, clear)

/* The text, or JSON, has each of the lines, or none where they begin with "!". */
static void assert_says (char *taken, const char *const *lines)
{
  g_autofree char *text = taken;

  for (; *lines != NULL; lines++)
    if ((strstr (text, **lines == '!' ? *lines + 1 : *lines) == NULL) != (**lines == '!'))
      g_error ("%s in:\n%s", *lines, text);
}

#define SAYS(taken, ...) assert_says (taken, (const char *const[]){ __VA_ARGS__, NULL })

/* Every figure once: losses are means over the microbatches of each step, posts are summed by device; two devices
 * compute for 12 of 2 * 9.9 ms. */
static void test_json (void)
{
  g_auto (Made) made = { 0 };

  make (&made);
  SAYS (ps_run_report_to_json (&made.report), "\"schedule\": \"1f1b\"", "\"iteration_ns\": 9900000,",
        "\"predicted_iteration_ns\": 9000000,", "\"predicted_iteration_p10_ns\": 8500000,",
        "\"predicted_iteration_p90_ns\": 9500000,", "\"inside_interval\": false,", "\"makespan_ns\": 9000000,",
        "\"replayed_makespan_ns\": 8910000,", "\"bubble_ratio\": 0.39393939", "\"peak_memory_bytes\": 0,",
        "\"predicted_peak_memory_bytes\": 0,", "\"clock_mhz\": 1980,", "\"posting_ns\": [5000, 4000],",
        "\"losses\": [9, 2.5, 4],", "\"check\": \"not run\"", "\"device\": \"cpu\"", "\"transport\": \"threads\"",
        "\"origin\": \"measured\"", "\"rollbacks\": null", "\"machine_slowdown\": null",
        "\"inside_interval_slowdown\": null");
  made.run.bypass = TRUE;
  made.verdict.check = PS_CHECK_BIT_EQUAL;
  made.report.slowdown = (PsSlowdown){ 1.1, 0 };
  made.result.emulated = TRUE;
  made.result.clock_mhz = 0;
  /* 1.1 times 8.5 to 9.5 is 9.35 to 10.45 */
  SAYS (ps_run_report_to_json (&made.report), "\"rollbacks\": 1,", "\"check\": \"bit-equal\"",
        "\"machine_slowdown\": 1.1", "\"predicted_iteration_slowdown_ns\": 9900000,",
        "\"inside_interval_slowdown\": true", "\"clock_mhz\": null", "\"origin\": \"emulated\"");
  made.result.median_iteration_ns = 9500000;
  made.report.slowdown = (PsSlowdown){ 0.9, 0 };
  SAYS (ps_run_report_to_json (&made.report), "\"inside_interval\": true,",
        "\"predicted_iteration_slowdown_ns\": 8100000,", "\"inside_interval_slowdown\": false");
  made.prediction->interval = (PsInterval){ 0 };
  made.report.slowdown.factor = NAN;
  made.run.device = &ps_null_device;
  SAYS (ps_run_report_to_json (&made.report), "\"predicted_iteration_p10_ns\": null", "\"inside_interval\": null",
        "\"losses\": null", "\"device\": \"null\"");
  made.report.prediction = NULL;
  ps_comparison_free (g_steal_pointer (&made.compared.comparison));
  SAYS (ps_run_report_to_json (&made.report), "\"predicted_iteration_ns\": null", "\"replayed_makespan_ns\": null",
        "\"predicted_peak_memory_bytes\": null", "\"iteration_ns\": 9500000,");
}

static void test_text (void)
{
  g_auto (Made) made = { 0 };

  make (&made);
  SAYS (ps_run_report_to_text (&made.report),
        "\nmeasured iteration time, median over the steps after the first: 9.9 ms\n",
        "clock 1980 MHz, median over the steps of the slowest device\n",
        "posting sends and receives held each device's host for: 5 us, 4 us\n", "the simulated makespan is 8.91 ms",
        "-1.00 %", "!machine:", "!check against", "!post-validation", "!emulated", "!the two ops of a pair");
  made.run.n_tensor = 1 << 20;
  SAYS (ps_run_report_to_text (&made.report), "\n2097152 devices took turns on ");
  made.run.n_tensor = 0;
  made.run.bypass = TRUE;
  made.result.n_steps = 1;
  made.result.emulated = TRUE;
  made.result.clock_mhz = 0;
  made.verdict = (PsVerdict){ PS_CHECK_DIFFERS, 0.25, 0.5, g_strdup ("step 2: loss") };
  SAYS (ps_run_report_to_text (&made.report), "\nThe device is emulated: its times are those of the emulation",
        "\nemulated iteration time: 9.9 ms\n", "!MHz", "post-validation took back 1 of 1 steps\n",
        "\ncheck against one device: differs (first at step 2: loss; losses differ by 0.25, gradients of the last step "
        "by "
        "0.5 of the largest)\n");
  static guint8 pair[1];
  made.report.prediction->program->pair = pair;
  SAYS (ps_run_report_to_text (&made.report), "the two ops of a pair ran one after the other\n");
}

/* The machine is as fast as then up to 3 % either way. */
static void test_slowdown_words (void)
{
  static const struct {
    double factor;
    const char *says;
  } rows[]
      = { { 1.029, "took 1.03 times as long as in the profile: the machine is as fast as then\n" },
          { 0.971, "took 0.97 times as long as in the profile: the machine is as fast as then\n" },
          { 1.031, "the machine is slower now\n" },
          { 0.969, "the machine is faster now\n" },
          /* 9.9 ms, as it was; and 8.1 ms are 18.18 % too few */
          { 1.1, "predicted for that speed: 9.9 ms, +0.00 % against the run, which lies inside p10 .. p90 then\n" },
          { 0.9, "predicted for that speed: 8.1 ms, -18.18 % against the run, which lies outside p10 .. p90 then\n" } };
  g_auto (Made) made = { 0 };

  make (&made);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    made.report.slowdown = (PsSlowdown){ rows[i].factor, 0 };
    SAYS (ps_run_report_to_text (&made.report), rows[i].says);
  }
}

static void test_title (void)
{
  g_auto (Made) made = { 0 };

  make (&made);
  for (guint t = 0; t <= 2; t++) {
    made.run.n_tensor = t;
    g_autofree char *title = ps_run_title (made.report.program, &made.run);
    g_assert_cmpstr (title, ==,
                     t < 2 ? "1f1b on 2 devices (cpu, threads), 2 microbatches"
                           : "1f1b on 2 x 2 devices (cpu, threads), 2 microbatches");
  }
}

static char *contents_of (const char *path)
{
  char *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return text;
}

/* A file of losses keeps the lines of steps that a checkpoint has done, whole ones alone, and gets those that follow.
 * The rate of a line is that of its step: a warm-up of 4 has reached 3 / 4 in the third. */
static void test_losses (void)
{
  static const struct {
    const char *old; /* after the head; NULL: no file */
    guint n_done;
    const char *kept;
  } rows[] = { { NULL, 0, "" },
               { NULL, 2, "" },
               { "1,9,1,1\n2,8,1,1\n3,7,1,1\n", 0, "" },
               { "1,9,1,1\n2,8,1,1\n3,7,1,1\n", 1, "1,9,1,1\n" },
               { "1,9,1,1\n2,8,1,1\n3,7,1,1\n", 2, "1,9,1,1\n2,8,1,1\n" },
               { "1,9,1,1\n2,8,1,1\n3,7,1,1\n", 3, "1,9,1,1\n2,8,1,1\n3,7,1,1\n" },
               { "1,9,1,1\n2,8,1", 2, "1,9,1,1\n" },
               { "", 2, "" } };
  const PsTraining training = { .learning_rate = 0.5, .warm_up = 4 };
  const PsStepReport third = { 3, 1234567, 2.5 };
  g_autofree char *path = path_of ("losses.csv");

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_auto (PsStepLog) log = { .training = &training };
    g_autofree char *old = rows[i].old != NULL ? g_strconcat (PS_LOSSES_HEAD, rows[i].old, NULL) : NULL;
    g_autofree char *expected = g_strconcat (PS_LOSSES_HEAD, rows[i].kept, "3,2.5,0.375,1234567\n", NULL);

    g_unlink (path);
    if (old != NULL)
      g_assert_true (g_file_set_contents (path, old, -1, NULL));
    fine (ps_step_log_open (&log, path, rows[i].n_done, &error));
    g_assert_true (ps_step_log_add (&log, &third));
    g_autofree char *text = contents_of (path);
    g_assert_cmpstr (text, ==, expected);
  }
  g_auto (PsStepLog) none = { .training = &training };
  fine (ps_step_log_open (&none, NULL, 0, &error));
  g_assert_cmpint (none.losses, ==, -1);
  g_assert_true (ps_step_log_add (&none, &third));
  g_assert_true (g_file_set_contents (path, "other,file\n1,2\n", -1, NULL));
  g_auto (PsStepLog) log = { .training = &training };
  refused (ps_step_log_open (&log, path, 1, &error), PS_ERROR_INPUT,
           "--losses: *losses.csv: does not begin with 'step,loss,learning_rate,iteration_ns'");
}

/* The number that words say, as far as they do: "seventy-three", "one hundred and five". */
static guint number_of_words (const char *words)
{
  static const struct {
    const char *word;
    guint value;
  } table[] = { { "zero", 0 },     { "one", 1 },      { "two", 2 },        { "three", 3 },     { "four", 4 },
                { "five", 5 },     { "six", 6 },      { "seven", 7 },      { "eight", 8 },     { "nine", 9 },
                { "ten", 10 },     { "eleven", 11 },  { "twelve", 12 },    { "thirteen", 13 }, { "fourteen", 14 },
                { "fifteen", 15 }, { "sixteen", 16 }, { "seventeen", 17 }, { "eighteen", 18 }, { "nineteen", 19 },
                { "twenty", 20 },  { "thirty", 30 },  { "forty", 40 },     { "fifty", 50 },    { "sixty", 60 },
                { "seventy", 70 }, { "eighty", 80 },  { "ninety", 90 },    { "hundred", 99 },  { "and", 0 } };
  g_auto (GStrv) items = g_strsplit_set (words, " -", -1);
  guint sum = 0;

  for (char **item = items; *item != NULL; item++) {
    guint i = 0;

    while (i < G_N_ELEMENTS (table) && !g_str_equal (table[i].word, *item))
      i++;
    if (i == G_N_ELEMENTS (table))
      g_error ("'%s' of '%s'", *item, words);
    sum += table[i].value; /* "one hundred": 1 and 99 */
  }
  return sum;
}

/* The text that ships has right sums, of all sorts of numbers. */
static void test_sums (void)
{
  PsModel model = tiny;
  gsize n_bytes;

  model.vocabulary = 256;
  g_autoptr (GBytes) text = fine (ps_corpus_load ("--text", PS_CORPUS_SUMS, &model, &error));
  const char *bytes = g_bytes_get_data (text, &n_bytes);
  g_autofree char *copy = g_strndup (bytes, n_bytes);
  g_auto (GStrv) lines = g_strsplit (copy, ".\n", -1);
  g_assert_cmpuint (g_strv_length (lines), ==, 2000 + 1);
  g_assert_cmpstr (lines[2000], ==, "");
  gboolean seen[200] = { FALSE };
  for (guint i = 0; i < 2000; i++) {
    g_auto (GStrv) sides = g_strsplit (lines[i], " make ", -1), terms = g_strsplit (sides[0], " and ", -1);

    g_assert_cmpuint (g_strv_length (sides), ==, 2);
    g_assert_cmpuint (g_strv_length (terms), ==, 2);
    const guint a = number_of_words (terms[0]), b = number_of_words (terms[1]), sum = number_of_words (sides[1]);
    g_assert_cmpuint (a + b, ==, sum);
    g_assert_cmpuint (a, <, 100);
    g_assert_cmpuint (b, <, 100);
    seen[a] = seen[b] = seen[sum] = TRUE;
  }
  for (guint i = 0; i < 100; i++)
    g_assert_true (seen[i]);
  model.vocabulary = 255;
  refused (ps_corpus_load ("--text", PS_CORPUS_SUMS, &model, &error), PS_ERROR_USAGE,
           "--text: the model has a vocabulary of 255; bytes need 256");
  /* One byte more than a sequence is the least. */
  g_autofree char *path = path_of ("short.txt");
  model.vocabulary = 256;
  g_assert_true (g_file_set_contents (path, "012345678", -1, NULL));
  g_autoptr (GBytes) nine = fine (ps_corpus_load ("--text", path, &model, &error));
  g_assert_cmpuint (g_bytes_get_size (nine), ==, 9);
  g_assert_true (g_file_set_contents (path, "01234567", -1, NULL));
  refused (ps_corpus_load ("--text", path, &model, &error), PS_ERROR_INPUT,
           "--text: *short.txt has 8 bytes; a sequence of 8 tokens needs 9");
}

/* Times of F by the device's own clock. Each takes 25 ms by that of the host, so that a reading of 150 ms ends with the
 * seventh. */
static const gint64 f_ns[] = { 9999, 2000, 3000, 2000, 3000, 3000, 2000, 1 };

/* A device of these times. */
typedef struct {
  PsDevice base;
  guint n_f;
  PsOpKind last;
} Steady;

static PsDevice *steady_open (const PsDeviceSetting *setting, GError **error);

static void steady_close (PsDevice *device)
{
  g_free (device);
}

static gboolean steady_attach (PsDevice *device, GError **error)
{
  return TRUE;
}

static gboolean steady_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  return TRUE;
}

static PsTensor *steady_tensor_new (PsDevice *device)
{
  PsTensor *tensor = g_new0 (PsTensor, 1);

  *tensor = (PsTensor){ .device = device, .bytes = 64, .data = g_malloc0 (64) };
  return tensor;
}

static void steady_tensor_free (PsTensor *tensor)
{
  g_free (tensor->data);
  g_free (tensor);
}

static gboolean steady_run (PsDevice *base, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  Steady *device = (Steady *)base;

  steady_tensor_free (input);
  device->last = (PsOpKind)op.kind;
  device->n_f += op.kind == PS_OP_F;
  if (op.kind == PS_OP_F)
    g_usleep (25000);
  return TRUE;
}

static void steady_memory (PsDevice *device, PsMemoryUse *use)
{
  *use = (PsMemoryUse){ 0 };
}

static void steady_reset_peak (PsDevice *device)
{
}

static gint64 steady_op_ns (PsDevice *base)
{
  const Steady *device = (const Steady *)base;

  return device->last != PS_OP_F ? 1 : f_ns[MIN (device->n_f, G_N_ELEMENTS (f_ns)) - 1];
}

static const PsDeviceClass steady_class = { .name = "steady",
                                            .open = steady_open,
                                            .close = steady_close,
                                            .attach = steady_attach,
                                            .add_stage = steady_add_stage,
                                            .tensor_new = steady_tensor_new,
                                            .tensor_free = steady_tensor_free,
                                            .run = steady_run,
                                            .memory = steady_memory,
                                            .reset_peak = steady_reset_peak,
                                            .op_ns = steady_op_ns };

static PsDevice *steady_open (const PsDeviceSetting *setting, GError **error)
{
  Steady *device = g_new0 (Steady, 1);

  device->base.class = &steady_class;
  return &device->base;
}

/* A reading around a run drops the sentinel's first sample, which finds cold caches: of the seven, 2000 is the lower
 * median of the other six, 3000 that of all. The run's slowdown is the mean of
 * the readings on both sides over that of the profile, 1600: 2000 / 1600. A run without readings has none. */
static void test_speed (void)
{
  const PsRunSetting run = { .device = &steady_class, .model = &tiny };
  PsMeasurement measured = { .taken = (char *)"2026-01-01T00:00:01Z" };
  PsSentinel *before = g_new0 (PsSentinel, 1);
  g_auto (PsMachineSpeed) speed = { .run = &run };
  g_auto (PsMachineSpeed) blind = { .run = &run };

  *before = (PsSentinel){ g_strdup ("F of layers=1"), 1600, 10, g_strdup ("2026-01-01T00:00:00Z") };
  speed.profile = g_new0 (PsProfileContents, 1);
  speed.profile->measurements = g_ptr_array_new ();
  g_ptr_array_add (speed.profile->measurements, &measured);
  speed.profile->sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);
  g_ptr_array_add (speed.profile->sentinels, before);
  fine (ps_machine_speed_read (&speed, &error));
  g_assert_cmpuint (speed.profile->sentinels->len, ==, 2);
  const PsSentinel *reading = speed.profile->sentinels->pdata[1];
  g_assert_cmpstr (reading->what, ==, "F of layers=1");
  g_assert_cmpint (reading->median_ns, ==, 2000);
  g_assert_cmpuint (reading->n, ==, 6);
  measured.taken = (char *)"2026-01-01T00:00:00Z"; /* beside the profile's reading alone */
  g_assert_cmpfloat_with_epsilon (ps_machine_speed_of_run (&speed, "2999-01-01T00:00:00Z").factor, 2000.0 / 1600, 1e-9);
  /* a run between both readings */
  g_assert_cmpfloat_with_epsilon (ps_machine_speed_of_run (&speed, "2026-01-02T00:00:00Z").factor, 1800.0 / 1600, 1e-9);
  fine (ps_machine_speed_read (&blind, &error));
  g_assert_null (blind.profile);
  g_assert_true (isnan (ps_machine_speed_of_run (&blind, "2026-01-02T00:00:00Z").factor));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/run-report/json", test_json);
  g_test_add_func ("/run-report/text", test_text);
  g_test_add_func ("/run-report/slowdown-words", test_slowdown_words);
  g_test_add_func ("/run-report/title", test_title);
  g_test_add_func ("/run-report/losses", test_losses);
  g_test_add_func ("/run-report/sums", test_sums);
  g_test_add_func ("/run-report/speed", test_speed);
  return run_in_folder ();
}
