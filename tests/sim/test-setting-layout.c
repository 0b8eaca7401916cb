/* test-setting-layout.c - --layout against all cuts of small models, and against sums that no cut changes. */
#include "error-rig.h"

#include <pipesim/model.h>
#include <pipesim/setting.h>

#include <string.h>

static PsModel *random_model (void)
{
  PsModel *model = ps_model_load ("tiny-gpt", NULL);

  model->layers = (guint)g_test_rand_int_range (2, 10);
  model->vocabulary = (guint)g_test_rand_int_range (1, 20000);
  model->microbatch_size = (guint)g_test_rand_int_range (1, 5);
  return model;
}

static PsSetting *new_setting (const PsModel *model, const PsCluster *cluster, const char *layout)
{
  PsSetting *setting = ps_setting_new ();

  setting->model = g_strdup ("known");
  setting->cluster = g_strdup ("known");
  setting->known_model = model;
  setting->known_cluster = cluster;
  setting->layout = g_strdup (layout);
  return setting;
}

/* Time of F, B and W of each unit. */
static gint64 *unit_times (const PsModel *model, const PsCluster *cluster, guint *n)
{
  g_autofree PsStageShape *units = ps_model_units (model, n);
  g_autoptr (PsCosts) costs = ps_costs_model_stages (model, cluster, units, 1, *n, NULL);
  gint64 *times = g_new0 (gint64, *n);

  for (guint i = 0; i < *n; i++)
    for (guint kind = PS_OP_F; kind <= PS_OP_W; kind++)
      times[i] += ps_costs_op (costs, (PsOpKind)kind, i)->duration_ns;
  return times;
}

/* The slowest stage of the best of all cuts of n units into n_stages. */
static gint64 try_all (const gint64 *times, guint n, guint n_stages)
{
  gint64 best = G_MAXINT64, first = 0;

  if (n_stages == 1) {
    for (guint i = 0; i < n; i++)
      first += times[i];
    return first;
  }
  for (guint i = 0; i + n_stages <= n; i++) {
    first += times[i];
    best = MIN (best, MAX (first, try_all (times + i + 1, n - i - 1, n_stages - 1)));
  }
  return best;
}

static gint64 slowest (const gint64 *times, const PsStageShape *shapes, guint n_stages)
{
  gint64 most = 0;

  for (guint s = 0, unit = 0; s < n_stages; s++) {
    guint n = shapes[s].n_layers + (guint)shapes[s].embedding + (guint)shapes[s].head;
    gint64 sum = 0;

    while (n-- > 0)
      sum += times[unit++];
    most = MAX (most, sum);
  }
  return most;
}

static void test_best (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("a100-80gb", NULL);
  guint n_uneven = 0;

  for (guint round = 0; round < 300; round++) {
    g_autoptr (PsModel) model = random_model ();
    g_autoptr (PsSetting) setting = new_setting (model, cluster, "best");
    g_autoptr (GError) error = NULL;
    guint n_stages = (guint)g_test_rand_int_range (1, (int)MIN (model->layers, 5) + 1), n;
    g_autofree gint64 *times = unit_times (model, cluster, &n);
    g_autofree PsStageShape *shapes = ps_setting_shapes (setting, model, n_stages, 1, &error);

    g_assert_no_error (error);
    g_assert_cmpint (slowest (times, shapes, n_stages), ==, try_all (times, n, n_stages));
    n_uneven += !ps_stage_shapes_are_even (shapes, n_stages);
  }
  g_assert_cmpuint (n_uneven, >, 30);
}

/* A device of half the speed gets about half the layers. */
static void test_speed (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("a100-80gb", NULL);
  g_autoptr (PsModel) model = ps_model_load ("gpt-1.5b", NULL);
  g_autoptr (PsSetting) setting = new_setting (model, cluster, "best");

  setting->speed = g_new (double, 2);
  setting->speed[0] = 0.5;
  setting->speed[1] = 1;
  setting->n_speeds = 2;
  g_autofree PsStageShape *shapes = ps_setting_shapes (setting, model, 2, 1, NULL);
  g_assert_cmpuint (shapes[0].n_layers, ==, 8);
  g_assert_cmpuint (shapes[1].n_layers, ==, 14);
}

/* Where the layout is open, every family gets the better one of best and even. */
static void test_choice (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("a100-80gb", NULL);
  g_autoptr (PsModel) model = ps_model_load ("gpt-1.5b", NULL);
  const char *const layouts[] = { NULL, "best", "even" };
  guint n_families, n_gains = 0;
  const PsFamily *const *families = ps_family_table (&n_families);

  for (guint i = 0; i < n_families; i++) {
    gint64 ns[G_N_ELEMENTS (layouts)], even_ns = 0;

    for (guint j = 0; j < G_N_ELEMENTS (layouts); j++) {
      g_autoptr (PsSetting) setting = new_setting (model, cluster, layouts[j]);

      setting->n_devices = 4;
      setting->n_microbatches = 8;
      setting->memory_limit = g_new (gint64, 1);
      setting->memory_limit[0] = PS_MAX_SIZE_BYTES;
      setting->n_memory_limits = 1;
      g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, families[i]->name, &error));
      ns[j] = prediction->metrics.iteration_ns;
      even_ns = j == 0 ? prediction->even_ns : even_ns;
    }
    g_assert_cmpint (ns[0], ==, MIN (ns[1], ns[2]));
    g_assert_cmpint (even_ns, ==, ns[1] < ns[2] ? ns[2] : 0);
    n_gains += even_ns > 0;
  }
  g_assert_cmpuint (n_gains, >=, 5);
}

/* No cut changes the sums of work, weights and activations. Stages without layers take full recomputation. */
static void test_sums (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("a100-80gb", NULL);

  for (guint round = 0; round < 300; round++) {
    g_autoptr (PsModel) model = random_model ();
    PsStageShape shapes[12] = { 0 };
    guint n_stages = (guint)g_test_rand_int_range (1, 13), left = model->layers;
    gint64 state = 0, kept = 0, flops = 0;

    for (guint s = 0, first = 0; s < n_stages; s++) {
      shapes[s].first_layer = first;
      shapes[s].n_layers = s + 1 < n_stages ? (guint)g_test_rand_int_range (0, (int)left + 1) : left;
      first += shapes[s].n_layers;
      left -= shapes[s].n_layers;
    }
    shapes[0].embedding = shapes[n_stages - 1].head = TRUE;
    g_autofree char *layout = ps_layout_write (NULL, shapes, n_stages);
    static const PsRecompute kinds[] = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };
    g_autoptr (PsSetting) setting = new_setting (model, cluster, layout), whole = new_setting (model, cluster, NULL);
    g_autoptr (GError) error = NULL;
    setting->recompute = whole->recompute = kinds[g_test_rand_int_range (0, 3)];
    g_autoptr (PsCosts) costs = fine (ps_setting_costs (setting, 1, n_stages, &error));
    g_autoptr (PsCosts) one = ps_setting_costs (whole, 1, 1, NULL);
    for (guint s = 0; s < n_stages; s++) {
      state += costs->stage[s].weight_bytes;
      kept += ps_costs_op (costs, PS_OP_F, s)->take_bytes - ps_costs_op (costs, PS_OP_F, s)->give_bytes;
      flops += ps_model_stage_flops (model, &shapes[s], PS_OP_BW);
    }
    g_assert_cmpint (state, ==, one->stage[0].weight_bytes);
    g_assert_cmpint (ABS (kept - ps_costs_op (one, PS_OP_F, 0)->take_bytes + ps_costs_op (one, PS_OP_F, 0)->give_bytes),
                     <=, n_stages);
    g_assert_cmpint (flops, ==, ps_model_stage_flops (model, &one->shapes[0], PS_OP_BW));
    g_assert_true (ps_costs_check (costs, 4, &error));
  }
}

/* Megatron-LM's get_num_layers_to_build by hand. */
static void test_even (void)
{
  static const struct {
    const char *layout;
    guint layers, mtp, p, v;
    const char *stages; /* or the reason that there are none */
  } rows[] = {
    { "even", 22, 0, 4, 1, "Et*6|t*6|t*5|t*5L" },
    { "even:embedding:loss", 22, 0, 4, 1, "Et*5|t*6|t*6|t*5L" },
    { "even:loss", 23, 0, 4, 2, "Et*3|(t*3|)*6,ttL" },
    { "even:first=4:last=2", 22, 0, 4, 1, "Et*4|t*8|t*8|ttL" },
    { "even:first=4", 10, 0, 4, 2, "Ett|t|t|t|tt|t|t|tL" },
    { "even:last=8", 8, 0, 1, 1, "Et*8L" },
    { "even:first=3", 22, 0, 4, 1, "--layout: even: 19 layers do not divide evenly over 3 devices" },
    { "even:first=4", 10, 0, 4, 3, "--layout: even: 4 layers of a device do not divide over 3 chunks" },
    { "even:first=30", 22, 0, 4, 1, "--layout: even: 22 layers do not divide evenly over 3 devices" },
    { "even:first=3:last=3", 3, 0, 1, 1, "--layout: even: first and last are one device with -p 1" },
    { "even:last=1", 32, 0, 1, 1, "--layout: even: with -p 1 first and last hold all 32 layers of the model, not 1" },
    { "even:first=1:last=1", 3, 0, 2, 1,
      "--layout: even: with -p 2 first and last hold all 3 layers of the model, not 2" },
    /* Units alone: the loss, then modules of multi-token prediction, then the embedding. */
    { "even", 3, 0, 4, 1, "Et|t|t|L" },
    { "even", 3, 0, 5, 1, "E|t|t|t|L" },
    { "even:embedding:loss", 6, 0, 4, 2, "E|(t|)*6,L" },
    { "even:embedding:loss", 3, 1, 5, 1, "E|t|t|t|mL" },
    { "even", 3, 1, 4, 1, "Et|t|t|mL" },
    { "even", 3, 1, 5, 1, "Et|t|t|m|L" },
    { "even", 3, 1, 6, 1, "E|t|t|t|m|L" },
    { "even", 3, 0, 3, 2,
      "model 'tiny-gpt': its 3 layers, embedding and loss cannot be cut into 6 stages (devices times "
      "chunks)" },
  };
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const PsSetting setting = { .layout = (char *)rows[i].layout };
    g_autoptr (GError) error = NULL;

    model->layers = rows[i].layers;
    model->mtp = rows[i].mtp;
    g_autofree PsStageShape *shapes = ps_setting_shapes (&setting, model, rows[i].p, rows[i].v, &error);
    g_autofree char *text = shapes != NULL ? ps_layout_write (NULL, shapes, rows[i].p * rows[i].v) : NULL;
    g_assert_cmpstr (shapes != NULL ? text : error->message, ==, rows[i].stages);
    g_assert_true (shapes != NULL || error->code == PS_ERROR_USAGE);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/setting-layout/best", test_best);
  g_test_add_func ("/setting-layout/speed", test_speed);
  g_test_add_func ("/setting-layout/choice", test_choice);
  g_test_add_func ("/setting-layout/sums", test_sums);
  g_test_add_func ("/setting-layout/even", test_even);
  return g_test_run ();
}
