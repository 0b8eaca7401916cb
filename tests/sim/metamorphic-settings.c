/* metamorphic-settings.c - relations between settings: stages of ZeRO, replicas, orders of microbatches, slow devices,
 * samples without variation, and the schedules that a plan may use. */
#include "metamorphic.h"

#include <pipesim/plan.h>
#include <pipesim/answer.h>

#include <string.h>

#define ANY_ENGINE (META_CHANNEL | META_BLOCKING | META_EAGER | META_ORDER | META_SPEED | META_BANDWIDTH | META_EXPOSED)

static gboolean is_synchronous (const PsFamily *family)
{
  return meta_fixed_order (family) && !g_str_has_prefix (family->name, "pipedream");
}

/* A device's whole share in one value. */
static void give_share (MetaDraw *draw, PsCostKey key, guint units)
{
  draw->costs.n[key] = 1;
  draw->costs.value[key][0] = META_UNIT * (gint64)units;
}

/* A higher stage of ZeRO never needs more memory; the first two take the same time. Messages are left out: at other
 * times of ops others of them are under way together. */
static void zero_stages (MetaProperty *property)
{
  guint grad = meta_below (property, 9), opt = 1 + meta_below (property, 9);
  g_autofree char *replicas = g_strdup_printf (" --replicas %u", 2 + meta_below (property, 7));
  g_auto (MetaDraw) draw = { 0 };
  MetaRun *runs[4];

  if (!meta_draw_family (property, &draw, is_synchronous))
    return;
  meta_draw_costs (property, &draw);
  give_share (&draw, PS_COST_WEIGHTS, grad + opt + meta_below (property, 9));
  give_share (&draw, PS_COST_GRAD, grad);
  give_share (&draw, PS_COST_OPT, opt);
  give_share (&draw, PS_COST_REDUCE, meta_below (property, 40));
  g_string_append (draw.options, replicas);
  for (guint zero = 0; zero < G_N_ELEMENTS (runs); zero++) {
    g_autofree char *option = g_strdup_printf ("--zero %u", zero);

    runs[zero] = meta_run_draw (&draw, option);
    if (zero > 0 && runs[zero - 1]->prediction != NULL && runs[zero]->prediction != NULL)
      meta_expect (property, "peak memory, a higher stage of ZeRO", runs[zero]->prediction->metrics.peak_memory_bytes,
                   "<=", runs[zero - 1]->prediction->metrics.peak_memory_bytes, runs[zero], runs[zero - 1]);
  }
  if (runs[1]->prediction != NULL && runs[2]->prediction != NULL)
    meta_expect (property, "iteration, stages 1 and 2", runs[1]->prediction->metrics.iteration_ns,
                 "==", runs[2]->prediction->metrics.iteration_ns, runs[1], runs[2]);
  for (guint zero = 0; zero < G_N_ELEMENTS (runs); zero++)
    meta_run_free (runs[zero]);
}

/* One replica pays no all-reduce, whatever it would take; two weight copies still pay theirs. */
static void one_replica (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) with = NULL, without = NULL;

  if (!meta_draw_family (property, &draw, meta_any_family))
    return;
  meta_draw_costs (property, &draw);
  give_share (&draw, PS_COST_REDUCE2, meta_below (property, 9));
  give_share (&draw, PS_COST_REDUCE, 1 + meta_below (property, 99));
  meta_draw_options (property, &draw, ANY_ENGINE | META_BYPASS);
  with = meta_run_draw (&draw, "--replicas 1");
  draw.costs.n[PS_COST_REDUCE] = 0;
  without = meta_run_draw (&draw, "--replicas 1");
  meta_expect_scaled (property, with, without, 1, 1);
}

static char *write_lengths (MetaProperty *property, guint m)
{
  g_autoptr (GString) text = g_string_new ("factor\n");

  for (guint i = 0; i < m; i++)
    g_string_append_printf (text, "%g\n", 0.5 * (1 + meta_below (property, 6)));
  return meta_write_file (property, "lengths.csv", text->str);
}

/* The best order of microbatches is no slower than any that has a name. */
static void microbatch_orders (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) best = NULL;

  if (!meta_draw_family (property, &draw, meta_any_family) || draw.m > 6)
    return;
  meta_draw_costs (property, &draw);
  meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw,
                     ANY_ENGINE | META_BYPASS | META_SLOWDOWN | META_WINDOW | META_PLANNED | META_RECOMPUTE);
  g_autofree char *lengths = write_lengths (property, draw.m);
  g_string_append_printf (draw.options, " --lengths %s", lengths);
  best = meta_run_draw (&draw, "--microbatch-order best");
  for (PsMicrobatchOrder order = PS_ORDER_GIVEN; order < PS_ORDER_BEST; order++) {
    g_autofree char *option = g_strdup_printf ("--microbatch-order %s", ps_microbatch_order_name (order));
    g_autoptr (MetaRun) other = meta_run_draw (&draw, option);

    meta_expect_true (property, "the best order runs where another does",
                      best->prediction != NULL || other->prediction == NULL, best, other);
    if (best->prediction != NULL && other->prediction != NULL)
      meta_expect (property, "iteration, best order of microbatches", best->prediction->metrics.iteration_ns,
                   "<=", other->prediction->metrics.iteration_ns, best, other);
  }
}

/* Samples of a prediction; NULL: refused. */
static gint64 *take_samples (const MetaRun *run, const PsUncertainty *uncertainty, guint n_samples)
{
  const PsSampling sampling = { .n_samples = n_samples,
                                .seed = 1,
                                .n_jobs = 1,
                                .events = run->prediction->events,
                                .sync = run->setting->sync,
                                .reduce = run->setting->reduce };

  return ps_uncertainty_sample (ps_prediction_hint (run->prediction), run->prediction->costs, uncertainty, &sampling,
                                NULL);
}

/* Where nothing varies every sample is the iteration. Parts of an op that messages slow down end at whole nanoseconds,
 * so that iterations of a period then differ by one. */
static void certain_samples (MetaProperty *property)
{
  const PsUncertainty nothing = { 0 };
  guint n = 1 + meta_below (property, 40);
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = NULL;
  g_autofree gint64 *samples = NULL;

  if (!meta_draw_family (property, &draw, meta_any_family))
    return;
  meta_draw_costs (property, &draw);
  meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw, ANY_ENGINE | META_BYPASS | META_RECOMPUTE | META_SLOWDOWN | META_WINDOW);
  run = meta_run_draw (&draw, NULL);
  if (run->prediction != NULL)
    samples = take_samples (run, &nothing, n);
  for (guint i = 0; samples != NULL && i < n; i++) {
    gint64 iteration_ns = run->prediction->metrics.iteration_ns;
    gint64 rounding_ns = run->setting->overlap_slowdown > 1 && run->setting->sync == PS_SYNC_BYPASS;

    if (i == 0 || samples[i] != samples[0])
      meta_expect (property, "a sample without variation",
                   CLAMP (iteration_ns, samples[i] - rounding_ns, samples[i] + rounding_ns), "==", iteration_ns, run,
                   NULL);
  }
}

/* A device that is always slow is as slow as --speed makes it, O included. */
static void stragglers (MetaProperty *property)
{
  static const double factors[] = { 0.5, 2, 4 };
  const PsSlowness slowness
      = { .a = 0, .factor = factors[meta_below (property, G_N_ELEMENTS (factors))], .probability = 1 };
  const PsUncertainty uncertainty = { .slowness = &slowness, .n_slowness = 1 };
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = NULL, slow = NULL;
  g_autofree gint64 *samples = NULL;

  if (!meta_draw_family (property, &draw, meta_fixed_order))
    return;
  meta_draw_costs (property, &draw);
  give_share (&draw, PS_COST_O, 1 + meta_below (property, 30));
  meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw, ANY_ENGINE & ~META_SPEED);
  g_autoptr (GString) speeds = g_string_new (NULL);
  g_string_printf (speeds, "--speed %g", 1 / slowness.factor);
  for (guint d = 1; d < draw.p; d++)
    g_string_append (speeds, ":1");
  run = meta_run_draw (&draw, NULL);
  slow = meta_run_draw (&draw, speeds->str);
  if (run->prediction != NULL && slow->prediction != NULL)
    samples = take_samples (run, &uncertainty, 1);
  if (samples != NULL)
    meta_expect (property, "iteration, --straggler and --speed", samples[0],
                 "==", slow->prediction->metrics.iteration_ns, run, slow);
}

static gint64 plan_step (guint n_gpus, gint64 global_batch, char **schedules)
{
  const PsLayoutQuestion question = { .given.model = "tiny-gpt",
                                      .given.cluster = "cpu-cores",
                                      .n_gpus = n_gpus,
                                      .global_batch = global_batch,
                                      .zero = 1,
                                      .schedules = schedules,
                                      .top = 1,
                                      .fold = TRUE };
  g_autoptr (PsLayouts) layouts = ps_layouts_find (&question, NULL);

  return layouts != NULL && layouts->best->len > 0 ? g_array_index (layouts->best, PsLayout, 0).step_ns : G_MAXINT64;
}

/* A plan that may use more schedules is no slower. */
static void plan_schedules (MetaProperty *property)
{
  static const char *const names[] = { "1f1b", "zb-h1", "v-half", "interleaved", "gpipe", "looped-bfs", "zb-v" };
  g_autoptr (GPtrArray) schedules = g_ptr_array_new ();
  guint n_gpus = 1 << meta_below (property, 4);
  gint64 global_batch = n_gpus << meta_below (property, 3), fewer_ns = G_MAXINT64;

  for (guint i = 0; i < 2; i++)
    g_ptr_array_add (schedules, (gpointer)names[meta_below (property, G_N_ELEMENTS (names))]);
  if (schedules->pdata[0] == schedules->pdata[1])
    return;
  for (guint i = 0; i < 2; i++)
    fewer_ns = MIN (fewer_ns, plan_step (n_gpus, global_batch, (char *[]){ schedules->pdata[i], NULL }));
  g_autofree char *line
      = g_strdup_printf ("pipesim plan --model tiny-gpt --cluster cpu-cores -g %u --global-batch "
                         "%" G_GINT64_FORMAT " -s %s,%s",
                         n_gpus, global_batch, (char *)schedules->pdata[0], (char *)schedules->pdata[1]);
  meta_expect_lines (property, "step, more schedules",
                     plan_step (n_gpus, global_batch, (char *[]){ schedules->pdata[0], schedules->pdata[1], NULL }),
                     "<=", fewer_ns, line, "either schedule alone");
}

/* Interleaving stages of one chunk is 1F1B. */
static void one_chunk (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) interleaved = NULL, plain = NULL;

  do
    meta_draw_clear (&draw);
  while (!meta_draw_family (property, &draw, meta_fixed_order) || strcmp (draw.schedule, "1f1b") != 0);
  meta_draw_costs (property, &draw);
  meta_draw_memory (property, &draw);
  meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw, ANY_ENGINE | META_BYPASS | META_RECOMPUTE);
  plain = meta_run_draw (&draw, "-v 1");
  g_free (draw.schedule);
  draw.schedule = g_strdup ("interleaved");
  interleaved = meta_run_draw (&draw, "-v 1");
  meta_expect_scaled (property, plain, interleaved, 1, 1);
}

const MetaRow meta_settings[] = { { "zero-stages", 2000, zero_stages },
                                  { "one-replica", 2000, one_replica },
                                  { "microbatch-orders", 2000, microbatch_orders },
                                  { "certain-samples", 2000, certain_samples },
                                  { "stragglers", 2000, stragglers },
                                  { "plan-schedules", 200, plan_schedules },
                                  { "one-chunk", 2000, one_chunk },
                                  { 0 } };
