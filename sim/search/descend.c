/* descend.c - depth-first search over the windows of ops: fixes the next op of one device after the other. */
#include "windows-private.h"

/* How far the rank of a step goes from the middle of its window, in windows. */
#define NOISE 0.5

typedef struct
{
  PsWindows *windows;
  const PsDescent *descent;
  guint n_fails;
} Search;

/* A step of a device that its windows leave open. */
typedef struct
{
  guint32 child;
  guint lane;
  double rank;
} Step;

static Step
step_of (const PsStates *states, guint lane_index)
{
  const PsLane *lane = &states->lane[lane_index];
  guint32 child = states->child[states->from * states->n_lanes + lane_index];

  return (Step){ .child = child, .lane = lane_index, .rank = lane->first + n_done (lane, states->key[states->from]) };
}

PS_DEFINE_ORDER (compare_ranks, Step, rank)

/* The next op of a lane: of several W, any whose B is done. */
static guint
next_op (const PsWindows *windows, guint device, const PsLane *lane)
{
  const PsProblem *problem = windows->problem;
  const guint32 *fixed = windows->fixed + problem->first[device];
  guint n = windows->n_fixed[device];

  for (guint i = 0; i < lane->n_chains; i++)
    {
      guint chain = lane->chain[i], done = 0, ahead = 0;

      for (guint k = 0; k < n; k++)
        {
          done += chain_of (problem, fixed[k]) == chain;
          ahead += chain_of (problem, fixed[k]) + 1 == chain;
        }
      if (lane->n_chains == 1 || ahead > done)
        return chain * problem->m + done;
    }
  g_return_val_if_reached (0);
}

/* Lists the steps that the device's windows leave open, best first: those that have to come soon and can. */
static guint
list_steps (Search *search, guint device, Step *steps)
{
  PsWindows *windows = search->windows;
  const PsStates *states = windows->states[device];
  guint n = 0;

  for (guint i = 0; i < states->n_lanes; i++)
    {
      Step step = step_of (states, i);
      const PsLane *lane = &states->lane[i];

      if (step.child == 0)
        continue;
      guint op = next_op (windows, device, lane);
      gint64 first = MAX (states->ready, windows->start[op]), last = MIN (states->late[step.child], windows->end[op]);

      if (first + lane->duration > last)
        continue;
      last -= lane->duration;
      step.rank = (double)first + (double)(last - first) * (0.5 + NOISE * ps_random_unit (search->descent->random));
      steps[n++] = step;
    }
  qsort (steps, n, sizeof *steps, compare_ranks);
  return n;
}

/* The device whose next op can end first; n_devices: all ops are fixed. */
static guint
choose_device (const PsWindows *windows)
{
  guint best = windows->problem->n_devices;
  gint64 least = G_MAXINT64;

  for (guint d = 0; d < windows->problem->n_devices; d++)
    {
      const PsStates *states = windows->states[d];

      for (guint i = 0; i < states->n_lanes && states->from + 1 < states->n_states; i++)
        {
          Step step = step_of (states, i);

          if (step.child == 0)
            continue;
          gint64 start = windows->start[next_op (windows, d, &states->lane[i])];
          gint64 end = MAX (states->ready, start) + states->lane[i].duration;
          if (end < least)
            {
              least = end;
              best = d;
            }
        }
    }
  return best;
}

static PsDescended
accept (const Search *search)
{
  PsOrder *order = search->descent->order;

  ps_order_fill (order, search->windows->fixed);
  return ps_order_evaluate (order) && order->excess == 0 && order->objective <= search->descent->target
             ? PS_DESCENDED_FOUND
             : PS_DESCENDED_STOPPED;
}

static PsDescended explore (Search *search);

static PsDescended
try_step (Search *search, guint device, const Step *step)
{
  PsWindows *windows = search->windows;
  PsStates *states = windows->states[device];
  guint32 from = states->from;
  guint place = ps_windows_mark (windows);
  PsDescended result;

  windows->fixed[windows->problem->first[device] + windows->n_fixed[device]]
      = next_op (windows, device, &states->lane[step->lane]);
  windows->n_fixed[device]++;
  states->from = step->child;
  windows->touched[device] = TRUE;
  result = explore (search);
  states->from = from;
  windows->n_fixed[device]--;
  ps_windows_undo (windows, place);
  return result;
}

static PsDescended
explore (Search *search)
{
  PsWindows *windows = search->windows;
  PsDescended result = PS_DESCENDED_REFUTED;
  gboolean open = ps_windows_narrow (windows);
  guint device = open ? choose_device (windows) : 0, n;
  Step steps[PS_MAX_LANES];

  if (open && device == windows->problem->n_devices)
    return windows->stopped ? PS_DESCENDED_STOPPED : accept (search);
  /* The states of a device are those of its last pass, which may have been for a step that was undone. */
  windows->touched[device] = TRUE;
  if (!open || !ps_windows_narrow (windows))
    return search->n_fails++ < search->descent->max_fails ? PS_DESCENDED_REFUTED : PS_DESCENDED_STOPPED;
  if (windows->stopped)
    return PS_DESCENDED_STOPPED;
  n = list_steps (search, device, steps);
  for (guint i = 0; i < n && result == PS_DESCENDED_REFUTED; i++)
    result = try_step (search, device, &steps[i]);
  return result;
}

PsDescended
ps_windows_explore (PsWindows *windows, const PsDescent *descent)
{
  Search search = { .windows = windows, .descent = descent };

  return explore (&search);
}

gboolean
ps_windows_can_descend (const PsWindows *windows)
{
  for (guint d = 0; d < windows->problem->n_devices; d++)
    if (windows->states[d] == NULL)
      return FALSE;
  return windows->problem->objective == PS_OBJECTIVE_MAKESPAN && windows->problem->n_slices == 1;
}

/* Keeps ops near their places in an order. */
static void
keep_near (PsWindows *windows, const PsOrder *near, gint64 reach)
{
  const PsProblem *problem = windows->problem;

  for (guint i = 0; i < problem->n_ops; i++)
    {
      gint64 end = end_of (near, near->node[i]);

      windows->start[i] = MAX (windows->start[i], end - problem->duration[chain_of (problem, i)] - reach);
      windows->end[i] = MIN (windows->end[i], end + reach);
    }
}

PsDescended
ps_windows_descend (PsWindows *windows, const PsDescent *descent)
{
  windows->go_on = descent->go_on;
  windows->data = descent->data;
  windows->stopped = FALSE;
  ps_windows_open (windows, windows->problem->n_devices, descent->target);
  if (descent->near != NULL)
    keep_near (windows, descent->near, descent->reach);
  return ps_windows_explore (windows, descent);
}
