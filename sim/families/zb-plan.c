/* zb-plan.c - putting ops into a plan and reading off its times, memory and order. */
#include "zb-plan.h"

static void
set_costs (PsPlanStage *stage, const PsCosts *costs, guint index)
{
  for (guint kind = 0; kind < PS_PLAN_KINDS; kind++)
    {
      const PsOpCost *cost = ps_costs_op (costs, (PsOpKind)kind, index);
      stage->duration_ns[kind] = cost->duration_ns;
      stage->take_bytes[kind] = cost->take_bytes;
      stage->give_bytes[kind] = cost->give_bytes;
    }
  stage->forward_ns = costs->transfer_ns[ps_transfer_forward (costs, index)];
  stage->backward_ns = costs->transfer_ns[ps_transfer_backward (costs, index)];
  stage->weight_bytes = ps_costs_held_bytes (costs, index, 1);
}

static void
set_unit_costs (PsPlanStage *stage)
{
  for (guint kind = 0; kind < PS_PLAN_KINDS; kind++)
    stage->duration_ns[kind] = 1;
  stage->take_bytes[PS_OP_F] = stage->give_bytes[PS_OP_W] = 1;
}

PsPlan *
ps_plan_new (const PsFamilySetting *setting)
{
  PsPlan *plan = g_new0 (PsPlan, 1);
  guint m = plan->n_microbatches = setting->n_microbatches;
  plan->n_stages = setting->n_devices;
  plan->stage = g_new0 (PsPlanStage, plan->n_stages);
  for (guint i = 0; i < plan->n_stages; i++)
    {
      PsPlanStage *stage = &plan->stage[i];
      if (setting->costs)
        set_costs (stage, setting->costs, i);
      else
        set_unit_costs (stage);
      stage->limit_bytes = setting->memory_limit ? setting->memory_limit[i] : G_MAXINT64;
      stage->kinds = g_new (guint8, (gsize)PS_PLAN_KINDS * m);
      for (guint kind = 0; kind < 2; kind++)
        stage->end_ns[kind] = g_new (gint64, m);
    }
  ps_plan_clear (plan);
  return plan;
}

void
ps_plan_free (PsPlan *plan)
{
  if (!plan)
    return;
  for (guint i = 0; i < plan->n_stages; i++)
    {
      g_free (plan->stage[i].kinds);
      g_free (plan->stage[i].end_ns[0]);
      g_free (plan->stage[i].end_ns[1]);
    }
  g_free (plan->stage);
  g_free (plan);
}

void
ps_plan_clear (PsPlan *plan)
{
  plan->idle_ns = 0;
  for (guint i = 0; i < plan->n_stages; i++)
    {
      PsPlanStage *stage = &plan->stage[i];
      stage->now_ns = stage->start_ns = stage->idle_ns = 0;
      stage->held_bytes = stage->peak_bytes = stage->weight_bytes;
      for (guint kind = 0; kind < PS_PLAN_KINDS; kind++)
        stage->done[kind] = 0;
    }
}

gint64
ps_plan_arrival (const PsPlan *plan, guint stage, PsOpKind kind)
{
  const PsPlanStage *own = &plan->stage[stage];
  if (kind == PS_OP_F && stage > 0)
    return own[-1].end_ns[PS_OP_F][own->done[kind]] + own[-1].forward_ns;
  if (kind == PS_OP_B && stage + 1 < plan->n_stages)
    return own[1].end_ns[PS_OP_B][own->done[kind]] + own[1].backward_ns;
  return 0;
}

static guint
n_put (const PsPlanStage *stage)
{
  return stage->done[PS_OP_F] + stage->done[PS_OP_B] + stage->done[PS_OP_W];
}

void
ps_plan_put (PsPlan *plan, guint index, PsOpKind kind)
{
  PsPlanStage *stage = &plan->stage[index];
  guint n = n_put (stage);
  gint64 start = MAX (stage->now_ns, ps_plan_arrival (plan, index, kind));
  if (n == 0)
    stage->start_ns = start;
  else
    stage->idle_ns += start - stage->now_ns;
  plan->idle_ns = MAX (plan->idle_ns, stage->idle_ns);
  stage->now_ns = start + stage->duration_ns[kind];
  if (kind != PS_OP_W)
    stage->end_ns[kind][stage->done[kind]] = stage->now_ns;
  stage->held_bytes += stage->take_bytes[kind];
  stage->peak_bytes = MAX (stage->peak_bytes, stage->held_bytes);
  stage->held_bytes -= stage->give_bytes[kind];
  stage->kinds[n] = (guint8)kind;
  stage->done[kind]++;
}

gboolean
ps_plan_has_room (const PsPlanStage *stage, gint64 held_bytes)
{
  const gint64 *take = stage->take_bytes, *give = stage->give_bytes;
  gint64 after
      = take[PS_OP_F] - give[PS_OP_F] + MAX (take[PS_OP_B], MAX (0, take[PS_OP_B] - give[PS_OP_B]) + take[PS_OP_W]);
  return held_bytes <= stage->limit_bytes - MAX (take[PS_OP_F], after);
}

/* The kinds of one stage as loop-walk.c orders them. */
static void
write_walk (PsPlanStage *stage, guint m, PsWalk walk)
{
  guint8 *kind = stage->kinds;
  guint warmup = MIN (m, walk.warmup), delay = MIN (m, walk.delay);
  for (guint i = 0; i < warmup; i++)
    *kind++ = PS_OP_F;
  for (guint i = 0; i < m; i++)
    {
      if (warmup + i < m)
        *kind++ = PS_OP_F;
      *kind++ = PS_OP_B;
      if (i >= delay)
        *kind++ = PS_OP_W;
    }
  for (guint i = 0; i < delay; i++)
    *kind++ = PS_OP_W;
}

/* Puts the ops of a stage, as its kinds say, until one has to wait for a neighbour. */
static void
play (PsPlan *plan, guint index)
{
  PsPlanStage *stage = &plan->stage[index];
  for (guint n = n_put (stage); n < PS_PLAN_KINDS * plan->n_microbatches; n++)
    {
      PsOpKind kind = (PsOpKind)stage->kinds[n];
      if ((kind == PS_OP_F && index > 0 && stage[-1].done[kind] == stage->done[kind])
          || (kind == PS_OP_B && index + 1 < plan->n_stages && stage[1].done[kind] == stage->done[kind]))
        return;
      ps_plan_put (plan, index, kind);
    }
}

void
ps_plan_walk (PsPlan *plan, const PsFamilySetting *setting, PsWalk (*rule) (const PsFamilySetting *, guint))
{
  ps_plan_clear (plan);
  for (guint i = 0; i < plan->n_stages; i++)
    write_walk (&plan->stage[i], plan->n_microbatches, rule (setting, i));
  while (n_put (&plan->stage[0]) < PS_PLAN_KINDS * plan->n_microbatches)
    {
      for (guint i = 0; i < plan->n_stages; i++)
        play (plan, i);
      for (guint i = plan->n_stages; i-- > 0;)
        play (plan, i);
    }
}

gint64
ps_plan_span (const PsPlan *plan)
{
  gint64 span = 0;
  for (guint i = 0; i < plan->n_stages; i++)
    span = MAX (span, plan->stage[i].now_ns - plan->stage[i].start_ns);
  return span;
}

gint64
ps_plan_makespan (const PsPlan *plan)
{
  gint64 end = 0;
  for (guint i = 0; i < plan->n_stages; i++)
    end = MAX (end, plan->stage[i].now_ns);
  return end;
}

gboolean
ps_plan_fits (const PsPlan *plan, guint *stage)
{
  for (*stage = 0; *stage < plan->n_stages; ++*stage)
    if (plan->stage[*stage].peak_bytes > plan->stage[*stage].limit_bytes)
      return FALSE;
  return TRUE;
}

PsSchedule *
ps_plan_schedule (const PsPlan *plan, const char *name, const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder (name, PS_PLACEMENT_LOOP, setting);
  for (guint i = 0; i < plan->n_stages; i++)
    {
      guint done[PS_PLAN_KINDS] = { 0 };
      for (guint n = 0; n < PS_PLAN_KINDS * plan->n_microbatches; n++)
        {
          PsOpKind kind = (PsOpKind)plan->stage[i].kinds[n];
          ps_schedule_builder_add (builder, kind, i, done[kind]++);
        }
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}
