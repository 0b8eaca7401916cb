/* energy.c - clocks of ops for the least energy in the same time. */
#include <pipesim/energy.h>

#include "cut.h"

#include <math.h>

#define NS_PER_S 1e9

/* Steps are at least half the makespan / 2^MAX_HALVINGS. */
#define MAX_HALVINGS 14

/* Less than this part of a mean op's energy is no gain. */
#define LEAST_GAIN 1e-9

/* Start of the step i at node 2 i, its end at 2 i + 1. */
#define START(step) (2 * (step))
#define END(step) (2 * (step) + 1)

/* `to` comes lag_ns or more after `from`. */
typedef struct
{
  guint32 from;
  guint32 to;
  gint64 lag_ns;
} Wait;

typedef struct
{
  gint64 host_ns; /* part of the duration that no clock changes */
  gint64 full_ns; /* the rest, at the full clock */
  double joules;  /* above idle at the full clock */
} Work;

typedef struct
{
  const PsProgram *program;
  const PsSimulation *simulation;
  guint n;        /* steps */
  Work *work;     /* [n] */
  GArray *wait;   /* Wait */
  gint64 *at;     /* [2 n] the times that are sought */
  gint64 *low;    /* [2 n] */
  gint64 *high;   /* [2 n] */
  double slowest; /* longest time of an op, in times of the full clock */
  double unit;    /* joules of a mean op */
  PsCut *cut;
} Plan;

static void
plan_clear (Plan *plan)
{
  g_free (plan->work);
  g_clear_pointer (&plan->wait, g_array_unref);
  g_free (plan->at);
  g_free (plan->low);
  g_free (plan->high);
  ps_cut_free (plan->cut);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Plan, plan_clear)

static double
clock_of (const Plan *plan, guint step, gint64 duration_ns)
{
  const Work *work = &plan->work[step];

  if (work->full_ns == 0)
    return 1;
  return MAX ((double)work->full_ns / (double)(duration_ns - work->host_ns), 1 / plan->slowest);
}

/* Of a step, in joules above idle; INFINITY: it is too short. */
static double
energy_of (const Plan *plan, guint step, gint64 duration_ns)
{
  const Work *work = &plan->work[step];
  double clock = clock_of (plan, step, duration_ns);

  return duration_ns < work->host_ns + work->full_ns ? INFINITY : work->joules * clock * clock;
}

static gint64
duration_of (const Plan *plan, guint step)
{
  return plan->at[END (step)] - plan->at[START (step)];
}

/* Adds what moving some nodes by step_ns changes, up or down, as a cut sees it: a node moves if it is on the side of
 * the source. */
static void
add_terms (Plan *plan, gint64 step_ns, gboolean up)
{
  for (guint v = 0; v < 2 * plan->n; v++)
    if (up ? plan->at[v] + step_ns > plan->high[v] : plan->at[v] - step_ns < plan->low[v])
      ps_cut_add_cost (plan->cut, v, INFINITY);
  for (guint i = 0; i < plan->n; i++)
    {
      gint64 now_ns = duration_of (plan, i);
      guint first = up ? START (i) : END (i), second = up ? END (i) : START (i);
      double now = energy_of (plan, i, now_ns), longer = energy_of (plan, i, now_ns + step_ns) - now;
      double shorter = energy_of (plan, i, now_ns - step_ns) - now;

      ps_cut_add_cost (plan->cut, second, longer / plan->unit);
      ps_cut_add_cost (plan->cut, first, -longer / plan->unit);
      ps_cut_add_arc (plan->cut, first, second, MAX (longer + shorter, 0) / plan->unit);
    }
  for (guint i = 0; i < plan->wait->len; i++)
    {
      const Wait *wait = &g_array_index (plan->wait, Wait, i);

      if (plan->at[wait->to] - plan->at[wait->from] - wait->lag_ns < step_ns)
        ps_cut_add_arc (plan->cut, up ? wait->from : wait->to, up ? wait->to : wait->from, INFINITY);
    }
}

static double
sum_energy (const Plan *plan)
{
  double sum = 0;

  for (guint i = 0; i < plan->n; i++)
    sum += energy_of (plan, i, duration_of (plan, i));
  return sum;
}

static void
move (Plan *plan, gint64 by_ns)
{
  for (guint v = 0; v < 2 * plan->n; v++)
    if (ps_cut_has (plan->cut, v))
      plan->at[v] += by_ns;
}

/* Moves the best set of nodes. FALSE: none gains anything. */
static gboolean
improve (Plan *plan, gint64 step_ns, gboolean up)
{
  double before = sum_energy (plan);
  gint64 by_ns = up ? step_ns : -step_ns;

  ps_cut_clear (plan->cut);
  add_terms (plan, step_ns, up);
  ps_cut_solve (plan->cut);
  move (plan, by_ns);
  if (before - sum_energy (plan) > LEAST_GAIN * plan->unit)
    return TRUE;
  move (plan, -by_ns);
  return FALSE;
}

static void
add_wait (Plan *plan, guint from, guint to, gint64 lag_ns)
{
  const Wait wait = { from, to, lag_ns };

  g_array_append_val (plan->wait, wait);
}

/* The times of a step and its input, and the moments that it must keep to. */
static void
add_step (Plan *plan, const PsCosts *costs, guint i, gboolean queues)
{
  const PsProgram *program = plan->program;
  const PsStep *step = &program->steps[i];
  gint64 begin_ns, end_ns;

  plan->at[START (i)] = plan->low[START (i)] = ps_simulation_start (program, costs, plan->simulation, i);
  plan->at[END (i)] = plan->low[END (i)] = plan->simulation->end_ns[i + 1];
  if (step->previous)
    add_wait (plan, END (step->previous - 1), START (i), 0);
  if (!step->input)
    return;
  ps_simulation_transfer (program, costs, plan->simulation, i, &begin_ns, &end_ns);
  if (queues)
    plan->high[END (step->input - 1)] = MIN (plan->high[END (step->input - 1)], begin_ns);
  else
    add_wait (plan, END (step->input - 1), START (i), end_ns - begin_ns);
}

static void
add_work (Plan *plan, const PsCosts *costs, const PsPower *power, guint i)
{
  const PsProgram *program = plan->program;
  guint role = program->pair != NULL ? program->pair[i] : PS_PAIR_NONE;
  gint64 host_ns = ps_host_time_sum (ps_step_host_time (program, costs, i));
  gint64 full_ns = duration_of (plan, i) - host_ns, alone_ns = ps_step_duration (program, costs, i) - host_ns;
  double joules = 0;

  for (guint k = role == PS_PAIR_SECOND ? i - 1 : i; k <= i && role != PS_PAIR_FIRST && alone_ns > 0; k++)
    {
      guint cost = program->steps[k].cost;
      gint64 work_ns = costs->op[cost].duration_ns - ps_host_time_sum (ps_costs_host_time (costs, cost));
      PsOpKind kind = (PsOpKind)program->schedule->ops[program->op_of[k]].kind;

      joules += (power->watts[kind] - power->idle) * (double)work_ns / NS_PER_S * (double)full_ns / (double)alone_ns;
    }
  plan->work[i] = (Work){ .host_ns = host_ns, .full_ns = full_ns, .joules = joules };
  plan->unit += joules / plan->n;
}

/* All-reduces begin as they did. */
static void
hold_reductions (Plan *plan, const PsCosts *costs)
{
  const PsSchedule *schedule = plan->program->schedule;
  const PsPlacement *placement = schedule->placement;
  gsize n = (gsize)placement->n_stages * placement->n_copies;
  g_autofree guint *last = g_new0 (guint, n); /* 1 + step */

  for (guint i = 0; i < schedule->first[placement->n_devices]; i++)
    {
      PsOp op = schedule->ops[i];
      guint copy = ps_schedule_weight_copy (schedule, op.microbatch), step = plan->program->step_of[i];

      if ((op.kind == PS_OP_W || op.kind == PS_OP_BW) && ps_costs_reduce_ns (costs, op.stage, placement->n_copies) > 0)
        last[copy * placement->n_stages + op.stage] = 1 + step;
    }
  for (gsize i = 0; i < n; i++)
    if (last[i] > 0)
      plan->high[END (last[i] - 1)] = MIN (plan->high[END (last[i] - 1)], plan->at[END (last[i] - 1)]);
}

static void
plan_init (Plan *plan, const PsCosts *costs, const PsPower *power, gboolean queues)
{
  gsize n = plan->n = plan->program->n_steps;
  gint64 last_ns = 0;

  plan->work = g_new (Work, n);
  plan->wait = g_array_sized_new (FALSE, FALSE, sizeof (Wait), (guint)(2 * n));
  plan->at = g_new (gint64, 2 * n);
  plan->low = g_new (gint64, 2 * n);
  plan->high = g_new (gint64, 2 * n);
  plan->slowest = 1 / power->least_clock;
  plan->cut = ps_cut_new ((guint)(2 * n));
  for (gsize i = 0; i < n; i++)
    last_ns = MAX (last_ns, plan->simulation->end_ns[i + 1]);
  for (gsize v = 0; v < 2 * n; v++)
    plan->high[v] = last_ns;
  for (guint i = 0; i < n; i++)
    add_step (plan, costs, i, queues);
  for (guint i = 0; i < n; i++)
    add_work (plan, costs, power, i);
  hold_reductions (plan, costs);
}

/* What no clock changes: idle devices, and their O. */
static double
rest_joules (const Plan *plan, const PsPower *power, gint64 iteration_ns)
{
  double joules = power->idle * plan->simulation->n_devices * (double)iteration_ns / NS_PER_S;

  for (guint d = 0; d < plan->simulation->n_devices; d++)
    joules += (power->watts[PS_OP_O] - power->idle) * (double)plan->simulation->device[d].optimizer_ns / NS_PER_S;
  return joules;
}

PsEnergy *
ps_energy_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
               const PsSimulation *simulation, const PsPower *power, gint64 iteration_ns)
{
  gboolean queues = events != NULL && events->comm != PS_CHANNEL_LATENCY;
  g_auto (Plan) plan = { .program = program, .simulation = simulation };
  PsEnergy *energy;
  double rest;

  if (program->schedule->asynchronous || (events != NULL && (events->blocking || !ps_events_setting_is_fixed (events))))
    return NULL;
  plan_init (&plan, costs, power, queues);
  energy = g_new (PsEnergy, 1);
  rest = rest_joules (&plan, power, iteration_ns);
  energy->full_joules = rest + sum_energy (&plan);
  for (gint64 step_ns = MAX (simulation->makespan_ns / 2, 1), least_ns = MAX (step_ns >> MAX_HALVINGS, 1);
       step_ns >= least_ns; step_ns /= 2)
    while (improve (&plan, step_ns, TRUE) || improve (&plan, step_ns, FALSE))
      continue;
  energy->least_joules = rest + sum_energy (&plan);
  energy->duration_ns = g_new (gint64, plan.n);
  energy->clock = g_new (double, plan.n);
  for (guint i = 0; i < plan.n; i++)
    {
      energy->clock[i] = clock_of (&plan, i, duration_of (&plan, i));
      energy->duration_ns[i]
          = plan.work[i].host_ns + (gint64)floor ((double)plan.work[i].full_ns / energy->clock[i] + 1e-6);
    }
  return energy;
}

void
ps_energy_free (PsEnergy *energy)
{
  if (energy == NULL)
    return;
  g_free (energy->duration_ns);
  g_free (energy->clock);
  g_free (energy);
}

gboolean
ps_power_parse (const char *where, const char *text, PsPower *power, GError **error)
{
  enum
  {
    IDLE = PS_N_OP_KINDS,
    CLOCK,
    BUSY,
    N_KEYS
  };
  static const char *const names[N_KEYS] = { "f", "b", "w", "bw", "r", "o", "idle", "clock", "busy" };
  double value[N_KEYS] = { [CLOCK] = 0.5, [BUSY] = -1 }, most = -1;
  g_auto (GStrv) entries = g_strsplit (text, ",", -1);

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    value[kind] = -1;
  for (guint i = 0; entries[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (entries[i], "=", 2);
      g_autofree char *place = g_strdup_printf ("%s: %s", where, parts[0] != NULL ? parts[0] : "");
      guint key;

      if (!ps_parse_name (where, parts[0] != NULL ? parts[0] : "", names, N_KEYS, &key, error)
          || !ps_parse_number (place, parts[1] != NULL ? parts[1] : "", key == CLOCK ? 0.01 : 0, key == CLOCK ? 1 : 1e6,
                               &value[key], error))
        return FALSE;
    }
  for (guint kind = 0; kind < PS_N_OP_KINDS && value[BUSY] < 0; kind++)
    most = MAX (most, value[kind]);
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    {
      power->watts[kind] = value[kind] >= 0 ? value[kind] : value[BUSY] >= 0 ? value[BUSY] : most;
      if (power->watts[kind] < value[IDLE])
        return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' gives %s less than idle; busy=WATTS would be for all ops",
                          where, text, names[kind]);
    }
  power->idle = value[IDLE];
  power->least_clock = value[CLOCK];
  return TRUE;
}
