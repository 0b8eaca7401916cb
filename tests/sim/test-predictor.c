/* test-predictor.c - one chain for all: predictions with and without results that are kept, and the table of sources.
 */
#include "costdb-rig.h"
#include "setting-rig.h"

#define CLUSTER                                                                                                        \
  "[cluster]\nnodes = 1\ndevices_per_node = 4\nmemory = 4GiB\npeak_flops = 1e12\nefficiency = 0.5\n"                   \
  "link_latency = 20us\nlink_bandwidth = 5GB/s\n"

/* Modelled slices: a later one attends to more tokens, so that its F takes longer, and all of them together take longer
 * than the whole, for small kernels run less efficiently. The whole sequence's costs give the same prediction as a
 * predictor that has kept costs for another number of slices. */
static void test_slices (void)
{
  g_autoptr (PsSetting) setting
      = parse ("-p 4 -m 4 --model llama-3-8b --cluster h100-80gb --layout even --tensor 2", NULL);
  g_autoptr (PsPredictor) kept = ps_predictor_new (setting, NULL);
  g_autoptr (PsCosts) whole = ps_setting_costs (setting, 4, 1, NULL);
  gint64 iteration_ns[3];

  for (guint i = 0; i < 3; i++) {
    guint n = 2 << i;
    gint64 sum = 0, last = 0;

    setting->n_slices = n;
    g_autoptr (PsPrediction) prediction = ps_predictor_predict (kept, "seq1f1b", NULL);
    g_autoptr (PsPredictor) fresh = ps_predictor_new (setting, NULL);
    g_autoptr (PsPrediction) again = ps_predictor_predict (fresh, "seq1f1b", NULL);
    const PsCosts *costs = prediction->costs;
    g_assert_cmpuint (costs->n_lengths, ==, n);
    for (guint k = 0; k < n; k++) {
      gint64 f = costs->op[ps_op_index (4, n, PS_OP_F, k, 1)].duration_ns;

      g_assert_cmpint (f, >, last);
      sum += last = f;
    }
    g_assert_cmpint (sum, >, ps_costs_op (whole, PS_OP_F, 1)->duration_ns);
    g_assert_cmpint (costs->transfer_ns[1], <, whole->transfer_ns[1]);
    g_assert_cmpint (costs->transfer_ns[1], >, whole->transfer_ns[1] / n);
    iteration_ns[i] = prediction->metrics.iteration_ns;
    g_assert_cmpint (again->metrics.iteration_ns, ==, iteration_ns[i]);
    g_assert_cmpint (prediction->lower_bound_ns, <=, iteration_ns[i]);
  }
}

/* Kept results */

static const char *const lines[] = {
  "-p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB",
  "-p 4 -m 8 --costs f=1ms,b=2ms,w=1ms,c=100us,act=2MiB,wact=1MiB --memory-limit 9MiB",
  "-p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=300us,act=2MiB --comm rank --comm-order planned",
  "-p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=300us,act=2MiB --ready-order 3",
  "-p 4 -m 6 --costs f=1ms,b=1ms,w=1ms --sync bypass",
  "-p 4 -m 8 --model tiny-gpt --cluster h100-80gb --recompute full",
  "-p 4 -m 8 --model tiny-gpt --cluster h100-80gb --replicas 2 --zero 1",
  "-p 3 -m 8 --costs f=1ms:1ms:2ms,bw=1ms:1ms:1ms --speed 1:0.5", /* refused */
};

static void check_same (PsPredictor *predictor, const PsSetting *setting, const char *name)
{
  g_autoptr (GError) a_error = NULL, b_error = NULL;
  g_autoptr (PsPrediction) a = ps_predictor_predict (predictor, name, &a_error);
  g_autoptr (PsPrediction) b = ps_predict (setting, name, &b_error);
  g_autoptr (PsTimeline) a_timeline = NULL, b_timeline = NULL;
  g_autofree char *a_json = NULL, *b_json = NULL;

  g_assert_true ((a == NULL) == (b == NULL));
  g_assert_cmpstr (a_error != NULL ? a_error->message : NULL, ==, b_error != NULL ? b_error->message : NULL);
  if (a == NULL)
    return;
  a_json = ps_timeline_to_json (a_timeline = ps_prediction_timeline (a));
  b_json = ps_timeline_to_json (b_timeline = ps_prediction_timeline (b));
  g_assert_cmpstr (a_json, ==, b_json);
  g_assert_cmpint (a->lower_bound_ns, ==, b->lower_bound_ns);
  g_assert_cmpint (a->feasible, ==, b->feasible);
  g_assert_cmpint (a->metrics.iteration_ns, ==, b->metrics.iteration_ns);
}

/* Every line and family several times, whatever was kept of those before: options that costs do not depend on change
 * between predictions. */
static void test_kept (void)
{
  static const char *const names[] = { "1f1b", "zb-auto", "interleaved", "zb-v-auto", "seq1f1b", "no-such-family" };

  for (guint line = 0; line < G_N_ELEMENTS (lines); line++) {
    g_autoptr (PsSetting) setting = parse (lines[line], NULL);
    g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);

    for (guint k = 0; k < 3 * G_N_ELEMENTS (names); k++) {
      setting->n_microbatches = 6 + k % 3;
      setting->comm = k % 2 ? PS_CHANNEL_RANK : PS_CHANNEL_LATENCY;
      check_same (predictor, setting, names[k % G_N_ELEMENTS (names)]);
    }
  }
}

/* Given costs stand for those of their size alone. */
static void test_given (void)
{
  g_autoptr (PsSetting) setting = parse (lines[0], NULL);
  g_autoptr (PsCosts) costs = fine (ps_costs_parse ("f=2ms,b=2ms,w=2ms", 4, 1, &error));
  g_autoptr (PsPredictor) given = ps_predictor_new (setting, costs);
  g_autoptr (PsPrediction) replaced = fine (ps_predictor_predict (given, "1f1b", &error));
  g_autoptr (PsPrediction) kept = fine (ps_predictor_predict (given, "interleaved", &error));

  g_assert_cmpint (ps_costs_op (replaced->costs, PS_OP_F, 0)->duration_ns, ==, 2000000);
  g_assert_cmpint (ps_costs_op (kept->costs, PS_OP_F, 0)->duration_ns, ==, 500000);
}

/* Sources */

/* A row says by itself what its options need, and how to give it. */
static void test_sources (void)
{
  guint n;
  const PsCostSource *const *sources = ps_source_table (&n);
  g_autofree char *usage = ps_source_usage (FALSE), *fields = ps_source_usage (TRUE);
  g_auto (GStrv) parts = g_strsplit (usage, ", ", -1);

  g_assert_cmpuint (g_strv_length (parts), ==, n);
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (g_str_has_prefix (parts[i], "or "), ==, i + 1 == n);
  for (guint i = 0; i < n; i++) {
    g_autofree char *option = g_strdup_printf ("--%s", sources[i]->option);

    for (const PsOptionNeed *need = sources[i]->needs; need->option != NULL; need++) {
      g_autofree char *line = g_strdup_printf ("--%s=fp32", need->option);
      g_autofree char *message = g_strdup_printf ("--%s: needs --%s FILE, %s", need->option, need->needs, need->why);

      refused (parse (line, &error), PS_ERROR_USAGE, message);
    }
    g_assert_true (ps_source_find (sources[i]->option) == sources[i]);
    g_assert_nonnull (strstr (sources[i]->usage, option));
    g_assert_nonnull (strstr (usage, sources[i]->usage));
    g_assert_nonnull (strstr (fields, sources[i]->option));
    g_assert_true (sources[i]->load != NULL && (sources[i]->model == NULL || sources[i]->has_model));
  }
}

/* A source with what it needs is the setting's; with any other it is refused, unless it goes with a cluster. */
static void test_one_source (void)
{
  guint n;
  const PsCostSource *const *sources = ps_source_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint k = i; k < n; k++) {
      g_autofree char *line = g_strdup_printf ("--model=m --%s=x --%s=x", sources[i]->option, sources[k]->option);
      g_autofree char *message = g_strdup_printf ("--%s and --%s: costs come from one of them, not from both",
                                                  sources[i]->option, sources[k]->option);

      if (sources[i]->with_cluster != NULL && sources[k]->has_cluster) {
        g_autoptr (PsSetting) both = parse (line, NULL);

        g_assert_true (ps_setting_source (both) == sources[i]->with_cluster);
        continue;
      }
      if (i != k) {
        refused (parse (line, &error), PS_ERROR_USAGE, message);
        continue;
      }
      g_autoptr (PsSetting) setting = parse (line, NULL);
      g_assert_true (ps_setting_source (setting) == sources[i]);
    }
}

static char *digest_of (const char *option, const char *text)
{
  char *digest = NULL;

  fine (ps_source_find (option)->digest (text, &digest, &error));
  return digest;
}

/* A digest follows the measurements, not the file, which changes whenever it is opened. */
static void test_digest_of_measurements (void)
{
  g_autofree char *path = path_of ("costs.db"), *empty = NULL, *one = NULL, *again = NULL, *two = NULL;
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "a");

  empty = digest_of ("db", path);
  store (db, profile, new_op (PS_OP_F, "layers=1", 1, 1000));
  one = digest_of ("db", path);
  again = digest_of ("db", path);
  store (db, profile, new_op (PS_OP_B, "layers=1", 1, 1000));
  two = digest_of ("db", path);
  for (guint i = 0; i < 7; i++) {
    g_autofree char *other = g_strdup_printf ("other-%u.db", i), *place = path_of (other), *digest = NULL;
    PsMeasurement *row = new_op (PS_OP_F, "layers=1", 1, i == 1 ? 1001 : 1000);
    gint64 *figures[] = { NULL, NULL, &row->launch_ns, &row->take_bytes, &row->give_bytes, &row->state_bytes };

    if (i >= 2 && i < 6)
      ++*figures[i];
    g_autoptr (PsCostDb) changed = open_db (place, PS_COSTDB_WRITE);
    store (changed, begin (changed, i == 6 ? "b" : "a"), row);
    digest = digest_of ("db", place);
    g_assert_cmpint (g_str_equal (digest, one), ==, i == 0);
  }
  g_assert_cmpstr (empty, !=, one);
  g_assert_cmpstr (one, ==, again);
  g_assert_cmpstr (one, !=, two);
}

/* A cluster that ships with pipesim needs no digest, another one's follows the text of its file. */
static void test_digest_of_cluster (void)
{
  g_autofree char *path = path_of ("c.ini"), *shipped = digest_of ("cluster", "h100-80gb"), *a = NULL, *b = NULL;

  g_assert_null (shipped);
  g_assert_true (g_file_set_contents (path, CLUSTER, -1, NULL));
  a = digest_of ("cluster", path);
  g_assert_true (g_file_set_contents (path, CLUSTER, (gssize)strlen (CLUSTER) - 1, NULL));
  b = digest_of ("cluster", path);
  g_assert_cmpstr (a, !=, b);
}

/* Each digest reads its file, so that errors come before a sweep begins. */
static void test_digest_of_nothing (void)
{
  guint n, n_digests = 0;
  const PsCostSource *const *sources = ps_source_table (&n);

  for (guint i = 0; i < n; i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *digest = NULL;

    if (sources[i]->digest == NULL)
      continue;
    g_assert_false (sources[i]->digest ("no/such/file", &digest, &error));
    g_assert_nonnull (error);
    n_digests++;
  }
  g_assert_cmpuint (n_digests, >=, 2);
}

/* The timeline of a prediction lasts as long as its iteration, and has its interval. */
static void test_timeline (void)
{
  g_autoptr (PsSetting) setting = parse ("-p 2 -m 4 --costs f=2ms,b=2ms,w=1ms,o=3ms --sync bypass", NULL);
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (PsPrediction) prediction = fine (ps_predictor_predict (predictor, "1f1b", &error));

  prediction->interval = (PsInterval){ 1, 2, 3, 4, 5, 6, 7 };
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (prediction);
  g_assert_cmpmem (&timeline->interval, sizeof timeline->interval, &prediction->interval, sizeof prediction->interval);
  g_assert_cmpint (timeline->iteration_ns, ==, prediction->metrics.iteration_ns);
}

/* A faster network shortens given transfers and all-reduces of every stage, and nothing else. */
static void test_bandwidth (void)
{
  const char *line = "--costs f=1ms,b=1ms,w=1ms,c=10us,reduce=8us,reduce2=12us,o=2us --replicas 2 --bandwidth-factor";

  for (guint factor = 1; factor <= 4; factor *= 2) {
    g_autofree char *whole = g_strdup_printf ("%s %u", line, factor);
    g_autoptr (PsSetting) setting = fine (parse (whole, &error));
    g_autoptr (PsCosts) costs = fine (ps_setting_costs (setting, 3, 1, &error));

    for (guint stage = 0; stage < 3; stage++) {
      g_assert_cmpint (costs->stage[stage].reduce_ns, ==, 8000 / factor);
      g_assert_cmpint (costs->stage[stage].reduce2_ns, ==, 12000 / factor);
      g_assert_cmpint (ps_costs_op (costs, PS_OP_F, stage)->duration_ns, ==, 1000000);
      g_assert_cmpint (ps_costs_op (costs, PS_OP_O, stage)->duration_ns, ==, 2000);
    }
    for (guint stage = 0; stage < 2; stage++) {
      g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, stage)], ==, 10000 / factor);
      g_assert_cmpint (costs->transfer_ns[ps_transfer_backward (costs, stage + 1)], ==, 10000 / factor);
    }
  }
}

/* Every stage of a layout says how it runs, but one without layers recomputes nothing. */
static void test_shapes (void)
{
  g_autoptr (PsSetting) setting
      = fine (parse ("--model tiny-gpt --cluster h100-80gb --layout E|tttt|tttt|L --recompute full --offload 0.5 "
                     "--tensor 2",
                     &error));
  g_autoptr (PsModel) model = fine (ps_setting_model (setting, &error));
  g_autofree PsStageShape *shapes = fine (ps_setting_shapes (setting, model, 2, 2, &error));

  for (guint s = 0; s < 4; s++) {
    g_assert_cmpint (shapes[s].recompute, ==, s == 0 || s == 3 ? PS_RECOMPUTE_NONE : PS_RECOMPUTE_FULL);
    g_assert_cmpfloat (shapes[s].offload, ==, 0.5);
    g_assert_cmpuint (shapes[s].n_tensor, ==, 2);
    g_assert_cmpuint (shapes[s].n_layers, ==, s % 3 ? 4 : 0);
  }
}

/* A run of two stages and two microbatches. */
#define RUN                                                                                                            \
  "{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"s\", \"source\": \"\", "             \
  "\"devices\": 2, "                                                                                                   \
  "\"stages\": 2, \"microbatches\": 2, \"iteration_ns\": 900, \"ops\": [[0, \"F0.0\", 0, 100, 0], [0, \"F1.0\", 110, " \
  "210, 0], [0, \"BW0.0\", 500, 700, 0], [0, \"BW1.0\", 705, 900, 0], [1, \"F0.1\", 130, 230, 0], [1, \"BW0.1\", "     \
  "240, 440, "                                                                                                         \
  "0], [1, \"F1.1\", 450, 550, 0], [1, \"BW1.1\", 555, 690, 0]], \"transfers\": [[0, 1, \"F0.0\", 102, 122], [0, 1, "  \
  "\"F1.0\", 212, 232], [1, 0, \"B0.1\", 445, 475], [1, 0, \"B1.1\", 692, 702]], \"posts\": [[0, \"SEND F0.0\", 100, " \
  "103], "                                                                                                             \
  "[1, \"RECEIVE F0.0\", 1, 3]], \"memory\": []}"

/* The digest of runs is that of what they show: an op's time, a transfer's, a post's, a gap's; not that of their files.
 */
static void test_digest_of_runs (void)
{
  static const char *const changes[][2] = {
    { "\"source\": \"\"", "\"source\": \"x\"" }, /* shows nothing */
    { "\"F1.0\", 110, 210", "\"F1.0\", 110, 211" },
    { "\"B1.1\", 692, 702", "\"B1.1\", 692, 701" },
    { "\"SEND F0.0\", 100, 103", "\"SEND F0.0\", 100, 102" },
    { "\"RECEIVE F0.0\", 1, 3", "\"RECEIVE F0.0\", 1, 4" },
    { "\"BW1.0\", 705, 900", "\"BW1.0\", 706, 901" },
    { "\"F1.1\", 450, 550, 0], [1, \"BW1.1\", 555, 690", "\"F1.1+\", 450, 550, 0], [1, \"BW1.1\", 450, 550" },
  };
  g_autofree char *path = path_of ("run.json"), *other = path_of ("other.json"), *first = NULL;

  g_assert_true (g_file_set_contents (path, RUN, -1, NULL));
  first = digest_of ("costs-from", path);
  for (guint i = 0; i < G_N_ELEMENTS (changes); i++) {
    g_autoptr (GString) text = g_string_new (RUN);
    g_autofree char *digest = NULL;

    g_assert_cmpuint (g_string_replace (text, changes[i][0], changes[i][1], 1), ==, 1);
    g_assert_true (g_file_set_contents (other, text->str, -1, NULL));
    digest = digest_of ("costs-from", other);
    g_assert_cmpint (g_str_equal (digest, first), ==, i == 0);
  }
  g_autofree char *both = g_strconcat (path, ":", path, NULL), *twice = digest_of ("costs-from", both);
  g_assert_cmpstr (twice, !=, first);
}

/* A run as the source of a setting's costs: BW stays whole, unless a model divides it; one stage's W is asked for in
 * vain without. All its samples are in the spread. */
static void test_costs_of_run (void)
{
  g_autofree char *path = path_of ("run.json");

  g_assert_true (g_file_set_contents (path, RUN, -1, NULL));
  for (guint model = 0; model < 2; model++) {
    g_autofree char *line = g_strdup_printf ("-p 2 -m 4 --costs-from %s%s", path, model ? " --model tiny-gpt" : "");
    g_autoptr (PsSetting) setting = fine (parse (line, &error));
    g_autoptr (PsCosts) costs = fine (ps_setting_costs (setting, 2, 1, &error));
    g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
    g_autoptr (PsPrediction) prediction = fine (ps_predictor_predict (predictor, "1f1b", &error));
    g_autoptr (PsCostSpread) spread = fine (ps_setting_spread (setting, prediction->costs->shapes, 2, 1, &error));

    g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, 100);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 1)->duration_ns, ==, 135);
    g_assert_cmpint (costs->transfer_ns[ps_transfer_backward (costs, 1)], ==, 10);
    g_assert_cmpint (costs->time_origin, ==, model ? PS_ORIGIN_MODELLED : PS_ORIGIN_MEASURED);
    g_assert_cmpuint (costs->stage[0].unknown, ==, model ? 0 : 1U << PS_OP_B | 1U << PS_OP_W);
    g_assert_cmpuint (spread->op[PS_OP_BW * 2]->len, ==, 2);
    g_assert_cmpuint (spread->transfer->len, ==, 4);
    g_assert_true (ps_predictor_add_interval (predictor, prediction, 10, NULL));
    g_assert_cmpint (prediction->interval.p50_ns, >, 0);
    if (model)
      ps_prediction_free (fine (ps_predictor_predict (predictor, "zb-h1", &error)));
    else
      refused (ps_predictor_predict (predictor, "zb-h1", &error), PS_ERROR_INPUT, "*no B of stage 0 is known: *");
  }
  g_autofree char *wrong = g_strdup_printf ("-p 3 -m 4 --costs-from %s", path);
  g_autoptr (PsSetting) setting = fine (parse (wrong, &error));
  refused (ps_setting_costs (setting, 3, 1, &error), PS_ERROR_INPUT, "*: 2 stages, so it has no costs for 3 devices *");
}

/* R of one microbatch of stage 0 needs what F of it takes again, in bytes besides the message and in time; a stage that
 * recomputes or offloads all of them has none to recompute. */
static void test_recomputed (void)
{
  static const struct {
    const char *more, *message;
  } rows[] = { { "", NULL },
               { " --recompute none:full", NULL },
               { " --recompute full:none", "schedule '*': stage 0 has an R, *with it --recompute none would be right" },
               { " --offload 0.5:0", "schedule '*': stage 0 has an R, *with it --offload 0 would be right" },
               { " --offload 0:0.5", NULL },
               { " --recompute full:none:full", "--recompute: 3 kinds for 2 stages; *" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *line
        = g_strconcat ("--costs f=5ns,b=4ns,w=3ns,r=2ns,act=8B,wact=3B,msg=1B,host=4ns", rows[i].more, NULL);
    g_autoptr (PsSetting) setting = fine (parse (line, &error));
    PsScheduleBuilder *building = ps_schedule_builder_new ("r", ps_placement_new (PS_PLACEMENT_LOOP, 2, 1), 1);

    for (guint stage = 0; stage < 2; stage++) {
      ps_schedule_builder_add (building, PS_OP_F, stage, 0);
      if (stage == 0)
        ps_schedule_builder_add (building, PS_OP_R, stage, 0);
      ps_schedule_builder_add (building, PS_OP_BW, stage, 0);
      ps_schedule_builder_next_device (building);
    }
    g_autoptr (PsSchedule) schedule = ps_schedule_builder_end (building);
    g_autoptr (PsCosts) costs = fine (ps_costs_parse (setting->costs, 2, 1, &error));
    g_autoptr (PsCosts) full = fine (ps_setting_full_costs (setting, costs, 2, &error));
    if (rows[i].message != NULL) {
      refused (ps_setting_recomputed (setting, schedule, costs, full, &error), PS_ERROR_USAGE, rows[i].message);
      continue;
    }
    g_autoptr (PsCosts) split = fine (ps_setting_recomputed (setting, schedule, costs, full, &error));
    const PsOpCost *r = ps_costs_op (split, PS_OP_R, 0), *f = ps_costs_op (split, PS_OP_F, 0);
    g_assert_cmpint (r->duration_ns, ==, 2);
    g_assert_cmpint (r->take_bytes, ==, 8); /* nothing comes in to the first stage */
    g_assert_cmpint (r->give_bytes, ==, 0);
    g_assert_cmpint (f->take_bytes - f->give_bytes, ==, 0);
    g_assert_cmpint (ps_costs_op (split, PS_OP_B, 0)->duration_ns, ==, 4);
    g_assert_cmpint (ps_costs_op (full, PS_OP_B, 1)->duration_ns, ==, 6);
    /* Of a stage that saves memory by itself the costs stay. */
    g_assert_cmpint (ps_costs_op (split, PS_OP_F, 1)->take_bytes - ps_costs_op (split, PS_OP_F, 1)->give_bytes, ==,
                     i == 0 ? 1 : 8);
  }
}

/* Measured weights: without steps that all agree on, devices keep what they had before one, unless the schedule's steps
 * are final at once. Gradients are added up over the copies of the pipeline. */
static void test_measured_weights (void)
{
  static const struct {
    const char *more, *schedule;
    gint64 reduce_ns, reduce2_ns;
    gboolean keeps;
  } rows[] = { { "", "1f1b", 0, 500, FALSE },
               { "", "pipedream", 0, 500, FALSE },
               { " --sync bypass", "1f1b", 0, 500, TRUE },
               { " --sync bypass", "pipedream", 0, 500, FALSE },
               { " --replicas 2", "1f1b", 500, 800, FALSE },
               { " --replicas 2 --sync bypass", "1f1b", 500, 800, TRUE } };
  g_autofree char *path = path_of ("weights.db");
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "p");

  for (guint kind = PS_OP_F; kind <= PS_OP_O; kind++)
    if (kind != PS_OP_R)
      for (guint stage = 0; stage < 2; stage++)
        store (db, profile, new_op ((PsOpKind)kind, stage == 0 ? "layers=4,embedding" : "layers=4,head", 2, 1000));
  store (db, profile, new_transfer (196608, 2, 10000));
  for (guint copies = 2; copies <= 4; copies += 2) {
    PsMeasurement *reduced = new_transfer (1000, copies, copies == 2 ? 500 : 800);

    reduced->subject = PS_SUBJECT_ALL_REDUCE;
    store (db, profile, reduced);
  }
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *line = g_strconcat ("-p 2 -m 4 --db ", path, rows[i].more, NULL);
    g_autoptr (PsSetting) setting = fine (parse (line, &error));
    g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
    PsFamilySetting wanted = { .n_devices = 2, .n_microbatches = 4, .n_chunks = 1 };
    g_autoptr (PsSchedule) schedule = fine (ps_family_generate (ps_family_find (rows[i].schedule), &wanted, &error));
    g_autoptr (PsPrediction) prediction
        = fine (ps_predictor_predict_schedule (predictor, g_steal_pointer (&schedule), &error));

    for (guint stage = 0; stage < 2; stage++) {
      const PsStageCost *cost = &prediction->costs->stage[stage];

      g_assert_cmpint (cost->version_bytes, >, 0);
      g_assert_cmpint (cost->weight_bytes, ==, 7000 + (rows[i].keeps ? cost->version_bytes : 0));
      g_assert_cmpint (cost->reduce_ns, ==, rows[i].reduce_ns);
      g_assert_cmpint (cost->reduce2_ns, ==, rows[i].reduce2_ns);
    }
  }
}

/* What microbatches take on average, by the factors of a file: as one does where all are alike or no file is given. */
static void test_average (void)
{
  static const struct {
    const char *text;
    guint m;
    gint64 times; /* 0: refused */
  } rows[] = { { NULL, 2, 1 },
               { "factor\n1\n3\n", 2, 2 },
               { "factor\n2\n2\n", 2, 2 },
               { "factor\n1\n1\n7\n", 3, 3 },
               { "factor\n1\n1\n7\n", 2, 0 },
               { "factor\n1\nx\n", 2, 0 } };
  g_autofree char *path = path_of ("factors.csv"), *given = g_strconcat (" --lengths ", path, NULL);
  const char *costs_text = "f=5ns,b=4ns,w=3ns,act=8B,msg=1B";
  g_autoptr (PsCosts) costs = fine (ps_costs_parse (costs_text, 2, 1, &error));

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *line
        = g_strdup_printf ("-p 2 -m %u --costs %s%s", rows[i].m, costs_text, rows[i].text != NULL ? given : "");

    g_assert_true (g_file_set_contents (path, rows[i].text != NULL ? rows[i].text : "", -1, NULL));
    g_autoptr (PsSetting) setting = parse (line, &error);
    g_assert_no_error (error);
    g_autoptr (PsCosts) average = ps_setting_average (setting, costs, 2, rows[i].m, &error);
    g_assert_true ((error == NULL) == (average != NULL));
    g_assert_cmpint (average != NULL, ==, rows[i].times > 0);
    for (PsOpKind kind = PS_OP_F; average != NULL && kind <= PS_OP_BW; kind++)
      g_assert_cmpint (ps_costs_op (average, kind, 1)->duration_ns, ==,
                       rows[i].times * ps_costs_op (costs, kind, 1)->duration_ns);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/predictor/slices", test_slices);
  g_test_add_func ("/predictor/kept", test_kept);
  g_test_add_func ("/predictor/given", test_given);
  g_test_add_func ("/predictor/sources", test_sources);
  g_test_add_func ("/predictor/one-source", test_one_source);
  g_test_add_func ("/predictor/digest-of-measurements", test_digest_of_measurements);
  g_test_add_func ("/predictor/digest-of-cluster", test_digest_of_cluster);
  g_test_add_func ("/predictor/digest-of-nothing", test_digest_of_nothing);
  g_test_add_func ("/predictor/timeline", test_timeline);
  g_test_add_func ("/predictor/bandwidth", test_bandwidth);
  g_test_add_func ("/predictor/shapes", test_shapes);
  g_test_add_func ("/predictor/digest-of-runs", test_digest_of_runs);
  g_test_add_func ("/predictor/costs-of-run", test_costs_of_run);
  g_test_add_func ("/predictor/recomputed", test_recomputed);
  g_test_add_func ("/predictor/measured-weights", test_measured_weights);
  g_test_add_func ("/predictor/average", test_average);
  return run_in_folder ();
}
