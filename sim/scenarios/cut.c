/* cut.c - minimum cuts by Dinic's algorithm. */
#include "cut.h"

#define NONE G_MAXUINT32
#define TINY 1e-13

/* The arc back follows each arc; the index of one is that of the other with the last bit changed. */
typedef struct
{
  guint32 to;
  guint32 next; /* of the same node; NONE: it is the last */
  double room;
} Arc;

struct PsCut
{
  guint n; /* nodes; the source is n, the sink n + 1 */
  double *cost;
  GArray *arcs;
  guint32 *first;   /* [n + 2] an arc of the node */
  guint32 *current; /* [n + 2] the arc to try next */
  guint32 *level;   /* [n + 2] arcs from the source; NONE: out of reach */
  guint32 *stack;   /* [n + 2] nodes to look at, then arcs of a path */
};

PsCut *
ps_cut_new (guint n_nodes)
{
  PsCut *cut = g_new (PsCut, 1);
  gsize n = (gsize)n_nodes + 2;

  *cut = (PsCut){ .n = n_nodes,
                  .cost = g_new (double, n_nodes),
                  .arcs = g_array_new (FALSE, FALSE, sizeof (Arc)),
                  .first = g_new (guint32, n),
                  .current = g_new (guint32, n),
                  .level = g_new (guint32, n),
                  .stack = g_new (guint32, n) };
  ps_cut_clear (cut);
  return cut;
}

void
ps_cut_free (PsCut *cut)
{
  if (cut == NULL)
    return;
  g_free (cut->cost);
  g_array_unref (cut->arcs);
  g_free (cut->first);
  g_free (cut->current);
  g_free (cut->level);
  g_free (cut->stack);
  g_free (cut);
}

void
ps_cut_clear (PsCut *cut)
{
  g_array_set_size (cut->arcs, 0);
  for (guint v = 0; v < cut->n; v++)
    cut->cost[v] = 0;
  for (guint v = 0; v < cut->n + 2; v++)
    cut->first[v] = NONE;
}

void
ps_cut_add_cost (PsCut *cut, guint node, double cost)
{
  cut->cost[node] += cost;
}

void
ps_cut_add_arc (PsCut *cut, guint from, guint to, double cost)
{
  const Arc arcs[] = { { to, cut->first[from], cost }, { from, cut->first[to], 0 } };

  if (cost <= TINY)
    return;
  cut->first[from] = cut->arcs->len;
  cut->first[to] = cut->arcs->len + 1;
  g_array_append_vals (cut->arcs, arcs, 2);
}

static Arc *
arc_at (const PsCut *cut, guint32 index)
{
  return &g_array_index (cut->arcs, Arc, index);
}

/* Finds how far the nodes are from the source. FALSE: the sink is out of reach. */
static gboolean
find_levels (PsCut *cut)
{
  guint n_found = 0;

  for (guint v = 0; v < cut->n + 2; v++)
    cut->level[v] = NONE;
  cut->level[cut->n] = 0;
  cut->stack[n_found++] = cut->n;
  for (guint i = 0; i < n_found; i++)
    for (guint32 a = cut->first[cut->stack[i]]; a != NONE; a = arc_at (cut, a)->next)
      if (arc_at (cut, a)->room > TINY && cut->level[arc_at (cut, a)->to] == NONE)
        {
          cut->level[arc_at (cut, a)->to] = cut->level[cut->stack[i]] + 1;
          cut->stack[n_found++] = arc_at (cut, a)->to;
        }
  return cut->level[cut->n + 1] != NONE;
}

/* Sends as much as the path has room for; returns the place of its first arc without any left. */
static guint
push (PsCut *cut, guint length)
{
  double room = arc_at (cut, cut->stack[0])->room;
  guint place = length;

  for (guint i = 1; i < length; i++)
    room = MIN (room, arc_at (cut, cut->stack[i])->room);
  while (length-- > 0)
    {
      arc_at (cut, cut->stack[length])->room -= room;
      arc_at (cut, cut->stack[length] ^ 1)->room += room;
      if (arc_at (cut, cut->stack[length])->room <= TINY)
        place = length;
    }
  return place;
}

/* Fills all paths of the levels found. */
static void
fill (PsCut *cut)
{
  guint32 node = cut->n, a;
  guint length = 0;

  for (guint v = 0; v < cut->n + 2; v++)
    cut->current[v] = cut->first[v];
  for (;;)
    {
      if (node == cut->n + 1)
        {
          length = push (cut, length);
          node = arc_at (cut, cut->stack[length] ^ 1)->to;
        }
      for (a = cut->current[node]; a != NONE; a = arc_at (cut, a)->next)
        if (arc_at (cut, a)->room > TINY && cut->level[arc_at (cut, a)->to] == cut->level[node] + 1)
          break;
      cut->current[node] = a;
      if (a != NONE)
        {
          cut->stack[length++] = a;
          node = arc_at (cut, a)->to;
        }
      else if (length == 0)
        return;
      else
        {
          cut->level[node] = NONE;
          node = arc_at (cut, cut->stack[--length] ^ 1)->to;
        }
    }
}

void
ps_cut_solve (PsCut *cut)
{
  for (guint v = 0; v < cut->n; v++)
    if (cut->cost[v] < 0)
      ps_cut_add_arc (cut, cut->n, v, -cut->cost[v]);
    else
      ps_cut_add_arc (cut, v, cut->n + 1, cut->cost[v]);
  while (find_levels (cut))
    fill (cut);
}

gboolean
ps_cut_has (const PsCut *cut, guint node)
{
  return cut->level[node] != NONE;
}
