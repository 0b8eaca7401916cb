/* metamorphic-times.c - what changes costs, links and channels changes times in one direction, or by one factor.
 *
 * Under an order that does not depend on costs every time is a maximum of sums of durations (simulate.h), also where
 * transfers run in the order of their channels and devices wait for them; so is the mean period of many iterations.
 * Nothing can then be faster by taking longer. Orders made for the costs, ready order and slow-down by overlap are no
 * such maxima and may be. */
#include "lower.h"
#include "metamorphic.h"

#define IN_ORDER (META_CHANNEL | META_BLOCKING | META_EAGER | META_ORDER | META_SPEED | META_BANDWIDTH | META_BYPASS)

/* A family of fixed order or a random schedule, with costs and options. */
static gboolean draw_fixed (MetaProperty *property, MetaDraw *draw, MetaOptions options)
{
  if (meta_one_in (property, 4))
    meta_draw_schedule (property, draw);
  else if (!meta_draw_family (property, draw, meta_fixed_order))
    return FALSE;
  meta_draw_costs (property, draw);
  meta_draw_messages (property, draw);
  meta_draw_options (property, draw, options);
  return TRUE;
}

/* slow, if it can run at all, takes no less than fast. */
static void expect_slower (MetaProperty *property, const char *what, const MetaRun *fast, const MetaRun *slow)
{
  g_autofree char *makespan = g_strconcat ("makespan, ", what, NULL),
                  *iteration = g_strconcat ("iteration, ", what, NULL);

  if (slow->prediction == NULL)
    return;
  if (fast->prediction == NULL) {
    meta_expect_true (property, what, FALSE, fast, slow);
    return;
  }
  meta_expect (property, makespan, fast->prediction->metrics.makespan_ns, "<=", slow->prediction->metrics.makespan_ns,
               fast, slow);
  meta_expect (property, iteration, fast->prediction->metrics.iteration_ns,
               "<=", slow->prediction->metrics.iteration_ns, fast, slow);
}

/* A time, of one stage or of all, takes longer. */
static void raise_cost (MetaProperty *property, MetaDraw *draw)
{
  PsCostKey key;

  do
    key = (PsCostKey)meta_below (property, PS_COST_ACT);
  while (draw->costs.n[key] == 0);
  guint i = meta_below (property, draw->costs.n[key]);
  draw->costs.value[key][i] += META_UNIT * (1 + (gint64)meta_below (property, 4));
}

static void costs_up (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };

  if (!draw_fixed (property, &draw, IN_ORDER | META_EXPOSED | META_RECOMPUTE))
    return;
  g_autoptr (MetaRun) base = meta_run_draw (&draw, NULL);
  for (guint i = 0; i < 3; i++) {
    MetaCosts before = draw.costs;

    raise_cost (property, &draw);
    g_autoptr (MetaRun) slow = meta_run_draw (&draw, NULL);
    expect_slower (property, "a cost up", base, slow);
    draw.costs = before;
  }
}

/* Sizes change no times and never lower a peak. */
static void sizes_up (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) base = NULL, more = NULL;
  PsCostKey key;

  if (!draw_fixed (property, &draw, META_CHANNEL | META_BLOCKING | META_ORDER | META_BYPASS | META_RECOMPUTE))
    return;
  meta_draw_memory (property, &draw);
  do
    key = (PsCostKey)(PS_COST_ACT + meta_below (property, PS_N_COST_KEYS - PS_COST_ACT));
  while (draw.costs.n[key] == 0 || key == PS_COST_OPT);
  base = meta_run_draw (&draw, NULL);
  draw.costs.value[key][meta_below (property, draw.costs.n[key])] += META_UNIT;
  more = meta_run_draw (&draw, NULL);
  if (base->prediction == NULL || more->prediction == NULL)
    return;
  meta_expect (property, "peak memory, a size up", base->prediction->metrics.peak_memory_bytes,
               "<=", more->prediction->metrics.peak_memory_bytes, base, more);
  meta_expect (property, "iteration, a size up", base->prediction->metrics.iteration_ns,
               "==", more->prediction->metrics.iteration_ns, base, more);
}

static void factors_up (MetaProperty *property)
{
  static const char *const factors[] = { "0.3", "0.5", "0.9", "1", "1.7", "4" };
  guint at = meta_below (property, G_N_ELEMENTS (factors) - 1);
  const char *option = meta_one_in (property, 2) ? "--bandwidth-factor" : "--speed";
  g_autofree char *less = g_strdup_printf ("%s %s", option, factors[at + 1]),
                  *more = g_strdup_printf ("%s %s", option, factors[at]);
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) fast = NULL, slow = NULL;

  if (!draw_fixed (property, &draw, (IN_ORDER | META_EXPOSED) & ~(META_BANDWIDTH | META_SPEED)))
    return;
  fast = meta_run_draw (&draw, less);
  slow = meta_run_draw (&draw, more);
  expect_slower (property, "a factor down", fast, slow);
}

/* What the left one may do, the right one may not. */
static void channels (MetaProperty *property)
{
  static const char *const steps[][2] = { { "--comm latency", "--comm direction" },
                                          { "--comm direction", "--comm pair" },
                                          { "--comm pair", "--comm rank" },
                                          { "--comm rank", "--comm rank --blocking" },
                                          { "--comm latency", "--comm latency --blocking" },
                                          { "--comm pair", "--comm pair --blocking" },
                                          { "--comm rank --eager 43200B", "--comm rank" },
                                          { "--comm pair --eager 43200B", "--comm pair --eager 17280B" },
                                          { "--comm direction --blocking --eager 1GiB", "--comm direction --blocking" },
                                          { "--reduce overlapped", "--reduce exposed" },
                                          { "--sync bypass", "--sync global" },
                                          { "--recompute none", "--recompute full" },
                                          { "--offload 0.5", "--offload 1" } };
  g_auto (MetaDraw) draw = { 0 };

  if (!draw_fixed (property, &draw, META_ORDER | META_SPEED | META_BANDWIDTH))
    return;
  for (guint i = 0; i < 3; i++) {
    guint step = meta_below (property, G_N_ELEMENTS (steps));
    g_autoptr (MetaRun) fast = meta_run_draw (&draw, steps[step][0]);
    g_autoptr (MetaRun) slow = meta_run_draw (&draw, steps[step][1]);

    expect_slower (property, "less allowed", fast, slow);
  }
}

/* The same for costs by the formulas of a model on a cluster. */
static void modelled (MetaProperty *property)
{
  static const char *const steps[][2]
      = { { "--bandwidth-factor 2", "--bandwidth-factor 1" },   { "--latency-factor 0.5", "--latency-factor 4" },
          { "--replicas 1 --zero 0", "--replicas 2 --zero 0" }, { "--comm latency", "--share-links" },
          { "--comm rank", "--comm rank --share-links" },       { "--recompute none", "--recompute selective" },
          { "--recompute selective", "--recompute full" },      { "--offload 0", "--offload 0.5" },
          { "--network-factor 2", "--network-factor 0.1" },     { "--network-factor 0.5", "--bandwidth-factor 0.5" } };
  guint step = meta_below (property, G_N_ELEMENTS (steps));
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) fast = NULL, slow = NULL;

  if (!meta_draw_family (property, &draw, meta_fixed_order) || draw.asynchronous)
    return;
  g_string_append (draw.options, " --model gpt-1.5b --cluster a100-80gb");
  fast = meta_run_draw (&draw, steps[step][0]);
  slow = meta_run_draw (&draw, steps[step][1]);
  expect_slower (property, "modelled, less allowed", fast, slow);
}

/* Where durations are known beforehand a planned order is as good as either of the others. */
static void planned_order (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) planned = NULL, asap = NULL, deferred = NULL;

  if (!draw_fixed (property, &draw, META_BLOCKING | META_SPEED))
    return;
  g_string_append_printf (draw.options, " --comm %s",
                          ps_channel_name ((PsChannel)(1 + meta_below (property, n_channels () - 1))));
  planned = meta_run_draw (&draw, "--comm-order planned");
  asap = meta_run_draw (&draw, "--comm-order asap");
  deferred = meta_run_draw (&draw, "--comm-order deferred");
  meta_expect_true (property, "planned runs", planned->prediction != NULL, planned, NULL);
  if (planned->prediction == NULL)
    return;
  for (guint i = 0; i < 2; i++) {
    const MetaRun *other = i ? deferred : asap;

    if (other->prediction != NULL)
      meta_expect (property, "makespan, planned order", planned->prediction->metrics.makespan_ns,
                   "<=", other->prediction->metrics.makespan_ns, planned, other);
  }
}

static void scale_costs (MetaDraw *draw, PsCostKey first, PsCostKey end, gint64 factor)
{
  for (guint key = first; key < end; key++)
    for (guint i = 0; i < draw->costs.n[key]; i++)
      draw->costs.value[key][i] *= factor;
}

/* A slow-down lies between none and one of all ops all the time; rounding adds a nanosecond per op at most. In steady
 * state asynchronous schedules cannot have it. */
static void slowdown (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) none = NULL, some = NULL, all = NULL;

  if (!draw_fixed (property, &draw, META_CHANNEL | META_BLOCKING | META_EAGER) || draw.asynchronous)
    return;
  none = meta_run_draw (&draw, NULL);
  some = meta_run_draw (&draw, "--overlap-slowdown 2");
  scale_costs (&draw, PS_COST_OP, PS_COST_ACT, 2); /* no speed changes host times */
  all = meta_run_draw (&draw, "--speed 0.5");
  meta_expect_true (property, "taken by all three",
                    (none->prediction != NULL) == (some->prediction != NULL)
                        && (none->prediction != NULL) == (all->prediction != NULL),
                    none, some);
  if (none->prediction == NULL || some->prediction == NULL || all->prediction == NULL)
    return;
  meta_expect (property, "makespan, slow-down by overlap", none->prediction->metrics.makespan_ns,
               "<=", some->prediction->metrics.makespan_ns, none, some);
  meta_expect (property, "makespan, slow-down by overlap", some->prediction->metrics.makespan_ns,
               "<=", all->prediction->metrics.makespan_ns + all->prediction->program->n_steps, some, all);
}

/* All times, or all sizes. */
static void scaling (MetaProperty *property)
{
  gboolean sizes = meta_one_in (property, 3);
  gint64 factor = 2 + (gint64)meta_below (property, 6), limit;
  g_auto (MetaDraw) draw = { 0 };
  g_autofree char *less = NULL, *more = NULL;
  g_autoptr (MetaRun) base = NULL, scaled = NULL;

  if (!meta_draw_family (property, &draw, meta_any_family))
    return;
  meta_draw_costs (property, &draw);
  meta_draw_memory (property, &draw);
  if (meta_one_in (property, 2))
    meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw,
                     META_CHANNEL | META_BLOCKING | META_ORDER | META_PLANNED | META_BYPASS | META_WINDOW | META_EXPOSED
                         | META_RECOMPUTE);
  limit = META_UNIT * (gint64)meta_below (property, 12 * draw.m);
  if (meta_one_in (property, 2)) {
    less = g_strdup_printf ("--memory-limit %" G_GINT64_FORMAT "B", limit);
    more = g_strdup_printf ("--memory-limit %" G_GINT64_FORMAT "B", sizes ? limit * factor : limit);
  }
  base = meta_run_draw (&draw, less);
  if (sizes)
    scale_costs (&draw, PS_COST_ACT, PS_N_COST_KEYS, factor);
  else
    scale_costs (&draw, PS_COST_F, PS_COST_ACT, factor);
  scaled = meta_run_draw (&draw, more);
  meta_expect_scaled (property, base, scaled, sizes ? 1 : factor, sizes ? factor : 1);
}

/* An option says the same as twice the costs. */
static void halves (MetaProperty *property)
{
  static const PsCostKey compute[]
      = { PS_COST_F, PS_COST_B, PS_COST_W, PS_COST_BW, PS_COST_PAIR, PS_COST_R, PS_COST_O },
      links[] = { PS_COST_C, PS_COST_REDUCE, PS_COST_REDUCE2 };
  gboolean speed = meta_one_in (property, 2);
  const PsCostKey *keys = speed ? compute : links;
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) option = NULL, costs = NULL;

  if (!draw_fixed (property, &draw,
                   META_CHANNEL | META_BLOCKING | META_ORDER | META_PLANNED | META_BYPASS | META_WINDOW | META_EXPOSED
                       | META_RECOMPUTE))
    return;
  option = meta_run_draw (&draw, speed ? "--speed 0.5" : "--bandwidth-factor 0.5");
  for (guint i = 0; i < (speed ? G_N_ELEMENTS (compute) : G_N_ELEMENTS (links)); i++)
    scale_costs (&draw, keys[i], (PsCostKey)(keys[i] + 1), 2);
  costs = meta_run_draw (&draw, NULL);
  meta_expect_scaled (property, option, costs, 1, 1);
}

/* Adds the same time to every value of a key, per op: a single value is divided over the chunks. */
static void lengthen (MetaDraw *draw, PsCostKey key, gint64 each_ns)
{
  for (guint i = 0; i < draw->costs.n[key]; i++)
    draw->costs.value[key][i] += draw->costs.n[key] == 1 ? each_ns * (draw->n_stages / draw->p) : each_ns;
}

/* Without messages, as on one device, or where these take no host time, it is as if every op took longer. */
static void host_time (MetaProperty *property)
{
  static const PsCostKey ops[] = { PS_COST_F, PS_COST_B, PS_COST_W, PS_COST_BW };
  gint64 each_ns = META_UNIT * (gint64)meta_below (property, 9);
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) host = NULL, longer = NULL;

  if (!meta_draw_family (property, &draw, meta_any_family) || draw.slices > 1)
    return;
  meta_draw_plain (property, &draw);
  draw.costs.n[PS_COST_BW] = draw.costs.n[PS_COST_F];
  for (guint i = 0; i < draw.costs.n[PS_COST_BW]; i++)
    draw.costs.value[PS_COST_BW][i] = draw.costs.value[PS_COST_B][i] + draw.costs.value[PS_COST_W][i];
  draw.costs.n[PS_COST_OP] = 1;
  draw.costs.value[PS_COST_OP][0] = each_ns;
  draw.costs.n[PS_COST_POST] = draw.p > 1;
  host = meta_run_draw (&draw, NULL);
  draw.costs.n[PS_COST_OP] = draw.costs.n[PS_COST_POST] = 0;
  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    lengthen (&draw, ops[i], each_ns);
  longer = meta_run_draw (&draw, NULL);
  if (host->prediction == NULL || longer->prediction == NULL)
    return;
  meta_expect (property, "iteration, host time", host->prediction->metrics.iteration_ns,
               "==", longer->prediction->metrics.iteration_ns, host, longer);
  meta_expect (property, "lower bound, host time", host->prediction->lower_bound_ns,
               "==", longer->prediction->lower_bound_ns, host, longer);
}

/* The same numbers in other units. */
static void units (MetaProperty *property)
{
  static const struct {
    const char *f, *act, *rest;
  } forms[][2] = { { { "ms", "MiB", "b=2ms,w=1ms,c=500us,wact=1MiB" },
                     { "000us", ".0MiB", "b=2000us,w=.001s,c=.5ms,wact=1024KiB" } },
                   { { "us", "KiB", "b=3us,w=1us,c=1us" }, { "000ns", ".0KiB", "b=3000ns,w=1000ns,c=0.001ms" } },
                   { { "s", "GB", "bw=1.5s,c=0" }, { "000ms", "000MB", "bw=1500ms" } } };
  guint form = meta_below (property, G_N_ELEMENTS (forms)), f = 1 + meta_below (property, 20),
        act = 1 + meta_below (property, 20);
  g_auto (MetaDraw) draw = { 0 };
  MetaRun *run[2];

  if (!meta_draw_family (property, &draw, meta_any_family))
    return;
  for (guint i = 0; i < 2; i++) {
    g_autofree char *costs = g_strdup_printf ("--costs f=%u%s,act=%u%s,%s", f, forms[form][i].f, act,
                                              forms[form][i].act, forms[form][i].rest);

    run[i] = meta_run_draw (&draw, costs);
  }
  meta_expect_scaled (property, run[0], run[1], 1, 1);
  meta_run_free (run[0]);
  meta_run_free (run[1]);
}

/* The schedule run backwards: forwards are backwards in one op, and the other way round. */
static PsSchedule *reverse (const PsSchedule *schedule)
{
  PsSchedule *reversed = ps_schedule_copy (schedule);

  for (guint d = 0; d < schedule->placement->n_devices; d++)
    for (guint i = schedule->first[d], last = schedule->first[d + 1] - 1; i <= last && last < G_MAXUINT; i++) {
      PsOp *op = &reversed->ops[schedule->first[d] + last - i];

      *op = schedule->ops[i];
      if (op->kind != PS_OP_F && op->kind != PS_OP_BW) {
        ps_schedule_free (reversed);
        return NULL;
      }
      op->kind = op->kind == PS_OP_F ? PS_OP_BW : PS_OP_F;
      op->paired = i > schedule->first[d] && schedule->ops[i - 1].paired;
    }
  return reversed;
}

static void reversal (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) forth = NULL, back = NULL;
  g_autoptr (PsSchedule) reversed = NULL;
  g_autofree char *path = NULL, *text = NULL, *line = NULL, *reversed_line = NULL;
  guint f = 1 + meta_below (property, 9), bw = 2 * (1 + meta_below (property, 9)), c = meta_below (property, 6);
  guint pair = meta_one_in (property, 2) ? f + bw : MAX (f, bw);

  if (!meta_draw_family (property, &draw, meta_fixed_order))
    return;
  line = g_strdup_printf ("--costs f=%us,bw=%us,c=%us,pair=%us", f * 60, bw * 60, c, pair * 60);
  forth = meta_run_draw (&draw, line);
  if (forth->prediction != NULL)
    reversed = reverse (forth->prediction->program->schedule);
  if (reversed == NULL)
    return;
  text = ps_schedule_to_json (reversed);
  path = meta_write_file (property, "reversed.json", text);
  reversed_line = g_strdup_printf ("--costs f=%us,bw=%us,c=%us,pair=%us", bw * 60, f * 60, c, pair * 60);
  back = meta_run (path, reversed_line);
  meta_expect_true (property, "runs backwards", back->prediction != NULL, forth, back);
  if (back->prediction != NULL)
    meta_expect (property, "makespan", forth->prediction->metrics.makespan_ns,
                 "==", back->prediction->metrics.makespan_ns, forth, back);
}

const MetaRow meta_times[] = { { "costs-up", 3000, costs_up },
                               { "factors-up", 1000, factors_up },
                               { "sizes-up", 1000, sizes_up },
                               { "modelled", 500, modelled },
                               { "channels", 2000, channels },
                               { "planned-order", 500, planned_order },
                               { "slow-down", 500, slowdown },
                               { "scaling", 2000, scaling },
                               { "halves", 1000, halves },
                               { "units", 200, units },
                               { "reversal", 400, reversal },
                               { "host-time", 1000, host_time },
                               { 0 } };
