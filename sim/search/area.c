/* area.c - a bound from bytes times time: activations are held for long, and memory neither fills nor empties at once.
 */
#include "windows-private.h"

/* Bytes, or bytes times time. */
__extension__ typedef __int128 Wide;

typedef struct
{
  const PsWindows *windows;
  guint n;         /* activations */
  gint64 *filled;  /* [n] least start of a forward, then of 1, 2, .. of them */
  gint64 *emptied; /* [n] least time from the end of a B to the end of all, then of the last 1, 2, .. of them */
  gint64 forward;  /* shortest F */
  gint64 backward; /* shortest B */
  gint64 weight;   /* shortest W */
  gint64 longest_weight;
  gint64 bytes; /* most that an activation keeps */
  Wide area;    /* least bytes times time of all activations, and of the memory that cannot be full */
} Area;

static void
area_clear (Area *area)
{
  g_free (area->filled);
  g_free (area->emptied);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Area, area_clear)

/* Least time from the end of a stage's F to the start of the B of the same microbatch. */
static gint64
turn_of (const PsProblem *problem, guint stage)
{
  gint64 turn = 0;

  for (; !is_last_stage (problem, stage); stage++)
    {
      guint above = (stage + 1) * N_KINDS;

      turn += problem->lag[above + PS_OP_F] + problem->duration[above + PS_OP_F] + problem->duration[above + PS_OP_B]
              + problem->lag[stage * N_KINDS + PS_OP_B];
    }
  return turn;
}

/* B and W of the stage and of lower ones of its copy beside it that follow its B of microbatch k. */
static gint64
work_after (const PsProblem *problem, guint stage, guint k)
{
  guint d = problem->device[stage];
  gint64 work = 0;

  for (guint i = problem->first_stage[d]; i < problem->first_stage[d + 1] && problem->stages[i] <= stage; i++)
    {
      const gint64 *duration = problem->duration + problem->stages[i] * N_KINDS;
      gint64 n = problem->m - k;

      if (problem->stages[i] / problem->n_copy_stages == stage / problem->n_copy_stages)
        work += (n - (problem->stages[i] == stage)) * duration[PS_OP_B] + n * duration[PS_OP_W];
    }
  return work;
}

static void
add_stage (Area *area, guint stage)
{
  const PsWindows *windows = area->windows;
  const PsProblem *problem = windows->problem;
  const gint64 *duration = problem->duration + stage * N_KINDS;
  gint64 kept = MAX (ps_problem_kept (problem, stage, PS_OP_F), 0),
         kept_later = MAX (ps_problem_kept (problem, stage, PS_OP_B), 0);
  Wide each = (Wide)kept * (duration[PS_OP_F] + turn_of (problem, stage) + duration[PS_OP_B])
              + (Wide)kept_later * duration[PS_OP_W];

  for (guint k = 0; k < problem->m; k++)
    {
      gint64 tail = -windows->end[op_at (problem, stage, PS_OP_B, k)];

      area->filled[area->n] = windows->start[op_at (problem, stage, PS_OP_F, k)];
      area->emptied[area->n++] = MAX (tail, work_after (problem, stage, k));
    }
  area->area += problem->m * each;
  area->bytes = MAX (area->bytes, MAX (kept, kept_later));
  area->forward = MIN (area->forward, duration[PS_OP_F]);
  area->backward = MIN (area->backward, duration[PS_OP_B]);
  area->weight = MIN (area->weight, duration[PS_OP_W]);
  area->longest_weight = MAX (area->longest_weight, duration[PS_OP_W]);
}

/* Sorts moments, and keeps the i-th one at least `apart` after the one before it, and at i times `each` or later. */
static void
spread (gint64 *moment, guint n, gint64 apart, gint64 each)
{
  qsort (moment, n, sizeof *moment, ps_compare_int64);
  for (guint i = 0; i < n; i++)
    moment[i] = MAX (moment[i], MAX (i > 0 ? moment[i - 1] + apart : 0, (i + 1) * each + i * apart));
}

gint64
ps_windows_area_bound (const PsWindows *windows, guint device, gint64 least)
{
  const PsProblem *problem = windows->problem;
  guint n = (problem->first_stage[device + 1] - problem->first_stage[device]) * problem->m, used = 0;
  g_auto (Area) area = { .windows = windows,
                         .filled = g_new (gint64, n),
                         .emptied = g_new (gint64, n),
                         .forward = G_MAXINT64,
                         .backward = G_MAXINT64,
                         .weight = G_MAXINT64 };
  gint64 empty = 0; /* least time for which the highest layer of memory is */

  if (problem->asked[device] == G_MAXINT64)
    return 0;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    add_stage (&area, problem->stages[i]);
  Wide room = MIN ((Wide)(problem->asked[device] - problem->held[device]), (Wide)n * area.bytes);
  if (room <= 0)
    return 0;
  spread (area.filled, n, area.forward, 0);
  spread (area.emptied, n, area.backward, area.weight);
  for (; used * (Wide)area.bytes < room; used++)
    {
      empty = area.filled[used] + MAX (area.emptied[used] - area.longest_weight, 0);
      area.area += MIN (room - used * (Wide)area.bytes, area.bytes) * empty;
    }
  return least >= empty ? (gint64)((area.area + room - 1) / room) : 0;
}
