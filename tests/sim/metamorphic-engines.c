/* metamorphic-engines.c - both engines find the same, and options that change nothing change nothing. */
#include "metamorphic.h"

static gboolean draw_latency (MetaProperty *property, MetaDraw *draw)
{
  if (meta_one_in (property, 4))
    meta_draw_schedule (property, draw);
  else if (!meta_draw_family (property, draw, meta_any_family))
    return FALSE;
  meta_draw_costs (property, draw);
  meta_draw_memory (property, draw);
  meta_draw_options (property, draw, META_EXPOSED | META_RECOMPUTE | META_BANDWIDTH);
  return TRUE;
}

/* The same, op by op. Asynchronous schedules do not run in ready order. */
static void expect_same_steps (MetaProperty *property, const MetaRun *a, const MetaRun *b)
{
  const PsSimulation *left = a->prediction->simulation, *right = b->prediction->simulation;
  const PsProgram *program = a->prediction->program;
  gboolean same = left->n_steps == right->n_steps;

  for (guint i = 0; i < left->n_steps && same; i++) {
    guint j = b->prediction->program->step_of[program->op_of[i]];

    same = left->end_ns[i + 1] == right->end_ns[j + 1]
           && ps_simulation_start (program, a->prediction->costs, left, i)
                  == ps_simulation_start (b->prediction->program, b->prediction->costs, right, j);
  }
  meta_expect_true (property, "start and end of every op", same, a, b);
}

static void both_engines (MetaProperty *property)
{
  static const char *const neutral[] = { "--speed 1", "--ready-order 1", "--speed 1 --overlap-slowdown 1",
                                         "--speed 1 --eager 1GiB", "--speed 1 --comm-order deferred" };
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) relaxed = NULL, events = NULL;

  if (!draw_latency (property, &draw) || draw.asynchronous)
    return;
  relaxed = meta_run_draw (&draw, NULL);
  events = meta_run_draw (&draw, neutral[meta_below (property, G_N_ELEMENTS (neutral))]);
  meta_expect_scaled (property, relaxed, events, 1, 1);
  if (relaxed->prediction != NULL && events->prediction != NULL)
    expect_same_steps (property, relaxed, events);
}

/* In steady state, where asynchronous schedules always are, ready order is another thing. */
static void steady_state (MetaProperty *property)
{
  static const char *const neutral[] = { "--speed 1 --sync bypass", "--speed 1 --eager 1GiB --sync bypass" };
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) relaxed = NULL, events = NULL;

  if (!draw_latency (property, &draw))
    return;
  relaxed = meta_run_draw (&draw, "--sync bypass");
  events = meta_run_draw (&draw, neutral[meta_below (property, G_N_ELEMENTS (neutral))]);
  meta_expect_scaled (property, relaxed, events, 1, 1);
}

/* Whatever the channels. */
static void neutral_options (MetaProperty *property)
{
  static const char *const neutral[] = { "--speed 1",  "--overlap-slowdown 1", "--bandwidth-factor 1", "--eager 0B",
                                         "--tensor 1", "--recompute none",     "--offload 0" };
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) without = NULL, with = NULL;
  MetaOptions options = META_CHANNEL | META_BLOCKING | META_ORDER | META_PLANNED | META_BYPASS | META_WINDOW;

  if (!meta_draw_family (property, &draw, meta_any_family))
    return;
  meta_draw_costs (property, &draw);
  meta_draw_memory (property, &draw);
  meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw, options);
  without = meta_run_draw (&draw, NULL);
  with = meta_run_draw (&draw, neutral[meta_below (property, G_N_ELEMENTS (neutral))]);
  meta_expect_scaled (property, without, with, 1, 1);
}

const MetaRow meta_engines[] = { { "engines", 2000, both_engines },
                                 { "steady-state", 800, steady_state },
                                 { "neutral-options", 1200, neutral_options },
                                 { 0 } };
