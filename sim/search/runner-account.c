/* runner-account.c - the account of one thread: prices of schedules, moves made, and when it is over. */
#include "runner.h"

#include <pipesim/simulate.h>

/* Least time between two progress reports. */
#define TELL_EVERY_NS G_GINT64_CONSTANT (250000000)

static gboolean
fits (const PsSearchSetting *setting, const PsSimulation *simulation)
{
  for (guint d = 0; setting->memory_limit != NULL && d < simulation->n_devices; d++)
    if (simulation->device[d].peak_bytes > setting->memory_limit[d])
      return FALSE;
  return TRUE;
}

static gint64
simulated_price (const PsSearchSetting *setting, const PsSchedule *schedule)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, NULL);
  g_autoptr (PsSimulation) simulation = program != NULL ? ps_simulation_new (program) : NULL;

  if (program == NULL)
    return G_MAXINT64;
  ps_simulate (program, setting->costs, simulation);
  if (!fits (setting, simulation))
    return G_MAXINT64;
  return setting->objective == PS_OBJECTIVE_SPAN ? simulation->max_span_ns : simulation->makespan_ns;
}

gint64
ps_priced_take (PsPriced *best, const PsSearchSetting *setting, PsSchedule *schedule, const char *found_by)
{
  gint64 price_ns
      = setting->price != NULL ? setting->price (schedule, setting->price_data) : simulated_price (setting, schedule);

  if (best->schedule != NULL && price_ns >= best->price_ns)
    {
      ps_schedule_free (schedule);
      return price_ns;
    }
  ps_schedule_free (best->schedule);
  *best = (PsPriced){ schedule, price_ns, found_by };
  return price_ns;
}

gint64
ps_runner_price (PsRunner *runner, const PsOrder *order, const char *found_by)
{
  const PsSearchSetting *setting = runner->shared->setting;

  if (order->objective == runner->objective && order->weight == runner->weight)
    return runner->price_ns;
  runner->objective = order->objective;
  runner->weight = order->weight;
  runner->n_moves += order->problem->n_ops / OPS_PER_MOVE;
  runner->price_ns
      = ps_priced_take (&runner->best, setting, ps_order_to_schedule (order, setting->placement), found_by);
  return runner->price_ns;
}

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

void
ps_runner_report (PsRunner *runner)
{
  PsSearchShared *shared = runner->shared;

  g_mutex_lock (&shared->lock);
  shared->n_moves += runner->n_moves - runner->n_reported;
  runner->n_reported = runner->n_moves;
  shared->best_ns = MIN (shared->best_ns, runner->best.price_ns);
  g_mutex_unlock (&shared->lock);
}

gint64
ps_runner_bound (const PsRunner *runner)
{
  return MAX (runner->worker.lower_bound_ns, runner->shared->setting->price_bound_ns);
}

static void
tell (PsRunner *runner, gint64 elapsed_ns)
{
  PsSearchShared *shared = runner->shared;
  PsSearchProgress progress = { .elapsed_ns = elapsed_ns };

  ps_runner_report (runner);
  shared->told_ns = elapsed_ns;
  g_mutex_lock (&shared->lock);
  progress.best_ns = shared->best_ns;
  progress.n_moves = shared->n_moves;
  g_mutex_unlock (&shared->lock);
  progress.lower_bound_ns = ps_runner_bound (runner);
  if (progress.best_ns != G_MAXINT64)
    shared->setting->progress (&progress, shared->setting->progress_data);
}

/* Whether no schedule can be better. */
static gboolean
is_proved (const PsRunner *runner)
{
  return !runner->shared->setting->price_is_free && runner->best.price_ns <= ps_runner_bound (runner);
}

/* A runner stops if a runner with a lower index has met the bound: the result is then that one's or a lower one's. */
gboolean
ps_runner_is_over (PsRunner *runner)
{
  const PsSearchSetting *setting = runner->shared->setting;
  gint64 elapsed_ns = now_ns () - runner->shared->begin_ns;

  if (runner->index == 0 && setting->progress != NULL && elapsed_ns - runner->shared->told_ns > TELL_EVERY_NS)
    tell (runner, elapsed_ns);
  return is_proved (runner) || (guint)g_atomic_int_get (&runner->shared->done_below) < runner->index
         || (setting->move_limit > 0 && runner->n_moves >= setting->move_limit)
         || (setting->time_limit_ns > 0 && elapsed_ns >= setting->time_limit_ns)
         || (setting->stop != NULL && g_atomic_int_get (setting->stop));
}

void
ps_runner_mark_done (PsRunner *runner)
{
  PsSearchShared *shared = runner->shared;

  ps_runner_report (runner);
  g_mutex_lock (&shared->lock);
  if (is_proved (runner) && (guint)shared->done_below > runner->index)
    g_atomic_int_set (&shared->done_below, (gint)runner->index);
  g_mutex_unlock (&shared->lock);
}
