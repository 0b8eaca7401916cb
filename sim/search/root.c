/* root.c - bounds from the windows of ops before any target is known. */
#include "windows.h"
#include "problem.h"
#include "order.h"
#include "random.h"

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
    }
  return bound;
}
