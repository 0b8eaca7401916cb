/* event-graph.c - the maximum cycle ratio of an event graph: a ratio is guessed from below and arcs with tokens are
 * charged with it; a longest-path search then either settles, which proves the guess, or its predecessors close a
 * circle whose ratio is a better one. */
#include "event-graph.h"

#include <string.h>

/* Sums over several rounds and their products with numbers of rounds. */
__extension__ typedef __int128 Wide;

typedef struct
{
  guint event;
  guint from;
  guint tokens;
  gint64 delay_ns;
} Arc;

struct _PsEventGraph
{
  guint n_events;
  gint64 *duration_ns; /* [n_events] */
  GArray *arcs;        /* Arc */
};

PsEventGraph *
ps_event_graph_new (guint n_events)
{
  PsEventGraph *graph = g_new (PsEventGraph, 1);
  graph->n_events = n_events;
  graph->duration_ns = g_new0 (gint64, n_events);
  graph->arcs = g_array_sized_new (FALSE, FALSE, sizeof (Arc), 2 * n_events);
  return graph;
}

void
ps_event_graph_free (PsEventGraph *graph)
{
  if (!graph)
    return;
  g_free (graph->duration_ns);
  g_array_unref (graph->arcs);
  g_free (graph);
}

void
ps_event_graph_set_duration (PsEventGraph *graph, guint event, gint64 duration_ns)
{
  graph->duration_ns[event] = duration_ns;
}

void
ps_event_graph_wait (PsEventGraph *graph, guint event, guint from, guint tokens, gint64 delay_ns)
{
  const Arc arc = { event, from, tokens, delay_ns };
  g_return_if_fail (event < graph->n_events && from < graph->n_events && tokens <= 1);
  g_array_append_val (graph->arcs, arc);
}

/* total / rounds */
typedef struct
{
  Wide total;
  guint rounds;
} Ratio;

static gboolean
ratio_exceeds (Ratio a, Ratio b)
{
  return a.total * b.rounds > b.total * a.rounds;
}

/* The longest path found so far to the end of an event, tokens charged. */
typedef struct
{
  Wide length;
  guint tokens;
  guint arc; /* 1 + the arc it came by; 0: it began here */
} Path;

typedef struct
{
  const PsEventGraph *graph;
  Arc *arcs;    /* by the event that waits */
  guint *first; /* [n_events + 1] into arcs */
  guint *order; /* [n_events] events, each behind those of its round that it waits for */
  Path *paths;  /* [n_events] */
  guint *visit; /* [n_events] the walk over predecessors that came by last, counted from 1 */
  Ratio ratio;
  GArray *circle; /* guint, the arcs of a circle of that ratio, backwards */
} Search;

static void
search_clear (Search *search)
{
  g_free (search->arcs);
  g_free (search->first);
  g_free (search->order);
  g_free (search->paths);
  g_free (search->visit);
  g_array_unref (search->circle);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

static void
sort_arcs (Search *search)
{
  const GArray *arcs = search->graph->arcs;
  guint n = search->graph->n_events;
  search->arcs = g_new0 (Arc, arcs->len);
  search->first = g_new0 (guint, (gsize)n + 2);
  for (guint a = 0; a < arcs->len; a++)
    search->first[g_array_index (arcs, Arc, a).event + 2]++;
  for (guint i = 2; i <= n + 1; i++)
    search->first[i] += search->first[i - 1];
  for (guint a = 0; a < arcs->len; a++)
    {
      Arc arc = g_array_index (arcs, Arc, a);
      search->arcs[search->first[arc.event + 1]++] = arc;
    }
}

/* Goes down from an event to what it waits for, which comes first. FALSE where that leads back to an event from which
 * it started: visit is 1 + the next arc to look at while an event is open. */
static gboolean
order_from (Search *search, guint event, guint *stack, guint *n_ordered, guint8 *ordered)
{
  guint depth = 0;
  stack[depth++] = event;
  search->visit[event] = 1 + search->first[event];
  while (depth > 0)
    {
      guint i = stack[depth - 1], arc = search->visit[i] - 1;
      if (arc == search->first[i + 1])
        {
          search->order[(*n_ordered)++] = i;
          ordered[i] = TRUE;
          depth--;
          continue;
        }
      search->visit[i]++;
      guint from = search->arcs[arc].from;
      if (search->arcs[arc].tokens > 0 || ordered[from])
        continue;
      if (search->visit[from] != 0)
        return FALSE;
      search->visit[from] = 1 + search->first[from];
      stack[depth++] = from;
    }
  return TRUE;
}

static gboolean
order_events (Search *search)
{
  guint n = search->graph->n_events, n_ordered = 0;
  g_autofree guint *stack = g_new (guint, n);
  g_autofree guint8 *ordered = g_new0 (guint8, n);
  search->order = g_new (guint, n);
  memset (search->visit, 0, n * sizeof *search->visit);
  for (guint i = 0; i < n; i++)
    if (!ordered[i] && !order_from (search, i, stack, &n_ordered, ordered))
      return FALSE;
  return TRUE;
}

static inline gboolean
is_longer (const Search *search, Wide length, guint tokens, const Path *than)
{
  if (tokens == than->tokens)
    return length > than->length;
  return (length - than->length) * search->ratio.rounds > ((Wide)tokens - (Wide)than->tokens) * search->ratio.total;
}

/* Every event once, in order; FALSE when no path got longer. */
static gboolean
lengthen (Search *search)
{
  gboolean longer = FALSE;
  for (guint k = 0; k < search->graph->n_events; k++)
    {
      guint i = search->order[k];
      Path *path = &search->paths[i];
      for (guint a = search->first[i]; a < search->first[i + 1]; a++)
        {
          const Arc *arc = &search->arcs[a];
          const Path *from = &search->paths[arc->from];
          Wide length = from->length + arc->delay_ns + search->graph->duration_ns[i];
          if (!is_longer (search, length, from->tokens + arc->tokens, path))
            continue;
          *path = (Path){ length, from->tokens + arc->tokens, a + 1 };
          longer = TRUE;
        }
    }
  return longer;
}

/* The ratio of the circle of predecessors that event lies on. */
static Ratio
circle_ratio (const Search *search, guint event)
{
  Ratio ratio = { 0, 0 };
  guint i = event;
  do
    {
      const Arc *arc = &search->arcs[search->paths[i].arc - 1];
      ratio.total += search->graph->duration_ns[i] + arc->delay_ns;
      ratio.rounds += arc->tokens;
      i = arc->from;
    }
  while (i != event);
  return ratio;
}

static void
keep_circle (Search *search, guint event)
{
  guint i = event;
  g_array_set_size (search->circle, 0);
  do
    {
      guint arc = search->paths[i].arc - 1;
      g_array_append_val (search->circle, arc);
      i = search->arcs[arc].from;
    }
  while (i != event);
}

/* Takes over the largest ratio of all circles of predecessors; FALSE when there is none. */
static gboolean
improve_ratio (Search *search)
{
  Ratio best = search->ratio;
  memset (search->visit, 0, search->graph->n_events * sizeof *search->visit);
  for (guint start = 0; start < search->graph->n_events; start++)
    {
      guint i = start;
      while (search->visit[i] == 0 && search->paths[i].arc != 0)
        {
          search->visit[i] = start + 1;
          i = search->arcs[search->paths[i].arc - 1].from;
        }
      if (search->visit[i] != start + 1)
        continue;
      Ratio found = circle_ratio (search, i);
      if (!ratio_exceeds (found, best))
        continue;
      best = found;
      keep_circle (search, i);
    }
  gboolean improved = ratio_exceeds (best, search->ratio);
  search->ratio = best;
  return improved;
}

static void
restart (Search *search)
{
  for (guint i = 0; i < search->graph->n_events; i++)
    search->paths[i] = (Path){ .length = search->graph->duration_ns[i] };
}

static Wide
greatest_common_divisor (Wide a, Wide b)
{
  while (b)
    {
      Wide rest = a % b;
      a = b;
      b = rest;
    }
  return a;
}

static gboolean
search_ratio (Search *search, const PsEventGraph *graph)
{
  *search = (Search){ .graph = graph, .ratio = { 0, 1 } };
  search->paths = g_new (Path, graph->n_events);
  search->visit = g_new (guint, graph->n_events);
  search->circle = g_array_new (FALSE, FALSE, sizeof (guint));
  sort_arcs (search);
  if (!order_events (search))
    return FALSE;
  restart (search);
  while (lengthen (search))
    if (improve_ratio (search))
      restart (search);
  return TRUE;
}

gboolean
ps_event_graph_period (const PsEventGraph *graph, gint64 *period_ns, guint *n_rounds)
{
  g_auto (Search) search = { 0 };
  if (!search_ratio (&search, graph))
    return FALSE;
  guint divisor = (guint)greatest_common_divisor (search.ratio.total, search.ratio.rounds);
  *n_rounds = search.ratio.rounds / divisor;
  *period_ns = (gint64)((2 * search.ratio.total + search.ratio.rounds) / (2 * (Wide)search.ratio.rounds));
  return TRUE;
}

static const Arc *
circle_arc (const Search *search, guint i)
{
  return &search->arcs[g_array_index (search->circle, guint, i)];
}

/* Where in the circle to begin: at the lowest event that waits for the round before. */
static guint
beginning (const Search *search)
{
  guint best = 0;
  for (guint i = 1; i < search->circle->len; i++)
    if (circle_arc (search, i)->tokens > circle_arc (search, best)->tokens
        || (circle_arc (search, i)->tokens == circle_arc (search, best)->tokens
            && circle_arc (search, i)->event < circle_arc (search, best)->event))
      best = i;
  return best;
}

GArray *
ps_event_graph_circle (const PsEventGraph *graph)
{
  g_auto (Search) search = { 0 };
  GArray *circle;
  if (!search_ratio (&search, graph))
    return NULL;
  guint n = search.circle->len, from = n ? beginning (&search) : 0;
  circle = g_array_sized_new (FALSE, FALSE, sizeof (PsCircleEvent), n);
  for (guint i = 0; i < n; i++)
    {
      const Arc *arc = circle_arc (&search, (from + n - i) % n);
      const PsCircleEvent event = { arc->event, arc->tokens, arc->delay_ns, graph->duration_ns[arc->event] };
      g_array_append_val (circle, event);
    }
  return circle;
}
