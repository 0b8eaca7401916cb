/* heads.c - earliest starts of ops by longest paths, by the work before them, and by the memory that forwards need. */
#include "windows-private.h"

/* Ops before another one that are looked at, from the latest back; more gain little. */
#define MAX_LOOK 512

/* The first ops of a chain, which all run before another op of the same device. */
typedef struct
{
  guint chain;
  guint n;
} Part;

typedef struct
{
  const PsProblem *problem;
  guint base;    /* stages below it may start at any time */
  gint64 *start; /* [n_ops] */
  gint64 *each;  /* [n_stages] most bytes that the B and W of a microbatch give back */
  gint64 *time;  /* [n_stages] in this time, backwards of the stage, or of lower ones beside it, give back.. */
  gint64 *bytes; /* [n_stages] ..at most these bytes; 0: none */
  Part *parts;   /* scratch, [2 * n_stages] */
} Heads;

static void
heads_clear (Heads *heads)
{
  g_free (heads->each);
  g_free (heads->time);
  g_free (heads->bytes);
  g_free (heads->parts);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Heads, heads_clear)

/* Takes a way to give back bytes over if it is faster than that of the stage. */
static void
note_return (Heads *heads, guint stage, gint64 time, gint64 bytes)
{
  __extension__ typedef __int128 Wide;

  if (bytes <= 0 || (heads->bytes[stage] > 0 && (Wide)time * heads->bytes[stage] >= (Wide)heads->time[stage] * bytes))
    return;
  heads->time[stage] = time;
  heads->bytes[stage] = bytes;
}

/* Bytes come back by B alone, by B and W, or by the ops of a lower stage. */
static void
set_return (Heads *heads, guint stage, guint below)
{
  const PsProblem *problem = heads->problem;
  const gint64 *duration = problem->duration + (gsize)stage * N_KINDS;
  gint64 kept = ps_problem_kept (problem, stage, PS_OP_F), after_b = ps_problem_kept (problem, stage, PS_OP_B),
         after_w = ps_problem_kept (problem, stage, PS_OP_W);

  heads->each[stage] = MAX (kept - MIN (after_b, after_w), 0);
  note_return (heads, stage, duration[PS_OP_B], kept - after_b);
  note_return (heads, stage, duration[PS_OP_B] + duration[PS_OP_W], kept - after_w);
  if (below != stage)
    note_return (heads, stage, heads->time[below], heads->bytes[below]);
}

/* Least time in which backwards of the stage, or of lower ones beside it, give back `bytes`. */
static gint64
time_to_return (const Heads *heads, guint stage, gint64 bytes)
{
  __extension__ typedef __int128 Wide;

  return bytes > 0 && heads->bytes[stage] > 0 ? (gint64)((Wide)bytes * heads->time[stage] / heads->bytes[stage]) : 0;
}

/* Least start of any op of the stage. */
static gint64
floor_of (const Heads *heads, guint stage)
{
  return stage < heads->base ? -NEVER : 0;
}

/* The part with the latest last op; NULL: all are empty. */
static Part *
latest (const Heads *heads, guint n_parts)
{
  Part *parts = heads->parts, *latest = NULL;
  gint64 start = 0;

  for (guint i = 0; i < n_parts; i++)
    {
      gsize end = (gsize)parts[i].chain * heads->problem->m + parts[i].n;

      if (parts[i].n == 0 || (latest != NULL && heads->start[end - 1] <= start))
        continue;
      latest = &parts[i];
      start = heads->start[end - 1];
    }
  return latest;
}

/* The least start of an op of a stage, if the parts run before it. From any moment on, the device has to run all of
 * their ops that start at that moment or later. Where `returns`, backwards only have to give back `need` bytes: the
 * earlier ones are free, and the later ones take their time. */
static gint64
start_after (const Heads *heads, guint stage, guint n_parts, gint64 need, gboolean returns)
{
  const PsProblem *problem = heads->problem;
  const Part *parts = heads->parts;
  gint64 least = floor_of (heads, stage), work = 0, all = time_to_return (heads, stage, need);

#define RETURNS(part) (returns && (part)->chain % N_KINDS == PS_OP_B)
  for (guint i = 0; i < n_parts; i++)
    if (RETURNS (&parts[i]))
      need -= parts[i].n * heads->each[parts[i].chain / N_KINDS];
    else
      all += parts[i].n * problem->duration[parts[i].chain];
  for (guint i = 0; i < MAX_LOOK; i++)
    {
      Part *last = latest (heads, n_parts);

      if (last == NULL)
        break;
      gint64 start = heads->start[(gsize)last->chain * problem->m + --last->n];
      if (start + all <= least)
        break;
      if (RETURNS (last))
        need += heads->each[last->chain / N_KINDS];
      else
        work += problem->duration[last->chain];
      if (work > 0 || need > 0)
        least = MAX (least, start + work + time_to_return (heads, stage, need));
    }
#undef RETURNS
  return least;
}

/* Stages of the device and copy of a stage, in model order; returns how many. */
static guint
list_beside (const PsProblem *problem, guint stage, const guint **stages)
{
  guint d = problem->device[stage], begin = problem->first_stage[d], end = problem->first_stage[d + 1];

  while (problem->stages[begin] / problem->n_copy_stages != stage / problem->n_copy_stages)
    begin++;
  while (problem->stages[end - 1] / problem->n_copy_stages != stage / problem->n_copy_stages)
    end--;
  *stages = problem->stages + begin;
  return end - begin;
}

/* A forward runs after those of its microbatch in lower stages and those before it, and has to find room. Only earlier
 * microbatches can have given back bytes of these. */
static gint64
forward_start (const Heads *heads, guint stage, guint k)
{
  const PsProblem *problem = heads->problem;
  gint64 limit = problem->asked[problem->device[stage]], need = problem->take[stage * N_KINDS];
  const guint *stages;
  guint n = list_beside (problem, stage, &stages), n_parts = 0;

  for (guint i = 0; i < n && stages[i] <= stage; i++)
    {
      guint done = k + (stages[i] < stage);

      heads->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_F, done };
      heads->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_B, k - k % problem->n_slices };
      need += done * ps_problem_kept (problem, stages[i], PS_OP_F);
    }
  need -= limit == G_MAXINT64 ? limit / 2 : limit - problem->held[problem->device[stage]];
  return start_after (heads, stage, n_parts, MAX (need, 0), TRUE);
}

/* A B runs after all forwards of its microbatch, its B in higher stages, and those before it. */
static gint64
backward_start (const Heads *heads, guint stage, guint k)
{
  const PsProblem *problem = heads->problem;
  const guint *stages;
  guint n = list_beside (problem, stage, &stages), n_parts = 0;

  for (guint i = 0; i < n; i++)
    {
      heads->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_F, k - k % problem->n_slices + problem->n_slices };
      if (stages[i] >= stage)
        heads->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_B, k + (stages[i] > stage) };
    }
  return start_after (heads, stage, n_parts, 0, FALSE);
}

/* Sets the start of an op after its chain, its producer, and what is known of its device. */
static void
set_start (const Heads *heads, guint stage, guint kind, guint k)
{
  const PsProblem *problem = heads->problem;
  guint op = op_at (problem, stage, kind, k), producer = producer_of (problem, op), chain = chain_of (problem, op);
  gint64 start = floor_of (heads, stage);

  if (k > 0)
    start = heads->start[op - 1] + problem->duration[chain];
  if (producer != NO_OP)
    start = MAX (start, heads->start[producer] + problem->duration[chain_of (problem, producer)] + problem->lag[chain]);
  if (kind != PS_OP_W)
    start = MAX (start, kind == PS_OP_F ? forward_start (heads, stage, k) : backward_start (heads, stage, k));
  heads->start[op] = start;
}

void
ps_windows_heads (const PsProblem *problem, guint base, gint64 *start)
{
  guint n = problem->n_stages, q = problem->n_slices;
  g_auto (Heads) heads = { .problem = problem,
                           .base = base,
                           .start = start,
                           .each = g_new0 (gint64, n),
                           .time = g_new0 (gint64, n),
                           .bytes = g_new0 (gint64, n),
                           .parts = g_new (Part, 2 * (gsize)n) };

  for (guint s = 0; s < n; s++)
    {
      const guint *stages;
      guint n_beside = list_beside (problem, s, &stages), below = s;

      for (guint i = 0; i < n_beside && stages[i] < s; i++)
        below = stages[i];
      set_return (&heads, s, below);
    }
  for (guint first = 0; first < problem->m; first += q)
    {
      for (guint i = 0; i < n * q; i++)
        set_start (&heads, i / q, PS_OP_F, first + i % q);
      for (guint i = 0; i < n * q; i++)
        {
          set_start (&heads, n - 1 - i / q, PS_OP_B, first + i % q);
          set_start (&heads, n - 1 - i / q, PS_OP_W, first + i % q);
        }
    }
}
