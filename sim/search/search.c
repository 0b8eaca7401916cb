/* search.c - runs the threads of a search and makes a result of the best schedule. */
#include <pipesim/search.h>
#include <pipesim/simulate.h>

#include "seeds.h"

/* A problem with many microbatches is first searched with this many or 3 p. */
#define LEAST_MICROBATCHES 12

/* The most states of windows for a bound alone. */
#define BOUND_STATES 100000

void
ps_search_result_free (PsSearchResult *result)
{
  if (result == NULL)
    return;
  ps_schedule_free (result->schedule);
  g_free (result);
}

static gboolean
check_setting (const PsSearchSetting *setting, GError **error)
{
  if (setting->n_microbatches % setting->placement->n_copies != 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-m/--microbatches: '%u' does not divide by two weight copies; %u would",
                      setting->n_microbatches, setting->n_microbatches + 1);
  for (guint d = 0; d < setting->placement->n_devices && setting->memory_limit != NULL; d++)
    {
      gint64 least = ps_search_least_memory (setting->placement, setting->costs, setting->n_slices, d);

      if (setting->memory_limit[d] >= least)
        continue;
      g_autofree char *limit = ps_format_size (setting->memory_limit[d]), *needed = ps_format_size (least);
      return ps_refuse (error, PS_ERROR_SCHEDULE,
                        "--memory-limit: infeasible: needs at least %s (%" G_GINT64_FORMAT
                        " bytes) on device %u, not %s",
                        needed, least, d, limit);
    }
  return TRUE;
}

/* Fails if a thread cannot be made; the threads already running are stopped. */
static gboolean
run_threads (PsSearchShared *shared, PsRunner *runners, guint n, GError **error)
{
  g_autofree GThread **threads = g_new0 (GThread *, n);
  gboolean ok = TRUE;

  for (guint i = 1; i < n && ok; i++)
    {
      threads[i] = g_thread_try_new ("search", ps_runner_run, &runners[i], error);
      ok = threads[i] != NULL;
    }
  if (ok)
    ps_runner_run (&runners[0]);
  else
    {
      g_prefix_error (error, "--jobs: %u threads: ", n);
      g_atomic_int_set (&shared->done_below, 0);
    }
  for (guint i = 1; i < n && threads[i] != NULL; i++)
    g_thread_join (threads[i]);
  return ok;
}

/* Makes an easier setting: fewer microbatches, because long schedules repeat themselves; makespans, because good ones
 * are near good spans. FALSE: the setting is already as easy. */
static gboolean
make_easier (const PsSearchSetting *setting, PsSearchSetting *easier)
{
  guint few = (MAX (3 * setting->placement->n_devices, LEAST_MICROBATCHES) - 1) / setting->n_slices + 1;

  few += few % setting->placement->n_copies;
  *easier = *setting;
  if (setting->n_microbatches >= 2 * few)
    easier->n_microbatches = few;
  easier->objective = PS_OBJECTIVE_MAKESPAN;
  return easier->n_microbatches != setting->n_microbatches || easier->objective != setting->objective;
}

static PsCosts *
slow_transfers (const PsCosts *costs, guint factor)
{
  PsCosts *slower = ps_costs_copy (costs);

  for (guint i = 0; i < 1 + 2 * costs->n_stages; i++)
    slower->transfer_ns[i] *= factor;
  return slower;
}

static void
start_slower (PsSearchShared *shared)
{
  const PsSearchSetting *setting = shared->setting;
  g_autoptr (PsCosts) costs = slow_transfers (setting->costs, setting->transfer_factor);
  PsSearchSetting slower = *setting;

  slower.costs = costs;
  ps_start_init (&shared->slower, &slower, NULL);
  ps_priced_take (&shared->seed, setting, ps_order_to_schedule (shared->slower.order, setting->placement),
                  "list scheduling");
}

static void
shared_init (PsSearchShared *shared, const PsSearchSetting *setting)
{
  PsSearchSetting easier;

  *shared = (PsSearchShared){
    .setting = setting, .begin_ns = g_get_monotonic_time () * 1000, .done_below = G_MAXINT, .best_ns = G_MAXINT64
  };
  ps_start_init (&shared->start, setting, &shared->seed);
  if (make_easier (setting, &easier))
    ps_start_init (&shared->easier, &easier, NULL);
  if (setting->transfer_factor > 1)
    start_slower (shared);
  g_mutex_init (&shared->lock);
}

static void
shared_clear (PsSearchShared *shared)
{
  ps_start_clear (&shared->start);
  ps_start_clear (&shared->easier);
  ps_start_clear (&shared->slower);
  ps_schedule_free (shared->seed.schedule);
  g_mutex_clear (&shared->lock);
}

/* Ties go to the first runner, so that the result does not depend on which was faster. */
static PsSearchResult *
choose_best (const PsSearchShared *shared, PsRunner *runners)
{
  PsSearchResult *result = g_new0 (PsSearchResult, 1);
  PsRunner *best = &runners[0];

  result->n_moves = shared->n_moves;
  for (guint i = 0; i < shared->setting->n_threads; i++)
    {
      result->lower_bound_ns = MAX (result->lower_bound_ns, ps_runner_bound (&runners[i]));
      if (runners[i].best.price_ns < best->best.price_ns)
        best = &runners[i];
    }
  result->schedule = g_steal_pointer (&best->best.schedule);
  result->price_ns = best->best.price_ns;
  result->proved_optimal = !shared->setting->price_is_free && result->price_ns <= result->lower_bound_ns;
  result->found_by = best->best.found_by;
  g_free (result->schedule->name);
  result->schedule->name = g_strdup ("search");
  return result;
}

static PsSearchResult *
finish_result (const PsSearchSetting *setting, PsSearchResult *taken, GError **error)
{
  g_autoptr (PsSearchResult) result = taken;
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = NULL;

  if (!ps_schedule_validate (result->schedule, error))
    return NULL;
  program = ps_program_lower (ps_schedule_copy (result->schedule), PS_COMM_ASAP, error);
  if (program == NULL)
    return NULL;
  simulation = ps_simulation_new (program);
  ps_simulate (program, setting->costs, simulation);
  result->makespan_ns = simulation->makespan_ns;
  result->max_span_ns = simulation->max_span_ns;
  return g_steal_pointer (&result);
}

static PsSearchResult *
search (const PsSearchSetting *setting, GError **error)
{
  g_autofree PsRunner *runners = g_new0 (PsRunner, setting->n_threads);
  PsSearchResult *result = NULL;
  PsSearchShared shared;

  if (!check_setting (setting, error))
    return NULL;
  shared_init (&shared, setting);
  for (guint i = 0; i < setting->n_threads; i++)
    ps_runner_init (&runners[i], &shared, i);
  if (run_threads (&shared, runners, setting->n_threads, error))
    result = choose_best (&shared, runners);
  for (guint i = 0; i < setting->n_threads; i++)
    ps_runner_clear (&runners[i]);
  shared_clear (&shared);
  return result != NULL ? finish_result (setting, result, error) : NULL;
}

/* The same setting with the costs of a slice. */
static PsSearchSetting
slice_setting (const PsSearchSetting *setting, const PsCosts *costs)
{
  PsSearchSetting of_slices = *setting;

  of_slices.n_slices = MAX (setting->n_slices, 1);
  of_slices.costs = costs;
  return of_slices;
}

/* Steps that windows may take, and those of one device's pass. */
typedef struct
{
  guint64 left;
  guint64 each;
} Steps;

static gboolean
go_on (gpointer data)
{
  Steps *steps = data;
  gboolean enough = steps->left >= steps->each;

  steps->left -= enough ? steps->each : 0;
  return enough;
}

static gint64
bound_by_windows (const PsProblem *problem, gint64 bound, gint64 enough, guint64 *n_steps)
{
  g_autoptr (PsWindows) windows = bound < enough ? ps_windows_new (problem, BOUND_STATES) : NULL;
  Steps steps = { .left = *n_steps };

  if (windows == NULL)
    return bound;
  steps.each = ps_windows_steps (windows) + 1;
  bound = ps_windows_bound (windows, bound, enough, 0, NULL, go_on, &steps);
  *n_steps = steps.left;
  return bound;
}

gint64
ps_search_bound (const PsSearchSetting *setting, gint64 enough, guint64 *n_steps)
{
  g_autoptr (PsCosts) costs = ps_costs_least_slice (setting->costs, MAX (setting->n_slices, 1));
  const PsSearchSetting of_slices = slice_setting (setting, costs);
  g_autoptr (PsProblem) problem = NULL;
  gint64 bound;

  if (!ps_problem_is_possible (&of_slices))
    return G_MAXINT64;
  problem = ps_problem_new (&of_slices);
  bound = ps_start_bound (&of_slices, problem);
  return n_steps != NULL && *n_steps > 0 ? bound_by_windows (problem, bound, enough, n_steps) : bound;
}

PsSearchResult *
ps_search (const PsSearchSetting *setting, GError **error)
{
  g_autoptr (PsCosts) costs = ps_costs_slice (setting->costs, MAX (setting->n_slices, 1));
  const PsSearchSetting of_slices = slice_setting (setting, costs);

  g_return_val_if_fail (setting->n_threads >= 1, NULL);
  g_return_val_if_fail (setting->time_limit_ns > 0 || setting->move_limit > 0, NULL);

  return search (&of_slices, error);
}
