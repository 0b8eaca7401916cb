/* inject.c - plans microbatches one by one: each enters at the earliest time at which its ops fit between the ops of
 * the microbatches before it. */
#include "inject.h"

typedef struct
{
  gint64 start;
  gint64 end;
  guint32 op;
} Busy;

/* Bytes that a device takes, or gives back if negative. */
typedef struct
{
  gint64 time;
  gint64 bytes;
} Change;

/* What is planned on a device, in order of time. Entries before the begins are over for all microbatches to come. */
typedef struct
{
  Busy *busy; /* points into those of all devices */
  guint busy_begin;
  guint n_busy;
  Change *change;
  guint change_begin;
  guint n_changes;
  gint64 level; /* bytes after all changes */
} Line;

typedef struct
{
  const PsProblem *problem;
  const gint64 *way;
  Line *line;    /* [n_devices] */
  gint64 *bytes; /* [n_stages] that a microbatch's F takes with those of its earlier stages on the same device */
} Plan;

/* The n-th op of a microbatch's way. */
typedef struct
{
  guint chain;
  guint device;
  gint64 after; /* its entry */
} Hop;

static Hop
hop_at (const Plan *plan, guint n)
{
  guint count = plan->problem->n_stages, kind = n < count ? PS_OP_F : PS_OP_B;
  guint stage = n < count ? n : 2 * count - 1 - n;

  return (Hop){ stage * N_KINDS + kind, plan->problem->device[stage], plan->way[kind * count + stage] };
}

/* Returns the earliest start of an op, at `at` or later, at which the device is free for its whole duration. */
static gint64
find_gap (const Line *line, gint64 at, gint64 duration)
{
  guint low = line->busy_begin, high = line->n_busy;

  while (low < high)
    {
      guint middle = (low + high) / 2;

      if (line->busy[middle].end > at)
        high = middle;
      else
        low = middle + 1;
    }
  for (; low < line->n_busy && line->busy[low].start < at + duration; low++)
    at = MAX (at, line->busy[low].end);
  return at;
}

/* The earliest time at `at` or later from which the bytes are left for good. */
static gint64
find_room (const Line *line, gint64 at, gint64 bytes, gint64 limit)
{
  gint64 level = line->level;

  for (guint i = line->n_changes; i > line->change_begin && line->change[i - 1].time > at; i--)
    {
      level -= line->change[i - 1].bytes;
      if (level + bytes > limit)
        return line->change[i - 1].time;
    }
  return at;
}

static void
add_busy (Line *line, Busy busy)
{
  guint i = line->n_busy++;

  for (; i > line->busy_begin && line->busy[i - 1].start > busy.start; i--)
    line->busy[i] = line->busy[i - 1];
  line->busy[i] = busy;
}

static void
add_change (Line *line, Change change)
{
  guint i = line->n_changes++;

  for (; i > line->change_begin && line->change[i - 1].time > change.time; i--)
    line->change[i] = line->change[i - 1];
  line->change[i] = change;
  line->level += change.bytes;
}

/* The earliest entry at `entry` or later at which all hops are free; a later one than `latest` need not be free. */
static gint64
find_entry (const Plan *plan, gint64 entry, gint64 latest)
{
  const PsProblem *problem = plan->problem;
  guint n = 2 * problem->n_stages;

  for (guint i = 0, clear = 0; clear < n && entry <= latest; i++, clear++)
    {
      Hop hop = hop_at (plan, i % n);
      gint64 start = entry + hop.after, free = start, limit = problem->limit[hop.device];

      if (hop.chain % N_KINDS == PS_OP_F && limit != G_MAXINT64)
        free = find_room (&plan->line[hop.device], start, plan->bytes[hop.chain / N_KINDS], limit);
      free = find_gap (&plan->line[hop.device], free, problem->duration[hop.chain]);
      if (free > start)
        clear = 0;
      entry += free - start;
    }
  return entry;
}

/* Takes and gives the bytes of an op. */
static gint64
run (Line *line, const PsProblem *problem, guint chain, gint64 start)
{
  gint64 end = start + problem->duration[chain];

  add_change (line, (Change){ start, problem->take[chain] });
  add_change (line, (Change){ end, -problem->give[chain] });
  return end;
}

static void
enter (Plan *plan, guint microbatch, gint64 entry)
{
  const PsProblem *problem = plan->problem;

  for (guint i = 0; i < 2 * problem->n_stages; i++)
    {
      Hop hop = hop_at (plan, i);
      Line *line = &plan->line[hop.device];
      gint64 start = entry + hop.after, end = run (line, problem, hop.chain, start);

      add_busy (line, (Busy){ start, end, hop.chain * problem->m + microbatch });
      if (hop.chain % N_KINDS == PS_OP_B)
        run (line, problem, hop.chain + 1, end);
    }
}

/* Passes what is over at a moment. */
static void
pass (Plan *plan, gint64 moment)
{
  for (guint d = 0; d < plan->problem->n_devices; d++)
    {
      Line *line = &plan->line[d];

      while (line->busy_begin < line->n_busy && line->busy[line->busy_begin].end <= moment)
        line->busy_begin++;
      while (line->change_begin < line->n_changes && line->change[line->change_begin].time <= moment)
        line->change_begin++;
    }
}

static gboolean
enter_all (Plan *plan, const PsInjection *injection)
{
  const PsProblem *problem = plan->problem;
  gint64 entry = 0, latest = injection->enough - hop_at (plan, 2 * problem->n_stages - 1).after;

  for (guint k = 0; k < problem->m; k++)
    {
      gint64 paced = k > injection->burst ? (k - injection->burst) * injection->pace : 0;

      entry = find_entry (plan, MAX (entry, paced), latest);
      if (entry > latest)
        return FALSE;
      enter (plan, k, entry);
      pass (plan, entry);
    }
  return TRUE;
}

static void
add_up_bytes (const PsProblem *problem, gint64 *bytes)
{
  for (guint i = 0; i < problem->n_stages; i++)
    {
      guint s = problem->stages[i];
      gint64 *take = problem->take + (gsize)s * N_KINDS;
      gboolean is_next = i > 0 && problem->device[problem->stages[i - 1]] == problem->device[s];

      bytes[s] = take[PS_OP_F];
      if (is_next)
        bytes[s] += bytes[problem->stages[i - 1]] - problem->give[problem->stages[i - 1] * N_KINDS + PS_OP_F];
    }
}

gboolean
ps_inject (const PsProblem *problem, const PsInjection *injection, guint32 *list)
{
  g_autofree Line *line = g_new0 (Line, problem->n_devices);
  g_autofree Busy *busy = g_new (Busy, problem->n_ops);
  g_autofree Change *change = g_new (Change, 2 * (gsize)problem->n_ops);
  g_autofree gint64 *bytes = g_new (gint64, problem->n_stages);
  Plan plan = { problem, injection->way, line, bytes };

  add_up_bytes (problem, bytes);
  for (guint d = 0; d < problem->n_devices; d++)
    line[d] = (Line){ .busy = busy + problem->first[d],
                      .change = change + 2 * (gsize)problem->first[d],
                      .level = problem->held[d] };
  if (!enter_all (&plan, injection))
    return FALSE;
  for (guint d = 0; d < problem->n_devices; d++)
    for (guint i = 0; i < line[d].n_busy; i++)
      list[problem->first[d] + i] = line[d].busy[i].op;
  return TRUE;
}
