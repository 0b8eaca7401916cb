/* zb-v-auto.c - the automatic schedule on a V: the best that the heuristic finds with any of its switches, or a fixed order where one is better
 * still, at the given costs and memory. */
#include "v-greedy.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("zb-v-auto", setting, error);
}

typedef struct
{
  PsVPlan *plan; /* the one being made */
  PsVPlan *best; /* valid when found */
  gboolean found;
} Contest;

/* What a plan must be to take the place of the best one: of the heuristic's, the shortest of the longest device spans counts, then the makespan;
 * a fixed order has to be better in one and no worse in the other. */
static gboolean
is_better (const Contest *contest, gboolean fixed)
{
  guint device;
  if (!ps_v_plan_fits (contest->plan, &device))
    return FALSE;
  if (!contest->found)
    return TRUE;
  gint64 span = ps_v_plan_span (contest->plan) - ps_v_plan_span (contest->best);
  gint64 makespan = ps_v_plan_makespan (contest->plan) - ps_v_plan_makespan (contest->best);
  if (fixed)
    return span <= 0 && makespan <= 0 && (span < 0 || makespan < 0);
  return span < 0 || (span == 0 && makespan < 0);
}

static void
enter (Contest *contest, gboolean fixed)
{
  if (!is_better (contest, fixed))
    return;
  PsVPlan *plan = contest->plan;
  contest->plan = contest->best;
  contest->best = plan;
  contest->found = TRUE;
}

/* A try is repeated with the idle times that it came to as long as they become shorter. */
static void
try_switches (Contest *contest, PsVSwitches switches)
{
  guint p = contest->plan->n_devices;
  g_autofree gint64 *idle_ns = g_new (gint64, p);
  gint64 worst = G_MAXINT64;
  while (ps_v_greedy (contest->plan, &switches) && contest->plan->idle_ns < worst)
    {
      worst = contest->plan->idle_ns;
      for (guint i = 0; i < p; i++)
        idle_ns[i] = contest->plan->device[i].idle_ns;
      switches.idle_ns = idle_ns;
      enter (contest, FALSE);
    }
}

static void
try_fixed (Contest *contest, const PsFamilySetting *setting)
{
  static const PsFamily *const families[] = { &ps_family_zb_v, &ps_family_v_half, &ps_family_v_min };
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    {
      g_autoptr (PsSchedule) schedule = families[i]->generate (setting, NULL);
      ps_v_plan_replay (contest->plan, schedule);
      enter (contest, TRUE);
    }
}

static void
put_way (PsVPlan *plan, PsOpKind kind, PsVChunk chunk, gboolean down)
{
  guint p = plan->n_devices;
  for (guint i = 0; i < p; i++)
    {
      guint device = down ? i : p - 1 - i;
      ps_v_plan_put (plan, device, kind, chunk);
      if (kind == PS_OP_B)
        ps_v_plan_put (plan, device, PS_OP_W, chunk);
    }
}

/* What needs the least memory. */
static void
try_one_at_a_time (Contest *contest)
{
  PsVPlan *plan = contest->plan;
  ps_v_plan_clear (plan);
  for (guint i = 0; i < plan->n_microbatches; i++)
    {
      put_way (plan, PS_OP_F, PS_V_NEAR, TRUE);
      put_way (plan, PS_OP_F, PS_V_FAR, FALSE);
      put_way (plan, PS_OP_B, PS_V_FAR, TRUE);
      put_way (plan, PS_OP_B, PS_V_NEAR, FALSE);
    }
  enter (contest, TRUE);
}

/* The plan that needs the least memory was tried last and is above the limit. */
static void
set_limit_error (const PsVPlan *plan, GError **error)
{
  guint device;
  ps_v_plan_fits (plan, &device);
  g_autofree char *need = ps_format_size (plan->device[device].peak_bytes);
  g_autofree char *limit = ps_format_size (plan->device[device].limit_bytes);
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "zb-v-auto: device %u needs at least %s for one microbatch, its limit is %s", device, need,
               limit);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  g_autoptr (PsVPlan) one = ps_v_plan_new (setting);
  g_autoptr (PsVPlan) other = ps_v_plan_new (setting);
  Contest contest = { .plan = one, .best = other };
  for (guint i = 0; i < 4; i++)
    try_switches (&contest, (PsVSwitches) { .fill_backward = !(i & 2), .fill_forward = !(i & 1) });
  try_fixed (&contest, setting);
  if (!contest.found)
    try_one_at_a_time (&contest);
  if (contest.found)
    return ps_v_plan_schedule (contest.best, "zb-v-auto", setting);
  set_limit_error (contest.plan, error);
  return NULL;
}

const PsFamily ps_family_zb_v_auto = {
  .name = "zb-v-auto",
  .description = "split backwards on a V, ordered for the given costs within the memory limit",
  .constraints = "v = 2, one microbatch fits the memory limit",
  .memory = "what the limit allows; without one at most p",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 6",
  .default_chunks = 2,
  .uses_costs = TRUE,
  .check = check,
  .generate = generate,
};
