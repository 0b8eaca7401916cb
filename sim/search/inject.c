/* inject.c - plans microbatches one by one: each takes the first way of the cell on which its devices have room. */
#include "inject.h"

/* Periods in a row without an entry, after which a plan is given up. */
#define MAX_PERIODS 1024

/* The part of a W that may be missing where a plan has room for it. */
#define W_SLACK 4

typedef struct
{
  gint64 start;
  guint32 op;
} Planned;

/* Bytes that a device takes, or gives back if negative. */
typedef struct
{
  gint64 time;
  gint64 bytes;
} Change;

/* What is planned on a device, in order of time. Changes before change_begin are over for all microbatches to come. */
typedef struct
{
  Planned *planned; /* points into those of all devices */
  guint n_planned;
  Change *change;
  guint change_begin;
  guint n_changes;
  gint64 level; /* bytes after all changes */
} Line;

typedef struct
{
  const PsProblem *problem;
  Line *line;    /* [n_devices] */
  gint64 *bytes; /* [n_stages] that a microbatch's F takes with those of its earlier stages on the same device */
} Plan;

/* A way of the cell. */
typedef struct
{
  const gint64 *start; /* of its wave */
  guint copy;
  gint64 entry;
} Way;

/* Whether a device has the bytes from a time on for good. */
static gboolean
has_room (const Line *line, gint64 at, gint64 bytes, gint64 limit)
{
  gint64 level = line->level;

  if (level + bytes > limit)
    return FALSE;
  for (guint i = line->n_changes; i > line->change_begin && line->change[i - 1].time > at; i--)
    {
      level -= line->change[i - 1].bytes;
      if (level + bytes > limit)
        return FALSE;
    }
  return TRUE;
}

static void
add_planned (Line *line, Planned planned)
{
  guint i = line->n_planned++;

  for (; i > 0 && line->planned[i - 1].start > planned.start; i--)
    line->planned[i] = line->planned[i - 1];
  line->planned[i] = planned;
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

static gboolean
fits (const Plan *plan, const Way *way, gint64 shift)
{
  const PsProblem *problem = plan->problem;
  guint begin = way->copy * problem->n_copy_stages;

  for (guint s = begin; s < begin + problem->n_copy_stages; s++)
    {
      guint d = problem->device[s];

      if (problem->limit[d] != G_MAXINT64
          && !has_room (&plan->line[d], way->start[s] + shift, plan->bytes[s], problem->limit[d]))
        return FALSE;
    }
  return TRUE;
}

/* Takes and gives the bytes of an op; returns its end. */
static gint64
run (Line *line, const PsProblem *problem, guint chain, gint64 start)
{
  gint64 end = start + problem->duration[chain];

  add_change (line, (Change){ start, problem->take[chain] });
  add_change (line, (Change){ end, -problem->give[chain] });
  return end;
}

static void
enter (Plan *plan, const Way *way, gint64 shift, guint microbatch)
{
  const PsProblem *problem = plan->problem;
  guint begin = way->copy * problem->n_copy_stages;

  for (guint s = begin; s < begin + problem->n_copy_stages; s++)
    {
      Line *line = &plan->line[problem->device[s]];
      gint64 f = way->start[s] + shift, b = way->start[problem->n_stages + s] + shift;
      guint chain = s * N_KINDS;

      add_planned (line, (Planned){ f, op_at (problem, s, PS_OP_F, microbatch) });
      add_planned (line, (Planned){ b, op_at (problem, s, PS_OP_B, microbatch) });
      run (line, problem, chain + PS_OP_F, f);
      run (line, problem, chain + PS_OP_W, run (line, problem, chain + PS_OP_B, b));
    }
}

/* Passes what is over at a moment. */
static void
pass (Plan *plan, gint64 moment)
{
  for (guint d = 0; d < plan->problem->n_devices; d++)
    {
      Line *line = &plan->line[d];

      while (line->change_begin < line->n_changes && line->change[line->change_begin].time <= moment)
        line->change_begin++;
    }
}

/* Lists the ways of a period by their entries. */
static guint
list_ways (const PsProblem *problem, const PsCell *cell, Way *ways)
{
  guint n = 0;

  for (guint wave = 0; wave < cell->n_waves; wave++)
    for (guint copy = 0; copy < problem->n_copies; copy++)
      {
        const gint64 *start = cell->start + (gsize)wave * 2 * problem->n_stages;
        Way way = { start, copy, start[copy * problem->n_copy_stages] };
        guint i = n++;

        for (; i > 0 && ways[i - 1].entry > way.entry; i--)
          ways[i] = ways[i - 1];
        ways[i] = way;
      }
  return n;
}

static gboolean
enter_all (Plan *plan, const PsInjection *injection)
{
  const PsProblem *problem = plan->problem;
  const PsCell *cell = injection->cell;
  g_autofree Way *ways = g_new (Way, (gsize)cell->n_waves * problem->n_copies);
  g_autofree guint *next = g_new0 (guint, problem->n_copies);
  guint n = list_ways (problem, cell, ways), n_left = problem->m * problem->n_copies, n_refused = 0;

  for (guint i = 0; n_left > 0 && n_refused < MAX_PERIODS * n; i++)
    {
      const Way *way = &ways[i % n];
      gint64 shift = (gint64)(i / n) * cell->period;
      guint k = next[way->copy];

      if (i % n == 0 && !injection->spend (0, injection->data))
        return FALSE;
      n_refused++;
      if (k == problem->m || (k > injection->burst && way->entry + shift < (k - injection->burst) * injection->pace)
          || !fits (plan, way, shift))
        continue;
      enter (plan, way, shift, k);
      pass (plan, way->entry + shift);
      next[way->copy]++;
      n_left--;
      n_refused = 0;
    }
  return n_left == 0;
}

static void
add_up_bytes (const PsProblem *problem, gint64 *bytes)
{
  for (guint i = 0; i < problem->n_stages; i++)
    {
      guint s = problem->stages[i], before = i > 0 ? problem->stages[i - 1] : 0;
      gint64 *take = problem->take + (gsize)s * N_KINDS;
      gboolean is_next = i > 0 && problem->device[before] == problem->device[s]
                         && before / problem->n_copy_stages == s / problem->n_copy_stages;

      bytes[s] = take[PS_OP_F];
      if (is_next)
        bytes[s] += bytes[before] - problem->give[before * N_KINDS + PS_OP_F];
    }
}

/* The W that have room between two planned ops. Positions in a cell are rounded, so a little less is room enough. */
static guint8
count_w (const PsProblem *problem, const Planned *planned)
{
  guint chain = chain_of (problem, planned->op);
  gint64 w = problem->duration[chain - chain % N_KINDS + PS_OP_W];
  gint64 gap = planned[1].start - planned->start - problem->duration[chain];

  return w > 0 ? (guint8)CLAMP ((gap + w / W_SLACK) / w, 0, G_MAXUINT8) : G_MAXUINT8;
}

static void
write_plan (const PsProblem *problem, const Line *line, guint first, PsPlan *plan)
{
  for (guint i = 0; i < line->n_planned; i++)
    {
      plan->list[first + i] = line->planned[i].op;
      if (plan->n_w != NULL)
        plan->n_w[first + i] = i + 1 < line->n_planned ? count_w (problem, &line->planned[i]) : G_MAXUINT8;
    }
}

gboolean
ps_inject (const PsProblem *problem, const PsInjection *injection, PsPlan *into)
{
  g_autofree Line *line = g_new0 (Line, problem->n_devices);
  g_autofree Planned *planned = g_new (Planned, problem->n_ops);
  g_autofree Change *change = g_new (Change, 2 * (gsize)problem->n_ops);
  g_autofree gint64 *bytes = g_new (gint64, problem->n_stages);
  Plan plan = { problem, line, bytes };

  add_up_bytes (problem, bytes);
  for (guint d = 0; d < problem->n_devices; d++)
    line[d] = (Line){ .planned = planned + problem->first[d],
                      .change = change + 2 * (gsize)problem->first[d],
                      .level = problem->held[d] };
  if (!enter_all (&plan, injection))
    return FALSE;
  for (guint d = 0; d < problem->n_devices; d++)
    write_plan (problem, &line[d], problem->first[d], into);
  return TRUE;
}
