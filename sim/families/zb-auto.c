/* zb-auto.c - the automatic schedule of the zero-bubble paper: the best that its heuristic finds with any of its
 * switches, or ZB-H1 or ZB-H2 where one of them is better still, at the given costs and memory. */
#include "zb-greedy.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("zb-auto", setting, error);
}

static void
try_heuristic (PsContest *contest)
{
  for (guint i = 0; i < 8; i++)
    {
      ps_zb_greedy (contest->plan, (PsZbSwitches){
                                       .bubble_before_backward = !(i & 4),
                                       .backward_first = !(i & 2),
                                       .fill_gaps = !(i & 1),
                                   });
      ps_contest_enter (contest, FALSE);
    }
}

static PsWalk
one_at_a_time (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .split = TRUE };
}

static void
try_walk (PsContest *contest, const PsFamilySetting *setting, PsWalk (*rule) (const PsFamilySetting *, guint))
{
  g_autoptr (PsSchedule) schedule = ps_family_walk ("zb-auto", setting, rule);
  ps_contest_enter_schedule (contest, schedule);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  g_auto (PsContest) contest = { 0 };
  ps_contest_init (&contest, setting, 0);
  try_heuristic (&contest);
  try_walk (&contest, setting, ps_family_zb_h1_rule);
  try_walk (&contest, setting, ps_family_zb_h2_rule);
  if (!contest.found)
    try_walk (&contest, setting, one_at_a_time);
  return ps_contest_end (&contest, "zb-auto", setting, error);
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
