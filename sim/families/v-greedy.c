/* v-greedy.c - all devices in turn get one B and one F, W fills the gaps that would make the worst device worse. */
#include "v-greedy.h"

typedef struct
{
  PsPlan *plan;
  const PsVSwitches *switches;
  gint64 worst_ns; /* most idle time of the earlier try */
  guint *used;
} Greedy;

static void
put_weights (PsPlan *plan, guint device)
{
  ps_plan_put_at (plan, device, PS_OP_W, ps_plan_next_weights (plan, device), 0);
}

static gboolean
is_left (const PsPlan *plan, guint device, PsOpKind kind, PsPlanChunk chunk)
{
  return plan->device[device].done[kind][chunk] < plan->n_microbatches;
}

/* Whether device has room for so many more forwards of each chunk. */
static gboolean
has_room (PsPlan *plan, guint device, guint n)
{
  gint64 both
      = plan->device[device].cost[PS_OP_F][PS_NEAR].take_bytes + plan->device[device].cost[PS_OP_F][PS_FAR].take_bytes;
  return ps_plan_allows (plan, device, plan->device[device].held_bytes + n * both);
}

/* Microbatch 0 goes down and up; while a device waits for it to come back, microbatches follow as far as its memory
 * goes. */
static void
start_pipeline (PsPlan *plan)
{
  guint p = plan->n_devices;
  gint64 arrival;
  for (guint i = 0; i < p; i++)
    ps_plan_put (plan, i, PS_OP_F, PS_NEAR);
  for (guint i = p; i-- > 0;)
    {
      gint64 duration = plan->device[i].cost[PS_OP_F][PS_NEAR].duration_ns;
      ps_plan_input (plan, i, PS_OP_F, PS_FAR, &arrival);
      while (i + 1 < p && is_left (plan, i, PS_OP_F, PS_NEAR) && plan->device[i].now_ns + duration <= arrival
             && has_room (plan, i, 1 + i))
        for (guint j = 0; j <= i; j++)
          ps_plan_put (plan, j, PS_OP_F, PS_NEAR);
      ps_plan_put (plan, i, PS_OP_F, PS_FAR);
    }
}

static guint
n_forwards (const PsPlan *plan, guint device)
{
  return plan->device[device].done[PS_OP_F][PS_NEAR] + plan->device[device].done[PS_OP_F][PS_FAR];
}

/* Whether a device has done less than the one in front of it. */
static gboolean
is_behind (const PsPlan *plan, guint device)
{
  guint before = plan->device[device - 1].done[PS_OP_F][PS_FAR];
  return n_forwards (plan, device) < n_forwards (plan, device - 1)
         || (plan->device[device].done[PS_OP_F][PS_FAR] <= before && before < plan->n_microbatches);
}

/* One forward of the chunk on every device from `first` on that can. */
static gboolean
put_turn (PsPlan *plan, guint first, PsPlanChunk chunk)
{
  gboolean moved = FALSE;
  gint64 arrival;
  for (guint i = plan->n_devices; i-- > first;)
    if (ps_plan_input (plan, i, PS_OP_F, chunk, &arrival))
      {
        ps_plan_put_at (plan, i, PS_OP_F, chunk, arrival);
        moved = TRUE;
      }
  return moved;
}

/* Forwards of the two chunks in turn, until every device has done as many as the one in front of it. */
static void
even_out (PsPlan *plan)
{
  guint turn = 0;
  for (guint i = 1; i < plan->n_devices; i++)
    for (guint stuck = 0; stuck < 2 && is_behind (plan, i); turn++)
      stuck = put_turn (plan, i, turn % 2 ? PS_FAR : PS_NEAR) ? 0 : stuck + 1;
}

/* Ws until the op has room. */
static gboolean
make_room (PsPlan *plan, guint index, PsOpKind kind, PsPlanChunk chunk)
{
  const PsPlanDevice *device = &plan->device[index];
  gint64 take = device->cost[kind][chunk].take_bytes;
  while (!ps_plan_allows (plan, index, device->held_bytes + take))
    {
      if (ps_plan_waiting (plan, index) == 0)
        return FALSE;
      put_weights (plan, index);
    }
  return TRUE;
}

/* Ws that end before the input is there. Returns whether the gap that is left would make the device the worst although
 * a W is waiting. */
static gboolean
fill_gap (const Greedy *greedy, guint index, gint64 arrival)
{
  PsPlan *plan = greedy->plan;
  const PsPlanDevice *device = &plan->device[index];
  while (ps_plan_waiting (plan, index) > 0
         && device->now_ns + device->cost[PS_OP_W][ps_plan_next_weights (plan, index)].duration_ns <= arrival)
    put_weights (plan, index);
  gint64 allowed = plan->idle_ns;
  if (greedy->switches->idle_ns)
    allowed = MAX (allowed, greedy->worst_ns - greedy->switches->idle_ns[index]);
  return ps_plan_waiting (plan, index) > 0 && arrival - device->now_ns > allowed - device->idle_ns;
}

/* The near chunk where its gradient is there: its B gives activations back that were taken first. */
static PsPlanChunk
choose_backward (const PsPlan *plan, guint index)
{
  const PsPlanDevice *device = &plan->device[index];
  gint64 arrival;
  if (device->done[PS_OP_B][PS_NEAR] >= device->done[PS_OP_B][PS_FAR])
    return PS_FAR;
  if (!is_left (plan, index, PS_OP_B, PS_FAR) || ps_plan_input (plan, index, PS_OP_B, PS_NEAR, &arrival))
    return PS_NEAR;
  return PS_FAR;
}

static gboolean
put_backward (const Greedy *greedy, guint index, PsPlanChunk chunk)
{
  PsPlan *plan = greedy->plan;
  gint64 arrival;
  if (!make_room (plan, index, PS_OP_B, chunk) || !ps_plan_input (plan, index, PS_OP_B, chunk, &arrival))
    return FALSE;
  gboolean harm = fill_gap (greedy, index, arrival);
  if (harm && chunk == PS_FAR)
    *greedy->used |= PS_V_USED_BACKWARD;
  if (harm && (chunk == PS_NEAR || greedy->switches->fill_backward))
    put_weights (plan, index);
  ps_plan_put_at (plan, index, PS_OP_B, chunk, arrival);
  return TRUE;
}

/* One B on every device: those of the near chunks from the last device up, then those of the far chunks down. */
static gboolean
put_backwards (const Greedy *greedy, PsPlanChunk *chosen)
{
  guint p = greedy->plan->n_devices;
  for (guint i = 0; i < p; i++)
    chosen[i] = choose_backward (greedy->plan, i);
  for (guint i = p; i-- > 0;)
    if (chosen[i] == PS_NEAR && !put_backward (greedy, i, PS_NEAR))
      return FALSE;
  for (guint i = 0; i < p; i++)
    if (chosen[i] == PS_FAR && !put_backward (greedy, i, PS_FAR))
      return FALSE;
  return TRUE;
}

static gboolean
put_forward (const Greedy *greedy, guint index)
{
  PsPlan *plan = greedy->plan;
  gint64 arrival;
  PsPlanChunk chunk = ps_plan_input (plan, index, PS_OP_F, PS_FAR, &arrival) ? PS_FAR : PS_NEAR;
  if (chunk == PS_NEAR && !ps_plan_input (plan, index, PS_OP_F, PS_NEAR, &arrival))
    return TRUE;
  if (!make_room (plan, index, PS_OP_F, chunk))
    return FALSE;
  if (fill_gap (greedy, index, arrival))
    {
      *greedy->used |= PS_V_USED_FORWARD;
      if (greedy->switches->fill_forward)
        put_weights (plan, index);
    }
  ps_plan_put_at (plan, index, PS_OP_F, chunk, arrival);
  return TRUE;
}

static gboolean
run_rounds (const Greedy *greedy)
{
  PsPlan *plan = greedy->plan;
  g_autofree PsPlanChunk *chosen = g_new (PsPlanChunk, plan->n_devices);
  for (guint round = 0; round < 2 * plan->n_microbatches; round++)
    {
      if (plan->idle_ns >= greedy->switches->give_up_ns || ps_plan_outlasts (plan, greedy->switches->length_ns)
          || !put_backwards (greedy, chosen))
        return FALSE;
      for (guint i = 0; i < plan->n_devices; i++)
        if (!put_forward (greedy, i))
          return FALSE;
    }
  return TRUE;
}

gboolean
ps_v_greedy (PsPlan *plan, const PsVSwitches *switches, guint *used)
{
  Greedy greedy = { .plan = plan, .switches = switches, .used = used };
  for (guint i = 0; switches->idle_ns && i < plan->n_devices; i++)
    greedy.worst_ns = MAX (greedy.worst_ns, switches->idle_ns[i]);
  ps_plan_clear (plan);
  start_pipeline (plan);
  even_out (plan);
  if (!run_rounds (&greedy))
    return FALSE;
  for (guint i = 0; i < plan->n_devices; i++)
    while (ps_plan_waiting (plan, i) > 0)
      put_weights (plan, i);
  return TRUE;
}
