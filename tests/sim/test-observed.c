/* Tests of observe.h: what timelines of known truth say, runs that fill each other in, and the costs of simulated
 * timelines, which come back exactly. */
#include "lower.h"
#include "random-costs.h"

#include <pipesim/schedule.h>
#include <pipesim/observe.h>
#include <pipesim/setting.h>

#include <glib/gstdio.h>
#include <string.h>

#define US G_GINT64_CONSTANT (1000)

static void add_span (GArray *spans, guint device, const char *op, gint64 start_us, gint64 end_us, guint8 post)
{
  PsSpan span = { .start_ns = start_us * US, .end_ns = end_us * US, .device = (guint16)device, .post = post };
  const char *end;

  span.peer = span.device;
  g_assert_true (ps_op_parse (op, &end, &span.op));
  g_array_append_val (spans, span);
}

/* Two stages on two devices, two microbatches. A forward takes 100 us on stage 0 and 110 on stage 1, a backward 200 and
 * 220. The host spends 5 us on an op, 20 on a send, 10 on a receive. A message is 30 us on its way to stage 1 and 25 us
 * back. */
static PsTimeline *new_run (gboolean split)
{
  PsTimeline *t = ps_timeline_new (PS_ORIGIN_MEASURED, "run", 2, 2, 2);

  add_span (t->ops, 0, "F0.0", 0, 100, 0);
  add_span (t->posts, 0, "F0.0", 100, 120, PS_INSTRUCTION_SEND);
  add_span (t->ops, 0, "F1.0", 125, 225, 0);
  add_span (t->posts, 0, "F1.0", 225, 245, PS_INSTRUCTION_SEND);
  add_span (t->posts, 0, "B0.1", 245, 255, PS_INSTRUCTION_RECEIVE);
  add_span (t->waits, 0, "B0.1", 255, split ? 425 : 535, 0);
  add_span (t->ops, 0, split ? "B0.0" : "BW0.0", split ? 430 : 540, split ? 520 : 740, 0);
  add_span (t->posts, 1, "F0.0", 0, 10, PS_INSTRUCTION_RECEIVE);
  add_span (t->waits, 1, "F0.0", 10, 150, 0);
  add_span (t->ops, 1, "F0.1", 155, 265, 0);
  add_span (t->ops, 1, split ? "B0.1" : "BW0.1", 270, split ? 375 : 490, 0);
  add_span (t->posts, 1, "B0.1", split ? 375 : 490, split ? 395 : 510, PS_INSTRUCTION_SEND);
  if (split)
    add_span (t->ops, 1, "W0.1", 400, 515, 0);
  ps_timeline_sort (t);
  return t;
}

static GPtrArray *alone (PsTimeline *timeline)
{
  GPtrArray *list = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);

  g_ptr_array_add (list, timeline);
  return list;
}

static void add_run (PsObserved *observed, const char *where, PsTimeline *timeline)
{
  g_autoptr (GPtrArray) list = alone (timeline);

  fine (ps_observed_add (observed, where, list, &error));
}

static PsCosts *costs_of (const PsObserved *observed, guint n_devices, guint n_chunks)
{
  return fine (ps_observed_costs (observed, n_devices, n_chunks, &error));
}

static void assert_op (const PsCosts *costs, PsOpKind kind, guint stage, gint64 us)
{
  g_assert_cmpint (ps_costs_op (costs, kind, stage)->duration_ns, ==, us * US);
}

static void test_known (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();

  add_run (observed, "a", new_run (FALSE));
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  assert_op (costs, PS_OP_F, 0, 100);
  assert_op (costs, PS_OP_F, 1, 110);
  assert_op (costs, PS_OP_BW, 0, 200);
  assert_op (costs, PS_OP_BW, 1, 220);
  assert_op (costs, PS_OP_O, 1, 0);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 0)], ==, 30 * US);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_backward (costs, 1)], ==, 25 * US);
  g_assert_cmpint (costs->op_ns, ==, 5 * US);
  g_assert_cmpint (costs->post_ns, ==, 15 * US);
  g_assert_cmpint (costs->time_origin, ==, PS_ORIGIN_MEASURED);
  g_assert_cmpstr (costs->source, ==, "a, 1 iteration");
  g_assert_cmpuint (costs->stage[0].unknown, ==, 1U << PS_OP_B | 1U << PS_OP_W);
}

/* Of four iterations one has posts that take 40 us longer, so the mean post is 10 us longer. */
static void test_mean_post (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();

  for (guint i = 0; i < 4; i++) {
    PsTimeline *run = new_run (FALSE);

    for (guint k = 0; i == 3 && k < run->posts->len; k++)
      g_array_index (run->posts, PsSpan, k).start_ns -= 40 * US;
    add_run (observed, "a", run);
  }
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  g_assert_cmpint (costs->post_ns, ==, 25 * US);
}

/* Gaps with one message alone, 7 us: without any that is an op's there is nothing to take from them, so that the host's
 * times are not known. With one of 3 us before F1.1 the message's part is 4 us. */
static void test_gaps (void)
{
  for (guint both = 0; both < 2; both++) {
    g_autoptr (PsObserved) observed = ps_observed_new ();
    PsTimeline *run = ps_timeline_new (PS_ORIGIN_MEASURED, "run", 2, 2, 2);

    add_span (run->ops, 0, "F0.0", 0, 100, 0);
    add_span (run->ops, 0, "F1.0", 107, 200, 0);
    add_span (run->ops, 1, "F0.1", 120, 210, 0);
    if (both)
      add_span (run->ops, 1, "BW0.1", 213, 300, 0);
    ps_timeline_sort (run);
    add_run (observed, "a", run);
    g_autoptr (GArray) posts = ps_observed_posts (observed, PS_INSTRUCTION_SEND);
    g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
    g_assert_cmpuint (observed->message->len, ==, 1);
    g_assert_cmpuint (observed->host->len, ==, both);
    g_assert_cmpuint (posts->len, ==, both);
    g_assert_cmpint (costs->op_ns, ==, both ? 3 * US : 0);
    g_assert_cmpint (costs->post_ns, ==, both ? 4 * US : 0);
  }
}

/* A wait for a message that is there already says nothing about its way. */
static void test_late_wait (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  PsTimeline *run = new_run (FALSE);

  for (guint i = 0; i < run->waits->len; i++)
    if (g_array_index (run->waits, PsSpan, i).device == 1)
      g_array_index (run->waits, PsSpan, i).start_ns = 130 * US;
  add_run (observed, "a", run);
  g_assert_cmpuint (observed->transfer[1]->len, ==, 0);
  g_assert_cmpuint (observed->transfer[1 + 2 + 1]->len, ==, 1);
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 0)], ==, 25 * US);
  g_assert_cmpint (costs->transfer_origin, ==, PS_ORIGIN_INTERPOLATED);
  g_assert_cmpstr (costs->source, ==, "a, 1 iteration");
}

/* Two slices of 10 and 14 us make samples of a whole op, 20 and 28 us. O has no slices: 7 us. Nothing was sent, which
 * is said of two stages and of none that is alone. */
static void test_slices (void)
{
  for (guint n = 1; n <= 2; n++) {
    g_autoptr (PsObserved) observed = ps_observed_new ();
    PsTimeline *run = ps_timeline_new (PS_ORIGIN_MEASURED, "run", n, n, 1);

    for (guint stage = 0; stage < n; stage++) {
      static const char *const ops[]
          = { "F0.0", "F0.0/1", "BW0.0/1", "BW0.0", "O0.0", "F0.1", "F0.1/1", "BW0.1/1", "BW0.1", "O0.1" };
      static const gint64 ends[] = { 10, 24, 54, 74, 81 };

      for (guint i = 0; i < 5; i++)
        add_span (run->ops, stage, ops[5 * stage + i], i > 0 ? ends[i - 1] : 0, ends[i], 0);
    }
    ps_timeline_sort (run);
    add_run (observed, "a", run);
    for (guint stage = 0; stage < n; stage++) {
      const GArray *f = observed->op[PS_OP_F * n + stage], *o = observed->op[PS_OP_O * n + stage];

      g_assert_cmpuint (f->len, ==, 2);
      g_assert_cmpint (g_array_index (f, gint64, 0), ==, 20 * US);
      g_assert_cmpint (g_array_index (f, gint64, 1), ==, 28 * US);
      g_assert_cmpuint (o->len, ==, 1);
      g_assert_cmpint (g_array_index (o, gint64, 0), ==, 7 * US);
    }
    g_autoptr (PsCosts) costs = costs_of (observed, n, 1);
    g_assert_cmpstr (costs->source, ==,
                     n == 1 ? "a, 1 iteration" : "a, 1 iteration; no transfer was seen, so they take no time");
    assert_op (costs, PS_OP_O, n - 1, 7);
  }
}

static void assert_refused (const PsCosts *costs, const PsSchedule *schedule, const char *message)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (ps_costs_check_known (costs, schedule, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_nonnull (strstr (error->message, message));
}

static PsSchedule *new_schedule (const char *name)
{
  PsFamilySetting size = { .n_devices = 2, .n_microbatches = 4, .n_chunks = 1 };

  return ps_family_generate (ps_family_find (name), &size, NULL);
}

/* Each of two runs lacks what the other has. */
static void test_two_runs (void)
{
  g_autoptr (PsSchedule) fused = new_schedule ("1f1b"), split = new_schedule ("zb-h1");
  g_autoptr (PsObserved) one = ps_observed_new (), both = ps_observed_new ();

  add_run (one, "split", new_run (TRUE));
  g_autoptr (PsCosts) lacking = costs_of (one, 2, 1);
  assert_refused (lacking, fused, "no BW of stage 0 is known: split, 1 iteration; add a run that has it");
  assert_refused (lacking, split, "no W of stage 0 is known");
  assert_refused (lacking, NULL, "no W of stage 0 is known");
  assert_op (lacking, PS_OP_BW, 1, 105 + 115);
  add_run (both, "split", new_run (TRUE));
  add_run (both, "fused", new_run (FALSE));
  g_autoptr (PsCosts) costs = costs_of (both, 2, 1);
  assert_op (costs, PS_OP_B, 1, 105);
  assert_op (costs, PS_OP_W, 1, 115);
  assert_op (costs, PS_OP_BW, 1, 220);
  assert_op (costs, PS_OP_W, 0, 110); /* BW less B: a guess */
  g_assert_true (ps_costs_check_known (costs, fused, NULL));
  assert_refused (costs, split, "no W of stage 0 is known");
  g_assert_cmpuint (both->n_iterations, ==, 2);
  g_assert_cmpstr (costs->source, ==, "split, 1 iteration; fused, 1 iteration");
}

/* A model divides backwards, and the costs say so. */
static void test_estimate (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  g_autoptr (PsSchedule) split = new_schedule ("zb-h1");
  PsStageShape shapes[2];

  add_run (observed, "a", new_run (FALSE));
  g_assert_true (ps_observed_estimate (observed, model, NULL));
  g_assert_true (ps_model_split (model, 2, shapes, NULL));
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  g_assert_true (ps_costs_check_known (costs, split, NULL));
  gint64 b = ps_costs_op (costs, PS_OP_B, 0)->duration_ns, w = ps_costs_op (costs, PS_OP_W, 0)->duration_ns;
  double part = (double)ps_model_stage_flops (model, &shapes[0], PS_OP_B)
                / (double)ps_model_stage_flops (model, &shapes[0], PS_OP_BW);
  g_assert_cmpint (b + w, ==, 200 * US);
  g_assert_cmpfloat_with_epsilon ((double)b / (200 * US), part, 1e-4);
  g_assert_cmpint (costs->time_origin, ==, PS_ORIGIN_MODELLED);
  g_assert_cmpstr (costs->source, ==, "a, 1 iteration; estimated, not measured: B, W by the operations of tiny-gpt");
}

/* Of a run that splits the backward of stage 1 alone, only that stage's BW can be estimated: the sum of its B and W. */
static void test_estimate_stage (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);

  add_run (observed, "a", new_run (TRUE));
  g_assert_cmpuint (ps_observed_estimated (observed), ==, 0);
  g_assert_true (ps_observed_estimate (observed, model, NULL));
  g_assert_cmpuint (observed->estimated[0], ==, 0);
  g_assert_cmpuint (observed->estimated[1], ==, 1U << PS_OP_BW);
  g_assert_cmpuint (ps_observed_estimated (observed), ==, 1U << PS_OP_BW);
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  assert_op (costs, PS_OP_BW, 1, 105 + 115);
  /* With a run whose backwards are whole, of stage 0 the W alone is missing. */
  g_autoptr (PsObserved) both = ps_observed_new ();
  add_run (both, "a", new_run (TRUE));
  add_run (both, "b", new_run (FALSE));
  g_assert_true (ps_observed_estimate (both, model, NULL));
  g_assert_cmpuint (both->estimated[0], ==, 1U << PS_OP_W);
  g_assert_cmpuint (both->estimated[1], ==, 0);
  g_assert_cmpuint (ps_observed_estimated (both), ==, 1U << PS_OP_W);
  g_assert_cmpint (costs->time_origin, ==, PS_ORIGIN_MODELLED);
  g_assert_cmpint (costs->memory_origin, ==, PS_ORIGIN_MEASURED);
}

/* One stage, one device: F0 F1 BW1 F2 BW0 BW2. F2 and BW1 are warm, the others are not. Fewer than six of a sort do not
 * tell the difference. */
static void test_warm (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (GError) error = NULL;

  for (guint run = 0; run < 6; run++) {
    PsTimeline *t = ps_timeline_new (PS_ORIGIN_MEASURED, "run", 1, 1, 3);
    g_autoptr (PsCosts) before = run > 0 ? ps_observed_costs (observed, 1, 1, &error) : NULL;

    if (before != NULL)
      ps_observed_tell_warm (observed, before);
    g_assert_true (before == NULL || before->warm == NULL);
    add_span (t->ops, 0, "F0.0", 0, 100, 0);
    add_span (t->ops, 0, "F1.0", 100, 200, 0);
    add_span (t->ops, 0, "BW1.0", 200, 380, 0);
    add_span (t->ops, 0, "F2.0", 380, 470, 0);
    add_span (t->ops, 0, "BW0.0", 470, 670, 0);
    add_span (t->ops, 0, "BW2.0", 670, 870, 0);
    ps_timeline_sort (t);
    add_run (observed, "run", t);
  }
  g_autoptr (PsCosts) costs = fine (ps_observed_costs (observed, 1, 1, &error));
  g_assert_null (costs->warm);
  ps_observed_tell_warm (observed, costs);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, 100 * US);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 0)->duration_ns, ==, 200 * US);
  g_assert_cmpfloat_with_epsilon (costs->warm[PS_OP_F], 0.9, 1e-9);
  g_assert_cmpfloat_with_epsilon (costs->warm[PS_OP_BW], 0.9, 1e-9);
  g_assert_cmpfloat (costs->warm[PS_OP_B], ==, 1);
}

static void test_other_stages (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (GPtrArray) other = alone (ps_timeline_new (PS_ORIGIN_MEASURED, "x", 2, 4, 2));
  g_autoptr (GError) error = NULL;

  add_run (observed, "a", new_run (FALSE));
  g_assert_false (ps_observed_add (observed, "b", other, &error));
  g_assert_cmpstr (error->message, ==, "b: a run of 4 stages, after a, 1 iteration of 2");
  g_clear_error (&error);
  g_assert_null (ps_observed_costs (observed, 2, 2, &error));
  g_assert_cmpstr (error->message, ==, "a, 1 iteration: 2 stages, so it has no costs for 2 devices with 2 each");
}

/* Samples of known spread: F of stage 0 took 80, 100 and 120 us, all else took the same time in each run. */
static void test_spread (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  static const gint64 more_us[] = { -20, 0, 20 };

  for (guint i = 0; i < G_N_ELEMENTS (more_us); i++) {
    PsTimeline *run = new_run (FALSE);

    for (guint k = 0; k < run->ops->len; k++) {
      PsSpan *span = &g_array_index (run->ops, PsSpan, k);

      if (span->op.kind == PS_OP_F && span->op.stage == 0)
        span->end_ns += more_us[i] * US;
    }
    add_run (observed, "a", run);
  }
  g_autoptr (PsCostSpread) spread = ps_observed_spread (observed);
  const GArray *f = spread->op[PS_OP_F * 2], *steady = spread->op[PS_OP_BW * 2 + 1];
  double least = 1, most = 1;
  for (guint i = 0; i < f->len; i++) {
    least = MIN (least, g_array_index (f, double, i));
    most = MAX (most, g_array_index (f, double, i));
  }
  g_assert_cmpfloat_with_epsilon (least, 0.8, 1e-9);
  g_assert_cmpfloat_with_epsilon (most, 1.2, 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->largest, 1.2, 1e-9);
  g_assert_cmpfloat (g_array_index (steady, double, 0), ==, 1);
  g_assert_cmpuint (spread->row[PS_OP_B * 2], ==, PS_NO_ROW);
  g_assert_cmpuint (spread->op[PS_OP_R * 2]->len, ==, f->len);
  g_assert_cmpfloat (spread->deviation[spread->row[PS_OP_F * 2]], >, 0.1);
  g_assert_cmpfloat (spread->deviation[spread->row[PS_OP_BW * 2 + 1]], <, 0.02);
}

static void add_memory (PsTimeline *timeline, guint device, gint64 us, gint64 bytes)
{
  PsMemoryPoint point = { .device = (guint16)device, .time_ns = us * US, .bytes = bytes };

  g_array_append_val (timeline->memory, point);
}

/* Device 0 holds 1000 bytes. Its F needs 50 while it runs and leaves 30, its BW needs 10 and takes these away. */
static void test_memory (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  PsTimeline *run = new_run (FALSE);

  add_memory (run, 0, 0, 1000);
  add_memory (run, 0, 0, 1050);
  add_memory (run, 0, 100, 1030);
  add_memory (run, 0, 125, 1080);
  add_memory (run, 0, 225, 1060);
  add_memory (run, 0, 540, 1070);
  add_memory (run, 0, 740, 1030);
  add_run (observed, "a", run);
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  g_assert_cmpint (costs->stage[0].weight_bytes, ==, 1000);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->take_bytes, ==, 50);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->give_bytes, ==, 20);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 0)->take_bytes, ==, 10);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 0)->give_bytes, ==, 40);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 0)->take_bytes, ==, 10);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 0)->give_bytes, ==, 40);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_B, 0)->take_bytes, ==, 0);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_B, 0)->give_bytes, ==, 0);
  /* W needs half of the BW of 200 us, and R is F in time and bytes. */
  assert_op (costs, PS_OP_W, 0, 100);
  assert_op (costs, PS_OP_R, 0, 100);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_R, 0)->take_bytes, ==, 50);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_R, 0)->give_bytes, ==, 20);
  g_assert_cmpint (costs->memory_origin, ==, PS_ORIGIN_MEASURED);
}

/* Two devices with two stages each, of which the second has a curve of its own: 900 and 600 bytes before their first
 * ops are 450 and 300 a stage. Each F leaves 10 times its stage and 10, each BW takes them away; a pair of F0.3 and
 * BW0.2 says nothing of its parts. A simulated run says nothing at all. */
static void test_chunks_memory (void)
{
  for (guint i = 0; i < 2; i++) {
    g_autoptr (PsObserved) observed = ps_observed_new ();
    PsTimeline *run = ps_timeline_new (i == 0 ? PS_ORIGIN_MEASURED : PS_ORIGIN_SIMULATED, "run", 2, 4, 1);
    static const struct {
      guint device;
      const char *op;
      gint64 bytes;
    } ops[] = { { 0, "F0.0", 910 }, { 0, "F0.2", 940 }, { 0, "BW0.2", 910 }, { 0, "BW0.0", 900 },
                { 1, "F0.1", 620 }, { 1, "F0.3", 660 }, { 1, "BW0.3", 620 }, { 1, "BW0.1", 600 } };

    add_memory (run, 0, 0, 900);
    add_memory (run, 1, 0, 600);
    for (guint k = 0; k < G_N_ELEMENTS (ops); k++) {
      add_span (run->ops, ops[k].device, ops[k].op, 10 * (k % 4), 10 * (k % 4) + 10, 0);
      PsSpan *span = &g_array_index (run->ops, PsSpan, k);
      span->chunk = span->op.stage / 2;
      add_memory (run, ops[k].device, 10 * (k % 4) + 5, ops[k].bytes);
    }
    ps_timeline_sort (run);
    add_run (observed, "a", run);
    g_autoptr (PsCosts) costs = costs_of (observed, 2, 2);
    for (guint stage = 0; stage < 4; stage++) {
      g_assert_cmpuint (observed->state[stage]->len, ==, i > 0 ? 0 : 2);
      g_assert_cmpint (costs->stage[stage].weight_bytes, ==, i > 0 ? 0 : stage % 2 ? 300 : 450);
      g_assert_cmpint (ps_costs_op (costs, PS_OP_F, stage)->take_bytes, ==, i > 0 ? 0 : 10 * (gint64)stage + 10);
      g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, stage)->give_bytes, ==, i > 0 ? 0 : 10 * (gint64)stage + 10);
    }
  }
}

/* The last point of an op is one of its end; the bytes of a pair are nobody's. */
static void test_pair_memory (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  PsTimeline *run = ps_timeline_new (PS_ORIGIN_MEASURED, "run", 1, 1, 3);

  add_span (run->ops, 0, "F0.0", 0, 10, 0);
  add_span (run->ops, 0, "F1.0", 10, 30, 0);
  add_span (run->ops, 0, "BW0.0", 10, 30, 0);
  add_span (run->ops, 0, "BW1.0", 30, 40, 0);
  g_array_index (run->ops, PsSpan, 1).op.paired = 1;
  add_memory (run, 0, 0, 100);
  add_memory (run, 0, 10, 107); /* F0.0 */
  add_memory (run, 0, 20, 999); /* the pair */
  add_memory (run, 0, 30, 207);
  add_memory (run, 0, 40, 200); /* BW1.0 */
  ps_timeline_sort (run);
  add_run (observed, "a", run);
  g_assert_cmpuint (observed->take[PS_OP_F]->len, ==, 1);
  g_assert_cmpint (g_array_index (observed->take[PS_OP_F], gint64, 0), ==, 7);
  g_assert_cmpint (g_array_index (observed->give[PS_OP_F], gint64, 0), ==, 0);
  for (guint i = 0; i < observed->give[PS_OP_BW]->len; i++)
    g_assert_cmpint (g_array_index (observed->give[PS_OP_BW], gint64, i), <=, 7);
}

/* Device 1 runs B and W apart: F leaves 60, B needs 10 more and takes 25 away, W the other 35. A whole backward, which
 * the run does not have, would need the 10 and take away all. */
static void test_split_memory (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  PsTimeline *run = new_run (TRUE);

  add_memory (run, 1, 0, 1000);
  add_memory (run, 1, 155, 1060);
  add_memory (run, 1, 270, 1070);
  add_memory (run, 1, 375, 1035);
  add_memory (run, 1, 515, 1000);
  add_run (observed, "a", run);
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_B, 1)->give_bytes, ==, 35);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 1)->give_bytes, ==, 35);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 1)->take_bytes, ==, 10);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 1)->give_bytes, ==, 70);
}

/* The host of device 0 works 3 us between its last post and the wait for B0.1, and 5 us after it, although the message
 * has arrived in the meantime. */
static void test_work_before_wait (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  PsTimeline *run = new_run (FALSE);
  gint64 longest = 0;

  for (guint i = 0; i < run->waits->len; i++)
    if (g_array_index (run->waits, PsSpan, i).device == 0)
      g_array_index (run->waits, PsSpan, i).start_ns += 3 * US;
  add_span (run->transfers, 1, "B0.1", 505, 534, 0);
  g_array_index (run->transfers, PsSpan, 0).peer = 0;
  add_run (observed, "a", run);
  g_assert_cmpuint (observed->host->len, ==, 3);
  for (guint i = 0; i < 3; i++)
    longest = MAX (longest, g_array_index (observed->host, gint64, i));
  g_assert_cmpint (longest, ==, 8 * US);
}

/* A trace whose iteration takes 800 us with the profiler and 600 without. Ops, messages and posts shrink alike. */
static void test_without_profiler (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (PsTimeline) run = new_run (FALSE);
  g_autofree char *folder = fine (g_dir_make_tmp ("pipesim-observed-XXXXXX", &error));
  g_autofree char *path = g_build_filename (folder, "run.json", NULL), *option = g_strconcat (path, "=600us", NULL);

  run->iteration_ns = 800 * US;
  g_autofree char *text = ps_timeline_to_json (run);
  fine (g_file_set_contents (path, text, -1, &error));
  fine (ps_observed_load (observed, (const char *const[]){ option }, 1, &error));
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  assert_op (costs, PS_OP_F, 0, 75);
  assert_op (costs, PS_OP_BW, 1, 165);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 0)], ==, 22500);
  g_assert_cmpint (costs->op_ns, ==, 3750);
  g_assert_cmpint (costs->post_ns, ==, 11250);
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

static void multiply (GArray *spans, gint64 by)
{
  for (guint i = 0; i < spans->len; i++) {
    g_array_index (spans, PsSpan, i).start_ns *= by;
    g_array_index (spans, PsSpan, i).end_ns *= by;
  }
}

/* new_run with transfers, all of whose times take so many times as long. */
static PsTimeline *new_slow_run (gint64 by)
{
  PsTimeline *run = new_run (FALSE);

  add_span (run->transfers, 0, "F0.0", 112, 150, 0);
  g_array_index (run->transfers, PsSpan, 0).peer = 1;
  add_span (run->transfers, 1, "B0.1", 505, 535, 0);
  run->iteration_ns = 100 * US * by;
  multiply (run->ops, by);
  multiply (run->posts, by);
  multiply (run->waits, by);
  multiply (run->transfers, by);
  ps_timeline_sort (run);
  return run;
}

static void assert_same_samples (const GArray *a, const GArray *b)
{
  g_assert_cmpmem (a->data, a->len * sizeof (gint64), b->data, b->len * sizeof (gint64));
}

/* A run with a profiler whose times all take 8 / 5 of their time shows, with the 5 / 8 taken out again, the samples of
 * the run without: of ops, transfers, gaps and posts. Of three factors the median counts for all three runs: 3 / 5 and
 * 1 do not. */
static void test_profiler_share (void)
{
  static const char *const options[] = { "a.json=500us", "b.json=480us", "c.json=800us" };
  g_autofree char *folder = fine (g_dir_make_tmp ("pipesim-observed-XXXXXX", &error));
  g_autoptr (PsObserved) without = ps_observed_new (), with = ps_observed_new ();
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < 3; i++) {
    g_autoptr (PsTimeline) run = new_slow_run (8);
    g_autofree char *text = ps_timeline_to_json (run), *name = g_strndup (options[i], 6);
    g_autofree char *path = g_build_filename (folder, name, NULL);

    fine (g_file_set_contents (path, text, -1, &error));
    g_ptr_array_add (paths, g_build_filename (folder, options[i], NULL));
    add_run (without, "a", new_slow_run (5));
  }
  fine (ps_observed_load (with, (const char *const *)paths->pdata, 3, &error));
  for (guint i = 0; i < PS_N_OP_KINDS * 2; i++) {
    assert_same_samples (with->op[i], without->op[i]);
    assert_same_samples (with->cold[i], without->cold[i]);
  }
  for (guint i = 0; i < 5; i++)
    assert_same_samples (with->transfer[i], without->transfer[i]);
  assert_same_samples (with->host, without->host);
  assert_same_samples (with->send, without->send);
  assert_same_samples (with->receive, without->receive);
  g_assert_cmpuint (with->send->len, ==, 3 * 3);
  g_assert_nonnull (strstr (with->source->str, "b.json, times x 0.625 as without profiler, 1 iteration; "));
  for (guint i = 0; i < 3; i++) {
    *strrchr (paths->pdata[i], '=') = '\0';
    g_assert_cmpint (g_remove (paths->pdata[i]), ==, 0);
  }
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

/* An iteration of 1 ms: no profiler more than doubles it, and noise makes it at most 1.1 times as short. A path that is
 * there is a path, whatever it holds. */
static void test_profiler_limits (void)
{
  static const struct {
    const char *time;
    const char *message; /* after the path */
  } rows[] = {
    { "=500us", NULL },
    { "=499999ns", ": T is 0.5 of the time that an iteration takes in the trace, *" },
    { "=1100us", NULL },
    { "=1101us", ": T is 1.1 of the time that an iteration takes in the trace, *" },
    { "=0", ": T is 0 of the time *" },
  };
  g_autofree char *folder = fine (g_dir_make_tmp ("pipesim-observed-XXXXXX", &error));
  g_autofree char *path = g_build_filename (folder, "a=b.json", NULL), *plain = g_build_filename (folder, "c", NULL);
  g_autoptr (PsTimeline) run = new_run (FALSE);

  run->iteration_ns = 1000 * US;
  g_autofree char *text = ps_timeline_to_json (run);
  fine (g_file_set_contents (path, text, -1, &error));
  fine (g_file_set_contents (plain, text, -1, &error));
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsObserved) observed = ps_observed_new ();
    g_autofree char *option = g_strconcat (plain, rows[i].time, NULL);
    const char *paths[] = { option };

    if (rows[i].message == NULL)
      fine (ps_observed_load (observed, paths, 1, &error));
    else {
      g_autofree char *message = g_strconcat (plain, rows[i].message, NULL);

      refused (ps_observed_load (observed, paths, 1, &error), PS_ERROR_INPUT, message);
    }
  }
  g_autoptr (PsObserved) observed = ps_observed_new ();
  fine (ps_observed_load (observed, (const char *const[]){ path }, 1, &error));
  g_assert_cmpuint (observed->n_iterations, ==, 1);
  g_assert_null (strstr (observed->source->str, "times x"));
  refused (ps_observed_load (observed, (const char *const[]){ "=5us" }, 1, &error), PS_ERROR_IO, "=5us: *");
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_remove (plain), ==, 0);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

/* A simulated timeline */

static PsTimeline *simulate (PsSchedule *schedule, const PsCosts *costs)
{
  g_autoptr (PsCosts) sliced = ps_costs_slice (costs, schedule->n_slices);
  g_autoptr (PsProgram) program = ps_program_lower (schedule, PS_COMM_ASAP, NULL);
  const PsPlacement *placement = program->schedule->placement;

  ps_costs_add_host_time (sliced, placement->device, placement->n_copies);
  g_autoptr (PsSimulation) simulation = simulated (program, sliced);
  return ps_timeline_from_simulation (program, sliced, simulation);
}

static void compare (const char *family, const PsObserved *observed, const PsCosts *truth)
{
  g_autoptr (PsCosts) found = costs_of (observed, truth->n_stages, 1);

  for (guint i = 0; i < PS_N_OP_KINDS * truth->n_stages; i++)
    if (observed->op[i]->len > 0)
      g_assert_cmpint (found->op[i].duration_ns, ==, truth->op[i].duration_ns);
  for (guint i = 1; i <= 2 * truth->n_stages; i++)
    if (observed->transfer[i]->len > 0)
      g_assert_cmpint (found->transfer_ns[i], ==, truth->transfer_ns[i]);
  for (guint stage = 0; stage < truth->n_stages; stage++)
    if (observed->pair[stage]->len > 0)
      g_assert_cmpint (found->stage[stage].pair_ns, ==, truth->stage[stage].pair_ns);
  if (observed->host->len > 0)
    g_assert_cmpint (found->op_ns, ==, truth->op_ns);
  if (observed->host->len > 0 && observed->message->len > 0)
    g_assert_cmpint (found->post_ns, ==, truth->post_ns);
  g_test_message ("%s: %u gaps of ops, %u with a message", family, observed->host->len, observed->message->len);
}

static void test_round_trip (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  guint n, n_host = 0, n_message = 0;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint draw = 0; draw < 8; draw++) {
      PsFamilySetting size
          = { .n_devices = 4, .n_microbatches = 8 + 4 * (draw % 3), .n_chunks = families[i]->default_chunks };
      g_autoptr (PsCosts) costs = random_times (rand, size.n_devices * size.n_chunks, 12 * US, 100);
      g_autoptr (PsObserved) observed = ps_observed_new ();

      for (guint stage = 0; stage < costs->n_stages; stage++)
        costs->stage[stage].pair_ns = (1 + stage) * 12 * US;
      costs->op_ns = draw % 2 * 7 * US;
      costs->post_ns = draw % 4 * 5 * US;
      size.costs = costs;
      PsSchedule *schedule = fine (ps_family_generate (families[i], &size, &error));
      add_run (observed, families[i]->name, simulate (schedule, costs));
      compare (families[i]->name, observed, costs);
      n_host += observed->host->len;
      n_message += observed->message->len;
    }
  g_assert_cmpuint (n_host, >, 1000);
  g_assert_cmpuint (n_message, >, 1000);
}

static void assert_samples (const PsObserved *observed, PsOpKind kind, guint stage, gint64 first_us, gint64 second_us)
{
  const GArray *samples = observed->op[kind * observed->n_stages + stage];

  g_assert_cmpuint (samples->len, ==, 2);
  g_assert_cmpint (g_array_index (samples, gint64, 0), ==, first_us * US);
  g_assert_cmpint (g_array_index (samples, gint64, 1), ==, second_us * US);
}

/* Ranks 0 to 3 are stage 0. Of 4 microbatches their forwards take 40, 40, 44 and 44 ms in the second interval, so one
 * takes 10.5 ms. The first interval warms up, and the last one is cut. */
static void test_log (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fuzz", "corpus", "megatron-log", "all.log", NULL);
  const char *paths[] = { path };
  g_autoptr (PsObserved) observed = ps_observed_new ();

  fine (ps_observed_load (observed, paths, 1, &error));
  g_assert_cmpuint (observed->n_stages, ==, 2);
  g_assert_cmpuint (observed->n_devices, ==, 2);
  assert_samples (observed, PS_OP_F, 0, 10500, 11000);
  assert_samples (observed, PS_OP_F, 1, 12000, 12500);
  assert_samples (observed, PS_OP_BW, 0, 20000, 20500);
  assert_samples (observed, PS_OP_BW, 1, 24500, 25000);
  g_assert_cmpuint (ps_observed_estimated (observed), ==, 0);
  g_autoptr (PsCosts) costs = costs_of (observed, 2, 1);
  g_assert_cmpint (costs->time_origin, ==, PS_ORIGIN_MEASURED);
  g_assert_cmpint (costs->transfer_origin, ==, PS_ORIGIN_MODELLED);
  g_assert_cmpuint (costs->stage[0].unknown, ==, 1U << PS_OP_B | 1U << PS_OP_W);
  g_assert_true (g_str_has_suffix (costs->source, "all.log, timers of 2 log intervals: means over 4 microbatches; "
                                                  "no transfer was seen, so they take no time"));
}

/* Transfers of 38 and 30 us, and in a second run of twice and half of that: each boundary's samples count over its own
 * median, the smaller one of two. */
static void test_transfer_spread (void)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  static const double expected[] = { 1, 2, 1, 2 };

  add_run (observed, "a", new_slow_run (1));
  add_run (observed, "b", new_slow_run (2));
  g_autoptr (PsCostSpread) spread = ps_observed_spread (observed);
  g_assert_cmpuint (spread->transfer->len, ==, 4);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpfloat_with_epsilon (g_array_index (spread->transfer, double, i), expected[i], 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->largest, 2, 1e-9);
  g_assert_cmpuint (spread->n_stages, ==, 2);
  g_assert_cmpuint (spread->row[PS_N_OP_KINDS * 2], !=, PS_NO_ROW);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/observed/known", test_known);
  g_test_add_func ("/observed/mean-post", test_mean_post);
  g_test_add_func ("/observed/gaps", test_gaps);
  g_test_add_func ("/observed/late-wait", test_late_wait);
  g_test_add_func ("/observed/slices", test_slices);
  g_test_add_func ("/observed/two-runs", test_two_runs);
  g_test_add_func ("/observed/estimate", test_estimate);
  g_test_add_func ("/observed/estimate-stage", test_estimate_stage);
  g_test_add_func ("/observed/warm", test_warm);
  g_test_add_func ("/observed/other-stages", test_other_stages);
  g_test_add_func ("/observed/spread", test_spread);
  g_test_add_func ("/observed/memory", test_memory);
  g_test_add_func ("/observed/split-memory", test_split_memory);
  g_test_add_func ("/observed/chunks-memory", test_chunks_memory);
  g_test_add_func ("/observed/pair-memory", test_pair_memory);
  g_test_add_func ("/observed/profiler-share", test_profiler_share);
  g_test_add_func ("/observed/profiler-limits", test_profiler_limits);
  g_test_add_func ("/observed/work-before-wait", test_work_before_wait);
  g_test_add_func ("/observed/without-profiler", test_without_profiler);
  g_test_add_func ("/observed/round-trip", test_round_trip);
  g_test_add_func ("/observed/log", test_log);
  g_test_add_func ("/observed/transfer-spread", test_transfer_spread);
  return g_test_run ();
}
