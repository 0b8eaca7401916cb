/* zb-v-auto.c - the automatic schedule on a V: the best that the heuristic finds with any of its switches, or a fixed
 * order where one is better still, at the given costs and memory. */
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

/* What a plan must be to take the place of the best one: of the heuristic's, the shortest of the longest device spans
 * counts, then the makespan; a fixed order has to be better in one and no worse in the other. */
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

/* A try is repeated with the idle times that it came to as long as they become shorter. Returns which switches
 * mattered. */
static guint
try_switches (Contest *contest, PsVSwitches switches)
{
  guint p = contest->plan->n_devices, used = 0;
  g_autofree gint64 *idle_ns = g_new (gint64, p);
  switches.give_up_ns = G_MAXINT64;
  while (ps_v_greedy (contest->plan, &switches, &used) && contest->plan->idle_ns < switches.give_up_ns)
    {
      switches.give_up_ns = contest->plan->idle_ns;
      switches.idle_ns = idle_ns;
      for (guint i = 0; i < p; i++)
        idle_ns[i] = contest->plan->device[i].idle_ns;
      enter (contest, FALSE);
    }
  return used;
}

/* All settings of the two switches, except those that come to the same. */
static void
try_heuristic (Contest *contest)
{
  guint used[4];
  for (guint i = 0; i < 4; i++)
    if (i & 1 && !(used[i - 1] & PS_V_USED_FORWARD))
      used[i] = used[i - 1];
    else if (i & 2 && !(used[i - 2] & PS_V_USED_BACKWARD))
      used[i] = used[i - 2];
    else
      used[i] = try_switches (contest, (PsVSwitches){ .fill_backward = !(i & 2), .fill_forward = !(i & 1) });
}

static void
try_fixed (Contest *contest, const PsFamily *family, const PsFamilySetting *setting)
{
  g_autoptr (PsSchedule) schedule = family->generate (setting, NULL);
  ps_v_plan_replay (contest->plan, schedule);
  enter (contest, TRUE);
}

/* Whether some device may hold less than the p activations that the heuristic was made for. */
static gboolean
is_tight (const PsVPlan *plan)
{
  for (guint i = 0; i < plan->n_devices; i++)
    {
      const PsVDevice *device = &plan->device[i];
      gint64 both = device->cost[PS_OP_F][PS_V_NEAR].take_bytes + device->cost[PS_OP_F][PS_V_FAR].take_bytes;
      if (device->limit_bytes < device->weight_bytes + plan->n_devices * both)
        return TRUE;
    }
  return FALSE;
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
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
               "zb-v-auto: device %u needs at least %s for one microbatch, its limit is %s", device, need, limit);
}

/* Nobody set a limit: what ZB-V needs is fine too, where ops take more than their activations while they run. */
static void
allow_zb_v (Contest *contest, const PsFamilySetting *setting)
{
  g_autoptr (PsSchedule) schedule = ps_family_zb_v.generate (setting, NULL);
  ps_v_plan_replay (contest->plan, schedule);
  for (guint i = 0; i < contest->plan->n_devices; i++)
    {
      PsVDevice *device = &contest->plan->device[i];
      device->limit_bytes = MAX (device->limit_bytes, device->peak_bytes);
      contest->best->device[i].limit_bytes = device->limit_bytes;
    }
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  g_autoptr (PsVPlan) one = ps_v_plan_new (setting);
  g_autoptr (PsVPlan) other = ps_v_plan_new (setting);
  Contest contest = { .plan = one, .best = other };
  if (!setting->memory_limit)
    allow_zb_v (&contest, setting);
  try_heuristic (&contest);
  try_fixed (&contest, &ps_family_zb_v, setting);
  if (!contest.found || is_tight (one))
    {
      try_fixed (&contest, &ps_family_v_half, setting);
      try_fixed (&contest, &ps_family_v_min, setting);
    }
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
