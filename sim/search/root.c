/* root.c - bounds from the windows of ops before any target is known. */
#include "windows.h"
#include "schedule/mix.h"
#include "problem.h"
#include "order.h"
#include "random.h"

/* A bound from bytes times time: activations are held for long, and memory neither fills nor empties at once. */

typedef struct
{
  const PsWindows *windows;
  guint n; /* activations */
  PsMix mix;
  PsMixStage *stage;
  gint64 *filled;  /* [n] least start of a forward, then of 1, 2, .. of them */
  gint64 *emptied; /* [n] least time from the end of a B to the end of all, then of the last 1, 2, .. of them */
  gint64 forward;  /* shortest F */
  gint64 backward; /* shortest B */
  gint64 weight;   /* shortest W */
  gint64 longest_weight;
  gint64 bytes; /* most that an activation keeps */
} Area;

static void
area_clear (Area *area)
{
  g_free (area->stage);
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

/* may_recompute FALSE: all microbatches keep as little as those with an R, for no time. */
static void
add_stage (Area *area, guint stage, gboolean may_recompute)
{
  const PsWindows *windows = area->windows;
  const PsProblem *problem = windows->problem;
  const gint64 *duration = problem->duration + stage * N_KINDS;
  gint64 kept = MAX (ps_problem_kept (problem, stage, PS_OP_F), 0),
         kept_later = MAX (ps_problem_kept (problem, stage, PS_OP_B), 0);
  gint64 held_ns = duration[PS_OP_F] + turn_of (problem, stage) + duration[PS_OP_B];
  PsMixStage *mixed = &area->stage[area->mix.n_stages++];

  *mixed = (PsMixStage){ .n = problem->m,
                         .forward = duration[PS_OP_F],
                         .kept = kept,
                         .again = may_recompute ? problem->again[stage] : (PsOpCost){ 0 } };
  mixed->saved = (PsByteTime)mixed->again.take_bytes * held_ns;
  mixed->area = (PsByteTime)kept * held_ns + mixed->saved + (PsByteTime)kept_later * duration[PS_OP_W];
  for (guint k = 0; k < problem->m; k++)
    {
      gint64 tail = -windows->end[op_at (problem, stage, PS_OP_B, k)];

      area->filled[area->n] = windows->start[op_at (problem, stage, PS_OP_F, k)];
      area->emptied[area->n++] = MAX (tail, work_after (problem, stage, k));
    }
  area->mix.begin = MIN (area->mix.begin, windows->start[op_at (problem, stage, PS_OP_F, 0)]);
  area->mix.gradient = MIN (area->mix.gradient, windows->start[op_at (problem, stage, PS_OP_B, 0)]);
  for (guint kind = 0; kind < N_KINDS; kind++)
    area->mix.load += problem->m * duration[kind];
  area->bytes = MAX (area->bytes, MAX (kept + mixed->again.take_bytes, kept_later));
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

static gint64
bound_of (const PsWindows *windows, guint device, gint64 least, gboolean may_recompute)
{
  const PsProblem *problem = windows->problem;
  guint n_stages = problem->first_stage[device + 1] - problem->first_stage[device], n = n_stages * problem->m, used = 0;
  g_auto (Area) area = { .windows = windows,
                         .mix = { .begin = G_MAXINT64, .gradient = G_MAXINT64 },
                         .stage = g_new (PsMixStage, n_stages),
                         .filled = g_new (gint64, n),
                         .emptied = g_new (gint64, n),
                         .forward = G_MAXINT64,
                         .backward = G_MAXINT64,
                         .weight = G_MAXINT64 };
  gint64 empty = 0; /* least time for which the highest layer of memory is */

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    add_stage (&area, problem->stages[i], may_recompute);
  PsByteTime room = MIN ((PsByteTime)(problem->asked[device] - problem->held[device]), (PsByteTime)n * area.bytes);
  if (room <= 0)
    return 0;
  spread (area.filled, n, area.forward, 0);
  spread (area.emptied, n, area.backward, area.weight);
  for (; used * (PsByteTime)area.bytes < room; used++)
    {
      empty = area.filled[used] + MAX (area.emptied[used] - area.longest_weight, 0);
      area.mix.empty += MIN (room - used * (PsByteTime)area.bytes, area.bytes) * empty;
    }
  area.mix.stage = area.stage;
  area.mix.room = (gint64)room;
  return least >= empty ? ps_mix_bound (&area.mix) : 0;
}

/* A bound from the memory that the ops of a device hold over time, for windows that are open to target 0, where no
 * order is below `least`. 0: none. */
static gint64
windows_area_bound (const PsWindows *windows, guint device, gint64 least)
{
  const PsProblem *problem = windows->problem;
  gint64 bound = problem->asked[device] < G_MAXINT64 ? bound_of (windows, device, least, FALSE) : 0;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    if (problem->asked[device] < G_MAXINT64 && problem->again[problem->stages[i]].take_bytes > 0)
      return MAX (bound, bound_of (windows, device, MAX (least, bound), TRUE));
  return bound;
}

/* Ops of a device, as Jackson's rule takes them. */
typedef struct
{
  gint64 head;
  gint64 tail;
  gint64 left;
} Job;

PS_DEFINE_ORDER (compare_heads, Job, head)

static void
swap_jobs (Job *a, Job *b)
{
  Job was = *a;

  *a = *b;
  *b = was;
}

/* Restores the heap of jobs, longest tail first, after heap[at] was changed. */
static void
sift (Job *heap, guint n, guint at)
{
  for (; at > 0 && heap[at].tail > heap[(at - 1) / 2].tail; at = (at - 1) / 2)
    swap_jobs (&heap[at], &heap[(at - 1) / 2]);
  for (;;)
    {
      guint best = at;

      for (guint child = 2 * at + 1; child < n && child <= 2 * at + 2; child++)
        if (heap[child].tail > heap[best].tail)
          best = child;
      if (best == at)
        return;
      swap_jobs (&heap[at], &heap[best]);
      at = best;
    }
}

/* The longest tail runs first, until it ends or another job arrives. Returns the largest end plus tail. */
static gint64
jackson (Job *jobs, guint n)
{
  g_autofree Job *heap = g_new (Job, n);
  guint n_waiting = 0, next = 0;
  gint64 now = -NEVER, longest = 0;

  qsort (jobs, n, sizeof *jobs, compare_heads);
  while (next < n || n_waiting > 0)
    {
      if (n_waiting == 0)
        now = MAX (now, jobs[next].head);
      for (; next < n && jobs[next].head <= now; next++)
        {
          heap[n_waiting++] = jobs[next];
          sift (heap, n_waiting, n_waiting - 1);
        }
      gint64 run = next < n ? MIN (heap[0].left, jobs[next].head - now) : heap[0].left;
      now += run;
      heap[0].left -= run;
      if (heap[0].left > 0)
        continue;
      longest = MAX (longest, now + heap[0].tail);
      heap[0] = heap[--n_waiting];
      sift (heap, n_waiting, 0);
    }
  return longest;
}

static gint64
device_bound (const PsWindows *windows, guint device, Job *jobs)
{
  const PsProblem *problem = windows->problem;
  guint n = 0;

  for (guint i = problem->first_stage[device] * N_KINDS; i < problem->first_stage[device + 1] * N_KINDS; i++)
    for (guint k = 0; k < problem->m; k++)
      {
        guint chain = problem->stages[i / N_KINDS] * N_KINDS + i % N_KINDS, op = chain * problem->m + k;

        jobs[n++] = (Job){ windows->start[op], -windows->end[op], problem->duration[chain] };
      }
  return n > 0 ? jackson (jobs, n) : 0;
}

gint64
ps_windows_root_bound (const PsProblem *problem)
{
  g_autofree Job *jobs = g_new (Job, problem->n_ops);
  g_autofree gint64 *start = g_new0 (gint64, problem->n_ops), *end = g_new0 (gint64, problem->n_ops),
                    *head = g_new (gint64, problem->n_ops);
  gboolean spans = problem->objective == PS_OBJECTIVE_SPAN;
  PsWindows windows = { .problem = problem,
                        .head = ps_windows_has_heads (problem) ? head : NULL,
                        .heads_of = G_MAXUINT,
                        .start = start,
                        .end = end };
  guint n = problem->n_devices;
  gint64 bound = 0;

  if (problem->joins || (problem->n_copies > 1 && spans))
    return 0;
  for (guint d = 0; d < n; d++)
    {
      if (d == 0 || spans)
        {
          ps_windows_open (&windows, spans ? d : n, 0);
          ps_windows_follow (&windows);
        }
      if (problem->first_stage[d + 1] == problem->first_stage[d])
        continue;
      bound = MAX (bound, device_bound (&windows, d, jobs));
      bound = MAX (bound, windows_area_bound (&windows, d, bound));
    }
  return bound;
}

void
ps_windows_tails (const PsProblem *problem, gint64 *tail)
{
  g_autofree gint64 *start = g_new0 (gint64, problem->n_ops), *end = g_new0 (gint64, problem->n_ops);
  PsWindows windows = { .problem = problem, .start = start, .end = end };
  gboolean spans = problem->objective == PS_OBJECTIVE_SPAN;
  guint n = problem->n_devices;

  for (guint d = spans ? 0 : n; d < (spans ? n : n + 1); d++)
    {
      ps_windows_open (&windows, d, 0);
      ps_windows_follow_back (&windows);
      for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
        if (ps_windows_counts (&windows, problem->device[chain / N_KINDS]))
          tail[chain] = -end[(chain + 1) * problem->m - 1];
    }
}
