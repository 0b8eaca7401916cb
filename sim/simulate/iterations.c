/* iterations.c - the time of an iteration in steady state. Where all devices meet at the optimizer it follows from the
 * times of one iteration; else it is the period of the repeated program. */
#include "rounds.h"
#include "program/channels.h"
#include "program/drain.h"
#include "events-private.h"
#include "simulate-private.h"
#include "base/names.h"

#include <pipesim/simulate.h>

#include <string.h>
#include <glib.h>

#define PS_NO_STEP G_MAXUINT32

/* Rounds of pure latency, one after the other, at the times of the costs. All that a round reads of the one before is a
 * row, of times counted from the moment when the first device is ready; that of the first round is all 0. */
typedef struct _PsEndless PsEndless;

/* The maximum cycle ratio of an event graph. A ratio is guessed from below, and arcs with tokens are
 * charged with it. A longest-path search then settles, which proves the guess. Or its predecessors close a circle,
 * whose ratio is a better guess. */

/* Sums over several rounds and their products with numbers of rounds. */
__extension__ typedef __int128 Wide;

struct _PsEventGraph
{
  guint n_events;
  gint64 *duration_ns; /* [n_events] */
  GArray *arcs;        /* PsEventArc */
};

/* Events 0 .. n_events - 1, which take no time and wait for no other. Free with ps_event_graph_free. */
static PsEventGraph *
event_graph_new (guint n_events)
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

static void
event_graph_set_duration (PsEventGraph *graph, guint event, gint64 duration_ns)
{
  graph->duration_ns[event] = duration_ns;
}

/* event also waits for `from`: of the same round when tokens is 0, of the round before when it is 1. */
static void
event_graph_wait (PsEventGraph *graph, guint event, guint from, guint tokens, gint64 delay_ns)
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

/* The all-reduces of gradients: the steps that they wait for, and when a device is done with them. */

/* The step at whose end the op's result is there: of a pair, its second. */
static guint32
ending_step (const PsProgram *program, guint32 step)
{
  return step + (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST);
}

static guint
held_index (const PsSchedule *schedule, PsOp op)
{
  return ps_schedule_weight_copy (schedule, op.microbatch) * schedule->placement->n_stages + op.stage;
}

/* Walking a device's order backwards meets the last W or BW of each of its n_held stages first: held is filled from its
 * end. */
static void
order_device (PsReductions *reductions, const PsProgram *program, guint device, guint n_held)
{
  const PsSchedule *schedule = program->schedule;
  guint fill = reductions->first[device + 1], all = fill - n_held;

  for (guint i = schedule->first[device + 1]; i-- > schedule->first[device] && fill > all;)
    {
      PsOp op = schedule->ops[i];
      guint index = held_index (schedule, op);

      if ((op.kind != PS_OP_W && op.kind != PS_OP_BW) || reductions->last_step[index] != PS_NO_STEP)
        continue;
      reductions->last_step[index] = ending_step (program, program->step_of[i]);
      reductions->held[--fill] = index;
    }
  reductions->first[device] = fill;
}

void
ps_reductions_init (PsReductions *reductions, const PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  guint n = placement->n_copies * placement->n_stages;

  reductions->last_step = g_new (guint32, n);
  reductions->held = g_new0 (guint, n);
  reductions->first = g_new0 (guint, (gsize)placement->n_devices + 1);
  for (guint i = 0; i < n; i++)
    reductions->last_step[i] = PS_NO_STEP;
  reductions->first[placement->n_devices] = n;
  g_autofree guint *n_held = g_new0 (guint, placement->n_devices);
  for (guint i = 0; i < n; i++)
    n_held[placement->device[i]]++;
  for (guint device = placement->n_devices; device-- > 0;)
    order_device (reductions, program, device, n_held[device]);
}

typedef struct
{
  const PsReductions *reductions;
  const PsSimulation *simulation;
} Ends;

static int
compare_ends (gconstpointer a, gconstpointer b, gpointer data)
{
  const Ends *ends = data;
  guint i = *(const guint *)a, k = *(const guint *)b;
  guint32 x = ends->reductions->last_step[i], y = ends->reductions->last_step[k];
  int order = ps_compare_int64 (&ends->simulation->end_ns[x + 1], &ends->simulation->end_ns[y + 1]);

  return order != 0 ? order : x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

/* Takes the steps and the order from a simulation whose devices may have run their ops in another order than the
 * program's (ready order). */
static void
reductions_follow (PsReductions *reductions, const PsProgram *program, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  const gint64 *end_ns = simulation->end_ns;
  Ends ends = { reductions, simulation };

  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    {
      guint32 *last = &reductions->last_step[held_index (schedule, schedule->ops[i])];
      guint32 step = ending_step (program, program->step_of[i]);

      if ((schedule->ops[i].kind == PS_OP_W || schedule->ops[i].kind == PS_OP_BW)
          && end_ns[step + 1] > end_ns[*last + 1])
        *last = step;
    }
  for (guint device = 0; device < schedule->placement->n_devices; device++)
    qsort_r (reductions->held + reductions->first[device], reductions->first[device + 1] - reductions->first[device],
             sizeof *reductions->held, compare_ends, &ends);
}

void
ps_reductions_clear (PsReductions *reductions)
{
  g_free (reductions->last_step);
  g_free (reductions->held);
  g_free (reductions->first);
}

/* When the gradients of a stage are complete: its last W or BW has ended on every copy that was used. */
static gint64
gradients_ns (const PsProgram *program, const PsSimulation *simulation, const PsReductions *reductions, guint stage)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 ready = 0;

  for (guint copy = 0; copy < placement->n_copies; copy++)
    {
      guint32 step = reductions->last_step[(gsize)copy * placement->n_stages + stage];

      if (step != PS_NO_STEP)
        ready = MAX (ready, simulation->end_ns[step + 1]);
    }
  return ready;
}

/* Whatever ran on a device, a W or BW was its last: with its all-reduces it is done. */
/* When a device is done with its all-reduces. The last op of a device is a W or BW. */
static gint64
reductions_end_ns (const PsReductions *reductions, const PsProgram *program, const PsCosts *costs,
                   const PsSimulation *simulation, guint device, PsReduce reduce)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 time = reduce == PS_REDUCE_EXPOSED ? simulation->device[device].end_ns : 0;

  for (guint i = reductions->first[device]; i < reductions->first[device + 1]; i++)
    {
      guint stage = reductions->held[i] % placement->n_stages;

      time = MAX (time, gradients_ns (program, simulation, reductions, stage))
             + ps_costs_reduce_ns (costs, stage, placement->n_copies);
    }
  return time;
}

/* One iteration as a round of an event graph. After all ops come, per device, the all-reduce of each stage,
 * the state handed down for the optimizer, and the optimizer step. The next round waits for that step. */

#define NO_EVENT G_MAXUINT

/* The first and the last event that hold one end of a channel in a round. */
typedef struct
{
  guint head; /* event; NO_EVENT: nothing yet */
  guint tail;
} End;

/* A round while it is built. */
typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation; /* NULL: durations come from the costs */
  const PsEventsSetting *setting;
  PsReduce reduce;
  PsEventGraph *graph;
  PsReductions reductions;
  PsDrain drain;
  guint *last;    /* [n_devices] the device's last event in this round; NO_EVENT: none yet */
  guint *pending; /* [n_copies * n_stages] ends of microbatches on the stage since its last update */
  PsRoundEvents events;
  PsChannels *channels;
  End *ends; /* [n_ends] */
} Rounds;

static gboolean
has_messages (const PsEventsSetting *setting)
{
  return setting->comm != PS_CHANNEL_LATENCY || setting->blocking;
}

void
ps_round_events_init (PsRoundEvents *events, const PsProgram *program, const PsEventsSetting *setting)
{
  const PsPlacement *placement = program->schedule->placement;

  events->first_message = program->n_steps;
  events->first_reduction = program->n_steps * (setting != NULL && has_messages (setting) ? 3 : 1);
  events->first_update = events->first_reduction + placement->n_copies * placement->n_stages;
  events->first_single = events->first_update + 2 * placement->n_devices;
  events->n_events = events->first_single + (program->schedule->asynchronous ? program->n_steps : 0);
}

static void
rounds_init (Rounds *rounds)
{
  const PsProgram *program = rounds->program;
  const PsPlacement *placement = program->schedule->placement;

  ps_reductions_init (&rounds->reductions, program);
  ps_drain_init (&rounds->drain, program);
  rounds->last = g_new (guint, placement->n_devices);
  for (guint device = 0; device < placement->n_devices; device++)
    rounds->last[device] = NO_EVENT;
  rounds->pending = g_new0 (guint, placement->n_copies * placement->n_stages);
  ps_round_events_init (&rounds->events, program, rounds->setting);
  rounds->graph = event_graph_new (rounds->events.n_events);
  rounds->channels = ps_channels_new (program, rounds->setting->comm);
  rounds->ends = g_new0 (End, rounds->channels->n_ends);
  for (guint i = 0; i < rounds->channels->n_ends; i++)
    rounds->ends[i] = (End){ NO_EVENT, NO_EVENT };
}

static void
rounds_clear (Rounds *rounds)
{
  ps_reductions_clear (&rounds->reductions);
  ps_drain_clear (&rounds->drain);
  g_free (rounds->last);
  g_free (rounds->pending);
  ps_channels_free (rounds->channels);
  g_free (rounds->ends);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rounds, rounds_clear)

static guint
state_event (const Rounds *rounds, guint device)
{
  return rounds->events.first_update + 2 * device;
}

static guint
update_event (const Rounds *rounds, guint device)
{
  return state_event (rounds, device) + 1;
}

static void
follow (Rounds *rounds, guint device, guint event)
{
  guint *last = &rounds->last[device];

  if (*last != NO_EVENT)
    event_graph_wait (rounds->graph, event, *last, 0, 0);
  else
    event_graph_wait (rounds->graph, event, update_event (rounds, device), 1, 0);
  *last = event;
}

/* The events engine may have run at other durations than the costs'. */
static gint64
step_duration (const Rounds *rounds, guint step)
{
  const PsSimulation *simulation = rounds->simulation;
  const PsProgram *program = rounds->program;

  if (simulation == NULL && rounds->setting->duration_ns != NULL)
    return rounds->setting->duration_ns[step];
  if (simulation == NULL || simulation->start_ns == NULL)
    return ps_step_duration (program, rounds->costs, step);
  if (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST)
    return 0;
  return simulation->end_ns[step + 1] - simulation->start_ns[step];
}

/* The optimizer step of an asynchronous schedule that follows a step, if that ends the last microbatch of an update; an
 * all-reduce that overlaps with nothing comes between. FALSE: none does. pending [n_copies * n_stages], 0 when a round
 * begins, counts microbatches. */
static gboolean
rounds_update_after (const PsProgram *program, guint step, const PsCosts *costs, const PsEventsSetting *setting,
                     PsReduce reduce, guint *pending, gint64 *duration_ns)
{
  const PsSchedule *schedule = program->schedule;
  const PsPlacement *placement = schedule->placement;
  PsOp op = schedule->ops[program->op_of[step]];
  guint *of_copy = &pending[ps_schedule_weight_copy (schedule, op.microbatch) * placement->n_stages + op.stage];

  if ((op.kind != PS_OP_W && op.kind != PS_OP_BW)
      || ++*of_copy < ps_schedule_update_every (schedule) * schedule->n_slices)
    return FALSE;
  *of_copy = 0;
  *duration_ns
      = ps_event_at_speed (setting, program->steps[step].device, ps_costs_op (costs, PS_OP_O, op.stage)->duration_ns);
  if (reduce == PS_REDUCE_EXPOSED)
    *duration_ns += ps_costs_reduce_ns (costs, op.stage, placement->n_copies);
  return TRUE;
}

static void
add_single_update (Rounds *rounds, guint step)
{
  guint event = rounds->events.first_single + step;
  gint64 duration_ns;

  if (!rounds_update_after (rounds->program, step, rounds->costs, rounds->setting, rounds->reduce, rounds->pending,
                            &duration_ns))
    return;
  event_graph_set_duration (rounds->graph, event, duration_ns);
  follow (rounds, rounds->program->steps[step].device, event);
}

static void
add_op (Rounds *rounds, guint op)
{
  const PsProgram *program = rounds->program;
  guint step = program->step_of[op];
  const PsStep *about = &program->steps[step];

  event_graph_set_duration (rounds->graph, step, step_duration (rounds, step));
  follow (rounds, about->device, step);
  if (rounds->program->schedule->asynchronous)
    add_single_update (rounds, step);
  if (about->input == 0 || has_messages (rounds->setting))
    return;
  guint producer = about->input - 1;
  const gint64 *transfer_ns = rounds->setting->transfer_ns;
  event_graph_wait (rounds->graph, step, producer,
                    rounds->drain.ahead[program->op_of[producer]] - rounds->drain.ahead[op],
                    transfer_ns != NULL ? transfer_ns[step] : rounds->costs->transfer_ns[about->transfer]);
}

static guint
sent_event (const Rounds *rounds, guint step)
{
  return rounds->events.first_message + 2 * step;
}

static guint
received_event (const Rounds *rounds, guint step)
{
  return sent_event (rounds, step) + 1;
}

/* The message of a step has two events. Sending it takes its time, receiving it takes none. This links data, duration
 * and arrival; the waiting on channel ends comes with the instructions. */
static void
add_message (Rounds *rounds, guint step)
{
  const PsProgram *program = rounds->program;
  const gint64 *transfer_ns = rounds->setting->transfer_ns;
  guint sent = sent_event (rounds, step), received = received_event (rounds, step);
  guint producer = program->steps[step].input - 1;
  guint tokens = rounds->drain.ahead[program->op_of[producer]] - rounds->drain.ahead[program->op_of[step]];

  event_graph_set_duration (rounds->graph, sent,
                            transfer_ns != NULL ? transfer_ns[step]
                                                : rounds->costs->transfer_ns[program->steps[step].transfer]);
  event_graph_wait (rounds->graph, sent, producer, 0, 0);
  event_graph_wait (rounds->graph, received, sent, 0, 0);
  event_graph_wait (rounds->graph, step, received, tokens, 0);
}

/* The next send or receive of a device. Its turn lets the sending begin, or, at the receiver of an eager message, the
 * receiving. */
static void
add_post (Rounds *rounds, guint32 message, guint side)
{
  const PsProgram *program = rounds->program;
  const PsMessage *about = &program->messages[message - 1];
  guint step = about->consumer, sent = sent_event (rounds, step), received = received_event (rounds, step);
  gboolean eager
      = ps_events_setting_is_eager (rounds->setting, rounds->costs->message_bytes[program->steps[step].transfer]);
  guint holds = side == PS_SIDE_RECEIVER ? received : sent;
  guint waits = side == PS_SIDE_RECEIVER && eager ? received : sent;
  End *end;

  if (rounds->setting->blocking)
    {
      guint device = side == PS_SIDE_RECEIVER ? about->receiver : about->sender;

      follow (rounds, device, waits);
      rounds->last[device] = holds;
    }
  if (rounds->channels->n_ends == 0)
    return;
  end = &rounds->ends[rounds->channels->turns[message - 1][side].end];
  if (end->tail == NO_EVENT)
    end->head = waits;
  else
    event_graph_wait (rounds->graph, waits, end->tail, 0, 0);
  end->tail = holds;
}

/* As the program orders them. */
static void
walk_instructions (Rounds *rounds, guint device)
{
  const PsProgram *program = rounds->program;
  guint op = program->schedule->first[device];

  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];

      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        add_op (rounds, op++);
      else if (ps_instruction_is_post (instruction))
        add_post (rounds, instruction->message, ps_instruction_side (instruction));
    }
}

static void
walk_op (gpointer rounds, guint op)
{
  add_op (rounds, op);
}

static void
walk_message (gpointer rounds, guint32 number)
{
  add_post (rounds, number, PS_SIDE_SENDER);
  add_post (rounds, number, PS_SIDE_RECEIVER);
}

/* All ops and messages, where transfers queue, are eager or hold up devices. The first to hold an end in a round waits
 * for the last of the round before. */
static void
add_messages (Rounds *rounds)
{
  const PsProgram *program = rounds->program;

  for (guint i = 0; i < program->n_steps; i++)
    if (program->message_of[i] != 0)
      add_message (rounds, i);
  if (program->schedule->asynchronous)
    ps_drain_walk (&rounds->drain, program, walk_op, walk_message, rounds);
  else
    for (guint device = 0; device < program->schedule->placement->n_devices; device++)
      walk_instructions (rounds, device);
  for (guint i = 0; i < rounds->channels->n_ends; i++)
    event_graph_wait (rounds->graph, rounds->ends[i].head, rounds->ends[i].tail, 1, 0);
}

/* Whether all-reduces overlap with the next round of an asynchronous schedule. Only those of the round before are done
 * when a round ends. They must not pile up, so the first waits for the last of the round before. */
static gboolean
reduces_late (const Rounds *rounds)
{
  return rounds->program->schedule->asynchronous && rounds->reduce == PS_REDUCE_OVERLAPPED;
}

static guint
n_updates (const PsSchedule *schedule)
{
  return schedule->n_microbatches / ps_schedule_update_every (schedule);
}

/* The all-reduce of reductions.held[i]; `before` is the previous all-reduce of the device. */
static void
add_reduction (Rounds *rounds, guint device, guint i, guint before)
{
  const PsPlacement *placement = rounds->program->schedule->placement;
  guint stage = rounds->reductions.held[i] % placement->n_stages, event = rounds->events.first_reduction + i;
  gint64 reduce_ns = ps_costs_reduce_ns (rounds->costs, stage, placement->n_copies);

  /* One for each optimizer step; exposed ones belong to their steps. */
  if (rounds->program->schedule->asynchronous)
    reduce_ns *= rounds->reduce == PS_REDUCE_EXPOSED ? 0 : n_updates (rounds->program->schedule);
  event_graph_set_duration (rounds->graph, event, reduce_ns);
  for (guint copy = 0; copy < placement->n_copies; copy++)
    {
      guint32 step = rounds->reductions.last_step[copy * placement->n_stages + stage];

      if (step != PS_NO_STEP)
        event_graph_wait (rounds->graph, event, step, 0, 0);
    }
  if (rounds->reduce == PS_REDUCE_EXPOSED)
    event_graph_wait (rounds->graph, event, rounds->last[device], 0, 0);
  if (before != NO_EVENT)
    event_graph_wait (rounds->graph, event, before, 0, 0);
}

/* The event of the device's last all-reduce; NO_EVENT: it has none. */
static guint
add_reductions (Rounds *rounds, guint device)
{
  guint begin = rounds->reductions.first[device], end = rounds->reductions.first[device + 1];

  for (guint i = begin; i < end; i++)
    add_reduction (rounds, device, i, i > begin ? rounds->events.first_reduction + i - 1 : NO_EVENT);
  if (begin == end)
    return NO_EVENT;
  if (reduces_late (rounds))
    event_graph_wait (rounds->graph, rounds->events.first_reduction + begin, rounds->events.first_reduction + end - 1,
                      1, 0);
  return rounds->events.first_reduction + end - 1;
}

static void
add_update (Rounds *rounds, guint device)
{
  guint state = state_event (rounds, device), reduced = add_reductions (rounds, device);

  if (rounds->last[device] != NO_EVENT)
    event_graph_wait (rounds->graph, state, rounds->last[device], 0, 0);
  if (reduced != NO_EVENT)
    event_graph_wait (rounds->graph, state, reduced, reduces_late (rounds), 0);
  if (device > 0 && !rounds->program->schedule->asynchronous)
    event_graph_wait (rounds->graph, state, state_event (rounds, device - 1), 0, 0);
  if (!rounds->program->schedule->asynchronous)
    event_graph_set_duration (rounds->graph, update_event (rounds, device),
                              ps_events_optimizer_ns (rounds->program, rounds->costs, rounds->setting, device));
  event_graph_wait (rounds->graph, update_event (rounds, device), state, 0, 0);
}

/* The same where each device has reduced in the order that reductions say. */
static gint64
rounds_end (const PsReductions *reductions, const PsProgram *program, const PsCosts *costs,
            const PsSimulation *simulation, PsReduce reduce, gint64 *ready_ns)
{
  gint64 state = 0, least = G_MAXINT64;

  for (guint device = 0; device < simulation->n_devices; device++)
    {
      state = MAX (state, reductions_end_ns (reductions, program, costs, simulation, device, reduce));
      ready_ns[device] = state + simulation->device[device].optimizer_ns;
      least = MIN (least, ready_ns[device]);
    }
  for (guint device = 0; device < simulation->n_devices; device++)
    ready_ns[device] -= least;
  return least;
}

gint64
ps_rounds_advance (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, PsReduce reduce,
                   gint64 *ready_ns)
{
  g_auto (PsReductions) reductions = { 0 };

  ps_reductions_init (&reductions, program);
  reductions_follow (&reductions, program, simulation);
  return rounds_end (&reductions, program, costs, simulation, reduce, ready_ns);
}

PsEventGraph *
ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
               const PsEventsSetting *setting, PsReduce reduce)
{
  static const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  g_auto (Rounds) rounds = { .program = program,
                             .costs = costs,
                             .simulation = simulation,
                             .setting = setting != NULL ? setting : &latency,
                             .reduce = reduce };

  rounds_init (&rounds);
  if (has_messages (rounds.setting))
    add_messages (&rounds);
  else
    for (guint i = 0; i < program->n_steps; i++)
      add_op (&rounds, rounds.drain.sequence[i]);
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    add_update (&rounds, device);
  return rounds.graph;
}

/* Rounds one after the other, under pure latency. A row holds all that the next round reads
 * of one. */

struct _PsEndless
{
  const PsProgram *program;
  const PsCosts *costs;
  PsReduce reduce;
  PsReductions reductions;
  PsSimulation *simulation; /* of a round; NULL: asynchronous, and the rest is used */
  PsDrain drain;
  guint n_columns; /* of a row: when each device is free; when it has reduced; the ends of the ops that run ahead */
  guint32 *column; /* [n_ops] of an op that runs ahead */
  guint *pending;  /* [n_copies * n_stages] as in ps_rounds_update_after */
  gint64 *end_ns;  /* [n_steps] of this round */
};

static void
init_drain (PsEndless *endless)
{
  const PsProgram *program = endless->program;
  const PsPlacement *placement = program->schedule->placement;

  ps_drain_init (&endless->drain, program);
  endless->n_columns = 2 * placement->n_devices;
  endless->column = g_new (guint32, program->n_steps);
  for (guint op = 0; op < program->n_steps; op++)
    if (endless->drain.ahead[op])
      endless->column[op] = endless->n_columns++;
  endless->pending = g_new (guint, placement->n_copies * placement->n_stages);
  endless->end_ns = g_new (gint64, program->n_steps);
}

static PsEndless *
endless_new (const PsProgram *program, const PsCosts *costs, PsReduce reduce)
{
  PsEndless *endless = g_new0 (PsEndless, 1);

  *endless = (PsEndless){ .program = program, .costs = costs, .reduce = reduce };
  endless->n_columns = program->schedule->placement->n_devices;
  ps_reductions_init (&endless->reductions, program);
  if (program->schedule->asynchronous)
    init_drain (endless);
  else
    endless->simulation = ps_simulation_new (program);
  return endless;
}

static void
endless_free (PsEndless *endless)
{
  if (endless == NULL)
    return;
  ps_reductions_clear (&endless->reductions);
  ps_drain_clear (&endless->drain);
  ps_simulation_free (endless->simulation);
  g_free (endless->column);
  g_free (endless->pending);
  g_free (endless->end_ns);
  g_free (endless);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsEndless, endless_free)

/* When the input of an op is there: of this round, or of the one before where its producer runs ahead. */
static gint64
arrival (const PsEndless *endless, guint op, const PsStep *step, const gint64 *before)
{
  guint producer = step->input - 1, other = endless->program->op_of[producer];
  gboolean earlier = endless->drain.ahead[other] > endless->drain.ahead[op];

  return (earlier ? before[endless->column[other]] : endless->end_ns[producer])
         + endless->costs->transfer_ns[step->transfer];
}

static void
run_ops (const PsEndless *endless, const gint64 *before, gint64 *after)
{
  static const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  const PsProgram *program = endless->program;
  const PsPlacement *placement = program->schedule->placement;

  memset (endless->pending, 0, placement->n_copies * placement->n_stages * sizeof *endless->pending);
  memcpy (after, before, placement->n_devices * sizeof *after);
  for (guint i = 0; i < program->n_steps; i++)
    {
      guint op = endless->drain.sequence[i], id = program->step_of[op];
      const PsStep *step = &program->steps[id];
      gint64 *free_ns = &after[step->device];
      gint64 update_ns;

      if (step->input != 0)
        *free_ns = MAX (*free_ns, arrival (endless, op, step, before));
      *free_ns += ps_step_duration (program, endless->costs, id);
      endless->end_ns[id] = *free_ns;
      if (endless->drain.ahead[op])
        after[endless->column[op]] = *free_ns;
      if (rounds_update_after (program, id, endless->costs, &latency, endless->reduce, endless->pending, &update_ns))
        *free_ns += update_ns;
    }
}

/* The all-reduces of a device, which overlap with the next round. Exposed ones belong to its steps. */
static void
reduce (const PsEndless *endless, guint device, const gint64 *before, gint64 *after)
{
  const PsProgram *program = endless->program;
  const PsReductions *reductions = &endless->reductions;
  const PsPlacement *placement = program->schedule->placement;
  gint64 *reduced = &after[placement->n_devices + device];
  gint64 updates = program->schedule->n_microbatches / ps_schedule_update_every (program->schedule);

  *reduced = before[placement->n_devices + device];
  for (guint i = reductions->first[device]; i < reductions->first[device + 1]; i++)
    {
      guint stage = reductions->held[i] % placement->n_stages;

      for (guint copy = 0; copy < placement->n_copies; copy++)
        if (reductions->last_step[copy * placement->n_stages + stage] != PS_NO_STEP)
          *reduced = MAX (*reduced, endless->end_ns[reductions->last_step[copy * placement->n_stages + stage]]);
      *reduced += updates * ps_costs_reduce_ns (endless->costs, stage, placement->n_copies);
    }
  after[device] = MAX (after[device], before[placement->n_devices + device]);
}

static gint64
run_drain (const PsEndless *endless, const gint64 *before, gint64 *after)
{
  guint n_devices = endless->program->schedule->placement->n_devices;
  gint64 least = G_MAXINT64;

  run_ops (endless, before, after);
  for (guint device = 0; device < n_devices; device++)
    {
      after[n_devices + device] = after[device];
      if (endless->reduce == PS_REDUCE_OVERLAPPED)
        reduce (endless, device, before, after);
      least = MIN (least, after[device]);
    }
  for (guint i = 0; i < endless->n_columns; i++)
    after[i] -= least;
  return least;
}

/* Runs a round from the row before to the row after. Returns the time between the moments that they count from. */
static gint64
endless_run (PsEndless *endless, const gint64 *before, gint64 *after)
{
  if (endless->simulation == NULL)
    return run_drain (endless, before, after);
  ps_simulate_from (endless->program, endless->costs, before, endless->simulation);
  return rounds_end (&endless->reductions, endless->program, endless->costs, endless->simulation, endless->reduce,
                     after);
}

/* The moments of one iteration in steady state: rounds of its event graph, one after the other. */

/* From a standing start the pattern repeats after some rounds for each device. */
#define ROUNDS_PER_DEVICE 4
#define LEAST_ROUNDS 16

/* end_ns: of the round before; becomes those of the next one, with the events of the round before in before_ns. */
static void
go_on (const PsEventGraph *graph, const PsEventOrder *order, gint64 *end_ns, gint64 *before_ns)
{
  memcpy (before_ns, end_ns, order->n_events * sizeof *end_ns);
  for (guint i = 0; i < order->n_events; i++)
    {
      guint event = order->order[i];
      gint64 start_ns = 0;

      for (guint a = order->first[event]; a < order->first[event + 1]; a++)
        {
          const PsEventArc *arc = &order->arcs[a];
          const gint64 *from_ns = arc->tokens > 0 ? before_ns : end_ns;

          start_ns = MAX (start_ns, from_ns[arc->from] + arc->delay_ns);
        }
      end_ns[event] = start_ns + ps_event_graph_duration (graph, event);
    }
}

/* Counts the steps' times from the first op's start. */
static void
set_times (const PsProgram *program, const PsEventGraph *graph, PsSimulation *simulation)
{
  gint64 origin_ns = G_MAXINT64, last_ns = 0;

  for (guint i = 0; i < program->n_steps; i++)
    origin_ns = MIN (origin_ns, simulation->end_ns[i + 1] - ps_event_graph_duration (graph, i));
  for (guint i = 0; i < program->n_steps; i++)
    {
      simulation->end_ns[i + 1] -= origin_ns;
      last_ns = MAX (last_ns, simulation->end_ns[i + 1]);
    }
  simulation->makespan_ns = last_ns;
}

void
ps_iteration_times (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                    PsSimulation *simulation)
{
  guint n_rounds = MAX (LEAST_ROUNDS, ROUNDS_PER_DEVICE * program->schedule->placement->n_devices);
  g_autoptr (PsEventGraph) graph = ps_rounds_new (program, costs, NULL, setting, PS_REDUCE_EXPOSED);
  g_auto (PsEventOrder) order = { 0 };
  g_auto (PsDrain) drain = { 0 };
  g_autofree gint64 *end_ns = NULL, *before_ns = NULL;
  gboolean ordered = ps_event_order_init (&order, graph);

  g_return_if_fail (ordered && simulation->start_ns == NULL);

  end_ns = g_new0 (gint64, order.n_events);
  before_ns = g_new0 (gint64, order.n_events);
  ps_drain_init (&drain, program);
  for (guint i = 0; i < n_rounds; i++)
    go_on (graph, &order, end_ns, before_ns);
  for (guint i = 0; i < program->n_steps; i++)
    simulation->end_ns[i + 1] = (drain.ahead[program->op_of[i]] ? before_ns : end_ns)[i];
  set_times (program, graph, simulation);
}

PS_DEFINE_NAMES (PsSync, ps_sync, "global", "bypass")
PS_DEFINE_NAMES (PsReduce, ps_reduce, "overlapped", "exposed")

static PsIteration
meet (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, const PsEventsSetting *setting,
      PsReduce reduce)
{
  g_auto (PsReductions) reductions = { 0 };
  gint64 last = 0, reduced = 0;

  ps_reductions_init (&reductions, program);
  if (setting != NULL && setting->ready_order > 0)
    reductions_follow (&reductions, program, simulation);
  for (guint device = 0; device < simulation->n_devices; device++)
    {
      last = MAX (last, simulation->device[device].end_ns);
      reduced = MAX (reduced, reductions_end_ns (&reductions, program, costs, simulation, device, reduce));
    }
  return (PsIteration){ .period_ns = simulation->makespan_ns + (reduced - last) + simulation->optimizer_ns,
                        .n_iterations = 1 };
}

/* Rounds that are run to see whether they repeat: at most, and before a longer way is taken. */
#define MAX_ROUNDS 64
#define SOON 8

/* The first of rows that equals the one at index; index itself when none does. */
static guint
find_row (const gint64 *rows, guint n_columns, guint index)
{
  for (guint i = 0; i < index; i++)
    if (memcmp (rows + (gsize)i * n_columns, rows + (gsize)index * n_columns, n_columns * sizeof *rows) == 0)
      return i;
  return index;
}

static PsIteration
mean (const gint64 *elapsed_ns, guint from, guint to, gboolean exact)
{
  gint64 n = to - from, total = elapsed_ns[to] - elapsed_ns[from], least = 1;

  while (total % n * least % n != 0)
    least++;
  return (PsIteration){ .period_ns = (2 * total + n) / (2 * n), .n_iterations = exact ? (guint)least : 0 };
}

/* One round after the other, each from the devices' ready times that the one before has left. */
static gboolean
repeat (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, PsReduce reduce,
        PsIteration *iteration, GError **error)
{
  guint p = program->schedule->placement->n_devices;
  g_autofree gint64 *ready = g_new0 (gint64, p), *rows = g_new0 (gint64, (gsize)p * (MAX_ROUNDS + 1));
  gint64 elapsed[MAX_ROUNDS + 1] = { 0 };
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  PsEventsSetting started = *setting;

  started.ready_ns = ready;
  simulation->times_only = TRUE;
  g_autoptr (PsEvents) events = ps_events_new (program, costs, &started, error);
  for (guint i = 1; events != NULL && i <= MAX_ROUNDS; i++)
    {
      if (!ps_events_run (events, costs, simulation, error))
        return FALSE;
      elapsed[i] = elapsed[i - 1] + ps_rounds_advance (program, costs, simulation, reduce, ready);
      memcpy (rows + (gsize)i * p, ready, p * sizeof *ready);
      guint same = find_row (rows, p, i);
      *iteration = mean (elapsed, same < i ? same : i / 2, i, same < i);
      if (same < i)
        return TRUE;
    }
  return events != NULL;
}

/* Rounds of pure latency in the same way. Times follow from max and + alone, so rounds that repeat themselves once do
 * so for ever. FALSE: they do not within a few. */
static gboolean
repeat_soon (const PsProgram *program, const PsCosts *costs, PsReduce reduce, PsIteration *iteration)
{
  g_autoptr (PsEndless) endless = endless_new (program, costs, reduce);
  guint n = endless->n_columns;
  g_autofree gint64 *rows = g_new0 (gint64, (gsize)n * (SOON + 1));
  gint64 elapsed[SOON + 1] = { 0 };

  for (guint i = 1; i <= SOON; i++)
    {
      gint64 *row = rows + (gsize)i * n;

      elapsed[i] = elapsed[i - 1] + endless_run (endless, row - n, row);
      guint same = find_row (rows, n, i);
      if (same == i)
        continue;
      *iteration = mean (elapsed, same, i, TRUE);
      return TRUE;
    }
  return FALSE;
}

PsIteration
ps_iteration (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, PsSync sync,
              PsReduce reduce)
{
  PsIteration iteration = { 0 };
  gboolean found = ps_iteration_events (program, costs, simulation, NULL, sync, reduce, &iteration, NULL);

  g_assert (found); /* nothing waits in a circle that ps_program_lower has let pass */
  return iteration;
}

gboolean
ps_iteration_check_fixed (const PsProgram *program, const PsEventsSetting *setting, GError **error)
{
  if (setting == NULL || ps_events_setting_is_fixed (setting))
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_SCHEDULE,
      "%s: never drains: with shared links, overlap slow-down or ready order its steady state is not known",
      program->schedule->name);
}

gboolean
ps_iteration_events (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                     const PsEventsSetting *setting, PsSync sync, PsReduce reduce, PsIteration *iteration,
                     GError **error)
{
  gboolean asynchronous = program->schedule->asynchronous;

  g_return_val_if_fail (costs->n_stages == program->schedule->placement->n_stages, FALSE);
  if (sync == PS_SYNC_GLOBAL && !asynchronous)
    {
      *iteration = meet (program, costs, simulation, setting, reduce);
      return TRUE;
    }
  if (!asynchronous && setting != NULL && !ps_events_setting_is_fixed (setting))
    return repeat (program, costs, setting, reduce, iteration, error);
  if (!ps_iteration_check_fixed (program, setting, error))
    return FALSE;
  /* Other times than the costs' are those of one run. */
  if (setting == NULL && (simulation == NULL || simulation->start_ns == NULL)
      && repeat_soon (program, costs, reduce, iteration))
    return TRUE;
  g_autoptr (PsEventGraph) graph = ps_rounds_new (program, costs, simulation, setting, reduce);
  if (ps_event_graph_period (graph, &iteration->period_ns, &iteration->n_iterations))
    return TRUE;
  return ps_refuse (error, PS_ERROR_SCHEDULE, "%s: its instructions wait for each other in a circle",
                    program->schedule->name);
}
