/* zb-v-auto.c - the automatic schedule on a V: the best that the heuristic finds with any of its switches at the given
 * costs and memory. A fixed order takes its place where it is better. */
#include "v-block.h"
#include "v-greedy.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("zb-v-auto", setting, error);
}

/* For the span, repeats a try with the idle times of the one before as long as they become shorter. No try ends early
 * then: one that is worse than the best draft may lead to a better one. */
static guint
try_switches (PsContest *contest, guint off)
{
  guint p = contest->draft->n_devices, used = 0;
  gboolean repeat = !contest->draft->by_makespan;
  g_autofree gint64 *idle_ns = g_new (gint64, p);
  PsVSwitches switches = {
    .fill_backward = !(off & PS_V_USED_BACKWARD),
    .fill_forward = !(off & PS_V_USED_FORWARD),
    .give_up_ns = G_MAXINT64,
    .length_ns = repeat ? G_MAXINT64 : ps_contest_limit (contest),
  };

  while (ps_v_greedy (contest->draft, &switches, &used) && contest->draft->idle_ns < switches.give_up_ns)
    {
      switches.give_up_ns = contest->draft->idle_ns;
      switches.idle_ns = idle_ns;
      for (guint i = 0; i < p; i++)
        idle_ns[i] = contest->draft->device[i].idle_ns;
      ps_contest_enter (contest);
      if (!repeat)
        break;
    }
  return used;
}

static void
put_way (PsDraft *draft, PsOpKind kind, PsDraftChunk chunk, gboolean down)
{
  guint p = draft->n_devices;

  for (guint i = 0; i < p; i++)
    {
      guint device = down ? i : p - 1 - i;

      ps_draft_put (draft, device, kind, chunk);
      if (kind == PS_OP_B)
        ps_draft_put (draft, device, PS_OP_W, chunk);
    }
}

/* The draft that needs the least memory. */
static void
try_one_at_a_time (PsContest *contest)
{
  PsDraft *draft = contest->draft;

  ps_draft_clear (draft);
  for (guint i = 0; i < draft->n_microbatches; i++)
    {
      put_way (draft, PS_OP_F, PS_NEAR, TRUE);
      put_way (draft, PS_OP_F, PS_FAR, FALSE);
      put_way (draft, PS_OP_B, PS_FAR, TRUE);
      put_way (draft, PS_OP_B, PS_NEAR, FALSE);
    }
  ps_contest_enter (contest);
}

static PsSchedule *
generate_v_min (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  return ps_v_min_generate (setting, FALSE);
}

static PsSchedule *
generate_eager_v_min (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  return ps_v_min_generate (setting, TRUE);
}

/* The published limit without a given one is that of 1F1B, p activations. It is tried first, so that more memory is
 * taken only where it helps. */
static void
try_published (PsContest *contest, const PsFamilySetting *setting)
{
  gboolean eager = ps_v_min_is_eager (setting->n_devices);

  ps_contest_limit_activations (contest, setting->n_devices);
  ps_contest_enter_heuristic (contest, 2, try_switches);
  ps_contest_limit_activations (contest, 0);
  if (setting->memory_limit == NULL && !ps_contest_is_over (contest))
    ps_contest_enter_heuristic (contest, 2, try_switches);
  ps_contest_enter_order (contest, ps_family_zb_v.generate);
  if (ps_contest_is_over (contest))
    return;
  ps_contest_enter_order (contest, ps_family_1f1b_v.generate);
  ps_contest_enter_order (contest, ps_family_v_half.generate);
  ps_contest_enter_order (contest, eager ? generate_v_min : ps_family_v_min.generate);
  ps_contest_enter_order (contest, eager ? ps_family_v_min.generate : generate_eager_v_min);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  g_auto (PsContest) contest = { 0 };

  ps_contest_init (&contest, setting);
  ps_contest_look_ahead (&contest);
  try_published (&contest, setting);
  ps_contest_enter_lists (&contest);
  if (!contest.found)
    try_one_at_a_time (&contest);
  while (ps_contest_lower (&contest))
    {
      ps_contest_enter_heuristic (&contest, 2, try_switches);
      ps_contest_enter_lists (&contest);
    }
  return ps_contest_end (&contest, "zb-v-auto", error);
}

const PsFamily ps_family_zb_v_auto = {
  .name = "zb-v-auto",
  .description = "split backwards on a V, ordered for the given costs within the memory limit",
  .constraints = "v = 2, one microbatch fits the memory limit",
  .memory = "what the limit allows; without one at most m",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 6",
  .default_chunks = 2,
  .uses_costs = TRUE,
  .check = check,
  .generate = generate,
};
