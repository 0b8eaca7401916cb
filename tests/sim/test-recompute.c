/* Tests of R ops: microbatches of a stage that recompute, while others keep their activations. */
#include "models-rig.h"
#include "plan/setting-search.h"
#include "setting-search-rig.h"

#include <pipesim/bound.h>

static gint64 duration (const Draw *draw, PsOp op)
{
  const gint64 of[] = {
    [PS_OP_F] = draw->f, [PS_OP_B] = draw->b, [PS_OP_W] = draw->w, [PS_OP_BW] = draw->b + draw->w, [PS_OP_R] = draw->r
  };

  return 1000 * of[op.kind];
}

/* The peak of a device by its order alone: a forward with an R keeps `keep` and needs act while it runs. */
static gint64 naive_peak (const PsSchedule *schedule, const Draw *draw, guint device, guint mask)
{
  gint64 now = 0, peak = 0;

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
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
static gint64 naive_makespan (const PsSchedule *schedule, const Draw *draw)
{
  gint64 end[2][P][M] = { 0 }, last = 0;
  gboolean changes = TRUE;

  while (changes) {
    changes = FALSE;
    for (guint d = 0; d < P; d++) {
      gint64 now = 0;

      for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++) {
        PsOp op = schedule->ops[i];
        gboolean back = ps_op_is_backward (op);
        gint64 c = 1000 * draw->c;

        if (op.kind == PS_OP_F && d > 0)
          now = MAX (now, end[0][d - 1][op.microbatch] + c);
        if (back && d + 1 < P)
          now = MAX (now, end[1][d + 1][op.microbatch] + c);
        now += duration (draw, op);
        if (op.kind == PS_OP_F || back) {
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
static void test_rules (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (31);

  for (guint i = 0; i < 200; i++) {
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
static void test_all (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (32);
  guint n_faster = 0;

  for (guint i = 0; i < 60; i++) {
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
static void test_given (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (34);
  g_autoptr (PsSetting) bare = parse_good ("-p 2 -m 4");

  for (guint i = 0; i < 30; i++) {
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

static void test_wrong (void)
{
  static const char *const wrong[][2] = {
    { "--recompute full", "--recompute none would be right" },
    { "--recompute none:full", "--recompute none would be right" },
    { "--offload 0.5", "--offload 0 would be right" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
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
static void test_model (void)
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
static void test_alike (void)
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
static void test_many_stages (void)
{
  const PsFamilySetting family = { .n_devices = P, .n_microbatches = P, .n_chunks = PS_MAX_STAGES / P };
  g_autoptr (PsSchedule) order = ps_family_generate (ps_family_find ("interleaved"), &family, NULL);
  PsScheduleBuilder *builder = ps_schedule_builder_new ("many", ps_placement_copy (order->placement), P);
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 2 --costs f=9ms,b=9ms,w=9ms,act=2MiB");
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (GError) error = NULL;

  for (guint d = 0; d < P; d++) {
    for (guint i = order->first[d]; i < order->first[d + 1]; i++) {
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
static void test_noise (void)
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
static void test_bound (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (35);

  for (guint i = 0; i < 200; i++) {
    guint mask = (guint)g_rand_int_range (random, 1, 1 << (P * M));
    g_autoptr (PsCosts) kept = ps_costs_new (P), full = NULL, split = NULL, costs = NULL;

    for (guint stage = 0; stage < P; stage++)
      for (PsOpKind kind = PS_OP_F; kind <= PS_OP_BW; kind++)
        ps_costs_op (kept, kind, stage)->duration_ns = kind == PS_OP_BW ? 20 : 10;
    full = ps_costs_copy (kept);
    for (guint stage = 0; stage < P; stage++) {
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

/* What a search tries where the setting leaves it open, in its order. */
static void test_choices (void)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (PsSetting) setting = parse_good (cases[i].line);

    setting->any_recompute = cases[i].any_recompute;
    g_autoptr (GArray) choices = fine (ps_search_choices (setting, cases[i].size, cases[i].any_size,
                                                          cases[i].most_chunks, cases[i].most_slices, &error));
    g_autoptr (GString) text = g_string_new (NULL);
    for (guint k = 0; k < choices->len; k++) {
      const PsSetting *choice = &g_array_index (choices, PsSetting, k);
      g_autofree char *words = ps_search_choice_describe (choice);

      g_string_append_printf (text, "%s%s", k > 0 ? ", " : "", words);
      if (choice->microbatch_size > 0)
        g_string_append_printf (text, " (%u)", choice->n_microbatches);
      else
        g_assert_cmpuint (choice->n_microbatches, ==, setting->n_microbatches);
    }
    g_assert_cmpstr (text->str, ==, cases[i].choices);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  go_to_models ();
  g_test_add_func ("/recompute/rules", test_rules);
  g_test_add_func ("/recompute/all", test_all);
  g_test_add_func ("/recompute/given", test_given);
  g_test_add_func ("/recompute/wrong", test_wrong);
  g_test_add_func ("/recompute/model", test_model);
  g_test_add_func ("/recompute/alike", test_alike);
  g_test_add_func ("/recompute/many-stages", test_many_stages);
  g_test_add_func ("/recompute/noise", test_noise);
  g_test_add_func ("/recompute/bound", test_bound);
  g_test_add_func ("/recompute/choices", test_choices);
  return g_test_run ();
}
