/* cell.c - ways of microbatches over the positions that a path has found. */
#include "cell.h"

#include "cell-path.h"

#include <math.h>
#include <string.h>

static guint
count_back (const PsProblem *problem)
{
  guint n = 0;

  for (guint lane = 0; lane < lanes_of (problem); lane++)
    n += goes_back (problem, lane);
  return n;
}

gboolean
ps_cell_suits (const PsProblem *problem)
{
  guint p = problem->n_devices, n = lanes_of (problem), n_back = count_back (problem);

  if (p < 2 || problem->n_stages % p != 0 || (n_back != 0 && 2 * n_back != n))
    return FALSE;
  for (guint lane = 0; lane < n; lane++)
    for (guint d = 0; d < p; d++)
      if (problem->device[stage_at (problem, lane, d)] != d)
        return FALSE;
  return TRUE;
}

guint
ps_cell_n_waves (const PsProblem *problem)
{
  return 1 + lanes_of (problem) % 2;
}

/* Turns of a period: each has two lanes. */
static guint
count_turns (const PsProblem *problem)
{
  return ps_cell_n_waves (problem) * lanes_of (problem) / 2;
}

/* ns that the ops that a turn has room for take at the busiest device. */
static double
turn_work (const PsProblem *problem, guint n_w)
{
  double most = 1;

  for (guint d = 0; d < problem->n_devices; d++)
    {
      double work = 0;

      for (guint i = problem->first_stage[d]; i < problem->first_stage[d + 1]; i++)
        {
          const gint64 *duration = problem->duration + (gsize)problem->stages[i] * N_KINDS;

          work += (double)(duration[PS_OP_F] + duration[PS_OP_B]) + (double)(n_w * duration[PS_OP_W]) / 2;
        }
      most = MAX (most, work);
    }
  return most * 2 / lanes_of (problem);
}

double
ps_cell_no_wait (const PsProblem *problem, guint n_w)
{
  const Track *track = ps_cell_tracks (problem);
  double hop = 1, turn = turn_work (problem, n_w);

  if (ps_cell_goes_both_ways (problem))
    return 1;
  for (guint d = 0; d + 1 < problem->n_devices; d++)
    hop = MAX (hop, ps_cell_move (problem, track[0], d, d + 1) + ps_cell_move (problem, track[N_TRACKS - 1], d + 1, d));
  return ceil (turn / hop) * hop / turn;
}

double
ps_cell_rounding (const PsProblem *problem, guint n_w, double stretch, guint n_units)
{
  double unit_ns = turn_work (problem, n_w) * stretch / n_units, sum = 0;

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      double length = (double)problem->duration[kind] / unit_ns;

      sum += fabs (length - rint (length));
    }
  return sum / n_units;
}

/* A microbatch on its way. */
typedef struct
{
  guint track;
  double now; /* units: when its next op could start */
} Walk;

/* Chooses the first slot of a lane's tracks that no other wave has taken. */
static void
take_slot (const PsCellPath *line, Walk *walk, Track wanted, guint device, guint8 *taken)
{
  guint n_turns = count_turns (line->problem), best = 0;
  gint64 best_at = G_MAXINT64, now = (gint64)ceil (walk->now);

  for (guint i = 0; i < N_TRACKS * n_turns; i++)
    {
      guint track = i / n_turns;
      gint64 at = now + modulo (line->at[device][track] + (gint64)(i % n_turns) * line->n - now, line->n * n_turns);

      if (taken[i] || memcmp (&line->track[track], &wanted, sizeof wanted) != 0 || at >= best_at)
        continue;
      best = i;
      best_at = at;
    }
  taken[best] = TRUE;
  walk->track = best / n_turns;
  walk->now = (double)best_at;
}

/* Places the ops of a lane. Positions are rounded: an op may seem to start a unit too early. */
static void
walk_lane (const PsCellPath *line, Walk *walk, guint lane, guint kind, guint8 *taken, gint64 *start)
{
  const PsProblem *problem = line->problem;
  const Track wanted = { (guint8)kind, (guint8)goes_back (problem, lane) };
  guint p = problem->n_devices;

  for (guint i = 0; i < p; i++)
    {
      guint device = wanted.back == (kind == PS_OP_B) ? i : p - 1 - i, stage = stage_at (problem, lane, device);
      gint64 earliest;

      walk->now += (double)problem->lag[stage * N_KINDS + kind] / line->unit_ns;
      earliest = (gint64)ceil (walk->now) - 1;
      if (i == 0)
        take_slot (line, walk, wanted, device, taken);
      else
        walk->now = (double)(earliest + modulo (line->at[device][walk->track] - earliest, line->n));
      start[(kind == PS_OP_B) * problem->n_stages + stage] = (gint64)(walk->now * line->unit_ns);
      walk->now += (double)problem->duration[stage * N_KINDS + kind] / line->unit_ns;
    }
}

static void
walk_all (const PsCellPath *line, PsCell *cell)
{
  const PsProblem *problem = line->problem;
  guint n = problem->n_copy_stages / problem->n_devices, n_turns = count_turns (problem);
  /* a slot of each lane of a turn: lanes of a direction share the tracks, F and B have their own */
  g_autofree guint8 *taken = g_new0 (guint8, (gsize)N_TRACKS * n_turns);

  for (guint wave = 0; wave < cell->n_waves; wave++)
    for (guint copy = 0; copy < problem->n_copies; copy++)
      {
        gint64 *start = cell->start + (gsize)wave * 2 * problem->n_stages;
        Walk walk = { 0 };

        for (guint i = 0; i < 2 * n; i++)
          walk_lane (line, &walk, copy * n + (i < n ? i : 2 * n - 1 - i), i < n ? PS_OP_F : PS_OP_B, taken, start);
      }
}

gboolean
ps_cell_plan (PsCell *cell, const PsProblem *problem, guint n_w, double stretch, guint n_units,
              gboolean (*spend) (guint64 n_moves, gpointer data), gpointer data)
{
  double turn = turn_work (problem, n_w) * stretch;
  g_autofree guint (*at)[N_TRACKS] = g_malloc0_n (problem->n_devices, sizeof *at);
  const PsCellPath path = { problem, ps_cell_tracks (problem), n_units, n_w, turn / n_units, at, spend, data };

  cell->n_waves = ps_cell_n_waves (problem);
  cell->period = (gint64)(turn * count_turns (problem));
  if (!ps_cell_path_find (&path))
    return FALSE;
  walk_all (&path, cell);
  return TRUE;
}
