/* zb-auto.c - the automatic schedule of the zero-bubble paper: the best that its heuristic finds with any of its
 * switches, or ZB-H1 or ZB-H2 where one of them is better still, at the given costs and memory. */
#include "zb-greedy.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("zb-auto", setting, error);
}

typedef struct
{
  PsPlan *plan; /* the one being made */
  PsPlan *best; /* valid when found */
  gboolean found;
} Contest;

/* What a plan must be to take the place of the best one: of the heuristic's, the shortest of the longest stage spans
 * counts, then the makespan; a handcrafted order has to be better in one and no worse in the other. */
static gboolean
is_better (const Contest *contest, gboolean handcrafted)
{
  guint stage;
  if (!ps_plan_fits (contest->plan, &stage))
    return FALSE;
  if (!contest->found)
    return TRUE;
  gint64 span = ps_plan_span (contest->plan) - ps_plan_span (contest->best);
  gint64 makespan = ps_plan_makespan (contest->plan) - ps_plan_makespan (contest->best);
  if (handcrafted)
    return span <= 0 && makespan <= 0 && (span < 0 || makespan < 0);
  return span < 0 || (span == 0 && makespan < 0);
}

static void
enter (Contest *contest, gboolean handcrafted)
{
  if (!is_better (contest, handcrafted))
    return;
  PsPlan *plan = contest->plan;
  contest->plan = contest->best;
  contest->best = plan;
  contest->found = TRUE;
}

static void
try_heuristic (Contest *contest)
{
  for (guint i = 0; i < 8; i++)
    {
      ps_zb_greedy (contest->plan, (PsZbSwitches){
                                       .bubble_before_backward = !(i & 4),
                                       .backward_first = !(i & 2),
                                       .fill_gaps = !(i & 1),
                                   });
      enter (contest, FALSE);
    }
}

static PsWalk
one_at_a_time (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .split = TRUE };
}

static void
try_handcrafted (Contest *contest, const PsFamilySetting *setting)
{
  ps_plan_walk (contest->plan, setting, ps_family_zb_h1_rule);
  enter (contest, TRUE);
  ps_plan_walk (contest->plan, setting, ps_family_zb_h2_rule);
  enter (contest, TRUE);
  if (contest->found)
    return;
  ps_plan_walk (contest->plan, setting, one_at_a_time);
  enter (contest, TRUE);
}

/* The plan that needs the least memory was tried last and is above the limit. */
static void
set_limit_error (const PsPlan *plan, GError **error)
{
  guint stage;
  ps_plan_fits (plan, &stage);
  g_autofree char *need = ps_format_size (plan->stage[stage].peak_bytes);
  g_autofree char *limit = ps_format_size (plan->stage[stage].limit_bytes);
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
               "zb-auto: device %u needs at least %s for one microbatch, its limit is %s", stage, need, limit);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  PsSchedule *schedule = NULL;
  Contest contest = { .plan = ps_plan_new (setting), .best = ps_plan_new (setting) };
  try_heuristic (&contest);
  try_handcrafted (&contest, setting);
  if (contest.found)
    schedule = ps_plan_schedule (contest.best, "zb-auto", setting);
  else
    set_limit_error (contest.plan, error);
  ps_plan_free (contest.plan);
  ps_plan_free (contest.best);
  return schedule;
}

const PsFamily ps_family_zb_auto = {
  .name = "zb-auto",
  .description = "split backwards, ordered for the given costs within the memory limit",
  .constraints = "one microbatch fits the memory limit",
  .memory = "what the limit allows; without one at most m",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 3.1",
  .default_chunks = 1,
  .uses_costs = TRUE,
  .check = check,
  .generate = generate,
};
