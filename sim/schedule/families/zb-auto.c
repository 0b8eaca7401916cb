/* zb-auto.c - the automatic schedule of the zero-bubble paper: the best that its heuristic finds with any of its
 * switches at the given costs and memory. ZB-H1 or ZB-H2 takes its place where it is better. */
#include "zb-greedy.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("zb-auto", setting, error);
}

static guint
try_switches (PsContest *contest, guint off)
{
  const PsZbSwitches switches = {
    .bubble_before_backward = !(off & PS_ZB_USED_WARMUP),
    .backward_first = !(off & PS_ZB_USED_BACKWARD),
    .fill_gaps = !(off & PS_ZB_USED_GAPS),
  };
  guint used = 0;

  if (ps_zb_greedy (contest->draft, switches, ps_contest_limit (contest), &used))
    ps_contest_enter (contest);
  return used;
}

static PsWalk
one_at_a_time (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .split = TRUE };
}

static PsSchedule *
generate_one_at_a_time (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  return ps_family_walk ("zb-auto", setting, one_at_a_time);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  g_auto (PsContest) contest = { 0 };

  ps_contest_init (&contest, setting);
  ps_contest_enter_heuristic (&contest, 3, try_switches);
  ps_contest_enter_order (&contest, ps_family_zb_h1.generate);
  ps_contest_enter_order (&contest, ps_family_zb_h2.generate);
  ps_contest_enter_lists (&contest);
  if (!contest.found)
    ps_contest_enter_order (&contest, generate_one_at_a_time);
  while (ps_contest_lower (&contest))
    {
      ps_contest_enter_heuristic (&contest, 3, try_switches);
      ps_contest_enter_lists (&contest);
    }
  return ps_contest_end (&contest, "zb-auto", error);
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
