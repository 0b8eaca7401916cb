/* observed-memory.c - the bytes that ops take and give back, from the memory curves of measured timelines. */
#include <pipesim/observe.h>

/* Goes along the curve of one device. */
typedef struct
{
  const GArray *points;
  guint next;   /* the first point that was not passed */
  gint64 level; /* the bytes held before it */
} Curve;

static const PsMemoryPoint *
next_point (const Curve *curve, guint device)
{
  const PsMemoryPoint *point
      = curve->next < curve->points->len ? &g_array_index (curve->points, PsMemoryPoint, curve->next) : NULL;

  return point != NULL && point->device == device ? point : NULL;
}

/* Passes the points up to that instant; returns the highest level until then. */
static gint64
pass (Curve *curve, guint device, gint64 until_ns)
{
  gint64 highest = curve->level;
  const PsMemoryPoint *point;

  while ((point = next_point (curve, device)) != NULL && point->time_ns <= until_ns)
    {
      curve->level = point->bytes;
      highest = MAX (highest, point->bytes);
      curve->next++;
    }
  return highest;
}

static void
observe_op (PsObserved *observed, const PsSpan *span, Curve *curve)
{
  guint i = span->op.kind * observed->n_stages + span->op.stage;
  gint64 before = curve->level, peak = pass (curve, span->device, span->end_ns);
  gint64 take = peak - before, give = peak - curve->level;

  if (span->op.paired)
    return;
  g_array_append_val (observed->take[i], take);
  g_array_append_val (observed->give[i], give);
}

static guint
count_chunks (const GArray *ops, guint first)
{
  guint n = 0;

  for (guint i = first; i < ops->len; i++)
    if (g_array_index (ops, PsSpan, i).device == g_array_index (ops, PsSpan, first).device)
      n = MAX (n, g_array_index (ops, PsSpan, i).chunk + 1U);
  return n;
}

/* Until the first op a device holds its stages' weights, gradients and optimizer state, in equal parts. */
static void
observe_state (PsObserved *observed, const GArray *ops, guint first, gint64 bytes)
{
  gint64 part = bytes / count_chunks (ops, first);

  for (guint i = first;
       i < ops->len && g_array_index (ops, PsSpan, i).device == g_array_index (ops, PsSpan, first).device; i++)
    g_array_append_val (observed->state[g_array_index (ops, PsSpan, i).op.stage], part);
}

/* Skips the points of other devices before those of this one. */
static void
find_device (Curve *curve, guint device)
{
  while (curve->next < curve->points->len && g_array_index (curve->points, PsMemoryPoint, curve->next).device < device)
    curve->next++;
  curve->level = 0;
  if (next_point (curve, device) != NULL)
    curve->level = g_array_index (curve->points, PsMemoryPoint, curve->next++).bytes;
}

void
ps_observed_add_memory (PsObserved *observed, const PsTimeline *timeline)
{
  const GArray *ops = timeline->ops;
  Curve curve = { .points = timeline->memory };

  if (timeline->origin != PS_ORIGIN_MEASURED || timeline->memory->len == 0)
    return;
  for (guint i = 0; i < ops->len; i++)
    {
      const PsSpan *span = &g_array_index (ops, PsSpan, i);

      if (i == 0 || span[-1].device != span->device)
        {
          find_device (&curve, span->device);
          observe_state (observed, ops, i, curve.level);
        }
      observe_op (observed, span, &curve);
    }
}

static gint64
median_of (const GArray *samples)
{
  g_autofree gint64 *values = g_memdup2 (samples->data, samples->len * sizeof *values);

  return samples->len > 0 ? ps_median (values, samples->len) : 0;
}

/* Ops that no run has: a whole backward gives back what its parts do; W gives back all that a whole backward does. */
static void
fill_missing (const PsObserved *observed, PsCosts *costs, guint stage)
{
  PsOpCost *b = ps_costs_op (costs, PS_OP_B, stage), *w = ps_costs_op (costs, PS_OP_W, stage);
  PsOpCost *whole = ps_costs_op (costs, PS_OP_BW, stage), *f = ps_costs_op (costs, PS_OP_F, stage);
  guint n = observed->n_stages;

  if (observed->take[PS_OP_BW * n + stage]->len == 0)
    {
      whole->take_bytes = b->take_bytes;
      whole->give_bytes = b->give_bytes + w->give_bytes;
    }
  else if (observed->take[PS_OP_W * n + stage]->len == 0)
    *w = (PsOpCost){ w->duration_ns, whole->take_bytes, whole->give_bytes };
  *ps_costs_op (costs, PS_OP_R, stage)
      = (PsOpCost){ ps_costs_op (costs, PS_OP_R, stage)->duration_ns, f->take_bytes, f->give_bytes };
}

void
ps_observed_fill_memory (const PsObserved *observed, PsCosts *costs)
{
  for (guint stage = 0; stage < observed->n_stages; stage++)
    {
      if (observed->state[stage]->len == 0)
        continue;
      costs->stage[stage].weight_bytes = median_of (observed->state[stage]);
      for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
        {
          guint i = kind * observed->n_stages + stage;

          ps_costs_op (costs, (PsOpKind)kind, stage)->take_bytes = median_of (observed->take[i]);
          ps_costs_op (costs, (PsOpKind)kind, stage)->give_bytes = median_of (observed->give[i]);
        }
      fill_missing (observed, costs, stage);
    }
}
