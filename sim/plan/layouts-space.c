/* layouts-space.c - p, t, d, microbatch size, recomputation, chunks and schedule as a sweep in memory, and the cells of
 * it that are worth a prediction. */
#include "layouts-private.h"

#include <string.h>

#define MOST_SEQUENCES 16 /* of a microbatch */
#define MOST_TENSOR 8     /* GPUs of a device */
#define LEAST_EXPERTS 8   /* GPUs that share the experts, where any do */
#define MOST_EXPERTS 64   /* GPUs that share the experts */
#define USUAL_SEQUENCE 4096

void
ps_layout_space_clear (PsLayoutSpace *space)
{
  g_free (space->profiles);
  ps_sweep_free (space->sweep);
  g_clear_pointer (&space->cells, g_array_unref);
  g_clear_pointer (&space->fits, g_array_unref);
  g_free (space->takes);
  g_free (space->pairs);
  ps_model_free (space->model);
}

/* The space as a spec */

/* TRUE for a family that this small pipeline does not suit: the sweep refuses it. */
static gboolean
is_synchronous (const PsFamily *family)
{
  PsFamilySetting small = { .n_devices = 2, .n_microbatches = 8, .n_chunks = family->default_chunks };
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &small, NULL);

  return schedule == NULL || !schedule->asynchronous;
}

static void
add_schedules (const PsLayoutQuestion *question, GString *spec)
{
  guint n, n_added = 0;
  const PsFamily *const *families = ps_family_table (&n);
  g_autofree char *asked = question->schedules != NULL ? g_strjoinv (", ", question->schedules) : NULL;

  g_string_append (spec, "schedule = ");
  if (asked != NULL)
    g_string_append (spec, asked);
  for (guint i = 0; asked == NULL && i < n; i++)
    if (is_synchronous (families[i]))
      g_string_append_printf (spec, "%s%s", n_added++ ? ", " : "", families[i]->name);
  g_string_append_printf (spec, "\nchunks = auto, %u..%u\n", PS_LAYOUT_CHUNKS, PS_LAYOUT_KINDS - 1);
}

static void
add_sizes (const PsLayoutQuestion *question, const PsModel *model, GString *spec)
{
  g_string_append (spec, "microbatch-size = 1");
  for (gint64 b = 2; b <= MIN (question->global_batch, MOST_SEQUENCES); b *= 2)
    g_string_append_printf (spec, ", %" G_GINT64_FORMAT, b);
  /* With flash attention there is nothing selective to drop. */
  g_string_append (spec, "\nzero = 0");
  if (question->zero > 0)
    g_string_append_printf (spec, ", %u", question->zero);
  g_string_append_printf (spec, "\nrecompute = none, %sfull\n", model->flash_attention ? "" : "selective, ");
}

static void
add_divisors (const char *field, guint n, guint most, GString *spec)
{
  g_string_append_printf (spec, "%s = 1", field);
  for (guint i = 2; i <= MIN (n, most); i++)
    if (n % i == 0)
      g_string_append_printf (spec, ", %u", i);
  g_string_append_c (spec, '\n');
}

static void
add_tensors (const PsLayoutQuestion *question, const PsModel *model, guint per_node, GString *spec)
{
  if (question->tensor)
    {
      g_string_append_printf (spec, "tensor = %u\n", question->tensor);
      return;
    }
  g_string_append (spec, "tensor = 1");
  for (guint t = 2; t <= MOST_TENSOR; t *= 2)
    if (per_node % t == 0 && ps_tensor_check (model, t, TRUE, NULL))
      g_string_append_printf (spec, ", %u", t);
  g_string_append_c (spec, '\n');
}

/* 1 and the powers of two from `least` to `most` that divide the number, or the one that was asked for. */
static void
add_powers (const char *field, guint given, guint number, guint least, guint most, GString *spec)
{
  g_string_append_printf (spec, "%s = %u", field, MAX (given, 1));
  for (guint i = least; given == 0 && i <= most; i *= 2)
    if (number % i == 0)
      g_string_append_printf (spec, ", %u", i);
  g_string_append_c (spec, '\n');
}

/* The spec crosses devices, replicas, tensor, context and experts; is_asked drops points whose product is not the
 * number of GPUs. */
static char *
write_spec (const PsLayoutSpace *space, const PsModel *model, const PsCluster *cluster)
{
  const PsLayoutQuestion *question = space->question;
  guint n_gpus = space->layouts->n_gpus;
  g_autoptr (GString) spec = g_string_new ("[sweep]\n");

  add_schedules (question, spec);
  g_string_append_printf (spec, "global-batch = %" G_GINT64_FORMAT "\nmemory-limit = %" G_GINT64_FORMAT "B\n",
                          question->global_batch, space->layouts->memory_limit);
  if (question->db != NULL)
    {
      g_string_append_printf (spec, "db = %s\nprofile = %s\ndevices = %u\nrecompute = none, full\n", question->db,
                              space->profiles, n_gpus);
      return g_string_free (g_steal_pointer (&spec), FALSE);
    }
  g_string_append_printf (spec, "model = %s\nprecision = %s\ncluster = %s\n", question->model,
                          ps_precision_name (model->precision), question->cluster);
  add_sizes (question, model, spec);
  add_divisors ("devices", n_gpus, model->layers + 2, spec);
  add_divisors ("replicas", n_gpus, n_gpus, spec);
  add_tensors (question, model, cluster->devices_per_node, spec);
  add_powers ("context", question->context, model->sequence, 2, model->sequence / USUAL_SEQUENCE, spec);
  add_powers ("experts", question->experts, model->experts.count, LEAST_EXPERTS,
              MIN (model->experts.count, MOST_EXPERTS), spec);
  if (question->runner != NULL)
    g_string_append (spec, "adjacent-replicas = yes\n");
  if (question->framework != PS_FRAMEWORK_NONE)
    g_string_append_printf (spec, "framework = %s\n", ps_framework_name (question->framework));
  return g_string_free (g_steal_pointer (&spec), FALSE);
}

/* Questions */

static gboolean
check_schedules (char *const *names, GError **error)
{
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    if (ps_family_find (names[i]) == NULL)
      return ps_refuse (error, PS_ERROR_USAGE, "--schedule: '%s' is no family; pipesim schedule list has them",
                        names[i]);
  return TRUE;
}

static gboolean
check_question (const PsLayoutQuestion *question, GError **error)
{
  const char *message = NULL;

  if (question->cluster == NULL)
    message = "--cluster: missing; the memory and the peak rate of a GPU come from it";
  else if (question->model == NULL && question->db == NULL)
    message = "--model: missing; give a model, or --db FILE that holds one";
  else if (question->precision != NULL && question->model == NULL)
    message = "--precision: needs --model FILE, which it gives another number format";
  else if (question->profile != NULL && question->db == NULL)
    message = "--profile: needs --db FILE, the database that holds it";
  else if (question->tensor > 1 && question->db != NULL)
    message = "--tensor: needs modelled costs; measured ones are those of a device as they are";
  else if (question->global_batch < 1)
    message = "--global-batch: missing; give the sequences per step";
  if (message != NULL)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL && ps_layout_check_name ("--model", question->model, error)
         && ps_layout_check_name ("--db", question->db, error)
         && ps_layout_check_name ("--profile", question->profile, error)
         && ps_layout_check_name ("--cluster", question->cluster, error)
         && check_schedules (question->schedules, error);
}

static gboolean
check_tensor (const PsLayoutSpace *space, const PsModel *model, PsCluster *cluster, GError **error)
{
  guint tensor = MAX (space->question->tensor, 1), n_gpus = space->layouts->n_gpus;

  if (n_gpus % tensor == 0)
    return ps_tensor_check (model, tensor, TRUE, error) && ps_cluster_group (cluster, tensor, error)
           && (space->question->db != NULL || ps_cluster_check_size (cluster, n_gpus / tensor, error));
  return ps_refuse (error, PS_ERROR_USAGE, "--tensor %u: does not divide the %u GPUs", tensor, n_gpus);
}

static gboolean
take_cluster (PsLayoutSpace *space, PsFramework framework, const PsCluster *cluster, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  PsLayouts *layouts = space->layouts;

  layouts->cluster = g_strdup (cluster->name);
  layouts->n_there = cluster->nodes * cluster->devices_per_node;
  layouts->n_gpus = question->n_gpus ? question->n_gpus : layouts->n_there;
  layouts->memory_limit = question->memory_limit ? question->memory_limit : cluster->memory_bytes;
  layouts->reserve = question->reserve == PS_LAYOUT_USUAL_RESERVE ? ps_memory_reserve (layouts->memory_limit, framework)
                                                                  : question->reserve;
  layouts->memory_limit -= layouts->reserve;
  if (layouts->memory_limit > 0)
    return TRUE;
  if (layouts->reserve > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--reserve %" G_GINT64_FORMAT "B: leaves nothing of the memory of a GPU",
                      layouts->reserve);
  return ps_refuse (error, PS_ERROR_USAGE, "cluster '%s': does not say the memory of a device; give --memory-limit",
                    cluster->name);
}

/* Schedules */

static gboolean
takes_chunks (const char *schedule, guint n_chunks)
{
  const PsFamily *family = ps_family_find (schedule);
  PsFamilySetting small = { .n_devices = 2, .n_microbatches = 8, .n_chunks = n_chunks, .n_slices = 1 };

  return n_chunks != family->default_chunks && family->check (&small, NULL);
}

static gboolean
has_pairs (const char *schedule)
{
  const PsFamily *family = ps_family_find (schedule);
  PsFamilySetting small = { .n_devices = 2, .n_microbatches = 8, .n_chunks = family->default_chunks, .n_slices = 1 };
  g_autoptr (PsSchedule) order = family->uses_costs ? NULL : family->generate (&small, NULL);
  gboolean found = FALSE;

  for (guint i = 0; order != NULL && i < ps_schedule_n_ops (order); i++)
    found = found || order->ops[i].paired;
  return found;
}

static void
list_schedules (PsLayoutSpace *space)
{
  const GPtrArray *schedules = ps_sweep_axis (space->sweep, "schedule")->values;

  space->n_schedules = schedules->len;
  space->takes = g_new0 (guint8, PS_LAYOUT_KINDS * space->n_schedules);
  space->pairs = g_new0 (gboolean, schedules->len);
  for (guint i = 0; i < schedules->len; i++)
    space->pairs[i] = has_pairs (((PsSweepValue *)schedules->pdata[i])->text);
  memset (space->takes, 1, schedules->len);
  for (guint v = PS_LAYOUT_CHUNKS; v < PS_LAYOUT_KINDS; v++)
    for (guint i = 0; i < schedules->len; i++)
      space->takes[v * schedules->len + i] = takes_chunks (((PsSweepValue *)schedules->pdata[i])->text, v);
}

guint
ps_layout_space_count (const PsLayoutSpace *space, guint kind)
{
  guint n = 0;

  for (guint i = 0; i < space->n_schedules; i++)
    n += space->takes[kind * space->n_schedules + i];
  return n;
}

/* Bounds */

static gint64
work (const PsCosts *costs)
{
  gint64 sum = 0;

  for (guint s = 0; s < costs->n_stages; s++)
    {
      gint64 split = ps_costs_op (costs, PS_OP_B, s)->duration_ns + ps_costs_op (costs, PS_OP_W, s)->duration_ns;

      sum += ps_costs_op (costs, PS_OP_F, s)->duration_ns + MIN (split, ps_costs_op (costs, PS_OP_BW, s)->duration_ns);
    }
  return sum;
}

/* Pairs hide at most the all-to-alls of their F and B under each other's computing. Nothing is known of measured
 * pairs. */
static gint64
work_in_pairs (const PsCosts *costs, gint64 alone_ns)
{
  gint64 sum = alone_ns;

  for (guint s = 0; s < costs->n_stages; s++)
    if (costs->stage[s].pair_ns >= 0)
      sum = costs->time_origin == PS_ORIGIN_MODELLED ? sum - 2 * costs->stage[s].tensor_ns : 0;
  return MAX (sum, 0);
}

static gboolean
can_fit (const PsCosts *costs, guint n_devices, gint64 limit)
{
  gint64 sum = 0;

  for (guint s = 0; s < costs->n_stages; s++)
    sum += costs->stage[s].weight_bytes;
  return sum / n_devices <= limit;
}

/* Cells */

/* Any layout has the same work and the same weights. */
static PsCosts *
even_costs (const PsSetting *setting)
{
  PsSetting even = *setting;

  even.layout = (char *)"even";
  return ps_setting_costs (&even, setting->n_devices, 1, NULL);
}

/* Asks for the schedules' own numbers (0), and for 2, 4, 8 and all that cut the layers evenly, or the layers with
 * embedding and loss; on a single device for 1 as well. */
static gboolean
are_chunks_asked (guint layers, guint n_devices, guint n_chunks)
{
  guint n_stages = n_devices * n_chunks;

  if (n_chunks <= 1)
    return n_chunks == 0 || n_devices == 1;
  return n_stages <= layers + 2
         && (layers % n_stages == 0 || (layers + 2) % n_stages == 0 || (n_chunks & (n_chunks - 1)) == 0);
}

/* TRUE if all GPUs have work, and state is spread over replicas as asked, if there are any. */
static gboolean
is_asked (const PsLayoutSpace *space, const PsSetting *setting, guint layers)
{
  guint64 shares = (guint64)setting->n_tensor * setting->n_context * setting->n_replicas;

  return setting->n_devices * shares == space->layouts->n_gpus && shares % setting->n_experts == 0
         && ps_setting_zero (setting) == (setting->n_replicas > 1 || setting->n_context > 1 ? space->question->zero : 0)
         && are_chunks_asked (layers, setting->n_devices, setting->n_chunks);
}

static void
add_cell (PsLayoutSpace *space, guint64 first, PsSweepPoint *point)
{
  PsLayouts *layouts = space->layouts;
  const PsSetting *setting = &point->setting;
  gint64 each = (gint64)MAX (ps_sweep_microbatch_size (setting), 1) * setting->n_replicas;
  PsLayoutCell cell = { .first = first, .kind = setting->n_chunks };
  guint m = (guint)MIN (point->global_batch / each, PS_MAX_MICROBATCHES), n;

  n = ps_layout_space_count (space, cell.kind);
  layouts->n_settings += n;
  g_autoptr (PsCosts) costs = point->global_batch % each == 0 ? even_costs (setting) : NULL;
  if (costs == NULL || !ps_costs_check (costs, m, NULL))
    layouts->n_impossible += n;
  else if (!can_fit (costs, setting->n_devices, layouts->memory_limit))
    layouts->n_hopeless += n;
  else
    {
      cell.alone_ns = work (costs) * m / setting->n_devices;
      cell.floor_ns = work_in_pairs (costs, work (costs)) * m / setting->n_devices;
      g_array_append_val (space->cells, cell);
    }
}

static int
compare_cells (gconstpointer a, gconstpointer b)
{
  const PsLayoutCell *x = a, *y = b;

  return x->floor_ns != y->floor_ns ? PS_COMPARE (x->floor_ns, y->floor_ns) : PS_COMPARE (x->first, y->first);
}

/* Schedules change fastest. */
static void
list_cells (PsLayoutSpace *space, guint layers)
{
  PsSweepPoint point;

  space->cells = g_array_new (FALSE, FALSE, sizeof (PsLayoutCell));
  ps_sweep_point_init (&point, space->sweep);
  for (guint64 first = 0; first < ps_sweep_n_points (space->sweep); first += space->n_schedules)
    {
      ps_sweep_point_set (&point, space->sweep, first);
      if (is_asked (space, &point.setting, layers))
        add_cell (space, first, &point);
    }
  ps_sweep_point_clear (&point);
  g_array_sort (space->cells, compare_cells);
}

double
ps_layout_step_flops (const PsModel *model, gint64 global_batch)
{
  const PsStageShape whole = { .n_layers = model->layers, .embedding = TRUE, .head = TRUE };
  double flops
      = (double)ps_model_stage_flops (model, &whole, PS_OP_F) + (double)ps_model_stage_flops (model, &whole, PS_OP_BW);

  return flops / model->microbatch_size * (double)global_batch;
}

static gboolean
open_spec (PsLayoutSpace *space, const PsModel *model, PsCluster *cluster, GError **error)
{
  PsFramework asked = space->question->framework, framework = asked != PS_FRAMEWORK_NONE ? asked : model->framework;

  if (!take_cluster (space, framework, cluster, error))
    return FALSE;
  g_autofree char *spec = write_spec (space, model, cluster);
  if (!check_tensor (space, model, cluster, error))
    return FALSE;
  space->sweep = ps_sweep_parse ("plan", spec, strlen (spec), error);
  return space->sweep != NULL;
}

gboolean
ps_layout_space_open (PsLayoutSpace *space, const PsLayoutQuestion *question, GError **error)
{
  g_autoptr (PsCluster) cluster = NULL;

  space->question = question;
  if (!check_question (question, error))
    return FALSE;
  PsModel *model = space->model = ps_layout_space_load_model (space, error);
  cluster = model != NULL ? ps_cluster_load (question->cluster, error) : NULL;
  if (cluster == NULL || !open_spec (space, model, cluster, error))
    return FALSE;
  const PsStageShape whole = ps_model_whole (model);
  space->layouts->model = g_strdup (model->name);
  space->layouts->state_bytes = ps_model_stage_state_bytes (model, &whole);
  space->layouts->step_flops = ps_layout_step_flops (model, question->global_batch);
  space->layouts->peak_flops = ps_work_peak_flops (cluster, ps_work_bits (model->precision), &space->layouts->peak_key);
  space->sequence = model->sequence;
  list_schedules (space);
  list_cells (space, model->layers);
  return TRUE;
}
