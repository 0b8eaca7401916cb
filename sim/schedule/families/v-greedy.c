/* v-greedy.c - all devices in turn get one B and one F, W fills the gaps that would make the worst device worse. */
#include "v-greedy.h"

typedef struct
{
  PsDraft *draft;
  const PsVSwitches *switches;
  gint64 worst_ns; /* most idle time of the earlier try */
  guint *used;
} Greedy;

static void
put_weights (PsDraft *draft, guint device)
{
  ps_draft_put_at (draft, device, PS_OP_W, ps_draft_next_weights (&draft->device[device]), 0);
}

static gboolean
is_left (const PsDraft *draft, guint device, PsOpKind kind, PsDraftChunk chunk)
{
  return draft->device[device].done[kind][chunk] < draft->n_microbatches;
}

/* TRUE: the device has room for n more forwards of each chunk. */
static gboolean
has_room (PsDraft *draft, guint device, guint n)
{
  gint64 both = draft->device[device].cost[PS_OP_F][PS_NEAR].take_bytes
                + draft->device[device].cost[PS_OP_F][PS_FAR].take_bytes;

  return ps_draft_allows (draft, device, draft->device[device].held_bytes + n * both);
}

/* Microbatch 0 goes down and up; while a device waits for it to come back, microbatches follow as far as its memory
 * goes. */
static void
start_pipeline (PsDraft *draft)
{
  guint p = draft->n_devices;
  gint64 arrival;

  for (guint i = 0; i < p; i++)
    ps_draft_put (draft, i, PS_OP_F, PS_NEAR);
  for (guint i = p; i-- > 0;)
    {
      gint64 duration = draft->device[i].cost[PS_OP_F][PS_NEAR].duration_ns;

      ps_draft_input (draft, i, PS_OP_F, PS_FAR, &arrival);
      while (i + 1 < p && is_left (draft, i, PS_OP_F, PS_NEAR) && draft->device[i].now_ns + duration <= arrival
             && has_room (draft, i, 1 + i))
        for (guint j = 0; j <= i; j++)
          ps_draft_put (draft, j, PS_OP_F, PS_NEAR);
      ps_draft_put (draft, i, PS_OP_F, PS_FAR);
    }
}

static guint
n_forwards (const PsDraft *draft, guint device)
{
  return draft->device[device].done[PS_OP_F][PS_NEAR] + draft->device[device].done[PS_OP_F][PS_FAR];
}

/* TRUE: a device has done less than the one before it. */
static gboolean
is_behind (const PsDraft *draft, guint device)
{
  guint before = draft->device[device - 1].done[PS_OP_F][PS_FAR];

  return n_forwards (draft, device) < n_forwards (draft, device - 1)
         || (draft->device[device].done[PS_OP_F][PS_FAR] <= before && before < draft->n_microbatches);
}

/* One forward of the chunk on every device from `first` on that can. */
static gboolean
put_turn (PsDraft *draft, guint first, PsDraftChunk chunk)
{
  gboolean moved = FALSE;
  gint64 arrival;

  for (guint i = draft->n_devices; i-- > first;)
    if (ps_draft_input (draft, i, PS_OP_F, chunk, &arrival))
      {
        ps_draft_put_at (draft, i, PS_OP_F, chunk, arrival);
        moved = TRUE;
      }
  return moved;
}

/* Forwards of the two chunks in turn, until every device has done as many as the one before it. */
static void
even_out (PsDraft *draft)
{
  guint turn = 0;

  for (guint i = 1; i < draft->n_devices; i++)
    for (guint stuck = 0; stuck < 2 && is_behind (draft, i); turn++)
      stuck = put_turn (draft, i, turn % 2 ? PS_FAR : PS_NEAR) ? 0 : stuck + 1;
}

/* Puts Ws until the op has room. */
static gboolean
make_room (PsDraft *draft, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  const PsDraftDevice *device = &draft->device[index];
  gint64 take = device->cost[kind][chunk].take_bytes;

  while (!ps_draft_allows (draft, index, device->held_bytes + take))
    {
      if (ps_draft_waiting (&draft->device[index]) == 0)
        return FALSE;
      put_weights (draft, index);
    }
  return TRUE;
}

/* Puts Ws that end before the input is there. TRUE: a W is waiting, and the gap that is left would make this device the
 * worst. */
static gboolean
fill_gap (const Greedy *greedy, guint index, gint64 arrival)
{
  PsDraft *draft = greedy->draft;
  const PsDraftDevice *device = &draft->device[index];

  while (ps_draft_waiting (&draft->device[index]) > 0
         && device->now_ns + device->cost[PS_OP_W][ps_draft_next_weights (&draft->device[index])].duration_ns
                <= arrival)
    put_weights (draft, index);
  gint64 allowed = draft->idle_ns;
  if (greedy->switches->idle_ns != NULL)
    allowed = MAX (allowed, greedy->worst_ns - greedy->switches->idle_ns[index]);
  return ps_draft_waiting (&draft->device[index]) > 0 && arrival - device->now_ns > allowed - device->idle_ns;
}

/* The near chunk where its gradient is there: its B gives activations back that were taken first. */
static PsDraftChunk
choose_backward (const PsDraft *draft, guint index)
{
  const PsDraftDevice *device = &draft->device[index];
  gint64 arrival;

  if (device->done[PS_OP_B][PS_NEAR] >= device->done[PS_OP_B][PS_FAR])
    return PS_FAR;
  if (!is_left (draft, index, PS_OP_B, PS_FAR) || ps_draft_input (draft, index, PS_OP_B, PS_NEAR, &arrival))
    return PS_NEAR;
  return PS_FAR;
}

static gboolean
put_backward (const Greedy *greedy, guint index, PsDraftChunk chunk)
{
  PsDraft *draft = greedy->draft;
  gint64 arrival;

  if (!make_room (draft, index, PS_OP_B, chunk) || !ps_draft_input (draft, index, PS_OP_B, chunk, &arrival))
    return FALSE;
  gboolean harm = fill_gap (greedy, index, arrival);
  if (harm && chunk == PS_FAR)
    *greedy->used |= PS_V_USED_BACKWARD;
  if (harm && (chunk == PS_NEAR || greedy->switches->fill_backward))
    put_weights (draft, index);
  ps_draft_put_at (draft, index, PS_OP_B, chunk, arrival);
  return TRUE;
}

/* One B on every device: those of the near chunks from the last device up, then those of the far chunks down. */
static gboolean
put_backwards (const Greedy *greedy, PsDraftChunk *chosen)
{
  guint p = greedy->draft->n_devices;

  for (guint i = 0; i < p; i++)
    chosen[i] = choose_backward (greedy->draft, i);
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
  PsDraft *draft = greedy->draft;
  gint64 arrival;
  PsDraftChunk chunk = ps_draft_input (draft, index, PS_OP_F, PS_FAR, &arrival) ? PS_FAR : PS_NEAR;

  if (chunk == PS_NEAR && !ps_draft_input (draft, index, PS_OP_F, PS_NEAR, &arrival))
    return TRUE;
  if (!make_room (draft, index, PS_OP_F, chunk))
    return FALSE;
  if (fill_gap (greedy, index, arrival))
    {
      *greedy->used |= PS_V_USED_FORWARD;
      if (greedy->switches->fill_forward)
        put_weights (draft, index);
    }
  ps_draft_put_at (draft, index, PS_OP_F, chunk, arrival);
  return TRUE;
}

static gboolean
run_rounds (const Greedy *greedy)
{
  PsDraft *draft = greedy->draft;
  g_autofree PsDraftChunk *chosen = g_new (PsDraftChunk, draft->n_devices);

  for (guint round = 0; round < 2 * draft->n_microbatches; round++)
    {
      if (draft->idle_ns >= greedy->switches->give_up_ns || draft->least_ns > greedy->switches->length_ns
          || !put_backwards (greedy, chosen))
        return FALSE;
      for (guint i = 0; i < draft->n_devices; i++)
        if (!put_forward (greedy, i))
          return FALSE;
    }
  return TRUE;
}

gboolean
ps_v_greedy (PsDraft *draft, const PsVSwitches *switches, guint *used)
{
  Greedy greedy = { .draft = draft, .switches = switches, .used = used };

  for (guint i = 0; switches->idle_ns != NULL && i < draft->n_devices; i++)
    greedy.worst_ns = MAX (greedy.worst_ns, switches->idle_ns[i]);
  ps_draft_clear (draft);
  start_pipeline (draft);
  even_out (draft);
  if (!run_rounds (&greedy))
    return FALSE;
  for (guint i = 0; i < draft->n_devices; i++)
    while (ps_draft_waiting (&draft->device[i]) > 0)
      put_weights (draft, i);
  return TRUE;
}
