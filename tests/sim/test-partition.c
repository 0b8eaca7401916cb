/* test-partition.c - the algorithms that cut layers into stages, against brute force and published answers. */
#include "error-rig.h"

#include <pipesim/partition.h>

#include <math.h>
#include <string.h>

/* A setting and what it points into. */
typedef struct {
  PsLayers *layers;
  PsLink links[64];
  double speeds[64];
  gint64 limits[64];
  PsPartitionSetting setting;
} Case;

static void case_clear (Case *c)
{
  ps_layers_free (c->layers);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static guint draw (GRand *rand, guint n)
{
  return (guint)g_rand_int_range (rand, 0, (gint32)n);
}

static void set_layer (PsLayer *layer, gint64 time, gint64 output, gint64 parameters, gint64 kept)
{
  *layer = (PsLayer){ .name = g_strdup ("layer"),
                      .time_ns = time,
                      .forward_ns = time / 3,
                      .backward_ns = time / 3,
                      .weight_ns = time - 2 * (time / 3),
                      .full_backward_ns = time - time / 3,
                      .optimizer_ns = time / 50,
                      .flops = 7 * time,
                      .output_bytes = output,
                      .kept_bytes = kept,
                      .weight_kept_bytes = kept / 2,
                      .parameter_bytes = parameters,
                      .state_bytes = 4 * parameters };
}

/* Random layers on p devices; every figure is drawn, limits and speeds are not yet in use. */
static void case_init (Case *c, GRand *rand, guint n_layers, guint p, guint v)
{
  static const double speeds[] = { 1, 2, 0.5, 1.25, 0.7, 3 };

  *c = (Case){ .layers = ps_layers_new (n_layers) };
  c->layers->has_flops = TRUE;
  c->layers->source = g_strdup ("test");
  for (guint i = 0; i < n_layers; i++) {
    /* One draw a line: compilers differ in the order of arguments. */
    guint time = draw (rand, 1000);
    guint output = draw (rand, 500);
    guint parameters = draw (rand, 200);

    set_layer (&c->layers->layers[i], time, output, parameters, draw (rand, 100));
  }
  for (guint s = 0; s < p * v; s++) {
    c->links[s].latency_ns = draw (rand, 50);
    c->links[s].bandwidth = p > 1 ? 1e9 / (1.0 + draw (rand, 2)) : 0;
  }
  for (guint d = 0; d < p; d++) {
    c->speeds[d] = speeds[draw (rand, G_N_ELEMENTS (speeds))];
    c->limits[d] = 500 + draw (rand, 3000);
  }
  c->setting = (PsPartitionSetting){ .layers = c->layers, .n_devices = p, .n_chunks = v, .links = c->links };
}

static PsPartition *cut_with (const char *name, const PsPartitionSetting *setting)
{
  return fine (ps_partition (ps_partitioner_find (name), setting, &error));
}

/* Every layer once, in order, no stage empty. */
static void assert_whole (const PsPartition *partition, guint n_layers)
{
  guint next = 0;

  for (guint s = 0; s < partition->n_stages; s++) {
    g_assert_cmpuint (partition->stages[s].first, ==, next);
    g_assert_cmpuint (partition->stages[s].last, >=, next);
    next = partition->stages[s].last + 1;
  }
  g_assert_cmpuint (next, ==, n_layers);
}

/* Brute force: all ways to cut, judged straight from the definitions. */

typedef struct {
  const PsPartitionSetting *setting;
  PsPartitionStage stages[64];
  gint64 best;   /* smallest bottleneck within the limits; -1: none */
  gint64 excess; /* the smallest of the largest excesses over a limit */
  gint64 best_iteration;
  gboolean simulate;
} Brute;

static gint64 plain_bottleneck (const PsPartitionSetting *setting, const PsPartitionStage *stages)
{
  guint n_stages = setting->n_devices * setting->n_chunks;
  double worst = 0;

  for (guint s = 0; s < n_stages; s++) {
    const PsLayer *last = &setting->layers->layers[stages[s].last];
    double time = 0;

    for (guint i = stages[s].first; i <= stages[s].last; i++)
      time += (double)setting->layers->layers[i].time_ns;
    worst = fmax (worst, rint (time / (setting->speeds != NULL ? setting->speeds[s % setting->n_devices] : 1)));
    double bandwidth = setting->links[s].bandwidth;
    if (s + 1 < n_stages)
      worst = fmax (worst, 2.0 * (double)setting->links[s].latency_ns
                               + (bandwidth > 0 ? 2 * rint (1e9 * (double)last->output_bytes / bandwidth) : 0));
  }
  return (gint64)worst;
}

/* By how many bytes the worst stage exceeds its limit under 1F1B: state + min (m, S - s) kept. */
static gint64 plain_excess (const PsPartitionSetting *setting, const PsPartitionStage *stages)
{
  gint64 worst = 0;

  for (guint s = 0; setting->memory_limit != NULL && s < setting->n_devices; s++) {
    gint64 bytes = 0, under_way = setting->n_devices - s;

    if (setting->n_microbatches)
      under_way = MIN (under_way, setting->n_microbatches);
    for (guint i = stages[s].first; i <= stages[s].last; i++)
      bytes += setting->layers->layers[i].state_bytes + under_way * setting->layers->layers[i].kept_bytes;
    worst = MAX (worst, bytes - setting->memory_limit[s]);
  }
  return worst;
}

static void judge (Brute *brute)
{
  gint64 excess = plain_excess (brute->setting, brute->stages);
  gint64 bottleneck = plain_bottleneck (brute->setting, brute->stages);
  PsPartitionRun run;
  PsPartition partition = { brute->setting->n_devices * brute->setting->n_chunks, brute->stages, 0 };

  if (brute->simulate) {
    g_assert_true (ps_partition_simulate (brute->setting, &partition, &run, NULL));
    brute->best_iteration = MIN (brute->best_iteration, run.iteration_ns);
    return;
  }
  brute->excess = MIN (brute->excess, excess);
  if (excess == 0 && (brute->best < 0 || bottleneck < brute->best))
    brute->best = bottleneck;
}

static void try_all (Brute *brute, guint stage, guint first)
{
  guint n_stages = brute->setting->n_devices * brute->setting->n_chunks, n = brute->setting->layers->n_layers;

  for (guint last = stage + 1 == n_stages ? n - 1 : first; last + (n_stages - stage) <= n; last++) {
    brute->stages[stage] = (PsPartitionStage){ first, last, 1 };
    if (stage + 1 == n_stages)
      judge (brute);
    else
      try_all (brute, stage + 1, last + 1);
  }
}

static Brute brute_force (const PsPartitionSetting *setting, gboolean simulate)
{
  Brute brute
      = { .setting = setting, .best = -1, .excess = G_MAXINT64, .best_iteration = G_MAXINT64, .simulate = simulate };

  try_all (&brute, 0, 0);
  return brute;
}

/* Half of the cases with speeds, a third with two chunks. */
static void test_bottleneck (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);

  for (guint i = 0; i < 500; i++) {
    guint p = 1 + draw (rand, 4), v = i % 3 == 0 ? 2 : 1;
    g_auto (Case) c;

    case_init (&c, rand, p * v + draw (rand, 6), p, v);
    if (i % 2)
      c.setting.speeds = c.speeds;
    Brute brute = brute_force (&c.setting, FALSE);
    g_autoptr (PsPartition) partition = cut_with ("bottleneck", &c.setting);
    assert_whole (partition, c.layers->n_layers);
    g_assert_cmpint (partition->bottleneck_ns, ==, brute.best);
    g_assert_cmpint (partition->bottleneck_ns, ==, plain_bottleneck (&c.setting, partition->stages));
  }
}

/* The bytes that a refusal names are enough, and one less is not. */
static void check_refusal (Case *c, gint64 excess)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *bytes = g_strdup_printf ("(%" G_GINT64_FORMAT " bytes) more on every device", excess);

  g_assert_null (ps_partition (ps_partitioner_find ("memory-aware"), &c->setting, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
  g_assert_nonnull (strstr (error->message, bytes));
}

static void test_memory (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);
  guint refused = 0;

  for (guint i = 0; i < 500; i++) {
    guint p = 1 + draw (rand, 4);
    g_auto (Case) c;

    case_init (&c, rand, p + draw (rand, 6), p, 1);
    c.setting.memory_limit = c.limits;
    c.setting.n_microbatches = draw (rand, 4);
    c.setting.speeds = i % 2 ? c.speeds : NULL;
    Brute brute = brute_force (&c.setting, FALSE);
    if (brute.best < 0) {
      check_refusal (&c, brute.excess);
      refused++;
      continue;
    }
    g_autoptr (PsPartition) partition = cut_with ("memory-aware", &c.setting);
    assert_whole (partition, c.layers->n_layers);
    g_assert_cmpint (partition->bottleneck_ns, ==, brute.best);
    g_assert_cmpint (plain_excess (&c.setting, partition->stages), ==, 0);
    for (guint s = 0; s < p; s++)
      g_assert_cmpint (ps_partition_memory_bytes (&c.setting, partition, s), <=, c.limits[s]);
  }
  g_assert_cmpuint (refused, >, 50);
  g_assert_cmpuint (refused, <, 450);
}

/* 10 equal layers on 4 devices: 3 + 3 + 2 + 2. With parameters 9 1 1 1 | 6 on two devices: 9 + 1 + 1 against 1 + 6 or 9
 * against 1 + 1 + 1 + 6, both sums 9; FLOPs follow the time. */
static void test_sums (void)
{
  static const gint64 parameters[] = { 9, 1, 1, 1, 6 }, times[] = { 1, 1, 1, 1, 4 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  g_auto (Case) even, c;

  case_init (&even, rand, 10, 4, 1);
  g_autoptr (PsPartition) uniform = cut_with ("uniform", &even.setting);
  assert_whole (uniform, 10);
  g_assert_cmpuint (uniform->stages[1].last, ==, 5);
  g_assert_cmpuint (uniform->stages[2].last, ==, 7);
  case_init (&c, rand, 5, 2, 1);
  for (guint i = 0; i < 5; i++) {
    c.layers->layers[i].parameter_bytes = parameters[i];
    c.layers->layers[i].flops = times[i];
  }
  g_autoptr (PsPartition) by_parameters = cut_with ("parameters", &c.setting);
  g_assert_cmpuint (by_parameters->stages[0].last, ==, 0);
  g_autoptr (PsPartition) by_flops = cut_with ("flops", &c.setting);
  g_assert_cmpuint (by_flops->stages[0].last, ==, 3);
}

/* The schedule at hand */

typedef struct {
  const char *family;
  guint p, v, m;
} Plan;

static const Plan plans[] = {
  { "1f1b", 3, 1, 6 },    { "gpipe", 4, 1, 4 },      { "zb-h1", 3, 1, 5 },   { "interleaved", 2, 2, 4 },
  { "zb-v", 2, 2, 4 },    { "dualpipe-v", 2, 2, 6 }, { "chimera", 4, 1, 4 }, { "seq1f1b", 3, 1, 3 },
  { "zb-auto", 3, 1, 4 }, { "hanayo", 2, 2, 4 },
};

/* Never worse than where it starts, never better than the best of all partitions, and mostly as good. */
static void test_schedule (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (4);
  guint best = 0, n = 0;

  for (guint i = 0; i < 10 * G_N_ELEMENTS (plans); i++, n++) {
    const Plan *plan = &plans[i % G_N_ELEMENTS (plans)];
    g_auto (Case) c;
    PsPartitionRun run, bottleneck, uniform;

    case_init (&c, rand, plan->p * plan->v + 1 + draw (rand, 4), plan->p, plan->v);
    c.setting.family = ps_family_find (plan->family);
    c.setting.n_microbatches = plan->m;
    if (i % 3 == 0 && !g_str_equal (plan->family, "chimera"))
      c.setting.speeds = c.speeds;
    g_autoptr (PsPlacement) placement = ps_partition_placement (&c.setting, NULL);
    c.setting.placement = placement;
    g_autoptr (PsPartition) searched = cut_with ("schedule", &c.setting);
    g_autoptr (PsPartition) start = cut_with ("bottleneck", &c.setting), other = cut_with ("uniform", &c.setting);
    assert_whole (searched, c.layers->n_layers);
    g_assert_true (ps_partition_simulate (&c.setting, searched, &run, NULL));
    g_assert_true (ps_partition_simulate (&c.setting, start, &bottleneck, NULL));
    g_assert_true (ps_partition_simulate (&c.setting, other, &uniform, NULL));
    g_assert_cmpint (run.iteration_ns, <=, bottleneck.iteration_ns);
    g_assert_cmpint (run.iteration_ns, <=, uniform.iteration_ns);
    Brute brute = brute_force (&c.setting, TRUE);
    g_assert_cmpint (run.iteration_ns, >=, brute.best_iteration);
    best += run.iteration_ns == brute.best_iteration;
  }
  g_test_message ("%u of %u are the best of all partitions", best, n);
  g_assert_cmpuint (best * 10, >=, n * 9);
}

/* Two layers of 6 and 2, then 4: S = 2, F = B = W, m = 1. In sequence everything takes 12, whatever the cut; what the
 * devices keep decides under a limit. One microbatch: device 0 holds 4 * 5 + 1 with the first layer alone. */
static void test_schedule_limit (void)
{
  static const gint64 times[] = { 6, 3, 3 };
  g_auto (Case) c = { .layers = ps_layers_new (3) };
  PsPartitionRun run;

  for (guint i = 0; i < 3; i++)
    set_layer (&c.layers->layers[i], times[i], 0, 5, 1);
  for (guint i = 0; i < 3; i++)
    c.layers->layers[i].optimizer_ns = 0;
  c.layers->source = g_strdup ("test");
  c.limits[0] = 42;
  c.limits[1] = 21;
  c.setting = (PsPartitionSetting){ .layers = c.layers,
                                    .n_devices = 2,
                                    .n_chunks = 1,
                                    .links = c.links,
                                    .memory_limit = c.limits,
                                    .n_microbatches = 1,
                                    .family = ps_family_find ("1f1b") };
  g_autoptr (PsPartition) partition = cut_with ("schedule", &c.setting);
  g_assert_cmpuint (partition->stages[0].last, ==, 1);
  g_assert_true (ps_partition_simulate (&c.setting, partition, &run, NULL));
  g_assert_cmpint (run.excess_bytes, ==, 0);
  g_assert_cmpint (run.iteration_ns, ==, 12);
  /* One byte less on either device cannot be had. */
  c.limits[1] = 20;
  g_autoptr (PsPartition) tight = cut_with ("schedule", &c.setting);
  g_assert_true (ps_partition_simulate (&c.setting, tight, &run, NULL));
  g_assert_cmpint (run.excess_bytes, ==, 1);
}

static void assert_refused (const char *name, const PsPartitionSetting *setting, const char *part)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_partition (ps_partitioner_find (name), setting, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_true (g_str_has_prefix (error->message, name) || g_str_has_prefix (error->message, "test"));
  g_assert_nonnull (strstr (error->message, part));
}

static void test_refusals (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  g_auto (Case) c;

  case_init (&c, rand, 3, 4, 1);
  assert_refused ("uniform", &c.setting, "the 3 layers of test cannot be cut into 4 stages");
  c.setting.n_devices = 3;
  assert_refused ("memory-aware", &c.setting, "needs --memory-limit");
  assert_refused ("schedule", &c.setting, "needs --schedule");
  c.setting.family = ps_family_find ("1f1b");
  assert_refused ("schedule", &c.setting, "needs -m");
  c.setting.speeds = c.speeds;
  assert_refused ("pipedream", &c.setting, "equally fast");
  c.layers->has_flops = FALSE;
  assert_refused ("flops", &c.setting, "has no FLOPs");
  c.setting.n_chunks = 2;
  assert_refused ("pipedream", &c.setting, "2 chunks");
}

/* 2^50 bytes kept of each of up to 4096 microbatches are 2^62. */
static void test_overflow (void)
{
  g_autoptr (PsLayers) layers = ps_layers_new (4096);
  PsPartitionSetting setting = { .layers = layers, .n_devices = 4096, .n_chunks = 1 };

  layers->source = g_strdup ("test");
  layers->layers[7].kept_bytes = PS_MAX_SIZE_BYTES;
  assert_refused ("uniform", &setting, "too many for exact sums over 4096 stages");
}

/* Tests of partition.h: PipeDream's results. */

static const char *find_member (const char *line, const char *key)
{
  g_autofree char *quoted = g_strdup_printf ("\"%s\": ", key);
  const char *found = strstr (line, quoted);

  g_assert_nonnull (found);
  return found + strlen (quoted);
}

/* The numbers of a list, nested or not, each times scale. */
static GArray *read_numbers (const char *line, const char *key, double scale)
{
  GArray *numbers = g_array_new (FALSE, FALSE, sizeof (gint64));
  const char *text = find_member (line, key);
  int depth = 0;

  do {
    depth += (*text == '[') - (*text == ']');
    if (g_ascii_isdigit (*text)) {
      char *end;
      gint64 value = llround (g_ascii_strtod (text, &end) * scale);

      g_array_append_val (numbers, value);
      text = end;
    } else
      text++;
  } while (depth > 0);
  return numbers;
}

static double read_number (const char *line, const char *key)
{
  const char *text = find_member (line, key);

  return g_str_has_prefix (text, "null") ? 0 : g_ascii_strtod (text, NULL);
}

static void assert_like (const PsPartition *partition, const char *line, const char *time_key, const char *stages_key)
{
  g_autoptr (GArray) stages = read_numbers (line, stages_key, 1);
  gint64 expected = llround (read_number (line, time_key) * 1e6);

  g_assert_cmpint (ABS (partition->bottleneck_ns - expected), <=, 1);
  g_assert_cmpuint (partition->n_stages * 3, ==, stages->len);
  for (guint s = 0; s < partition->n_stages; s++) {
    g_assert_cmpint (partition->stages[s].first, ==, g_array_index (stages, gint64, 3 * s));
    g_assert_cmpint (partition->stages[s].last, ==, g_array_index (stages, gint64, 3 * s + 1));
    g_assert_cmpint (partition->stages[s].replicas, ==, g_array_index (stages, gint64, 3 * s + 2));
  }
}

/* One time unit of the file is 1 ms here. */
static void check_pipedream (const char *line)
{
  g_autoptr (GArray) times = read_numbers (line, "T", 1e6);
  g_autoptr (GArray) outputs = read_numbers (line, "a", 1), weights = read_numbers (line, "w", 1);
  g_auto (Case) c = { .layers = ps_layers_new (times->len) };
  guint p = (guint)read_number (line, "m");

  for (guint i = 0; i < times->len; i++)
    set_layer (&c.layers->layers[i], g_array_index (times, gint64, i), g_array_index (outputs, gint64, i),
               g_array_index (weights, gint64, i), 0);
  c.layers->source = g_strdup ("reference");
  for (guint s = 0; s < p; s++)
    c.links[s].bandwidth = read_number (line, "B") * 1000;
  c.setting = (PsPartitionSetting){ .layers = c.layers, .n_devices = p, .n_chunks = 1, .links = c.links };
  g_autoptr (PsPartition) paper = cut_with ("pipedream", &c.setting);
  assert_like (paper, line, "paper_recurrence_time", "paper_recurrence_stages");
}

static void test_pipedream (gconstpointer file)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, file, NULL), *text = NULL;
  guint n = 0;

  if (!g_file_get_contents (path, &text, NULL, NULL)) {
    g_test_skip ("no reference data beside this checkout");
    return;
  }
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL && *lines[i]; i++) {
    if (strstr (lines[i], "\"kind\": \"profile\"") != NULL) {
      g_test_message ("%.*s skipped: the profile is not in the file", (int)strcspn (find_member (lines[i], "net"), ","),
                      find_member (lines[i], "net"));
      continue;
    }
    check_pipedream (lines[i]);
    n++;
  }
  g_assert_cmpuint (n, >=, 16);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/partition/bottleneck", test_bottleneck);
  g_test_add_func ("/partition/memory", test_memory);
  g_test_add_func ("/partition/sums", test_sums);
  g_test_add_func ("/partition/schedule", test_schedule);
  g_test_add_func ("/partition/schedule-limit", test_schedule_limit);
  g_test_add_func ("/partition/refusals", test_refusals);
  g_test_add_func ("/partition/overflow", test_overflow);
  g_test_add_data_func ("/partition/pipedream", "fixtures/pipedream_partition.jsonl", test_pipedream);
  g_test_add_data_func ("/partition/pipedream-reference", "../../shared/reference/pipedream_partition.jsonl",
                        test_pipedream);
  return g_test_run ();
}
