/* Tests of the layers of partition.h: the CSV, chains from models and from measured stages, and the costs of stages. */
#include "model-costs.h"
#include "folder-rig.h"

#include <pipesim/partition.h>

#include <string.h>

#define HEADER "layer,time,activation_bytes,parameter_bytes"

static PsLayers *parse (const char *text, GError **error)
{
  return ps_layers_parse ("x.csv", text, strlen (text), error);
}

static void test_defaults (void)
{
  g_autoptr (PsLayers) layers = fine (parse (HEADER "\nembedding,1us,2KiB,3\nlayer 1,10,0,4MiB\r\n", &error));

  g_assert_cmpuint (layers->n_layers, ==, 2);
  g_assert_false (layers->has_flops);
  g_assert_cmpint (layers->time_origin, ==, PS_ORIGIN_GIVEN);
  g_assert_cmpstr (layers->source, ==, "x.csv");
  const PsLayer *first = &layers->layers[0], *second = &layers->layers[1];
  g_assert_cmpstr (first->name, ==, "embedding");
  /* 1000 ns in thirds, exact in sum */
  g_assert_cmpint (first->time_ns, ==, 1000);
  g_assert_cmpint (first->forward_ns, ==, 333);
  g_assert_cmpint (first->backward_ns, ==, 333);
  g_assert_cmpint (first->weight_ns, ==, 334);
  g_assert_cmpint (first->full_backward_ns, ==, 667);
  g_assert_cmpint (first->output_bytes, ==, 2048);
  g_assert_cmpint (first->kept_bytes, ==, 2048);
  g_assert_cmpint (first->weight_kept_bytes, ==, 2048);
  g_assert_cmpint (first->state_bytes, ==, 12);
  g_assert_cmpint (second->time_ns, ==, 10);
  g_assert_cmpint (second->parameter_bytes, ==, 4 << 20);
}

static void test_columns (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsLayers) all = fine (
      parse (HEADER ",kept_bytes,backward,flops,forward,state_bytes,weight_kept_bytes\na,10us,1,2,30,4us,50,3us,60,7",
             &error));

  const PsLayer *layer = &all->layers[0];

  g_assert_true (all->has_flops);
  g_assert_cmpint (layer->flops, ==, 50);
  g_assert_cmpint (layer->forward_ns, ==, 3000);
  g_assert_cmpint (layer->backward_ns, ==, 4000);
  g_assert_cmpint (layer->weight_ns, ==, 3000);
  g_assert_cmpint (layer->kept_bytes, ==, 30);
  g_assert_cmpint (layer->weight_kept_bytes, ==, 7);
  g_assert_cmpint (layer->state_bytes, ==, 60);
  /* One of the two alone: the rest in halves. */
  g_autoptr (PsLayers) forward = parse (HEADER ",forward\na,10us,1,2,4us", &error);
  g_assert_cmpint (forward->layers[0].backward_ns, ==, 3000);
  g_assert_cmpint (forward->layers[0].weight_ns, ==, 3000);
  g_autoptr (PsLayers) backward = parse (HEADER ",backward\na,10us,1,2,4us", &error);
  g_assert_cmpint (backward->layers[0].forward_ns, ==, 3000);
  g_assert_cmpint (backward->layers[0].weight_ns, ==, 3000);
}

static void test_wrong_files (void)
{
  static const struct {
    const char *text;
    const char *message;
  } bad[] = {
    { "", "x.csv: is empty" },
    { "\n", "x.csv:1: column 1 is '', not 'layer'" },
    { HEADER, "x.csv: holds 0 layers; give 1 to 16384" },
    { HEADER "\n", "x.csv: holds 0 layers; give 1 to 16384" },
    { "a,1us,0,0\n", "x.csv:1: column 1 is 'a', not 'layer'" },
    { "layer,time,activation_bytes\na,1us,0\n", "x.csv:1: column 4 is '', not 'parameter_bytes'" },
    { "time,layer,activation_bytes,parameter_bytes\n", "x.csv:1: column 1 is 'time'" },
    { HEADER ",color\na,1us,0,0,red\n", "x.csv:1: unknown column 'color'; known are: layer,time," },
    { HEADER ",flops,flops\na,1us,0,0,1,1\n", "x.csv:1: column 'flops' appears twice" },
    { HEADER ",time\n", "x.csv:1: column 'time' appears twice" },
    { HEADER "\na,1us,0\n", "x.csv:2: 3 fields; the header has 4" },
    { HEADER "\na,1us,0,0,\n", "x.csv:2: 5 fields; the header has 4" },
    { HEADER "\na,1us,0,0\n\nb,1us,0,0\n", "x.csv:3: 0 fields; the header has 4" },
    { HEADER "\n,1us,0,0\n", "x.csv:2: layer: '' is no name" },
    { HEADER "\n\"a\",1us,0,0\n", "x.csv:2: layer: '\\\"a\\\"' is no name" },
    { HEADER "\na\tb,1us,0,0\n", "x.csv:2: layer: 'a\\tb' holds a control character" },
    { HEADER "\na,1.5,0,0\n", "x.csv:2: time: '1.5' is no time" },
    { HEADER "\na, 1us,0,0\n", "x.csv:2: time: ' 1us' is no time" },
    { HEADER "\na,-1us,0,0\n", "x.csv:2: time: '-1us' is no time" },
    { HEADER "\na,nan,0,0\n", "x.csv:2: time: 'nan' is no time" },
    { HEADER "\na,99999999999999999999,0,0\n", "x.csv:2: time: '99999999999999999999' is not an integer" },
    { HEADER "\na,1us,,0\n", "x.csv:2: activation_bytes: '' is no size" },
    { HEADER "\na,1us,1,1e3\n", "x.csv:2: parameter_bytes: '1e3' has no unit; 1000GB would be right" },
    { HEADER ",flops\na,1us,1,1,1.5\n", "x.csv:2: flops: '1.5' is not an integer" },
    { HEADER ",forward\na,1us,1,1,2us\n", "x.csv:2: forward and backward are longer than time" },
    { HEADER ",forward,backward\na,3us,1,1,2us,2us\n", "x.csv:2: forward and backward are longer than time" },
    { HEADER ",weight_kept_bytes\na,1us,5,1,6\n", "x.csv:2: weight_kept_bytes: 6 is more than kept_bytes 5" },
    { HEADER "\na,600000s,0,0\nb,600000s,0,0\n", "x.csv: layer 1 ('b'): time: the sum up to here is more" },
    { HEADER "\na,1,600TiB,0\nb,1,600TiB,0\n", "x.csv: layer 1 ('b'): activation_bytes: the sum" },
    { HEADER "\na,1,1,300TiB\n", "x.csv: layer 0 ('a'): state_bytes: the sum" },
    { HEADER "\n\xff,1us,0,0\n", "x.csv: is not UTF-8 text" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (parse (bad[i].text, &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
    if (!g_str_has_prefix (error->message, bad[i].message))
      g_error ("'%s' instead of '%s'", error->message, bad[i].message);
    g_assert_null (strchr (error->message, '\n'));
  }
  refused (ps_layers_parse ("x.csv", "layer\0", 6, &error), PS_ERROR_INPUT,
           "x.csv: is not a text file (it contains NUL bytes)");
}

/* 16384 layers are read, one more is refused. */
static void test_many (void)
{
  g_autoptr (GString) text = g_string_new (HEADER);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < PS_MAX_LAYERS; i++)
    g_string_append (text, "\na,1,1,1");
  g_autoptr (PsLayers) layers = fine (parse (text->str, &error));
  g_assert_cmpuint (layers->n_layers, ==, PS_MAX_LAYERS);
  g_string_append (text, "\na,1,1,1");
  g_assert_null (parse (text->str, &error));
  g_assert_nonnull (strstr (error->message, "holds 16385 layers"));
}

/* Cut where ps_model_split cuts, the layers of a model make the stages that ps_costs_model makes of it: sizes to the
 * byte, times to the rounding of each layer. */
static PsPartition *like_split (const PsModel *model, guint n_stages)
{
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_stages);
  PsPartition *partition = g_new0 (PsPartition, 1);

  g_assert_true (ps_model_split (model, n_stages, shapes, NULL));
  partition->n_stages = n_stages;
  partition->stages = g_new0 (PsPartitionStage, n_stages);
  for (guint s = 0; s < n_stages; s++)
    partition->stages[s] = (PsPartitionStage){ shapes[s].first_layer + (s > 0),
                                               shapes[s].first_layer + shapes[s].n_layers + (s + 1 == n_stages), 1 };
  return partition;
}

static void assert_same_stage (const PsCosts *costs, const PsCosts *expected, guint s, gint64 tolerance)
{
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
    const PsOpCost *a = ps_costs_op (costs, (PsOpKind)kind, s), *b = ps_costs_op (expected, (PsOpKind)kind, s);

    g_assert_cmpint (ABS (a->duration_ns - b->duration_ns), <=, tolerance);
    g_assert_cmpint (a->take_bytes, ==, b->take_bytes);
    g_assert_cmpint (a->give_bytes, ==, b->give_bytes);
  }
  g_assert_cmpint (costs->stage[s].weight_bytes, ==, expected->stage[s].weight_bytes);
  g_assert_cmpint (costs->stage[s].version_bytes, ==, expected->stage[s].version_bytes);
  if (s + 1 < costs->n_stages) {
    guint forward = ps_transfer_forward (costs, s), backward = ps_transfer_backward (costs, s + 1);

    g_assert_cmpint (costs->transfer_ns[forward], ==, expected->transfer_ns[forward]);
    g_assert_cmpint (costs->transfer_ns[backward], ==, expected->transfer_ns[backward]);
    g_assert_cmpint (costs->message_bytes[forward], ==, expected->message_bytes[forward]);
    g_assert_cmpint (costs->message_bytes[backward], ==, expected->message_bytes[backward]);
  }
}

static void test_model (void)
{
  g_autoptr (PsModel) model = ps_model_load ("gpt-1.5b", NULL);
  g_autoptr (PsCluster) cluster = ps_cluster_load ("h100-80gb", NULL);
  g_autoptr (GError) error = NULL;
  guint n;

  cluster->step_ns = 0;   /* it is of a device, not of a layer */
  cluster->launch_ns = 0; /* the host is ahead or behind over a whole op */
  g_autofree PsStageShape *units = ps_model_units (model, &n);
  g_autoptr (PsCosts) alone = fine (ps_costs_model_stages (model, cluster, units, 1, n, &error));
  g_autoptr (PsLayers) layers = fine (ps_layers_from_units (model, alone, &error));

  g_assert_cmpuint (layers->n_layers, ==, model->layers + 2);
  g_assert_cmpstr (layers->layers[0].name, ==, "embedding");
  g_assert_cmpstr (layers->layers[23].name, ==, "head");
  g_assert_cmpint (layers->time_origin, ==, PS_ORIGIN_MODELLED);
  g_autoptr (PsCosts) expected = model_costs (model, cluster, 11, 1, &error);
  g_autoptr (PsPartition) partition = like_split (model, 11);
  PsLink links[10];
  for (guint s = 0; s < 10; s++)
    links[s] = ps_cluster_link (cluster, s, s + 1);
  PsPartitionSetting setting = { .layers = layers, .n_devices = 11, .n_chunks = 1, .links = links };
  g_autoptr (PsCosts) costs = fine (ps_partition_costs (&setting, partition, &error));
  for (guint s = 0; s < 11; s++)
    assert_same_stage (costs, expected, s, 3);
}

/* What is printed for --costs is read back as it was. */
static void test_costs_text (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsLayers) layers = parse (HEADER ",forward,kept_bytes,weight_kept_bytes,state_bytes\n"
                                              "a,10us,100,2,3us,50,30,9\nb,20us,200,3,7us,60,31,10\n"
                                              "c,30us,300,5,9us,70,32,11\nd,40us,400,7,11us,80,33,12\n",
                                       &error);
  PsLink links[]
      = { { .latency_ns = 5, .bandwidth = 1e9 }, { .latency_ns = 7, .bandwidth = 2e9 }, { .latency_ns = 9 } };
  const double speeds[] = { 1, 0.3 };
  PsPartitionSetting setting = { .layers = layers, .n_chunks = 1, .links = links };

  for (guint p = 1; p <= 2; p++)
    for (guint v = 1; v <= 2; v++) {
      setting.n_devices = p;
      setting.n_chunks = v;
      setting.speeds = p == 2 ? speeds : NULL;
      g_autoptr (PsPartition) partition = fine (ps_partition (ps_partitioner_find ("uniform"), &setting, &error));
      g_autoptr (PsCosts) costs = ps_partition_costs (&setting, partition, &error);
      costs->op_ns = p == v ? 5 : 0;
      costs->post_ns = v == 2 ? 7 : 0;
      g_autofree char *text = ps_partition_costs_to_text (costs);
      g_autoptr (PsCosts) again = fine (ps_costs_parse (text, p, v, &error));
      g_assert_cmpint (again->op_ns, ==, costs->op_ns);
      g_assert_cmpint (again->post_ns, ==, costs->post_ns);
      for (guint s = 0; s < p * v; s++)
        assert_same_stage (costs, again, s, 0);
    }
}

/* Device 1 is twice as fast: on a V it holds stages 1 and 2. Chimera has every stage on two devices. */
static void test_speeds (void)
{
  static const double speeds[] = { 1, 2 };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsLayers) layers = parse (HEADER "\na,12,0,0\nb,12,0,0\nc,12,0,0\nd,12,0,0\n", &error);
  PsLink links[4] = { 0 };
  PsPartitionSetting setting = { .layers = layers,
                                 .n_devices = 2,
                                 .n_chunks = 2,
                                 .links = links,
                                 .speeds = speeds,
                                 .n_microbatches = 4,
                                 .family = ps_family_find ("zb-v") };
  g_autoptr (PsPlacement) v = ps_partition_placement (&setting, &error);

  setting.placement = v;
  g_autoptr (PsPartition) partition = ps_partition (ps_partitioner_find ("uniform"), &setting, &error);
  g_autoptr (PsCosts) costs = fine (ps_partition_costs (&setting, partition, &error));
  g_assert_cmpint (partition->bottleneck_ns, ==, 12);
  g_assert_cmpint (ps_partition_stage_ns (&setting, partition, 2), ==, 6);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, 4);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 1)->duration_ns, ==, 2);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 2)->duration_ns, ==, 2);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 3)->duration_ns, ==, 4);
  setting.family = ps_family_find ("chimera");
  setting.n_chunks = 1;
  g_autoptr (PsPlacement) both = ps_partition_placement (&setting, &error);
  setting.placement = both;
  g_autoptr (PsPartition) twice = ps_partition (ps_partitioner_find ("uniform"), &setting, &error);
  refused (ps_partition_costs (&setting, twice, &error), PS_ERROR_USAGE, "*stage 0 lives on devices 0 and 1*");
}

/* A profile whose every figure is a multiple of: 100 for a layer, 40 for the embedding, 70 for the head. */

static gint64 units (const PsStageShape *shape)
{
  return 100 * shape->n_layers + (shape->embedding ? 40 : 0) + (shape->head ? 70 : 0);
}

static void store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement)
{
  fine (ps_costdb_store (db, profile, measurement, &error));
}

static void store_op (PsCostDb *db, gint64 profile, const PsStageShape *shape, PsOpKind kind)
{
  static const int factor[PS_N_OP_KINDS] = { 1, 2, 3, 4, 0, 5 };
  g_autofree char *key = ps_stage_shape_key (shape);
  gint64 ns = factor[kind] * units (shape), sample[] = { ns };
  PsMeasurement op = { .kind = kind,
                       .shape = key,
                       .devices = 2,
                       .time = { ns, ns, ns, 0, ns, 1 },
                       .take_bytes = kind == PS_OP_F ? 6 * units (shape) : 0,
                       .give_bytes = kind == PS_OP_W ? 2 * units (shape) : 0,
                       .state_bytes = 7 * units (shape),
                       .stop = (char *)"converged",
                       .samples_ns = sample,
                       .n_samples = 1,
                       .taken = (char *)"2026-01-01T00:00:01Z" };

  store (db, profile, &op);
}

static void store_transfer (PsCostDb *db, gint64 profile, gint64 bytes, gint64 ns)
{
  gint64 sample[] = { ns };
  PsMeasurement transfer = { .subject = PS_SUBJECT_TRANSFER,
                             .shape = (char *)"",
                             .bytes = bytes,
                             .devices = 2,
                             .time = { ns, ns, ns, 0, ns, 1 },
                             .stop = (char *)"converged",
                             .samples_ns = sample,
                             .n_samples = 1,
                             .taken = (char *)"2026-01-01T00:00:01Z" };

  store (db, profile, &transfer);
}

static void fill_database (PsCostDb *db, const PsModel *model, guint n_stages)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  g_autofree char *digest = ps_model_digest (model), *text = ps_model_to_text (model);
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_stages);
  char none[] = "-";
  PsProfile profile = { none, model->name, digest, text, none, none, none, none, none,
                        none, none,        none,   none, none, none, none, 0,    0 };
  gint64 id;

  profile.name = (char *)"p";
  profile.shares = profile.choices = profile.source = profile.places = (char *)"";
  fine (ps_costdb_begin_profile (db, &profile, &id, &error));
  g_assert_true (ps_model_split (model, n_stages, shapes, NULL));
  store_transfer (db, id, ps_model_boundary_bytes (model), 1234);
  for (guint s = 0; s < n_stages; s++)
    for (guint i = 0; i < G_N_ELEMENTS (kinds) && (s <= 1 || s + 1 == n_stages); i++)
      store_op (db, id, &shapes[s], kinds[i]);
}

static void assert_units (const PsLayer *layer, gint64 unit)
{
  g_assert_cmpint (layer->forward_ns, ==, unit);
  g_assert_cmpint (layer->backward_ns, ==, 2 * unit);
  g_assert_cmpint (layer->weight_ns, ==, 3 * unit);
  g_assert_cmpint (layer->full_backward_ns, ==, 4 * unit);
  g_assert_cmpint (layer->optimizer_ns, ==, 5 * unit);
  g_assert_cmpint (layer->time_ns, ==, 6 * unit);
  g_assert_cmpint (layer->kept_bytes, ==, 6 * unit);
  g_assert_cmpint (layer->weight_kept_bytes, ==, 2 * unit);
  g_assert_cmpint (layer->state_bytes, ==, 7 * unit);
}

static void check_database (PsCostDb *db, const PsModel *model)
{
  PsLink link;
  g_autoptr (PsLayers) layers = fine (ps_layers_costdb (db, NULL, model, 2, &link, &error));

  g_assert_cmpuint (layers->n_layers, ==, model->layers + 2);
  assert_units (&layers->layers[0], 40);
  assert_units (&layers->layers[1], 100);
  assert_units (&layers->layers[model->layers], 100);
  assert_units (&layers->layers[model->layers + 1], 70);
  g_assert_cmpint (layers->time_origin, ==, PS_ORIGIN_INTERPOLATED);
  g_assert_cmpint (ps_link_transfer_ns (&link, ps_model_boundary_bytes (model)), ==, 1234);
  /* 8 layers are no 16 stages. */
  refused (ps_layers_costdb (db, NULL, model, 16, NULL, &error), PS_ERROR_USAGE,
           "model 'tiny-gpt': its 8 layers cannot have been measured as stages of 16 devices; *");
}

static void test_database (void)
{
  g_autofree char *path = path_of ("costs.db");
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  g_autoptr (PsCostDb) db = fine (ps_costdb_open (path, PS_COSTDB_WRITE, &error));

  fill_database (db, model, 4);
  check_database (db, model);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/layers/defaults", test_defaults);
  g_test_add_func ("/layers/columns", test_columns);
  g_test_add_func ("/layers/wrong-files", test_wrong_files);
  g_test_add_func ("/layers/many", test_many);
  g_test_add_func ("/layers/model", test_model);
  g_test_add_func ("/layers/costs-text", test_costs_text);
  g_test_add_func ("/layers/speeds", test_speeds);
  g_test_add_func ("/layers/database", test_database);
  return run_in_folder ();
}
