/* windows.c - windows of ops, and what refutes a target. */
#include "windows-private.h"

#include <string.h>

/* Passes over a device for one target, at most; later ones gain little. */
#define MAX_ROUNDS 60

/* Most windows that a trail keeps. */
#define MAX_TRAIL 4000000

/* Ops times devices, at most, for which spans have heads by work and memory: they differ from device to device. */
#define MAX_SPAN_HEADS 500000

/* Lowest stage of the device: its first op is that stage's first forward. */
static guint
lowest_stage (const PsProblem *problem, guint device)
{
  return problem->stages[problem->first_stage[device]];
}

void
ps_windows_open (PsWindows *windows, guint span_of, gint64 target)
{
  const PsProblem *problem = windows->problem;
  gboolean spans = span_of < problem->n_devices;
  guint base = spans ? lowest_stage (problem, span_of) : 0;

  if (windows->head != NULL && windows->heads_of != span_of)
    ps_windows_heads (problem, base, windows->head);
  windows->heads_of = span_of;
  windows->span_of = span_of;
  windows->is_new = TRUE;
  windows->target = target;
  windows->mark = 0;
  if (windows->trail != NULL)
    {
      g_array_set_size (windows->trail, 0);
      memset (windows->noted, 0, problem->n_ops * sizeof *windows->noted);
    }
  for (guint d = 0; d < problem->n_devices && windows->states != NULL; d++)
    {
      windows->n_fixed[d] = 0;
      windows->touched[d] = TRUE;
      if (windows->states[d] == NULL)
        continue;
      windows->states[d]->from = 0;
      ps_states_open (windows->states[d]);
    }
  for (guint i = 0; i < problem->n_ops; i++)
    {
      windows->start[i] = spans && chain_of (problem, i) / N_KINDS < base ? -NEVER : 0;
      if (windows->head != NULL)
        windows->start[i] = windows->head[i];
      windows->end[i] = ps_windows_counts (windows, device_of (problem, i)) ? target : NEVER;
    }
}

/* Puts the window of an op into the trail, unless it is there since the last mark. */
static void
note (PsWindows *windows, guint op)
{
  const PsWindowBefore before = { op, windows->start[op], windows->end[op] };

  if (windows->noted[op] == windows->mark)
    return;
  windows->noted[op] = windows->mark;
  g_array_append_val (windows->trail, before);
}

void
ps_windows_limit (PsWindows *windows, guint op, gint64 start, gint64 end)
{
  if (start <= windows->start[op] && end >= windows->end[op])
    return;
  if (windows->mark > 0)
    note (windows, op);
  windows->start[op] = MAX (windows->start[op], start);
  windows->end[op] = MIN (windows->end[op], end);
  if (windows->touched != NULL)
    windows->touched[device_of (windows->problem, op)] = TRUE;
}

guint
ps_windows_mark (PsWindows *windows)
{
  windows->mark++;
  return windows->trail->len;
}

void
ps_windows_undo (PsWindows *windows, guint place)
{
  while (windows->trail->len > place)
    {
      PsWindowBefore before = g_array_index (windows->trail, PsWindowBefore, windows->trail->len - 1);

      windows->start[before.op] = before.start;
      windows->end[before.op] = before.end;
      g_array_set_size (windows->trail, windows->trail->len - 1);
    }
  windows->mark++;
  memset (windows->touched, 0, windows->problem->n_devices);
}

/* An op starts after the op before it in its chain has ended, and after its producer's result has arrived. */
static void
follow_forth (PsWindows *windows, guint chain)
{
  const PsProblem *problem = windows->problem;
  guint first = chain * problem->m;

  for (guint i = first; i < first + problem->m; i++)
    {
      guint producer = producer_of (problem, i);
      gint64 start = windows->start[i];

      if (i > first)
        start = MAX (start, windows->start[i - 1] + problem->duration[chain]);
      if (producer != NO_OP)
        start = MAX (start,
                     windows->start[producer] + problem->duration[chain_of (problem, producer)] + problem->lag[chain]);
      ps_windows_limit (windows, i, start, NEVER);
    }
}

static void
follow_back (PsWindows *windows, guint chain)
{
  const PsProblem *problem = windows->problem;
  guint first = chain * problem->m, consumer[2];

  for (guint i = first + problem->m; i-- > first;)
    {
      gint64 end = windows->end[i];

      if (i + 1 < first + problem->m)
        end = MIN (end, windows->end[i + 1] - problem->duration[chain]);
      for (guint k = consumers_of (problem, i, consumer); k-- > 0;)
        end = MIN (end, windows->end[consumer[k]] - problem->duration[chain_of (problem, consumer[k])]
                            - problem->lag[chain_of (problem, consumer[k])]);
      ps_windows_limit (windows, i, -NEVER, end);
    }
}

void
ps_windows_follow_back (PsWindows *windows)
{
  guint n = windows->problem->n_stages;

  for (guint s = 0; s < n; s++)
    {
      follow_back (windows, s * N_KINDS + PS_OP_W);
      follow_back (windows, s * N_KINDS + PS_OP_B);
    }
  for (guint s = n; s-- > 0;)
    follow_back (windows, s * N_KINDS + PS_OP_F);
}

gboolean
ps_windows_follow (PsWindows *windows)
{
  const PsProblem *problem = windows->problem;
  guint n = problem->n_stages;

  for (guint s = 0; s < n; s++)
    follow_forth (windows, s * N_KINDS + PS_OP_F);
  for (guint s = n; s-- > 0;)
    {
      follow_forth (windows, s * N_KINDS + PS_OP_B);
      follow_forth (windows, s * N_KINDS + PS_OP_W);
    }
  ps_windows_follow_back (windows);
  for (guint i = 0; i < problem->n_ops; i++)
    if (windows->start[i] + problem->duration[chain_of (problem, i)] > windows->end[i])
      return FALSE;
  return TRUE;
}

/* Copies the windows of a lane's ops. Those of several chains are sorted: its k-th op neither starts before the k-th
 * smallest start nor ends after the k-th smallest end. */
static void
fill_lane (PsWindows *windows, const PsLane *lane)
{
  guint m = windows->problem->m;
  gint64 *start = windows->lane_start + lane->first, *end = windows->lane_end + lane->first;

  for (guint i = 0; i < lane->n_chains; i++)
    {
      memcpy (start + i * m, windows->start + lane->chain[i] * m, m * sizeof *start);
      memcpy (end + i * m, windows->end + lane->chain[i] * m, m * sizeof *end);
    }
  if (lane->n_chains == 1)
    return;
  qsort (start, lane->n, sizeof *start, ps_compare_int64);
  qsort (end, lane->n, sizeof *end, ps_compare_int64);
}

/* Ops that are fixed follow each other; the device is at its state when the last one ends. */
static void
follow_fixed (PsWindows *windows, guint device)
{
  const PsProblem *problem = windows->problem;
  const guint32 *fixed = windows->fixed + problem->first[device];
  gint64 ready = -NEVER;

  for (guint i = 0; i < windows->n_fixed[device]; i++)
    {
      ps_windows_limit (windows, fixed[i], ready, NEVER);
      ready = windows->start[fixed[i]] + problem->duration[chain_of (problem, fixed[i])];
    }
  windows->states[device]->ready = ready;
}

/* The device has to be at its state by `late`. */
static void
follow_fixed_back (PsWindows *windows, guint device, gint64 late)
{
  const PsProblem *problem = windows->problem;
  const guint32 *fixed = windows->fixed + problem->first[device];

  for (guint i = windows->n_fixed[device]; i-- > 0;)
    {
      ps_windows_limit (windows, fixed[i], -NEVER, late);
      late = windows->end[fixed[i]] - problem->duration[chain_of (problem, fixed[i])];
    }
}

/* Narrows the windows of one device. FALSE: no order of it is left. */
static gboolean
narrow_device (PsWindows *windows, guint device)
{
  PsStates *states = windows->states[device];
  guint m = windows->problem->m;

  follow_fixed (windows, device);
  for (guint i = 0; i < states->n_lanes; i++)
    fill_lane (windows, &states->lane[i]);
  if (!ps_states_narrow (states, windows->lane_start, windows->lane_end))
    return FALSE;
  for (guint i = 0; i < states->n_lanes; i++)
    for (guint k = 0; k < m && states->lane[i].n_chains == 1; k++)
      ps_windows_limit (windows, states->lane[i].chain[0] * m + k, windows->lane_start[states->lane[i].first + k],
                        windows->lane_end[states->lane[i].first + k]);
  follow_fixed_back (windows, device, states->late[states->from]);
  windows->touched[device] = FALSE;
  return TRUE;
}

gboolean
ps_windows_narrow (PsWindows *windows)
{
  guint n = windows->problem->n_devices, idle = 0;

  if (!ps_windows_follow (windows))
    return FALSE;
  /* Up and down in turn, because windows narrow along the pipeline. */
  for (guint i = 0; i < MAX_ROUNDS * n && idle < n; i++)
    {
      guint d = i / n % 2 == 0 ? n - 1 - i % n : i % n;

      idle++;
      if (!windows->touched[d] || windows->states[d] == NULL)
        continue;
      windows->stopped |= !windows->go_on (windows->data) || windows->trail->len > MAX_TRAIL;
      if (windows->stopped)
        return TRUE;
      if (!narrow_device (windows, d) || !ps_windows_follow (windows))
        return FALSE;
      idle = 0;
    }
  for (guint d = 0; d < n && windows->is_new; d++)
    if (windows->states[d] != NULL)
      ps_states_close (windows->states[d]);
  windows->is_new = FALSE;
  return TRUE;
}

guint64
ps_windows_steps (const PsWindows *windows)
{
  guint64 n = 0;

  for (guint d = 0; d < windows->problem->n_devices; d++)
    if (windows->states[d] != NULL)
      n += (guint64)windows->states[d]->n_states * windows->states[d]->n_lanes;
  return n / MAX (windows->problem->n_devices, 1);
}

gboolean
ps_windows_has_heads (const PsProblem *problem)
{
  return problem->objective == PS_OBJECTIVE_MAKESPAN || problem->n_ops <= MAX_SPAN_HEADS / problem->n_devices;
}

PsWindows *
ps_windows_new (const PsProblem *problem, guint max_states)
{
  g_autoptr (PsWindows) windows = g_new0 (PsWindows, 1);
  gboolean helps = FALSE;

  windows->problem = problem;
  windows->open = NEVER;
  windows->states = g_new0 (PsStates *, problem->n_devices);
  if (problem->joins || (problem->n_copies > 1 && problem->objective == PS_OBJECTIVE_SPAN))
    return NULL;
  for (guint d = 0; d < problem->n_devices; d++)
    {
      windows->states[d] = ps_states_new (problem, d, problem->asked[d], max_states / problem->n_devices);
      helps |= windows->states[d] != NULL;
    }
  if (ps_windows_has_heads (problem))
    windows->head = g_new (gint64, problem->n_ops);
  windows->heads_of = G_MAXUINT;
  windows->start = g_new (gint64, problem->n_ops);
  windows->end = g_new (gint64, problem->n_ops);
  windows->trail = g_array_new (FALSE, FALSE, sizeof (PsWindowBefore));
  windows->noted = g_new (guint32, problem->n_ops);
  windows->lane_start = g_new (gint64, problem->n_ops);
  windows->lane_end = g_new (gint64, problem->n_ops);
  windows->fixed = g_new (guint32, problem->n_ops);
  windows->n_fixed = g_new0 (guint32, problem->n_devices);
  windows->touched = g_new0 (guint8, problem->n_devices);
  return helps ? g_steal_pointer (&windows) : NULL;
}

void
ps_windows_free (PsWindows *windows)
{
  if (windows == NULL)
    return;
  for (guint d = 0; d < windows->problem->n_devices; d++)
    ps_states_free (windows->states[d]);
  g_free (windows->states);
  g_free (windows->head);
  g_free (windows->start);
  g_free (windows->end);
  g_clear_pointer (&windows->trail, g_array_unref);
  g_free (windows->noted);
  g_free (windows->lane_start);
  g_free (windows->lane_end);
  g_free (windows->fixed);
  g_free (windows->n_fixed);
  g_free (windows->touched);
  g_free (windows);
}
