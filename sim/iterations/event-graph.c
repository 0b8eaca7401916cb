/* event-graph.c - the maximum cycle ratio of an event graph. A ratio is guessed from below, and arcs with tokens are
 * charged with it. A longest-path search then settles, which proves the guess. Or its predecessors close a circle,
 * whose ratio is a better guess. */
#include "event-graph.h"

#include <string.h>

/* Sums over several rounds and their products with numbers of rounds. */
__extension__ typedef __int128 Wide;

struct _PsEventGraph
{
  guint n_events;
  gint64 *duration_ns; /* [n_events] */
  GArray *arcs;        /* PsEventArc */
};

PsEventGraph *
ps_event_graph_new (guint n_events)
{
  PsEventGraph *graph = g_new (PsEventGraph, 1);

  graph->n_events = n_events;
  graph->duration_ns = g_new0 (gint64, n_events);
  graph->arcs = g_array_sized_new (FALSE, FALSE, sizeof (PsEventArc), 2 * n_events);
  return graph;
}

void
ps_event_graph_free (PsEventGraph *graph)
{
  if (graph == NULL)
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
  const PsEventArc arc = { event, from, tokens, delay_ns };

  g_return_if_fail (event < graph->n_events && from < graph->n_events && tokens <= 1);
  g_array_append_val (graph->arcs, arc);
}

gint64
ps_event_graph_duration (const PsEventGraph *graph, guint event)
{
  return graph->duration_ns[event];
}

static void
sort_arcs (PsEventOrder *order, const GArray *arcs)
{
  guint n = order->n_events;

  order->arcs = g_new0 (PsEventArc, arcs->len);
  order->first = g_new0 (guint, (gsize)n + 2);
  for (guint a = 0; a < arcs->len; a++)
    order->first[g_array_index (arcs, PsEventArc, a).event + 2]++;
  for (guint i = 2; i <= n + 1; i++)
    order->first[i] += order->first[i - 1];
  for (guint a = 0; a < arcs->len; a++)
    {
      PsEventArc arc = g_array_index (arcs, PsEventArc, a);

      order->arcs[order->first[arc.event + 1]++] = arc;
    }
}

/* Goes down from an event to the events that it waits for, which come first. */
typedef struct
{
  PsEventOrder *order;
  guint n_ordered;
  guint8 *ordered;
  guint *next; /* 1 + the next arc to look at while an event is open; 0: not met yet */
  guint *stack;
} Descent;

/* FALSE where that leads back to an event from which it started. */
static gboolean
order_from (Descent *descent, guint event)
{
  const PsEventOrder *order = descent->order;
  guint depth = 0;

  descent->stack[depth++] = event;
  descent->next[event] = 1 + order->first[event];
  while (depth > 0)
    {
      guint i = descent->stack[depth - 1], arc = descent->next[i] - 1;

      if (arc == order->first[i + 1])
        {
          order->order[descent->n_ordered++] = i;
          descent->ordered[i] = TRUE;
          depth--;
          continue;
        }
      descent->next[i]++;
      guint from = order->arcs[arc].from;
      if (order->arcs[arc].tokens > 0 || descent->ordered[from])
        continue;
      if (descent->next[from] != 0)
        return FALSE;
      descent->next[from] = 1 + order->first[from];
      descent->stack[depth++] = from;
    }
  return TRUE;
}

gboolean
ps_event_order_init (PsEventOrder *order, const PsEventGraph *graph)
{
  guint n = graph->n_events;
  g_autofree guint *stack = g_new (guint, n), *next = g_new0 (guint, n);
  g_autofree guint8 *ordered = g_new0 (guint8, n);
  Descent descent = { .order = order, .ordered = ordered, .next = next, .stack = stack };

  *order = (PsEventOrder){ .n_events = n, .order = g_new (guint, n) };
  sort_arcs (order, graph->arcs);
  for (guint i = 0; i < n; i++)
    if (!ordered[i] && !order_from (&descent, i))
      return FALSE;
  return TRUE;
}

void
ps_event_order_clear (PsEventOrder *order)
{
  g_free (order->arcs);
  g_free (order->first);
  g_free (order->order);
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
  PsEventOrder order;
  Path *paths;  /* [n_events] */
  guint *visit; /* [n_events] the walk over predecessors that came by last, counted from 1 */
  Ratio ratio;
  GArray *circle; /* guint, the arcs of a circle of that ratio, backwards */
} Search;

static void
search_clear (Search *search)
{
  ps_event_order_clear (&search->order);
  g_free (search->paths);
  g_free (search->visit);
  g_array_unref (search->circle);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

static inline G_ALWAYS_INLINE gboolean
is_longer (Wide length, gint64 tokens, Ratio ratio, gboolean narrow)
{
  if (tokens == 0)
    return length > 0;
  return narrow ? (gint64)length * ratio.rounds > tokens * (gint64)ratio.total
                : length * ratio.rounds > tokens * ratio.total;
}

/* Every event once, in order; FALSE when no path got longer. */
static inline G_ALWAYS_INLINE gboolean
lengthen (Search *search, gboolean narrow)
{
  gboolean longer = FALSE;

  for (guint k = 0; k < search->graph->n_events; k++)
    {
      guint i = search->order.order[k];
      Path path = search->paths[i];

      for (guint a = search->order.first[i]; a < search->order.first[i + 1]; a++)
        {
          const PsEventArc *arc = &search->order.arcs[a];
          const Path *from = &search->paths[arc->from];
          Wide length = from->length + arc->delay_ns + search->graph->duration_ns[i];
          guint tokens = from->tokens + arc->tokens;

          if (!is_longer (length - path.length, (gint64)tokens - path.tokens, search->ratio, narrow))
            continue;
          path = (Path){ length, tokens, a + 1 };
          search->paths[i] = path;
          longer = TRUE;
        }
    }
  return longer;
}

/* The turn-th time, counted from 1. A turn makes no path longer by more than the sum of all durations and delays, nor
 * its tokens by more than all arcs have. So it is known beforehand whether products of both fit into 64 bits. */
static gboolean
lengthen_again (Search *search, guint turn)
{
  Wide sum = 0, tokens = 1;

  for (guint i = 0; i < search->graph->n_events; i++)
    sum += search->graph->duration_ns[i];
  for (guint a = 0; a < search->graph->arcs->len; a++)
    {
      sum += search->order.arcs[a].delay_ns;
      tokens += search->order.arcs[a].tokens;
    }
  if ((turn + 1) * sum < G_MAXINT64 / ((turn + 1) * tokens))
    return lengthen (search, TRUE);
  return lengthen (search, FALSE);
}

/* The ratio of the circle of predecessors that event lies on. */
static Ratio
circle_ratio (const Search *search, guint event)
{
  Ratio ratio = { 0, 0 };
  guint i = event;

  do
    {
      const PsEventArc *arc = &search->order.arcs[search->paths[i].arc - 1];

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
      i = search->order.arcs[arc].from;
    }
  while (i != event);
}

/* Takes over the largest ratio of all circles of predecessors, if there is one. */
static void
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
          i = search->order.arcs[search->paths[i].arc - 1].from;
        }
      if (search->visit[i] != start + 1)
        continue;
      Ratio found = circle_ratio (search, i);
      if (!ratio_exceeds (found, best))
        continue;
      best = found;
      keep_circle (search, i);
    }
  search->ratio = best;
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
  if (!ps_event_order_init (&search->order, graph))
    return FALSE;
  for (guint i = 0; i < graph->n_events; i++)
    search->paths[i] = (Path){ .length = graph->duration_ns[i] };
  /* Paths stay when the ratio grows: they are real ones whatever it is, and where none gets longer no circle exceeds
   * it. */
  for (guint turn = 1; lengthen_again (search, turn); turn++)
    improve_ratio (search);
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

static const PsEventArc *
circle_arc (const Search *search, guint i)
{
  return &search->order.arcs[g_array_index (search->circle, guint, i)];
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
      const PsEventArc *arc = circle_arc (&search, (from + n - i) % n);
      const PsCircleEvent event = { arc->event, arc->tokens, arc->delay_ns, graph->duration_ns[arc->event] };

      g_array_append_val (circle, event);
    }
  return circle;
}
