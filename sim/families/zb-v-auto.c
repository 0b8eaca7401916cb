/* zb-v-auto.c - the automatic schedule on a V: the best that the heuristic finds with any of its switches, or a fixed
 * order where one is better still, at the given costs and memory. */
#include "v-greedy.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("zb-v-auto", setting, error);
}

/* A try is repeated with the idle times that it came to as long as they become shorter. Returns which switches
 * mattered. */
static guint
try_switches (PsContest *contest, PsVSwitches switches)
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
      ps_contest_enter (contest, FALSE);
    }
  return used;
}

/* All settings of the two switches, except those that come to the same. */
static void
try_heuristic (PsContest *contest)
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

/* Whether some device may hold less than the p activations that the heuristic was made for. */
static gboolean
is_tight (const PsPlan *plan)
{
  for (guint i = 0; i < plan->n_devices; i++)
    {
      const PsPlanDevice *device = &plan->device[i];
      gint64 both = device->cost[PS_OP_F][PS_NEAR].take_bytes + device->cost[PS_OP_F][PS_FAR].take_bytes;
      if (device->limit_bytes < device->weight_bytes + plan->n_devices * both)
        return TRUE;
    }
  return FALSE;
}

static void
put_way (PsPlan *plan, PsOpKind kind, PsPlanChunk chunk, gboolean down)
{
  guint p = plan->n_devices;
  for (guint i = 0; i < p; i++)
    {
      guint device = down ? i : p - 1 - i;
      ps_plan_put (plan, device, kind, chunk);
      if (kind == PS_OP_B)
        ps_plan_put (plan, device, PS_OP_W, chunk);
    }
}

/* What needs the least memory. */
static void
try_one_at_a_time (PsContest *contest)
{
  PsPlan *plan = contest->plan;
  ps_plan_clear (plan);
  for (guint i = 0; i < plan->n_microbatches; i++)
    {
      put_way (plan, PS_OP_F, PS_NEAR, TRUE);
      put_way (plan, PS_OP_F, PS_FAR, FALSE);
      put_way (plan, PS_OP_B, PS_FAR, TRUE);
      put_way (plan, PS_OP_B, PS_NEAR, FALSE);
    }
  ps_contest_enter (contest, TRUE);
}

/* Nobody set a limit: what ZB-V needs is fine too, where ops take more than their activations while they run. */
static void
allow_zb_v (PsContest *contest, PsPlan *zb_v)
{
  for (guint i = 0; i < zb_v->n_devices; i++)
    {
      PsPlanDevice *device = &zb_v->device[i];
      device->limit_bytes = MAX (device->limit_bytes, device->peak_bytes);
      contest->plan->device[i].limit_bytes = contest->best->device[i].limit_bytes = device->limit_bytes;
    }
}

static PsPlan *
plan_zb_v (const PsFamilySetting *setting)
{
  g_autoptr (PsSchedule) schedule = ps_family_zb_v.generate (setting, NULL);
  PsPlan *plan = ps_plan_new (setting, setting->n_devices);
  ps_plan_replay (plan, schedule);
  return plan;
}

/* The limit that was published when none is given is what 1F1B holds, p activations. */
static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  g_autoptr (PsPlan) zb_v = plan_zb_v (setting);
  g_auto (PsContest) contest = { 0 };
  ps_contest_init (&contest, setting, setting->n_devices);
  if (!setting->memory_limit)
    allow_zb_v (&contest, zb_v);
  try_heuristic (&contest);
  ps_contest_enter_plan (&contest, &zb_v);
  if (!contest.found || is_tight (contest.plan))
    {
      g_autoptr (PsSchedule) v_half = ps_family_v_half.generate (setting, NULL);
      g_autoptr (PsSchedule) v_min = ps_family_v_min.generate (setting, NULL);
      ps_contest_enter_schedule (&contest, v_half);
      ps_contest_enter_schedule (&contest, v_min);
    }
  if (!contest.found)
    try_one_at_a_time (&contest);
  return ps_contest_end (&contest, "zb-v-auto", setting, error);
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
