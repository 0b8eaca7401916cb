/* plan-contest.c - choosing among several plans for the same setting. */
#include "plan.h"

void
ps_contest_init (PsContest *contest, const PsFamilySetting *setting, guint n_activations)
{
  *contest = (PsContest){ .plan = ps_plan_new (setting, n_activations), .best = ps_plan_new (setting, n_activations) };
}

void
ps_contest_clear (PsContest *contest)
{
  g_clear_pointer (&contest->plan, ps_plan_free);
  g_clear_pointer (&contest->best, ps_plan_free);
}

static gboolean
is_better (const PsContest *contest, gboolean fixed)
{
  guint device;
  if (!ps_plan_fits (contest->plan, &device))
    return FALSE;
  if (!contest->found)
    return TRUE;
  gint64 span = ps_plan_span (contest->plan) - ps_plan_span (contest->best);
  gint64 makespan = ps_plan_makespan (contest->plan) - ps_plan_makespan (contest->best);
  if (fixed)
    return span <= 0 && makespan <= 0 && (span < 0 || makespan < 0);
  return span < 0 || (span == 0 && makespan < 0);
}

void
ps_contest_enter (PsContest *contest, gboolean fixed)
{
  if (!is_better (contest, fixed))
    return;
  PsPlan *plan = contest->plan;
  contest->plan = contest->best;
  contest->best = plan;
  contest->found = TRUE;
}

gint64
ps_contest_limit (const PsContest *contest)
{
  return contest->found ? ps_plan_span (contest->best) : G_MAXINT64;
}

void
ps_contest_enter_plan (PsContest *contest, PsPlan **plan)
{
  PsPlan *entered = *plan;
  *plan = contest->plan;
  contest->plan = entered;
  ps_contest_enter (contest, TRUE);
}

void
ps_contest_enter_schedule (PsContest *contest, const PsSchedule *schedule)
{
  ps_plan_replay (contest->plan, schedule);
  ps_contest_enter (contest, TRUE);
}

PsSchedule *
ps_contest_end (const PsContest *contest, const char *name, const PsFamilySetting *setting, GError **error)
{
  guint device;
  if (contest->found)
    return ps_plan_schedule (contest->best, name, setting);
  ps_plan_fits (contest->plan, &device);
  g_autofree char *need = ps_format_size (contest->plan->device[device].peak_bytes);
  g_autofree char *limit = ps_format_size (contest->plan->device[device].limit_bytes);
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
               "%s: device %u needs at least %s for one microbatch, its limit is %s", name, device, need, limit);
  return NULL;
}
