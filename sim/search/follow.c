/* follow.c - keeps the memory that a plan takes up to date while ops run before their turns. */
#include "follow.h"

/* Towards the end an F or B runs before its turn if that delays the op that has its turn by less than
 * (EAGER_PART - 1) / EAGER_PART of its own time; else if it does not delay it. */
#define EAGER_PART 8

/* Bytes that remain taken after an op, and after its W if it is a B. */
static gint64
bytes_after (const PsProblem *problem, guint chain)
{
  gint64 bytes = problem->take[chain] - problem->give[chain];

  return chain % N_KINDS == PS_OP_B ? bytes + problem->take[chain + 1] - problem->give[chain + 1] : bytes;
}

static gint64
most_bytes (const PsProblem *problem, guint chain)
{
  gint64 bytes = problem->take[chain];

  return chain % N_KINDS == PS_OP_B ? MAX (bytes, bytes - problem->give[chain] + problem->take[chain + 1]) : bytes;
}

/* Reads the places of a device's ops and the memory that they take. */
static void
read_device (PsFollow *follow, guint device)
{
  const PsProblem *problem = follow->problem;
  gint64 level = problem->held[device];
  guint *turn = &follow->turn[device], op;

  *turn = problem->first[device];
  for (op = ps_follow_turn (follow, device); op != NO_OP; op = ps_follow_turn (follow, device))
    {
      guint chain = chain_of (problem, op);

      follow->place[op] = *turn;
      follow->level[*turn] = level + most_bytes (problem, chain);
      level += bytes_after (problem, chain);
      ++*turn;
    }
  *turn = problem->first[device];
  follow->n_left[device] = problem->m;
}

PsFollow *
ps_follow_new (const PsProblem *problem, const PsPlan *plan)
{
  PsFollow *follow = g_new (PsFollow, 1);
  guint n_ops = problem->n_ops, p = problem->n_devices;

  *follow = (PsFollow){ .problem = problem,
                        .plan = plan,
                        .place = g_new (guint32, n_ops),
                        .level = g_new (gint64, n_ops),
                        .turn = g_new (guint32, p),
                        .n_w = g_new0 (guint, p),
                        .has_b = g_new0 (gboolean, p),
                        .n_left = g_new (guint, p) };
  for (guint d = 0; d < p; d++)
    read_device (follow, d);
  return follow;
}

void
ps_follow_free (PsFollow *follow)
{
  if (follow == NULL)
    return;
  g_free (follow->place);
  g_free (follow->level);
  g_free (follow->turn);
  g_free (follow->n_w);
  g_free (follow->has_b);
  g_free (follow->n_left);
  g_free (follow);
}

/* Whether it is known when the op that has its turn can start: its producer has run. */
static gboolean
knows_turn (const PsFollow *follow, guint device)
{
  guint turn = ps_follow_turn (follow, device);
  guint producer = turn != NO_OP ? producer_of (follow->problem, turn) : NO_OP;

  return producer == NO_OP || follow->place[producer] == NO_OP;
}

/* An F before its turn changes which W have room. So where a plan says where W run, it is for the idle times before the
 * device's first B. */
static gint64
penalty_ahead (const PsFollow *follow, guint device, guint chain, gboolean is_last)
{
  gint64 duration = follow->problem->duration[chain];

  if (is_last)
    return duration / EAGER_PART;
  return chain % N_KINDS == PS_OP_F && follow->plan->n_w != NULL && follow->has_b[device] ? G_MAXINT64 : duration;
}

gint64
ps_follow_penalty (const PsFollow *follow, guint device, guint op, gint64 w_penalty)
{
  guint chain = chain_of (follow->problem, op);
  gboolean is_last = follow->n_left[device] <= follow->plan->n_last;

  if (op == ps_follow_turn (follow, device))
    return 0;
  if (chain % N_KINDS != PS_OP_W)
    return penalty_ahead (follow, device, chain, is_last);
  if (follow->plan->n_w == NULL)
    return w_penalty;
  if (follow->n_w[device] == 0 && !knows_turn (follow, device))
    return G_MAXINT64;
  if (is_last)
    return follow->problem->duration[chain];
  return follow->n_w[device] > 0 ? 0 : w_penalty;
}

gboolean
ps_follow_has_room (const PsFollow *follow, guint device, guint op)
{
  guint chain = chain_of (follow->problem, op);
  gint64 limit = follow->problem->limit[device], bytes = bytes_after (follow->problem, chain);

  if (bytes <= 0 || limit == G_MAXINT64)
    return TRUE;
  for (guint i = follow->turn[device]; i < follow->place[op]; i++)
    if (follow->level[i] + bytes > limit)
      return FALSE;
  return TRUE;
}

/* Goes on to the next op that has not run. All W that have room on the way may run. */
static void
pass_turns (PsFollow *follow, guint device)
{
  const PsPlan *plan = follow->plan;
  guint *turn = &follow->turn[device], n_w = 0;

  for (; ps_follow_turn (follow, device) != NO_OP && follow->place[plan->list[*turn]] == NO_OP; ++*turn)
    n_w += plan->n_w != NULL ? plan->n_w[*turn] : 0;
  follow->n_w[device] = n_w;
}

void
ps_follow_run (PsFollow *follow, guint device, guint op)
{
  const PsProblem *problem = follow->problem;
  guint chain = chain_of (problem, op), place = follow->place[op];

  if (chain % N_KINDS == PS_OP_W)
    {
      follow->n_w[device] -= follow->n_w[device] > 0;
      return;
    }
  for (guint i = follow->turn[device]; i < place; i++)
    follow->level[i] += bytes_after (problem, chain);
  if (chain % N_KINDS == PS_OP_B)
    follow->has_b[device] = TRUE;
  if (chain == problem->stages[problem->first_stage[device]] * N_KINDS)
    follow->n_left[device]--;
  follow->place[op] = NO_OP;
  if (follow->turn[device] == place)
    pass_turns (follow, device);
}
