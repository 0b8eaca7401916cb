/* search.c - runs the threads of a search and makes a result of the best. */
#include <pipesim/search.h>
#include <pipesim/simulate.h>

#include "seeds.h"
#include "stretch.h"
#include "worker.h"

/* How often progress is told. */
#define TELL_EVERY_US (G_USEC_PER_SEC / 4)

/* Many microbatches are searched from what was found for this many or 3 p, in this part of the budget. */
#define LEAST_MICROBATCHES 12
#define EASIER_PART 0.4

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
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                   "-m/--microbatches: '%u' does not divide by two weight copies; %u would", setting->n_microbatches,
                   setting->n_microbatches + 1);
      return FALSE;
    }
  for (guint d = 0; d < setting->placement->n_devices && setting->memory_limit != NULL; d++)
    {
      gint64 least = ps_search_least_memory (setting->placement, setting->costs, d);

      if (setting->memory_limit[d] >= least)
        continue;
      g_autofree char *limit = ps_format_size (setting->memory_limit[d]), *needed = ps_format_size (least);
      g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
                   "--memory-limit: infeasible: needs at least %s (%" G_GINT64_FORMAT " bytes) on device %u, not %s",
                   needed, least, d, limit);
      return FALSE;
    }
  return TRUE;
}

static void
tell (const Shared *shared)
{
  PsSearchProgress progress = { .best_ns = shared->best_ns,
                                .lower_bound_ns = shared->lower_bound_ns,
                                .n_moves = shared->n_moves,
                                .elapsed_ns = g_get_monotonic_time () * 1000 - shared->start_ns };

  if (shared->setting->progress != NULL && shared->best_ns != G_MAXINT64)
    shared->setting->progress (&progress, shared->setting->progress_data);
}

static void
run_workers (Shared *shared, Worker *workers)
{
  guint n = shared->setting->n_threads;
  g_autofree GThread **threads = g_new0 (GThread *, n);

  shared->n_running = n;
  for (guint i = 0; i < n; i++)
    threads[i] = g_thread_new ("search", worker_run, &workers[i]);
  g_mutex_lock (&shared->lock);
  while (shared->n_running > 0)
    {
      g_cond_wait_until (&shared->changed, &shared->lock, g_get_monotonic_time () + TELL_EVERY_US);
      tell (shared);
    }
  g_mutex_unlock (&shared->lock);
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
}

/* One problem's best order. */
typedef struct
{
  Problem *problem;
  Order *order;
  GArray *policies;  /* Policy, of good list schedules */
  GPtrArray *orders; /* Order, those schedules */
  gint64 lower_bound_ns;
  gboolean proved;
  guint64 n_moves;
  const char *found_by;
} Found;

static void
found_clear (Found *found)
{
  if (found->problem == NULL)
    return;
  order_free (found->order);
  problem_free (found->problem);
  g_array_unref (found->policies);
  g_ptr_array_unref (found->orders);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Found, found_clear)

static void
found_init (Found *found, const PsSearchSetting *setting)
{
  *found = (Found){ .problem = problem_new (setting),
                    .policies = g_array_new (FALSE, FALSE, sizeof (Policy)),
                    .orders = g_ptr_array_new_with_free_func ((GDestroyNotify)order_free) };
}

/* Ties go to the first worker, so that the result does not depend on which was faster. */
static void
choose_best (const Shared *shared, Worker *workers, Found *found)
{
  Worker *best = &workers[0];

  for (guint i = 1; i < shared->setting->n_threads; i++)
    if (workers[i].best->objective < best->best->objective)
      best = &workers[i];
  found->order = g_steal_pointer (&best->best);
  found->proved = best->proved || found->order->objective <= shared->lower_bound_ns;
  found->lower_bound_ns = found->proved ? found->order->objective : shared->lower_bound_ns;
  found->n_moves += shared->n_moves;
  found->found_by = best->found_by;
  for (guint i = 0; i < shared->setting->n_threads; i++)
    for (guint k = 0; k < POOL_SIZE; k++)
      if (workers[i].pool[k].order->objective != G_MAXINT64)
        {
          g_array_append_val (found->policies, workers[i].pool[k].policy);
          g_ptr_array_add (found->orders, g_steal_pointer (&workers[i].pool[k].order));
        }
}

/* A point to start from. */
typedef struct
{
  const Order *order; /* NULL: none */
  const GArray *policies;
} Start;

/* Searches from the best family or the given order, whichever is better. */
static void
search_from (const PsSearchSetting *setting, const Start *start, Found *found)
{
  Shared shared = { .setting = setting, .problem = found->problem, .done_below = G_MAXINT, .best_ns = G_MAXINT64 };
  g_autofree Worker *workers = g_new0 (Worker, setting->n_threads);
  g_autoptr (Order) seed = NULL;

  shared.start_ns = g_get_monotonic_time () * 1000;
  seed = best_family (found->problem, setting, &shared.seed_name);
  shared.seed = seed;
  if (start->order != NULL && (seed == NULL || start->order->objective < seed->objective))
    {
      shared.seed = start->order;
      shared.seed_name = "an easier problem";
    }
  if (start->policies != NULL)
    {
      shared.policies = (const Policy *)start->policies->data;
      shared.n_policies = start->policies->len;
    }
  shared.lower_bound_ns = ps_lower_bound_within (setting->placement, setting->n_microbatches, setting->costs,
                                                 setting->memory_limit, setting->objective);
  g_mutex_init (&shared.lock);
  g_cond_init (&shared.changed);
  for (guint i = 0; i < setting->n_threads; i++)
    worker_init (&workers[i], &shared, i);
  run_workers (&shared, workers);
  choose_best (&shared, workers, found);
  for (guint i = 0; i < setting->n_threads; i++)
    worker_clear (&workers[i]);
  g_mutex_clear (&shared.lock);
  g_cond_clear (&shared.changed);
}

/* An order of an easier problem as one of this: as it is, or stretched to more microbatches. */
static gboolean
carry_over (Order *order, const Order *from)
{
  if (from->problem->m < order->problem->m)
    return order_stretch (order, from);
  order_copy (order, from);
  return order_evaluate (order) && order->excess == 0;
}

/* The best of all orders found for the easier problem: what is best there need not be here. */
static Order *
carry_best (const Found *easier, const Problem *problem)
{
  g_autoptr (Order) best = order_new (problem);
  g_autoptr (Order) order = order_new (problem);
  gboolean found = carry_over (best, easier->order);

  for (guint i = 0; i < easier->orders->len; i++)
    {
      if (!carry_over (order, easier->orders->pdata[i]) || (found && order->objective >= best->objective))
        continue;
      order_assign (best, order);
      found = TRUE;
    }
  return found ? g_steal_pointer (&best) : NULL;
}

/* The problem to begin with: long schedules repeat themselves, so few microbatches; and makespans lead the way to
 * spans. FALSE where the problem itself is as easy. */
static gboolean
make_easier (const PsSearchSetting *setting, PsSearchSetting *easier)
{
  guint few = MAX (3 * setting->placement->n_devices, LEAST_MICROBATCHES);

  few += few % setting->placement->n_copies;
  *easier = *setting;
  if (setting->n_microbatches >= 2 * few)
    easier->n_microbatches = few;
  easier->objective = PS_OBJECTIVE_MAKESPAN;
  easier->progress = NULL;
  if (setting->time_limit_ns > 0)
    easier->time_limit_ns = MAX ((gint64)((double)setting->time_limit_ns * EASIER_PART), 1);
  if (setting->move_limit > 0)
    easier->move_limit = MAX ((guint64)((double)setting->move_limit * EASIER_PART), 1);
  return easier->n_microbatches != setting->n_microbatches || easier->objective != setting->objective;
}

static void
search_in_turn (const PsSearchSetting *setting, Found *found)
{
  PsSearchSetting part;
  g_auto (Found) easier = { 0 };
  g_autoptr (Order) carried = NULL;
  Start start = { 0 };
  gint64 begin_ns = g_get_monotonic_time () * 1000;
  guint64 easier_moves;

  if (!make_easier (setting, &part))
    {
      search_from (setting, &start, found);
      return;
    }
  found_init (&easier, &part);
  search_from (&part, &start, &easier);
  carried = carry_best (&easier, found->problem);
  start.order = carried;
  start.policies = easier.policies;
  found->n_moves += easier.n_moves;
  easier_moves = part.move_limit;
  part = *setting;
  if (setting->time_limit_ns > 0)
    part.time_limit_ns = MAX (setting->time_limit_ns - (g_get_monotonic_time () * 1000 - begin_ns), 1);
  if (setting->move_limit > 0)
    part.move_limit = MAX (setting->move_limit - MIN (easier_moves, setting->move_limit), 1);
  search_from (&part, &start, found);
}

static PsSearchResult *
make_result (const PsSearchSetting *setting, const Found *found, GError **error)
{
  g_autoptr (PsSearchResult) result = g_new0 (PsSearchResult, 1);
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = NULL;

  result->schedule = order_to_schedule (found->order, setting->placement);
  if (!ps_schedule_validate (result->schedule, error))
    return NULL;
  program = ps_program_lower (ps_schedule_copy (result->schedule), PS_COMM_ASAP, error);
  if (program == NULL)
    return NULL;
  simulation = ps_simulation_new (program);
  ps_simulate (program, setting->costs, simulation);
  result->makespan_ns = simulation->makespan_ns;
  result->max_span_ns = simulation->max_span_ns;
  result->lower_bound_ns = found->lower_bound_ns;
  result->proved_optimal = found->proved;
  result->n_moves = found->n_moves;
  result->found_by = found->found_by;
  return g_steal_pointer (&result);
}

PsSearchResult *
ps_search (const PsSearchSetting *setting, GError **error)
{
  g_auto (Found) found = { 0 };

  g_return_val_if_fail (setting->n_threads >= 1, NULL);
  g_return_val_if_fail (setting->time_limit_ns > 0 || setting->move_limit > 0, NULL);

  if (!check_setting (setting, error))
    return NULL;
  found_init (&found, setting);
  search_in_turn (setting, &found);
  return make_result (setting, &found, error);
}
