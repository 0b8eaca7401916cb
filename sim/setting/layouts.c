/* layouts.c - walks p, microbatch size, recomputation and schedule as a sweep in memory, the most promising first. */
#include <pipesim/layouts.h>
#include "setting-private.h"
#include "sweep/sweep-private.h"

#include <string.h>

#define MOST_SEQUENCES 16 /* of a microbatch */

/* All schedules for one layout, size and recomputation. */
typedef struct
{
  guint64 first;   /* point of the first schedule */
  gint64 floor_ns; /* no schedule is faster */
} Cell;

typedef struct
{
  const PsLayoutQuestion *question;
  PsSweep *sweep;
  PsSweepWorker *worker;
  PsLayouts *layouts;
  GArray *cells; /* Cell, by floor_ns */
  guint n_schedules;
  guint sequence; /* tokens */
} Search;

static void
search_clear (Search *search)
{
  ps_sweep_worker_free (search->worker);
  ps_sweep_free (search->sweep);
  g_clear_pointer (&search->cells, g_array_unref);
  ps_layouts_free (search->layouts);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

static void
layout_clear (gpointer data)
{
  PsLayout *layout = data;

  g_free (layout->schedule);
  g_free (layout->costs_origin);
}

void
ps_layouts_free (PsLayouts *layouts)
{
  if (!layouts)
    return;
  g_array_unref (layouts->best);
  g_free (layouts->model);
  g_free (layouts->cluster);
  g_free (layouts);
}

double
ps_layout_step_flops (const PsModel *model, gint64 global_batch)
{
  const PsStageShape whole = { .n_layers = model->layers, .embedding = TRUE, .head = TRUE };
  double flops
      = (double)ps_model_stage_flops (model, &whole, PS_OP_F) + (double)ps_model_stage_flops (model, &whole, PS_OP_BW);

  return flops / model->microbatch_size * (double)global_batch;
}

/* The space as a spec */

/* A family that this small pipeline does not suit is left for the sweep to refuse. */
static gboolean
is_synchronous (const PsFamily *family)
{
  PsFamilySetting small = { .n_devices = 2, .n_microbatches = 8, .n_chunks = family->default_chunks };
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &small, NULL);

  return !schedule || !schedule->asynchronous;
}

static void
add_schedules (const PsLayoutQuestion *question, GString *spec)
{
  guint n, n_added = 0;
  const PsFamily *const *families = ps_family_table (&n);
  g_autofree char *asked = question->schedules ? g_strjoinv (", ", question->schedules) : NULL;

  g_string_append (spec, "schedule = ");
  if (asked)
    g_string_append (spec, asked);
  for (guint i = 0; !asked && i < n; i++)
    if (is_synchronous (families[i]))
      g_string_append_printf (spec, "%s%s", n_added++ ? ", " : "", families[i]->name);
  g_string_append_c (spec, '\n');
}

static void
add_sizes (const PsLayoutQuestion *question, const PsModel *model, GString *spec)
{
  g_string_append (spec, "microbatch-size = 1");
  for (gint64 b = 2; b <= MIN (question->global_batch, MOST_SEQUENCES); b *= 2)
    g_string_append_printf (spec, ", %" G_GINT64_FORMAT, b);
  /* With flash attention there is nothing selective to drop. */
  g_string_append_printf (spec, "\nzero = %s\nrecompute = none, %sfull\n", question->shard ? "0, 1" : "0",
                          model->flash_attention ? "" : "selective, ");
}

static void
add_layouts (guint n_gpus, guint most, GString *spec)
{
  g_autoptr (GString) replicas = g_string_new ("\nreplicas = ");
  gboolean first = TRUE;

  g_string_append (spec, "[zip layout]\ndevices = ");
  for (guint p = 1; p <= MIN (n_gpus, most); p++)
    if (n_gpus % p == 0)
      {
        g_string_append_printf (spec, "%s%u", first ? "" : ", ", p);
        g_string_append_printf (replicas, "%s%u", first ? "" : ", ", n_gpus / p);
        first = FALSE;
      }
  g_string_append (spec, replicas->str);
}

static char *
write_spec (const PsLayoutQuestion *question, const PsLayouts *layouts, const PsModel *model)
{
  g_autoptr (GString) spec = g_string_new ("[sweep]\n");

  add_schedules (question, spec);
  g_string_append_printf (spec, "global-batch = %" G_GINT64_FORMAT "\nmemory-limit = %" G_GINT64_FORMAT "\n",
                          question->global_batch, layouts->memory_limit);
  if (question->model)
    g_string_append_printf (spec, "model = %s\n", question->model);
  if (question->profile)
    g_string_append_printf (spec, "profile = %s\n", question->profile);
  if (question->db)
    g_string_append_printf (spec, "db = %s\ndevices = %u\nrecompute = none, full\n", question->db, layouts->n_gpus);
  else
    {
      g_string_append_printf (spec, "cluster = %s\n", question->cluster);
      add_sizes (question, model, spec);
      add_layouts (layouts->n_gpus, model->layers, spec);
    }
  return g_string_free (g_steal_pointer (&spec), FALSE);
}

/* Names go into a spec. */
static gboolean
check_name (const char *option, const char *name, GError **error)
{
  if (!name || !strpbrk (name, ",;#\r\n"))
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: '%s' has one of , ; # or a line end in it; rename the file",
               option, name);
  return FALSE;
}

static gboolean
check_schedules (char *const *names, GError **error)
{
  for (guint i = 0; names && names[i]; i++)
    if (!ps_family_find (names[i]))
      {
        g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--schedule: '%s' is no family; pipesim schedule list has them",
                     names[i]);
        return FALSE;
      }
  return TRUE;
}

static gboolean
check_question (const PsLayoutQuestion *question, GError **error)
{
  const char *message = NULL;

  if (!question->cluster)
    message = "--cluster: missing; the memory and the peak rate of a GPU come from it";
  else if (!question->model && !question->db)
    message = "--model: missing; give a model, or --db FILE that holds one";
  else if (question->profile && !question->db)
    message = "--profile: needs --db FILE, the database that holds it";
  else if (question->global_batch < 1)
    message = "--global-batch: missing; give the sequences per step";
  if (message)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return !message && check_name ("--model", question->model, error) && check_name ("--db", question->db, error)
         && check_name ("--profile", question->profile, error) && check_name ("--cluster", question->cluster, error)
         && check_schedules (question->schedules, error);
}

static PsModel *
load_model (const PsLayoutQuestion *question, GError **error)
{
  const PsSetting setting
      = { .model = (char *)question->model, .db = (char *)question->db, .profile = (char *)question->profile };

  return ps_setting_model (&setting, error);
}

static gboolean
take_cluster (Search *search, GError **error)
{
  const PsLayoutQuestion *question = search->question;
  PsLayouts *layouts = search->layouts;
  g_autoptr (PsCluster) cluster = ps_cluster_load (question->cluster, error);

  if (!cluster)
    return FALSE;
  layouts->cluster = g_strdup (cluster->name);
  layouts->peak_flops = cluster->peak_flops;
  layouts->n_gpus = question->n_gpus ? question->n_gpus : cluster->nodes * cluster->devices_per_node;
  layouts->memory_limit = question->memory_limit ? question->memory_limit : cluster->memory_bytes;
  if (layouts->memory_limit > 0)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "cluster '%s': does not say the memory of a device; give --memory-limit", cluster->name);
  return FALSE;
}

static gboolean
open_space (Search *search, GError **error)
{
  const PsLayoutQuestion *question = search->question;
  g_autoptr (PsModel) model = NULL;
  g_autofree char *spec = NULL;

  if (!check_question (question, error) || (model = load_model (question, error)) == NULL
      || !take_cluster (search, error))
    return FALSE;
  search->layouts->model = g_strdup (model->name);
  search->layouts->step_flops = ps_layout_step_flops (model, question->global_batch);
  search->sequence = model->sequence;
  spec = write_spec (question, search->layouts, model);
  search->sweep = ps_sweep_parse ("plan", spec, strlen (spec), error);
  if (!search->sweep)
    return FALSE;
  search->worker = ps_sweep_worker_new (search->sweep);
  search->n_schedules = ps_sweep_axis (search->sweep, "schedule")->values->len;
  return TRUE;
}

/* Bounds */

static gint64
work (const PsCosts *costs)
{
  gint64 sum = 0;

  for (guint s = 0; s < costs->n_stages; s++)
    {
      gint64 split = ps_costs_op (costs, PS_OP_B, s)->duration_ns + ps_costs_op (costs, PS_OP_W, s)->duration_ns;

      if (costs->pair_ns[s] >= 0) /* may take less than its parts */
        return 0;
      sum += ps_costs_op (costs, PS_OP_F, s)->duration_ns + MIN (split, ps_costs_op (costs, PS_OP_BW, s)->duration_ns);
    }
  return sum;
}

static gboolean
can_fit (const PsCosts *costs, guint n_devices, gint64 limit)
{
  gint64 sum = 0;

  for (guint s = 0; s < costs->n_stages; s++)
    sum += costs->weight_bytes[s];
  return sum / n_devices <= limit;
}

/* Optimizer states are spread where there is something to spread them over, once. */
static gboolean
is_asked (const Search *search, const PsSetting *setting)
{
  return setting->shard_optimizer == (search->question->shard && setting->n_replicas > 1);
}

static void
add_cell (Search *search, guint64 first, PsSweepPoint *point)
{
  PsLayouts *layouts = search->layouts;
  gint64 each = (gint64)MAX (ps_sweep_microbatch_size (search->sweep, &point->setting), 1) * point->setting.n_replicas;
  g_autoptr (PsCosts) costs = NULL;
  Cell cell = { .first = first };
  guint m = (guint)MIN (point->global_batch / each, PS_MAX_MICROBATCHES);

  layouts->n_settings += search->n_schedules;
  costs
      = point->global_batch % each == 0 ? ps_setting_costs (&point->setting, point->setting.n_devices, 1, NULL) : NULL;
  if (!costs || !ps_costs_check (costs, m, NULL))
    layouts->n_impossible += search->n_schedules;
  else if (!can_fit (costs, point->setting.n_devices, layouts->memory_limit))
    layouts->n_hopeless += search->n_schedules;
  else
    {
      cell.floor_ns = work (costs) * m / point->setting.n_devices;
      g_array_append_val (search->cells, cell);
    }
}

static int
compare_cells (gconstpointer a, gconstpointer b)
{
  const Cell *x = a, *y = b;

  return x->floor_ns != y->floor_ns ? (x->floor_ns < y->floor_ns ? -1 : 1) : (x->first < y->first ? -1 : 1);
}

/* Schedules change fastest. */
static void
list_cells (Search *search)
{
  PsSweepPoint point;

  search->cells = g_array_new (FALSE, FALSE, sizeof (Cell));
  ps_sweep_point_init (&point, search->sweep);
  for (guint64 first = 0; first < ps_sweep_n_points (search->sweep); first += search->n_schedules)
    {
      ps_sweep_point_set (&point, search->sweep, first);
      if (is_asked (search, &point.setting))
        add_cell (search, first, &point);
    }
  ps_sweep_point_clear (&point);
  g_array_sort (search->cells, compare_cells);
}

/* Predictions */

static PsLayout
layout_new (const Search *search, const PsResult *result)
{
  const PsValue *values = result->values;
  const PsLayouts *layouts = search->layouts;
  PsLayout layout = {
    .schedule = g_strdup (values[PS_RESULT_SCHEDULE].text),
    .n_devices = (guint)values[PS_RESULT_DEVICES].integer,
    .n_replicas = (guint)values[PS_RESULT_REPLICAS].integer,
    .microbatch_size = (guint)values[PS_RESULT_MICROBATCH_SIZE].integer,
    .n_microbatches = (guint)values[PS_RESULT_MICROBATCHES].integer,
    .n_chunks = (guint)values[PS_RESULT_CHUNKS].integer,
    .shard = values[PS_RESULT_ZERO].integer == 1,
    .step_ns = values[PS_RESULT_ITERATION_NS].integer,
    .peak_memory_bytes = values[PS_RESULT_PEAK_MEMORY_BYTES].integer,
    .bubble_ratio = values[PS_RESULT_BUBBLE_RATIO].real,
    .costs_origin = g_strdup (values[PS_RESULT_COSTS_ORIGIN].text),
  };
  double seconds = (double)MAX (layout.step_ns, 1) / 1e9;

  ps_recompute_parse (values[PS_RESULT_RECOMPUTE].text, &layout.recompute);
  layout.tokens_per_second = (double)search->question->global_batch * search->sequence / seconds;
  layout.mfu = layouts->step_flops / (seconds * layouts->n_gpus * layouts->peak_flops);
  return layout;
}

static int
compare_layouts (gconstpointer a, gconstpointer b)
{
  const PsLayout *x = a, *y = b;

  if (x->step_ns != y->step_ns)
    return x->step_ns < y->step_ns ? -1 : 1;
  if (x->n_devices != y->n_devices)
    return x->n_devices < y->n_devices ? -1 : 1;
  if (x->microbatch_size != y->microbatch_size)
    return x->microbatch_size < y->microbatch_size ? -1 : 1;
  return x->recompute != y->recompute ? (int)x->recompute - (int)y->recompute : strcmp (x->schedule, y->schedule);
}

static void
take_layout (Search *search, const PsResult *result)
{
  PsLayouts *layouts = search->layouts;
  PsLayout layout;

  if (result->reason)
    layouts->n_impossible++;
  else if (!result->values[PS_RESULT_FEASIBLE].integer)
    layouts->n_too_large++;
  else
    {
      layouts->n_fit++;
      layout = layout_new (search, result);
      g_array_append_val (layouts->best, layout);
    }
}

static gboolean
predict_cell (Search *search, const Cell *cell, GError **error)
{
  GArray *best = search->layouts->best;

  for (guint i = 0; i < search->n_schedules; i++)
    {
      g_autoptr (PsResult) result = ps_sweep_worker_predict (search->worker, cell->first + i, error);

      if (!result)
        return FALSE;
      take_layout (search, result);
    }
  g_array_sort (best, compare_layouts);
  if (best->len > search->question->top)
    g_array_set_size (best, search->question->top);
  return TRUE;
}

static gboolean
is_outrun (const Search *search, const Cell *cell)
{
  const GArray *best = search->layouts->best;

  return best->len == search->question->top && cell->floor_ns > g_array_index (best, PsLayout, best->len - 1).step_ns;
}

PsLayouts *
ps_layouts_find (const PsLayoutQuestion *question, GError **error)
{
  g_auto (Search) search = { .question = question, .layouts = g_new0 (PsLayouts, 1) };

  search.layouts->best = g_array_new (FALSE, TRUE, sizeof (PsLayout));
  g_array_set_clear_func (search.layouts->best, layout_clear);
  if (!open_space (&search, error))
    return NULL;
  list_cells (&search);
  for (guint i = 0; i < search.cells->len; i++)
    {
      const Cell *cell = &g_array_index (search.cells, Cell, i);

      if (is_outrun (&search, cell))
        search.layouts->n_outrun += search.n_schedules;
      else if (!predict_cell (&search, cell, error))
        return NULL;
    }
  return g_steal_pointer (&search.layouts);
}

static void
add_option (GString *line, const char *option, const char *value)
{
  g_autofree char *quoted = NULL;

  if (!value)
    return;
  for (const char *c = value; *c && !quoted; c++)
    if (!g_ascii_isalnum (*c) && !strchr ("-_./", *c))
      quoted = g_shell_quote (value);
  g_string_append_printf (line, " %s %s", option, quoted ? quoted : value);
}

char *
ps_layout_command (const PsLayoutQuestion *question, const PsLayouts *layouts, const PsLayout *layout)
{
  g_autoptr (GString) line = g_string_new ("pipesim predict");

  g_string_append_printf (line, " --schedule %s -p %u -m %u -v %u", layout->schedule, layout->n_devices,
                          layout->n_microbatches, layout->n_chunks);
  add_option (line, "--model", question->model);
  add_option (line, "--cluster", question->db ? NULL : question->cluster);
  add_option (line, "--db", question->db);
  add_option (line, "--profile", question->profile);
  if (!question->db)
    g_string_append_printf (line, " --microbatch-size %u", layout->microbatch_size);
  if (layout->n_replicas > 1)
    g_string_append_printf (line, " --replicas %u%s", layout->n_replicas, layout->shard ? " --zero 1" : "");
  if (layout->recompute != PS_RECOMPUTE_NONE)
    g_string_append_printf (line, " --recompute %s", ps_recompute_name (layout->recompute));
  g_string_append_printf (line, " --memory-limit %" G_GINT64_FORMAT, layouts->memory_limit);
  return g_string_free (g_steal_pointer (&line), FALSE);
}
