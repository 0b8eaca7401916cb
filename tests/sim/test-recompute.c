/* Tests of R ops: microbatches of a stage that recompute, while others keep their activations. */
#include "plan/joint-bound.h"
#include "plan/search-recompute.h"
#include "recompute-rig.h"

#include <pipesim/bound.h>

static gint64
duration (const Draw *draw, PsOp op)
{
  const gint64 of[] = {
    [PS_OP_F] = draw->f, [PS_OP_B] = draw->b, [PS_OP_W] = draw->w, [PS_OP_BW] = draw->b + draw->w, [PS_OP_R] = draw->r
  };

  return 1000 * of[op.kind];
}

/* The peak of a device by its order alone: a forward with an R keeps `keep` and needs act while it runs. */
static gint64
naive_peak (const PsSchedule *schedule, const Draw *draw, guint device, guint mask)
{
  gint64 now = 0, peak = 0;

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    {
      PsOp op = schedule->ops[i];
      gint64 dropped = has_r (mask, op) ? draw->act - draw->keep : 0;

      if (op.kind == PS_OP_F)
        now += draw->act;
      if (op.kind == PS_OP_R)
        now += dropped;
      peak = MAX (peak, now);
      if (op.kind == PS_OP_F)
        now -= dropped;
      if (op.kind == PS_OP_B)
        now -= draw->act - draw->wact;
      if (op.kind == PS_OP_W)
        now -= draw->wact;
      if (op.kind == PS_OP_BW)
        now -= draw->act;
    }
  g_assert_cmpint (now, ==, 0);
  return peak * 1024;
}

/* The ends of all ops grow until they agree with each other. R waits for its device alone. */
static gint64
naive_makespan (const PsSchedule *schedule, const Draw *draw)
{
  gint64 end[2][P][M] = { 0 }, last = 0;
  gboolean changes = TRUE;

  while (changes)
    {
      changes = FALSE;
      for (guint d = 0; d < P; d++)
        {
          gint64 now = 0;

          for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++)
            {
              PsOp op = schedule->ops[i];
              gboolean back = ps_op_is_backward (op);
              gint64 c = 1000 * draw->c;

              if (op.kind == PS_OP_F && d > 0)
                now = MAX (now, end[0][d - 1][op.microbatch] + c);
              if (back && d + 1 < P)
                now = MAX (now, end[1][d + 1][op.microbatch] + c);
              now += duration (draw, op);
              if (op.kind == PS_OP_F || back)
                {
                  changes |= end[back][d][op.microbatch] != now;
                  end[back][d][op.microbatch] = now;
                }
              last = MAX (last, now);
            }
        }
    }
  return last;
}

static const char *const families[] = { "gpipe", "1f1b", "zb-h1" };

/* Time and memory by the rules, for any microbatches that recompute. The bound of a prediction holds. */
static void
test_rules (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (31);

  for (guint i = 0; i < 200; i++)
    {
      Draw drawn;
      g_autoptr (PsSetting) setting = draw (random, 0, &drawn);
      guint mask = (guint)g_rand_int_range (random, 0, 1 << (P * M));
      const char *family = families[i % G_N_ELEMENTS (families)];
      g_autoptr (PsPrediction) prediction = predict (setting, family, mask);
      const PsSchedule *schedule = prediction->program->schedule;

      g_assert_cmpint (prediction->metrics.makespan_ns, ==, naive_makespan (schedule, &drawn));
      g_assert_cmpint (prediction->lower_bound_ns, <=, prediction->metrics.makespan_ns);
      for (guint d = 0; d < P; d++)
        g_assert_cmpint (prediction->metrics.device[d].peak_memory_bytes, ==, naive_peak (schedule, &drawn, d, mask));
    }
}

/* Where all microbatches of a stage have an R right before their backwards, it holds as much as with --recompute full,
 * and takes no longer: R need not wait for the gradient. */
static void
test_all (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (32);
  guint n_faster = 0;

  for (guint i = 0; i < 60; i++)
    {
      Draw drawn;
      g_autoptr (PsSetting) setting = draw (random, 0, &drawn);
      const char *family = families[i % G_N_ELEMENTS (families)];
      g_autoptr (PsPrediction) ops = predict (setting, family, (1 << (P * M)) - 1), whole = NULL;

      setting->recompute = PS_RECOMPUTE_FULL;
      whole = predict (setting, family, 0);
      g_assert_cmpint (ops->metrics.peak_memory_bytes, ==, whole->metrics.peak_memory_bytes);
      g_assert_cmpint (ops->metrics.makespan_ns, <=, whole->metrics.makespan_ns);
      n_faster += ops->metrics.makespan_ns < whole->metrics.makespan_ns;
    }
  g_assert_cmpuint (n_faster, >, 20);
}

/* Costs of a run are given without a source, and say what an R takes. */
static void
test_given (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (34);
  g_autoptr (PsSetting) bare = parse_good ("-p 2 -m 4");

  for (guint i = 0; i < 30; i++)
    {
      Draw drawn;
      g_autoptr (PsSetting) setting = draw (random, 0, &drawn);
      g_autoptr (PsCosts) costs = ps_setting_costs (setting, P, 1, NULL);
      guint mask = (guint)g_rand_int_range (random, 0, 1 << (P * M));
      const char *family = families[i % G_N_ELEMENTS (families)];
      g_autoptr (PsPrediction) read = predict (setting, family, mask);
      g_autoptr (PsPrediction) given = predict_given (bare, costs, family, mask);

      g_assert_cmpint (given->metrics.makespan_ns, ==, read->metrics.makespan_ns);
      g_assert_cmpint (given->metrics.peak_memory_bytes, ==, read->metrics.peak_memory_bytes);
    }
}

static void
test_wrong (void)
{
  static const char *const wrong[][2] = {
    { "--recompute full", "--recompute none would be right" },
    { "--recompute none:full", "--recompute none would be right" },
    { "--offload 0.5", "--offload 0 would be right" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autofree char *line = g_strdup_printf ("-p 2 -m 4 --costs f=1ms,b=1ms,w=1ms,host=1ms,act=2KiB %s", wrong[i][0]);
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
      g_autoptr (GError) error = NULL;

      g_assert_null (ps_predictor_predict_schedule (predictor, schedule_with ("1f1b", 1 << M), &error));
      g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
      g_assert_nonnull (strstr (error->message, wrong[i][1]));
    }
}

/* A model's R takes the time and the bytes of full recomputation: the last forward of GPipe is followed by its
 * backward, so that nothing but one layer's part of it is recomputed where its F still runs. */
static void
test_model (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 4 --model gpt-6.2b --cluster h100-80gb --layout even");
  g_autoptr (PsPrediction) kept = predict (setting, "gpipe", 0), some = predict (setting, "gpipe", 0x0f);
  g_autoptr (PsPrediction) full = NULL;
  const PsOpCost *r = &some->costs->op[ps_op_index (2, 2, PS_OP_R, 1, 0)];

  setting->recompute = PS_RECOMPUTE_FULL;
  full = predict (setting, "gpipe", 0);
  g_assert_cmpint (r->duration_ns, ==,
                   ps_costs_op (full->costs, PS_OP_B, 0)->duration_ns
                       - ps_costs_op (kept->costs, PS_OP_B, 0)->duration_ns);
  g_assert_cmpint (r->take_bytes, ==, ps_costs_act_bytes (kept->costs, 0) - ps_costs_act_bytes (full->costs, 0));
  g_assert_cmpint (some->metrics.device[0].peak_memory_bytes, <, kept->metrics.device[0].peak_memory_bytes);
  g_assert_cmpint (some->metrics.device[1].peak_memory_bytes, ==, kept->metrics.device[1].peak_memory_bytes);
}

/* Costs of the same stages keep their cut where --recompute full would change it. */
static void
test_alike (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 4 -m 4 --model gpt-1.5b --cluster h100-80gb --layout best");
  g_autoptr (PsCosts) kept = fine (ps_setting_costs (setting, 4, 1, &error));

  setting->recompute = PS_RECOMPUTE_FULL;
  g_autoptr (PsCosts) alike = fine (ps_setting_costs_alike (setting, kept, 4, &error));
  g_autoptr (PsCosts) other = fine (ps_setting_costs (setting, 4, 1, &error));
  g_assert_cmpuint (other->shapes[0].n_layers, !=, kept->shapes[0].n_layers);
  for (guint stage = 0; stage < 4; stage++)
    g_assert_cmpuint (alike->shapes[stage].n_layers, ==, kept->shapes[stage].n_layers);
  g_assert_cmpint (ps_costs_act_bytes (alike, 0), <, ps_costs_act_bytes (kept, 0));
}

/* A transfer has a number of 16 bits. An R gives each stage a second set of transfers, for which 16,384 stages have
 * none. */
static void
test_many_stages (void)
{
  const PsFamilySetting family = { .n_devices = P, .n_microbatches = P, .n_chunks = PS_MAX_STAGES / P };
  g_autoptr (PsSchedule) order = ps_family_generate (ps_family_find ("interleaved"), &family, NULL);
  PsScheduleBuilder *builder = ps_schedule_builder_new ("many", ps_placement_copy (order->placement), P);
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 2 --costs f=9ms,b=9ms,w=9ms,act=2MiB");
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (GError) error = NULL;

  for (guint d = 0; d < P; d++)
    {
      for (guint i = order->first[d]; i < order->first[d + 1]; i++)
        {
          if (ps_op_is_backward (order->ops[i]) && order->ops[i].stage == PS_MAX_STAGES - 1)
            ps_schedule_builder_add (builder, PS_OP_R, order->ops[i].stage, order->ops[i].microbatch);
          ps_schedule_builder_add_op (builder, order->ops[i]);
        }
      ps_schedule_builder_next_device (builder);
    }
  g_assert_null (ps_predictor_predict_schedule (predictor, ps_schedule_builder_end (builder), &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_nonnull (strstr (error->message, "16384 stages"));
}

/* Measured rows of full recomputation may come out shorter, or keep more, than those without it. R then takes no time,
 * and gives back what is too much. */
static void
test_noise (void)
{
  g_autoptr (PsCosts) costs = ps_costs_new (1), full = ps_costs_new (1), split = NULL;
  const PsOpCost *r;

  ps_costs_op (costs, PS_OP_B, 0)->duration_ns = 9;
  ps_costs_set_memory (costs, 0, 100, 0);
  ps_costs_op (full, PS_OP_B, 0)->duration_ns = 7;
  ps_costs_set_memory (full, 0, 130, 0);
  split = ps_costs_split_recompute (costs, full);
  r = ps_costs_op (split, PS_OP_R, 0);
  g_assert_cmpint (r->duration_ns, ==, 0);
  g_assert_cmpint (r->take_bytes, ==, 0);
  g_assert_cmpint (r->give_bytes, ==, 30);
}

/* The bound is not above a schedule whose forwards and backwards take longer where they recompute, on some of the
 * stages. It counts all work of the busiest device, R too. */
static void
test_bound (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (35);

  for (guint i = 0; i < 200; i++)
    {
      guint mask = (guint)g_rand_int_range (random, 1, 1 << (P * M));
      g_autoptr (PsCosts) kept = ps_costs_new (P), full = NULL, split = NULL, costs = NULL;

      for (guint stage = 0; stage < P; stage++)
        for (PsOpKind kind = PS_OP_F; kind <= PS_OP_BW; kind++)
          ps_costs_op (kept, kind, stage)->duration_ns = kind == PS_OP_BW ? 20 : 10;
      full = ps_costs_copy (kept);
      for (guint stage = 0; stage < P; stage++)
        {
          gint64 again_ns = g_rand_int_range (random, 0, 40);

          ps_costs_op (full, PS_OP_F, stage)->duration_ns = g_rand_int_range (random, 5, 500);
          ps_costs_op (full, PS_OP_B, stage)->duration_ns += again_ns;
          ps_costs_op (full, PS_OP_BW, stage)->duration_ns += again_ns;
        }
      split = ps_costs_split_recompute (kept, full);
      costs = ps_costs_join ((PsCosts *const[]){ kept, split }, 2);
      g_autoptr (PsProgram) program = ps_program_lower (schedule_with ("1f1b", mask), PS_COMM_ASAP, NULL);
      g_autofree guint8 *recomputed = ps_schedule_recomputed (program->schedule);
      g_autofree guint16 *length = g_new (guint16, ps_schedule_n_cells (program->schedule));
      for (gsize cell = 0; cell < ps_schedule_n_cells (program->schedule); cell++)
        length[cell] = recomputed[cell];
      ps_program_set_lengths (program, 2, length);
      g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
      ps_simulate (program, costs, simulation);
      g_assert_cmpint (ps_schedule_bound (program->schedule, costs, FALSE), <=, simulation->makespan_ns);
      gint64 busy_ns = MAX (simulation->device[0].busy_ns, simulation->device[1].busy_ns);
      g_assert_cmpint (ps_schedule_bound (program->schedule, costs, TRUE), ==, busy_ns);
    }
}

/* A relaxed stage is no slower than any of its ways, with a time for pairs or without. */
static void
test_pairs (void)
{
  static const gint64 pairs[][3]
      = { { 7, -1, 7 }, { -1, 7, 7 }, { 17, -1, 10 }, { -1, 17, 10 }, { -1, -1, -1 }, { 7, 9, 7 } };

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      g_autoptr (PsCosts) a = ps_costs_new (1), b = ps_costs_new (1);
      const SearchWays ways = { .n = 1, .costs = { b } };

      ps_costs_op (a, PS_OP_F, 0)->duration_ns = ps_costs_op (b, PS_OP_F, 0)->duration_ns = 10;
      a->stage[0].pair_ns = pairs[i][0];
      b->stage[0].pair_ns = pairs[i][1];
      search_relax_stage (&ways, a, 0);
      g_assert_cmpint (a->stage[0].pair_ns, ==, pairs[i][2]);
    }
}

/* The least time of an order over all choices of R; G_MAXINT64: none fits. */
static gint64
best_of_order (const PsSetting *setting, const char *family)
{
  gint64 best = G_MAXINT64;

  for (guint mask = 0; mask < 1U << (P * M); mask++)
    {
      g_autoptr (PsPrediction) prediction = predict (setting, family, mask);

      if (prediction->feasible)
        best = MIN (best, prediction->metrics.makespan_ns);
    }
  return best;
}

/* The time of the order with the R ops that search_recompute chooses; G_MAXINT64: none fit. */
static gint64
chosen_of_order (const PsSetting *setting, const PsCosts *given, const char *family)
{
  static const guint8 some[] = { 1, 1 };
  const SearchLimits limits = { 0 };
  g_autoptr (PsSchedule) order = schedule_with (family, 0);
  PsSearchResult *result = g_new0 (PsSearchResult, 1);
  SearchFound found = { .result = result };
  gint64 time_ns = G_MAXINT64;

  result->schedule = g_steal_pointer (&order);
  if (search_recompute (setting, &limits, given, some, &found))
    {
      g_assert_true (found.prediction->feasible);
      g_assert_cmpint (result->price_ns, ==, found.prediction->metrics.makespan_ns);
      time_ns = result->price_ns;
    }
  ps_prediction_free (found.prediction);
  ps_search_result_free (result);
  return time_ns;
}

/* Of every choice of R for an order, search_recompute finds one within 1 % of the best, and nearly always the best. The
 * bound over all mixes is never above any of them. Some mixes are better than any way of whole stages. */
static void
test_choice (void)
{
  const SearchChoice choice = { .placement = PS_PLACEMENT_LOOP, .n_chunks = 1, .n_microbatches = M, .n_slices = 1 };
  g_autoptr (GRand) random = g_rand_new_with_seed (33);
  guint n_fit = 0, n_best = 0;
  double sum = 0;

  for (guint i = 0; i < 30; i++)
    {
      Draw drawn;
      g_autoptr (PsSetting) setting = draw (random, 1024 * g_rand_int_range (random, 10, 60), &drawn);
      g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, P, 1);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, P, 1, NULL);
      SearchWays ways = { .n = 2, .recompute = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_FULL } };
      gint64 limit[] = { setting->memory_limit[0], setting->memory_limit[0] }, least = G_MAXINT64;

      for (guint k = 0; k < G_N_ELEMENTS (families); k++)
        {
          gint64 best = best_of_order (setting, families[k]), chosen = chosen_of_order (setting, given, families[k]);

          g_assert_cmpint (chosen, >=, best);
          least = MIN (least, best);
          n_fit += best < G_MAXINT64;
          n_best += best < G_MAXINT64 && chosen == best;
          g_assert_cmpint (chosen == G_MAXINT64, ==, best == G_MAXINT64);
          sum += best < G_MAXINT64 ? (double)chosen / (double)best - 1 : 0;
        }
      setting->recompute = PS_RECOMPUTE_FULL;
      ways.costs[0] = ps_costs_copy (given);
      ways.costs[1] = ps_setting_costs (setting, P, 1, NULL);
      search_mix_ways (&ways, 1);
      g_assert_cmpuint (ways.n, ==, 1);
      g_assert_cmpint (search_bound_ways (&(SearchQuestion){ setting, &choice, placement, limit }, &ways, G_MAXINT64),
                       <=, least);
      ps_costs_free (ways.costs[0]);
    }
  g_test_message ("%u fit, %u best, %.3f %% longer", n_fit, n_best, 100 * sum / n_fit);
  g_assert_cmpuint (n_fit, >, 40);
  g_assert_cmpfloat (sum / n_fit, <, 0.01);
  g_assert_cmpuint (10 * n_best, >=, 9 * n_fit);
}

/* A schedule goes on without its R, of two copies of the weights too. */
static void
test_carry_over (void)
{
  static const char *const names[] = { "1f1b", "chimera" };
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 4 --costs f=1ms,b=1ms,w=1ms,act=2KiB,keep=1KiB");

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      const SearchFound found = { .prediction = predict (setting, names[i], 0x5a) };
      const PsSchedule *schedule = found.prediction->program->schedule;
      g_autoptr (PsSchedule) carried = search_carry_over (&found, schedule->placement);

      g_assert_true (ps_schedule_validate (carried, NULL));
      g_assert_false (carried->recomputes);
      g_assert_cmpuint (ps_schedule_n_ops (carried), ==, ps_schedule_n_ops (schedule) - 4);
      for (guint microbatch = 0; microbatch < M; microbatch++)
        g_assert_cmpuint (ps_schedule_weight_copy (carried, microbatch), ==,
                          ps_schedule_weight_copy (schedule, microbatch));
      ps_prediction_free (found.prediction);
    }
}

/* What a search tries where the setting leaves it open, in its order. */
static void
test_choices (void)
{
  static const struct
  {
    const char *line;
    guint size, most_chunks, most_slices;
    gboolean any_size, any_recompute;
    const char *choices;
  } cases[] = {
    { "-p 2 -m 4 --costs f=1ms,b=1ms,w=1ms", 0, 2, 1, FALSE, FALSE, "loop v=1, V v=2, loop v=2, bidirectional v=1" },
    { "-p 3 -m 4 --costs f=1ms,b=1ms,w=1ms", 0, 2, 1, FALSE, FALSE, "loop v=1, V v=2, loop v=2" },
    { "-p 2 -m 5 --costs f=1ms,b=1ms,w=1ms", 0, 2, 1, FALSE, FALSE, "loop v=1, V v=2, loop v=2" },
    { "-p 2 -m 4 --costs f=1ms,b=1ms,w=1ms", 0, 4, 4, FALSE, FALSE,
      "loop v=1, V v=2, loop v=2, bidirectional v=1, loop v=3, loop v=4, wave v=4, loop v=1 slices=2, loop v=1 "
      "slices=4" },
    { "-p 2 -m 4 --slices 2 --costs f=1ms,b=1ms,w=1ms", 0, 2, 4, FALSE, FALSE,
      "loop v=1 slices=2, V v=2 slices=2, loop v=2 slices=2, bidirectional v=1 slices=2" },
    { "-p 2 -m 4 -v 1 --costs f=1ms,b=1ms,w=1ms", 0, 4, 1, FALSE, FALSE, "loop v=1, bidirectional v=1" },
    { "-p 2 -m 4 -v 3 --costs f=1ms,b=1ms,w=1ms", 0, 2, 1, FALSE, FALSE, "loop v=3, wave v=3" },
    { "-p 2 -m 4 -v 6 --costs f=1ms,b=1ms,w=1ms", 0, 2, 1, FALSE, FALSE, "loop v=6, wave v=6" },
    { "-p 2 -m 4 --placement wave --costs f=1ms,b=1ms,w=1ms", 0, 2, 1, FALSE, FALSE, "wave v=4" },
    { "-p 2 -m 4 --placement wave --costs f=1ms,b=1ms,w=1ms", 0, 4, 1, FALSE, FALSE, "wave v=4" },
    { "-p 2 -m 4 --placement V --costs f=1ms,b=1ms,w=1ms", 0, 4, 4, FALSE, FALSE, "V v=2" },
    { "-p 2 -m 4 -v 1 --costs f=1ms,b=1ms,w=1ms", 0, 2, 1, FALSE, TRUE,
      "loop v=1, bidirectional v=1, loop v=1 recompute=selective, loop v=1 recompute=full, "
      "bidirectional v=1 recompute=selective, bidirectional v=1 recompute=full" },
    /* A batch of 4 microbatches of 2 sequences. */
    { "-p 2 -m 4 -v 1 --model tiny-gpt --cluster cpu-cores", 4, 2, 1, FALSE, FALSE,
      "loop v=1 b=4 (2), bidirectional v=1 b=4 (2)" },
    { "-p 2 -m 4 --placement loop -v 1 --model tiny-gpt --cluster cpu-cores", 0, 2, 1, TRUE, FALSE,
      "loop v=1 b=1 (8), loop v=1 b=2 (4), loop v=1 b=4 (2), loop v=1 b=8 (1)" },
    { "-p 2 -m 6 --placement loop -v 1 --model tiny-gpt --cluster cpu-cores", 0, 2, 1, TRUE, FALSE,
      "loop v=1 b=1 (12), loop v=1 b=2 (6), loop v=1 b=4 (3)" },
    /* Two copies want an even number of them. */
    { "-p 2 -m 6 --placement bidirectional --model tiny-gpt --cluster cpu-cores", 0, 2, 1, TRUE, FALSE,
      "bidirectional v=1 b=1 (12), bidirectional v=1 b=2 (6)" },
    { "-p 2 -m 100 --placement loop -v 1 --model tiny-gpt --cluster cpu-cores", 0, 2, 1, TRUE, FALSE,
      "loop v=1 b=1 (200), loop v=1 b=2 (100), loop v=1 b=4 (50), loop v=1 b=8 (25)" },
    { "-p 2 -m 128 --placement loop -v 1 --model tiny-gpt --cluster cpu-cores", 0, 2, 1, TRUE, FALSE,
      "loop v=1 b=1 (256), loop v=1 b=2 (128), loop v=1 b=4 (64), loop v=1 b=8 (32), loop v=1 b=16 (16), "
      "loop v=1 b=32 (8), loop v=1 b=64 (4)" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsSetting) setting = parse_good (cases[i].line);

      setting->any_recompute = cases[i].any_recompute;
      g_autoptr (GArray) choices = fine (search_choices (setting, cases[i].size, cases[i].any_size,
                                                         cases[i].most_chunks, cases[i].most_slices, &error));
      g_autoptr (GString) text = g_string_new (NULL);
      for (guint k = 0; k < choices->len; k++)
        {
          const SearchChoice *choice = &g_array_index (choices, SearchChoice, k);
          g_autofree char *words = search_choice_describe (choice);

          g_string_append_printf (text, "%s%s", k > 0 ? ", " : "", words);
          if (choice->microbatch_size > 0)
            g_string_append_printf (text, " (%u)", choice->n_microbatches);
          else
            g_assert_cmpuint (choice->n_microbatches, ==, setting->n_microbatches);
        }
      g_assert_cmpstr (text->str, ==, cases[i].choices);
    }
}

/* Ways of one stage, as they are relaxed and mixed. Without recomputation F, B and W take 10, 20 and 30, BW 45, and
 * keep 1000 bytes, 300 of them for W; with all of it B takes 31, BW 58, and 400 are kept. */
static void
test_mix (void)
{
  g_autoptr (PsCosts) none = ps_costs_new (1), full = ps_costs_new (1), mixed = NULL, relaxed = NULL, again = NULL;
  const gint64 times[2][PS_OP_R] = { { [PS_OP_F] = 10, [PS_OP_B] = 20, [PS_OP_W] = 30, [PS_OP_BW] = 45 },
                                     { [PS_OP_F] = 10, [PS_OP_B] = 31, [PS_OP_W] = 30, [PS_OP_BW] = 58 } };

  for (guint kind = 0; kind < PS_OP_R; kind++)
    {
      ps_costs_op (none, (PsOpKind)kind, 0)->duration_ns = times[0][kind];
      ps_costs_op (full, (PsOpKind)kind, 0)->duration_ns = times[1][kind];
    }
  none->stage[0].weight_bytes = 77;
  full->stage[0].weight_bytes = 70;
  ps_costs_set_memory (none, 0, 1000, 300);
  ps_costs_set_memory (full, 0, 400, 300);
  mixed = ps_costs_copy (none);
  search_mix_stage (mixed, full, 0, 2);
  /* The least of each: no B is shorter than 20, no BW than 45; a microbatch keeps 400 at least. */
  g_assert_cmpint (ps_costs_op (mixed, PS_OP_B, 0)->duration_ns, ==, 20);
  g_assert_cmpint (ps_costs_op (mixed, PS_OP_BW, 0)->duration_ns, ==, 45);
  g_assert_cmpint (ps_costs_act_bytes (mixed, 0), ==, 400);
  g_assert_cmpint (ps_costs_wact_bytes (mixed, 0), ==, 300);
  g_assert_cmpint (mixed->stage[0].weight_bytes, ==, 70);
  g_assert_true (mixed->may_recompute);
  /* R: 11 longer with B, 13 with BW, and 600 bytes; rounding of two slices may take two from each, four in all. */
  g_assert_cmpint (ps_costs_op (mixed, PS_OP_R, 0)->duration_ns, ==, 11 - 4);
  g_assert_cmpint (ps_costs_op (mixed, PS_OP_R, 0)->take_bytes, ==, 600 - 4);
  g_assert_cmpint (ps_costs_op (mixed, PS_OP_R, 0)->give_bytes, ==, 0);
  /* No R where nothing is longer than the rounding, or no way recomputes. */
  again = ps_costs_copy (none);
  search_mix_stage (again, NULL, 0, 1);
  g_assert_cmpint (ps_costs_op (again, PS_OP_R, 0)->duration_ns, ==, 0);
  g_assert_cmpint (ps_costs_act_bytes (again, 0), ==, 1000);
  g_assert_true (again->may_recompute);
  g_clear_pointer (&again, ps_costs_free);
  again = ps_costs_copy (none);
  search_mix_stage (again, full, 0, 6); /* 12 */
  g_assert_cmpint (ps_costs_op (again, PS_OP_R, 0)->duration_ns, ==, 0);
  g_assert_cmpint (ps_costs_op (again, PS_OP_R, 0)->take_bytes, ==, 0);
  /* A stage that may be any of both: the same least figures. */
  const SearchWays ways = { .n = 1, .costs = { full }, .recompute = { PS_RECOMPUTE_FULL } };
  relaxed = ps_costs_copy (none);
  search_relax_stage (&ways, relaxed, 0);
  g_assert_cmpint (ps_costs_op (relaxed, PS_OP_F, 0)->duration_ns, ==, 10);
  g_assert_cmpint (ps_costs_op (relaxed, PS_OP_B, 0)->duration_ns, ==, 20);
  g_assert_cmpint (ps_costs_act_bytes (relaxed, 0), ==, 400);
  g_assert_cmpint (relaxed->stage[0].pair_ns, ==, -1);
  g_assert_cmpuint (search_find_way (&ways, PS_RECOMPUTE_FULL), ==, 0);
  g_assert_cmpuint (search_find_way (&ways, PS_RECOMPUTE_NONE), ==, 1);
  /* A pair of one way: no shorter pair than that or, where there is none, than F. */
  full->stage[0].pair_ns = 25;
  g_clear_pointer (&relaxed, ps_costs_free);
  relaxed = ps_costs_copy (none);
  search_relax_stage (&ways, relaxed, 0);
  g_assert_cmpint (relaxed->stage[0].pair_ns, ==, 10);
  g_clear_pointer (&relaxed, ps_costs_free);
  relaxed = ps_costs_copy (full);
  relaxed->stage[0].pair_ns = 33;
  search_relax_stage (&ways, relaxed, 0);
  g_assert_cmpint (relaxed->stage[0].pair_ns, ==, 25);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/recompute/rules", test_rules);
  g_test_add_func ("/recompute/all", test_all);
  g_test_add_func ("/recompute/given", test_given);
  g_test_add_func ("/recompute/wrong", test_wrong);
  g_test_add_func ("/recompute/model", test_model);
  g_test_add_func ("/recompute/alike", test_alike);
  g_test_add_func ("/recompute/many-stages", test_many_stages);
  g_test_add_func ("/recompute/noise", test_noise);
  g_test_add_func ("/recompute/bound", test_bound);
  g_test_add_func ("/recompute/pairs", test_pairs);
  g_test_add_func ("/recompute/choice", test_choice);
  g_test_add_func ("/recompute/choices", test_choices);
  g_test_add_func ("/recompute/mix", test_mix);
  g_test_add_func ("/recompute/carry-over", test_carry_over);
  return g_test_run ();
}
