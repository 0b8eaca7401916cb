/* layouts.c - predicts the cells of the space on several threads, the most promising first, until no cell that is left
 * can be among the best. */
#include "layouts-private.h"

#include <string.h>

#define ROUND 32 /* cells between two comparisons with the best; the answers depend on it, not on the threads */

static void
layout_clear (gpointer data)
{
  PsLayout *layout = data;

  g_free (layout->schedule);
  g_free (layout->near);
  g_free (layout->profile);
  g_free (layout->costs_origin);
  g_free (layout->layout);
}

void
ps_layouts_free (PsLayouts *layouts)
{
  if (layouts == NULL)
    return;
  g_array_unref (layouts->best);
  g_free (layouts->model);
  g_free (layouts->cluster);
  g_free (layouts);
}

const char *
ps_confidence_name (PsConfidence confidence)
{
  static const char *const names[] = { "low", "medium", "high" };

  g_return_val_if_fail ((guint)confidence < G_N_ELEMENTS (names), NULL);
  return names[confidence];
}

/* Threads */

/* Some cells, and a result for each of their schedules; NULL for a schedule that the cell does not hold. */
typedef struct
{
  const PsLayoutSpace *space;
  const PsLayoutCell *cells;
  guint n_cells;
  PsResult **results; /* [n_cells * n_schedules] */
  PsSweepWorker **workers;
  gint next;     /* cell; atomic */
  gint n_seated; /* threads that have a worker; atomic */
  GMutex mutex;  /* of error */
  GError *error;
} Round;

static void
note_error (Round *round, GError *error)
{
  g_mutex_lock (&round->mutex);
  if (round->error != NULL)
    g_error_free (error);
  else
    round->error = error;
  g_mutex_unlock (&round->mutex);
}

static gboolean
is_promising (const PsLayoutSpace *space, const PsLayoutCell *cell, guint schedule)
{
  return ps_layout_space_takes (space, cell, schedule)
         && (space->pairs[schedule] || !ps_layout_space_is_outrun (space, cell->alone_ns));
}

static void
predict_cell (Round *round, PsSweepWorker *worker, guint index)
{
  const PsLayoutSpace *space = round->space;
  const PsLayoutCell *cell = &round->cells[index];
  GError *error = NULL;

  for (guint i = 0; i < space->n_schedules && error == NULL; i++)
    if (is_promising (space, cell, i))
      round->results[index * space->n_schedules + i] = ps_sweep_worker_predict (worker, cell->first + i, &error);
  if (error != NULL)
    note_error (round, error);
}

static gpointer
run_thread (gpointer data)
{
  Round *round = data;
  PsSweepWorker *worker = round->workers[g_atomic_int_add (&round->n_seated, 1)];
  guint i;

  while ((i = (guint)g_atomic_int_add (&round->next, 1)) < round->n_cells)
    predict_cell (round, worker, i);
  return NULL;
}

static gboolean
run_threads (Round *round, guint n_jobs, GError **error)
{
  g_autofree GThread **threads = g_new (GThread *, n_jobs);
  GError *failure = NULL;
  guint n = 1;

  g_mutex_init (&round->mutex);
  for (; n < n_jobs && failure == NULL; n += threads[n] != NULL)
    threads[n] = g_thread_try_new ("plan", run_thread, round, &failure);
  g_prefix_error (&failure, "--jobs: %u threads: ", n_jobs);
  if (failure != NULL)
    note_error (round, failure);
  else
    run_thread (round);
  for (guint i = 1; i < n; i++)
    g_thread_join (threads[i]);
  g_mutex_clear (&round->mutex);
  if (round->error != NULL)
    g_propagate_error (error, round->error);
  return round->error == NULL;
}

/* The best */

/* Origins stand in the order of falling weight. */
static PsConfidence
find_confidence (const PsResult *result)
{
  static const char *const columns[] = { "costs_origin", "transfers_origin", "memory_origin" };
  PsOrigin weakest = PS_ORIGIN_GIVEN, origin;

  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (ps_origin_parse ("origin", ps_result_value (result, columns[i])->text, &origin, NULL))
      weakest = MAX (weakest, origin);
  return weakest <= PS_ORIGIN_MEASURED       ? PS_CONFIDENCE_HIGH
         : weakest == PS_ORIGIN_INTERPOLATED ? PS_CONFIDENCE_MEDIUM
                                             : PS_CONFIDENCE_LOW;
}

static PsLayout
layout_new (const PsLayoutSpace *space, const PsResult *result)
{
  const PsValue *profile = ps_result_value (result, "profile"), *stages = ps_result_value (result, "layout");
  const PsLayouts *layouts = space->layouts;
  PsLayout layout = {
    .schedule = g_strdup (ps_result_value (result, "schedule")->text),
    .asynchronous = ps_result_value (result, "asynchronous")->integer != 0,
    .profile = profile->type == PS_VALUE_TEXT ? g_strdup (profile->text) : NULL,
    .n_devices = (guint)ps_result_value (result, "devices")->integer,
    .n_tensor = (guint)ps_result_value (result, "tensor")->integer,
    .n_context = (guint)ps_result_value (result, "context")->integer,
    .n_experts = (guint)ps_result_value (result, "experts")->integer,
    .n_replicas = (guint)ps_result_value (result, "replicas")->integer,
    .microbatch_size = (guint)ps_result_value (result, "microbatch_size")->integer,
    .n_microbatches = (guint)ps_result_value (result, "microbatches")->integer,
    .n_chunks = (guint)ps_result_value (result, "chunks")->integer,
    .layout = profile->type != PS_VALUE_TEXT ? g_strdup (stages->text) : NULL,
    .zero = (guint)ps_result_value (result, "zero")->integer,
    .step_ns = ps_result_value (result, "iteration_ns")->integer,
    .peak_memory_bytes = ps_result_value (result, "peak_memory_bytes")->integer,
    .bubble_ratio = ps_result_value (result, "bubble_ratio")->real,
    .costs_origin = g_strdup (ps_result_value (result, "costs_origin")->text),
    .confidence = find_confidence (result),
  };
  double seconds = (double)MAX (layout.step_ns, 1) / 1e9;

  ps_recompute_parse ("recompute", ps_result_value (result, "recompute")->text, &layout.recompute, NULL);
  layout.tokens_per_second = (double)space->question->global_batch * space->sequence / seconds;
  layout.mfu = layouts->step_flops / (seconds * layouts->n_gpus * layouts->peak_flops);
  return layout;
}

/* Whether the question's runner runs the layout. */
static gboolean
is_run (const PsLayoutSpace *space, const PsLayout *layout)
{
  const PsLayoutQuestion *question = space->question;

  if (question->runner == NULL)
    return TRUE;
  g_autoptr (PsSetting) setting = ps_layout_setting (question, space->layouts, layout);
  setting->known_model = space->model;
  g_autofree char *refusal = ps_launch_refusal (question->runner, setting, layout->schedule);
  return refusal == NULL;
}

static int
compare_layouts (gconstpointer a, gconstpointer b)
{
  const PsLayout *x = a, *y = b;
  const gint64 differences[] = { x->step_ns - y->step_ns,
                                 (gint64)x->n_devices - y->n_devices,
                                 (gint64)x->n_tensor - y->n_tensor,
                                 (gint64)x->n_context - y->n_context,
                                 (gint64)x->n_experts - y->n_experts,
                                 (gint64)x->microbatch_size - y->microbatch_size,
                                 (gint64)x->recompute - (gint64)y->recompute,
                                 strcmp (x->schedule, y->schedule),
                                 (gint64)x->n_chunks - y->n_chunks };

  for (guint i = 0; i < G_N_ELEMENTS (differences); i++)
    if (differences[i] != 0)
      return differences[i] < 0 ? -1 : 1;
  return 0;
}

static void
take_result (const PsLayoutSpace *space, const PsResult *result)
{
  PsLayouts *layouts = space->layouts;
  PsLayout layout;

  if (result->reason != NULL)
    layouts->n_impossible++;
  else if (!ps_result_value (result, "feasible")->integer)
    layouts->n_too_large++;
  else
    {
      layouts->n_fit++;
      layouts->unrest = MAX (layouts->unrest, ps_result_value (result, "unrest")->real);
      layout = layout_new (space, result);
      layout.not_run = !is_run (space, &layout);
      g_array_append_val (space->fits, layout);
    }
}

/* Whether two settings are one answer. */
static gboolean
is_same (const PsLayoutQuestion *question, const PsLayout *a, const PsLayout *b)
{
  return question->fold && a->n_devices == b->n_devices && a->n_tensor == b->n_tensor && a->n_context == b->n_context
         && a->n_experts == b->n_experts && a->n_replicas == b->n_replicas && a->not_run == b->not_run;
}

/* The first of the settings that a setting is one answer with; itself where it is the first. */
static guint
find_same (const PsLayoutQuestion *question, const GArray *layouts, const PsLayout *layout)
{
  guint i = 0;

  while (i < layouts->len && !is_same (question, &g_array_index (layouts, PsLayout, i), layout)
         && &g_array_index (layouts, PsLayout, i) != layout)
    i++;
  return i;
}

static void
take_results (PsLayoutSpace *space, PsResult **results, guint n)
{
  guint n_answers = 0;

  for (guint i = 0; i < n; i++)
    if (results[i] != NULL)
      take_result (space, results[i]);
  g_array_sort (space->fits, compare_layouts);
  for (guint i = 0; i < space->fits->len && n_answers < space->question->top; i++)
    {
      const PsLayout *layout = &g_array_index (space->fits, PsLayout, i);

      n_answers += !layout->not_run && find_same (space->question, space->fits, layout) == i;
      space->last_ns = n_answers == space->question->top ? layout->step_ns : 0;
    }
}

/* Adds a schedule that is nearly as fast, once. On one device nearly all are; a reader expects 1F1B there. */
static void
note_near (PsLayout *best, const PsLayout *other)
{
  g_autofree char *named = g_strjoin (", ", best->schedule, best->near, NULL);
  g_auto (GStrv) names = g_strsplit (named, ", ", -1);

  if ((best->n_devices == 1 && !g_str_equal (other->schedule, "1f1b"))
      || (double)other->step_ns > PS_LAYOUT_NEAR * (double)best->step_ns
      || g_strv_contains ((const char *const *)names, other->schedule))
    return;
  g_free (best->near);
  best->near = g_strjoin (", ", names[1] != NULL ? named + strlen (names[0]) + 2 : other->schedule,
                          names[1] != NULL ? other->schedule : NULL, NULL);
}

/* Moves the best of the settings that fit, which stand in their order, to the answer: those that run, or the others. */
static void
choose_best (PsLayoutSpace *space, gboolean not_run)
{
  GArray *best = space->layouts->best;
  const guint end = best->len + space->question->top;

  for (guint i = 0; i < space->fits->len; i++)
    {
      PsLayout *layout = &g_array_index (space->fits, PsLayout, i);
      guint same = find_same (space->question, best, layout);

      if (layout->schedule == NULL || layout->not_run != not_run)
        continue;
      if (same < best->len)
        note_near (&g_array_index (best, PsLayout, same), layout);
      else if (best->len < end)
        {
          g_array_append_vals (best, layout, 1);
          *layout = (PsLayout){ .schedule = NULL };
        }
    }
}

/* Counts the cells from `first` on that may still matter, at most a round of them. */
static guint
count_promising (const PsLayoutSpace *space, guint first)
{
  guint n = 0;

  while (n < ROUND && first + n < space->cells->len
         && !ps_layout_space_is_outrun (space, g_array_index (space->cells, PsLayoutCell, first + n).floor_ns))
    n++;
  return n;
}

static gboolean
predict_round (PsLayoutSpace *space, PsSweepWorker **workers, guint first, guint n, GError **error)
{
  guint n_results = n * space->n_schedules;
  g_autofree PsResult **results = g_new0 (PsResult *, n_results);
  Round round = { .space = space,
                  .cells = &g_array_index (space->cells, PsLayoutCell, first),
                  .n_cells = n,
                  .results = results,
                  .workers = workers };
  gboolean ok = run_threads (&round, MAX (space->question->n_jobs, 1), error);

  for (guint i = 0; ok && i < n_results; i++)
    space->layouts->n_outrun
        += results[i] == NULL
           && ps_layout_space_takes (space, &round.cells[i / space->n_schedules], i % space->n_schedules);
  if (ok)
    take_results (space, results, n_results);
  for (guint i = 0; i < n_results; i++)
    ps_result_free (results[i]);
  return ok;
}

/* Cells stand in the order of rising floors: after the first that is outrun, all are. */
static gboolean
predict_all (PsLayoutSpace *space, PsSweepWorker **workers, GError **error)
{
  guint first = 0, n;

  while ((n = count_promising (space, first)) > 0)
    {
      if (!predict_round (space, workers, first, n, error))
        return FALSE;
      first += n;
    }
  for (; first < space->cells->len; first++)
    space->layouts->n_outrun += ps_layout_space_count (space, g_array_index (space->cells, PsLayoutCell, first).kind);
  return TRUE;
}

PsLayouts *
ps_layouts_find (const PsLayoutQuestion *question, GError **error)
{
  g_autoptr (PsLayouts) layouts = g_new0 (PsLayouts, 1);
  g_auto (PsLayoutSpace) space = { .layouts = layouts };
  g_autoptr (GPtrArray) workers = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sweep_worker_free);

  layouts->best = g_array_new (FALSE, TRUE, sizeof (PsLayout));
  space.fits = g_array_new (FALSE, TRUE, sizeof (PsLayout));
  g_array_set_clear_func (layouts->best, layout_clear);
  g_array_set_clear_func (space.fits, layout_clear);
  if (!ps_layout_space_open (&space, question, error))
    return NULL;
  for (guint i = 0; i < MAX (question->n_jobs, 1); i++)
    g_ptr_array_add (workers, ps_sweep_worker_new (space.sweep));
  if (!predict_all (&space, (PsSweepWorker **)workers->pdata, error))
    return NULL;
  choose_best (&space, FALSE);
  choose_best (&space, TRUE);
  return g_steal_pointer (&layouts);
}

/* Command lines */

PsSetting *
ps_layout_setting (const PsLayoutQuestion *question, const PsLayouts *layouts, const PsLayout *layout)
{
  PsSetting *setting = ps_setting_new ();

  setting->n_devices = layout->n_devices;
  setting->n_microbatches = layout->n_microbatches;
  setting->n_chunks = layout->n_chunks;
  setting->layout = g_strdup (layout->layout);
  setting->microbatch_size = question->db != NULL ? 0 : layout->microbatch_size;
  setting->model = g_strdup (question->db != NULL ? NULL : question->model);
  setting->precision = g_strdup (question->db != NULL ? NULL : question->precision);
  setting->cluster = g_strdup (question->db != NULL ? NULL : question->cluster);
  setting->db = g_strdup (question->db);
  setting->profile = g_strdup (layout->profile);
  setting->recompute = layout->recompute;
  setting->n_replicas = layout->n_replicas;
  setting->replicas_adjacent = question->runner != NULL && layout->n_replicas > 1;
  setting->n_tensor = layout->n_tensor;
  setting->n_context = MAX (layout->n_context, 1);
  setting->n_experts = MAX (layout->n_experts, 1);
  setting->framework = question->framework;
  if (layout->n_replicas > 1 || layout->n_context > 1)
    setting->zero = layout->zero;
  if (setting->cluster == NULL || question->memory_limit > 0 || question->reserve != PS_LAYOUT_USUAL_RESERVE)
    {
      setting->memory_limit = g_memdup2 (&layouts->memory_limit, sizeof layouts->memory_limit);
      setting->n_memory_limits = 1;
    }
  return setting;
}

char *
ps_layout_command (const PsLayoutQuestion *question, const PsLayouts *layouts, const PsLayout *layout)
{
  g_autoptr (PsSetting) setting = ps_layout_setting (question, layouts, layout);
  g_autofree char *typed = ps_setting_typed (setting);

  return g_strdup_printf ("pipesim predict --schedule %s%s", layout->schedule, typed);
}
