/* zb-greedy.c - the heuristic of the zero-bubble paper: a warm-up as deep as time and memory allow, then in rounds one
 * F and one B per stage; Ws go where memory demands them and where a stage would wait anyway, as long as the longest
 * idle time does not grow. */
#include "zb-greedy.h"

typedef struct
{
  PsPlan *plan;
  PsZbSwitches switches;
  guint8 *wanted; /* [n_stages] the stage runs an F in this round */
  guint *extra;   /* [n_stages] forwards of the warm-up after the first */
} Greedy;

/* Forwards after the first that a stage can run before its first B arrives. */
static guint
count_extra (const Greedy *greedy, const PsPlanStage *stage, gint64 arrival, gint64 *now)
{
  gint64 held = stage->held_bytes, duration = stage->duration_ns[PS_OP_F];
  guint extra = 0;
  *now = stage->now_ns;
  while (stage->done[PS_OP_F] + extra < greedy->plan->n_microbatches && ps_plan_has_room (stage, held)
         && (greedy->switches.bubble_before_backward ? *now + duration <= arrival : *now < arrival))
    {
      *now += duration;
      held += stage->take_bytes[PS_OP_F] - stage->give_bytes[PS_OP_F];
      extra++;
    }
  return extra;
}

/* From the last stage on. Then every stage is made to keep one more in flight than the next one, while forwards are
 * left. */
static void
plan_warmup (const Greedy *greedy)
{
  const PsPlan *plan = greedy->plan;
  guint last = plan->n_stages - 1, *extra = greedy->extra;
  gint64 backward = plan->stage[last].now_ns + plan->stage[last].duration_ns[PS_OP_B], now;
  extra[last] = 0;
  for (guint i = last; i-- > 0;)
    {
      gint64 arrival = backward + plan->stage[i + 1].backward_ns;
      extra[i] = count_extra (greedy, &plan->stage[i], arrival, &now);
      backward = MAX (now, arrival) + plan->stage[i].duration_ns[PS_OP_B];
    }
  for (guint i = 1; i <= last; i++)
    {
      extra[i] = MIN (extra[i], extra[i - 1]);
      if (extra[i] > 0 && extra[i] == extra[i - 1] && extra[i] + 1 < plan->n_microbatches)
        extra[i]--;
    }
}

static void
warm_up (const Greedy *greedy)
{
  PsPlan *plan = greedy->plan;
  for (guint i = 0; i < plan->n_stages; i++)
    ps_plan_put (plan, i, PS_OP_F);
  plan_warmup (greedy);
  for (guint i = 0; i < plan->n_stages; i++)
    for (guint n = 0; n < greedy->extra[i]; n++)
      ps_plan_put (plan, i, PS_OP_F);
  for (guint i = plan->n_stages; i-- > 0;)
    ps_plan_put (plan, i, PS_OP_B);
}

/* How long the Ws take that must go before an F has room. */
static gint64
forced_weights (const PsPlanStage *stage)
{
  gint64 held = stage->held_bytes, time = 0;
  for (guint pending = ps_plan_pending (stage); pending > 0 && !ps_plan_has_room (stage, held); pending--)
    {
      held += stage->take_bytes[PS_OP_W] - stage->give_bytes[PS_OP_W];
      time += stage->duration_ns[PS_OP_W];
    }
  return time;
}

/* A stage well ahead of the next one runs its F only if it is done before that stage's next B can come, or if waiting
 * for the B would leave the longest idle time as it is. */
static gboolean
wants_forward (const Greedy *greedy, guint index)
{
  const PsPlan *plan = greedy->plan;
  const PsPlanStage *stage = &plan->stage[index], *next = stage + 1;
  if (stage->done[PS_OP_F] == plan->n_microbatches)
    return FALSE;
  if (!greedy->switches.backward_first || index + 1 == plan->n_stages || stage->done[PS_OP_F] < next->done[PS_OP_F] + 2)
    return TRUE;
  gint64 arrival = next->now_ns + next->duration_ns[PS_OP_F] + next->duration_ns[PS_OP_B] + next->backward_ns;
  if (stage->now_ns >= arrival)
    return FALSE;
  if (stage->now_ns + stage->duration_ns[PS_OP_F] + forced_weights (stage) <= arrival)
    return TRUE;
  return arrival - stage->now_ns > plan->idle_ns - stage->idle_ns;
}

/* Ws that are done before the arrival cost nothing. One more delays the next op, but saves the stage a gap: so it goes
 * where that gap would become the longest idle time. */
static void
fill_gap (const Greedy *greedy, guint index, PsOpKind kind)
{
  PsPlan *plan = greedy->plan;
  const PsPlanStage *stage = &plan->stage[index];
  gint64 arrival = ps_plan_arrival (plan, index, kind);
  while (ps_plan_pending (stage) > 0 && stage->now_ns + stage->duration_ns[PS_OP_W] <= arrival)
    ps_plan_put (plan, index, PS_OP_W);
  gint64 gap = arrival - stage->now_ns;
  if (gap > 0 && ps_plan_pending (stage) > 0 && (greedy->switches.fill_gaps || gap > plan->idle_ns - stage->idle_ns))
    ps_plan_put (plan, index, PS_OP_W);
}

static void
drain (const Greedy *greedy, guint index)
{
  while (ps_plan_pending (&greedy->plan->stage[index]) > 0)
    ps_plan_put (greedy->plan, index, PS_OP_W);
}

static void
put_forward (const Greedy *greedy, guint index)
{
  const PsPlanStage *stage = &greedy->plan->stage[index];
  while (!ps_plan_has_room (stage, stage->held_bytes) && ps_plan_pending (stage) > 0)
    ps_plan_put (greedy->plan, index, PS_OP_W);
  fill_gap (greedy, index, PS_OP_F);
  ps_plan_put (greedy->plan, index, PS_OP_F);
}

/* Stage 0 with no forward left has nobody to hand a gradient to, so nothing is lost by its Ws. */
static void
put_backward (const Greedy *greedy, guint index)
{
  if (index == 0 && greedy->plan->stage[0].done[PS_OP_F] == greedy->plan->n_microbatches)
    drain (greedy, index);
  fill_gap (greedy, index, PS_OP_B);
  ps_plan_put (greedy->plan, index, PS_OP_B);
}

/* One F where it is wanted, one B everywhere. A stage that skips its F makes those before it skip theirs. */
static void
run_round (const Greedy *greedy)
{
  guint n = greedy->plan->n_stages;
  for (guint i = n; i-- > 0;)
    greedy->wanted[i] = wants_forward (greedy, i) && (i + 1 == n || greedy->wanted[i + 1]);
  for (guint i = 0; i < n; i++)
    if (greedy->wanted[i])
      put_forward (greedy, i);
  for (guint i = n; i-- > 0;)
    put_backward (greedy, i);
}

void
ps_zb_greedy (PsPlan *plan, PsZbSwitches switches)
{
  g_autofree guint8 *wanted = g_new (guint8, plan->n_stages);
  g_autofree guint *extra = g_new (guint, plan->n_stages);
  Greedy greedy = { plan, switches, wanted, extra };
  ps_plan_clear (plan);
  warm_up (&greedy);
  for (guint i = 1; i < plan->n_microbatches; i++)
    run_round (&greedy);
  for (guint i = 0; i < plan->n_stages; i++)
    drain (&greedy, i);
}
