/* sources.c - the table of cost sources, and the costs that the setting's source and options give. */
#include "sources-catalogue.h" /* SOURCES, a ROW for each source that sim/meson.build lists */

#include "setting-layout.h"

#include <math.h>
#include <pipesim/costdb.h>
#include <pipesim/setting.h>

#define ROW(name) extern const PsCostSource ps_source_##name;
SOURCES
#undef ROW

#define ROW(name) &ps_source_##name,
static const PsCostSource *const table[] = { SOURCES };

const PsCostSource *const *
ps_source_table (guint *n)
{
  *n = G_N_ELEMENTS (table);
  return table;
}

const PsCostSource *
ps_source_find (const char *option)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i]->option, option))
      return table[i];
  return NULL;
}

static gboolean
is_given (const PsSetting *setting, gsize offset)
{
  return G_STRUCT_MEMBER (const char *, setting, offset) != NULL;
}

const PsCostSource *
ps_setting_source (const PsSetting *setting)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (is_given (setting, table[i]->offset))
      return table[i];
  return NULL;
}

char *
ps_source_usage (gboolean in_spec)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    g_string_append_printf (text, "%s%s%s", i == 0 ? "" : ", ", i + 1 == G_N_ELEMENTS (table) ? "or " : "",
                            in_spec ? table[i]->fields : table[i]->usage);
  return g_string_free (text, FALSE);
}

static gboolean
check_needs (const PsSetting *setting, const PsCostSource *source, GError **error)
{
  for (const PsOptionNeed *need = source->needs; need->option != NULL; need++)
    if (is_given (setting, need->offset) && !is_given (setting, need->needs_offset))
      return ps_refuse (error, PS_ERROR_USAGE, "--%s: needs --%s FILE, %s", need->option, need->needs, need->why);
  return TRUE;
}

gboolean
ps_sources_check (const PsSetting *setting, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  gboolean ok = TRUE;

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (table[i] != source && is_given (setting, table[i]->offset))
      return ps_refuse (error, PS_ERROR_USAGE, "--%s and --%s: costs come from one of them, not from both",
                        source->option, table[i]->option);
  for (guint i = 0; ok && i < G_N_ELEMENTS (table); i++)
    ok = check_needs (setting, table[i], error);
  return ok;
}

/* --model with what the options change of it. */
static PsModel *
read_model (const PsSetting *setting, GError **error)
{
  g_autoptr (PsModel) model
      = setting->known_model != NULL ? ps_model_copy (setting->known_model) : ps_model_load (setting->model, error);

  if (model == NULL || !ps_model_set_precision (model, "--precision", setting->precision, error))
    return NULL;
  if (setting->framework != PS_FRAMEWORK_NONE && setting->db == NULL)
    model->framework = setting->framework;
  if (setting->n_context > 1)
    model->spread.context = setting->n_context;
  if (setting->n_experts > 1)
    model->spread.experts = setting->n_experts;
  return ps_model_resize (model, setting->microbatch_size, setting->sequence, error) ? g_steal_pointer (&model) : NULL;
}

PsModel *
ps_setting_model (const PsSetting *setting, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);

  if (setting->model != NULL || setting->known_model != NULL)
    return read_model (setting, error);
  if (source != NULL && source->model != NULL)
    return source->model (setting, error);
  return ps_refuse_null (error, PS_ERROR_USAGE, "no model: give --model FILE, or --db FILE that holds one");
}

/* The model that a source's hooks take; *model NULL: --model is not given, or of no concern. */
static gboolean
given_model (const PsSetting *setting, const PsCostSource *source, PsModel **model, GError **error)
{
  *model = NULL;
  if (!check_needs (setting, source, error))
    return FALSE;
  if (source->has_model && setting->model != NULL)
    *model = read_model (setting, error);
  return *model != NULL || !source->has_model || setting->model == NULL;
}

/* Layouts */

PsLayers *
ps_setting_layers (const PsSetting *setting, const PsModel *model, guint n_devices, PsLink *link, GError **error)
{
  g_autoptr (PsCostDb) db = NULL;
  PsSetting alone = *setting;
  guint n;

  if (setting->cluster == NULL)
    {
      db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);
      return db != NULL ? ps_layers_costdb (db, setting->profile, model, n_devices, link, error) : NULL;
    }
  g_autofree PsStageShape *units = ps_model_units (model, &n);
  alone.known_model = model;
  alone.known_shapes = units;
  g_autoptr (PsCosts) costs = ps_setting_costs (&alone, 1, n, error);
  return costs != NULL ? ps_layers_from_units (model, costs, error) : NULL;
}

static PsStageShape *
cut (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks, GError **error)
{
  const char *layout = setting->layout != NULL ? setting->layout : setting->cluster != NULL ? "best" : "even";
  gboolean best = g_str_equal (layout, "best");
  g_autofree PsStageShape *shapes = ps_layout_cut (best ? "even" : layout, model, n_devices, n_chunks, error);
  g_autofree double *speeds = NULL;
  g_autoptr (PsLayers) layers = NULL;
  guint n;

  if (!best || shapes == NULL || n_devices * n_chunks == 1)
    return g_steal_pointer (&shapes);
  /* Modelled costs say by themselves why there are none. */
  if (setting->cluster != NULL)
    error = NULL;
  if (ps_setting_speeds (setting, n_devices, &speeds, error))
    layers = ps_setting_layers (setting, model, n_devices, NULL, error);
  if (layers == NULL)
    return setting->cluster != NULL ? g_steal_pointer (&shapes) : NULL;
  g_autofree PsStageShape *units = ps_model_units (model, &n);
  ps_layout_cut_best (units, layers, speeds, n_devices, n_devices * n_chunks, shapes);
  return g_steal_pointer (&shapes);
}

/* Lets the stages say how they run. */
static void
say_how (const PsSetting *setting, guint n, PsStageShape *shapes)
{
  for (guint s = 0; s < n; s++)
    {
      shapes[s].recompute = shapes[s].n_layers > 0 ? ps_setting_recompute (setting, s) : PS_RECOMPUTE_NONE;
      shapes[s].offload = ps_setting_offload (setting, s);
      shapes[s].n_tensor = setting->n_tensor;
    }
}

PsStageShape *
ps_setting_shapes (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks, GError **error)
{
  guint n = n_devices * n_chunks;
  PsStageShape *shapes
      = ps_setting_check_stages (setting, n, error) ? cut (setting, model, n_devices, n_chunks, error) : NULL;

  if (shapes != NULL)
    say_how (setting, n, shapes);
  return shapes;
}

/* An open layout of measured stages is the best one if all its stages were measured. NULL: they were not, or it is the
 * even one. */
static PsCosts *
load_best (const PsCostSource *source, const PsSetting *setting, const PsModel *given, guint n_devices, guint n_chunks)
{
  g_autoptr (PsModel) model = ps_setting_model (setting, NULL);
  PsSetting best = *setting;

  best.layout = (char *)"best";
  g_autofree PsStageShape *shapes = model != NULL ? ps_setting_shapes (&best, model, n_devices, n_chunks, NULL) : NULL;
  if (shapes == NULL || ps_stage_shapes_are_even (shapes, n_devices * n_chunks))
    return NULL;
  best.known_shapes = shapes;
  return source->load (&best, given, n_devices, n_chunks, NULL);
}

/* Whether a stage recomputes or offloads. */
static gboolean
saves_memory (const PsSetting *setting)
{
  return setting->recompute != PS_RECOMPUTE_NONE || setting->n_recompute > 0 || setting->offload > 0
         || setting->n_offload > 0;
}

/* The even stages of an open layout, which say how they run. NULL: nothing has to be said, or the profile is of
 * no model. */
static PsStageShape *
even_shapes (const PsSetting *setting, guint n_devices, guint n_chunks)
{
  gboolean wanted = setting->db != NULL && (saves_memory (setting) || setting->n_tensor > 1);
  g_autoptr (PsModel) model = wanted ? ps_setting_model (setting, NULL) : NULL;
  PsSetting even = *setting;

  even.layout = (char *)"even";
  return model != NULL ? ps_setting_shapes (&even, model, n_devices, n_chunks, NULL) : NULL;
}

/* Loads the costs of the stages that the layout says; given is --model's, or NULL. */
static PsCosts *
load_stages (const PsCostSource *source, const PsSetting *setting, const PsModel *given, guint n_devices,
             guint n_chunks, GError **error)
{
  gboolean open = setting->layout == NULL && !source->has_cluster && setting->known_shapes == NULL;
  PsCosts *best = open && setting->db != NULL ? load_best (source, setting, given, n_devices, n_chunks) : NULL;
  g_autofree PsStageShape *shapes = NULL;
  PsSetting said = *setting;

  if (best != NULL)
    return best;
  if (open || setting->known_shapes != NULL)
    {
      shapes = open ? even_shapes (setting, n_devices, n_chunks) : NULL;
      said.known_shapes = shapes != NULL ? shapes : setting->known_shapes;
      return source->load (&said, given, n_devices, n_chunks, error);
    }
  g_autoptr (PsModel) model = ps_setting_model (setting, error);
  said.known_shapes = shapes = model != NULL ? ps_setting_shapes (setting, model, n_devices, n_chunks, error) : NULL;
  return shapes != NULL ? source->load (&said, given, n_devices, n_chunks, error) : NULL;
}

/* Reads the costs of the source. */
static PsCosts *
load (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  g_autoptr (PsModel) model = NULL;
  g_autofree char *usage = NULL;

  if (source == NULL)
    {
      usage = ps_source_usage (FALSE);
      return ps_refuse_null (error, PS_ERROR_USAGE, "no costs: give %s", usage);
    }
  if (!given_model (setting, source, &model, error))
    return NULL;
  return source->has_model ? load_stages (source, setting, model, n_devices, n_chunks, error)
                           : source->load (setting, model, n_devices, n_chunks, error);
}

PsCostSpread *
ps_setting_spread (const PsSetting *setting, const PsStageShape *shapes, guint n_devices, guint n_chunks,
                   GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  g_autoptr (PsModel) model = NULL;
  PsSetting said = *setting;

  said.known_shapes = shapes;
  return given_model (setting, source, &model, error) ? source->spread (&said, model, n_devices, n_chunks, error)
                                                      : NULL;
}

static gint64
scale_time (gint64 time_ns, double speed)
{
  return llrint (MIN ((double)time_ns / speed, (double)PS_MAX_TIME_NS));
}

/* A modelled transfer has a latency apart, which its source knows; otherwise the whole time scales. */
static void
scale_transfers (PsCosts *costs, double factor)
{
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = scale_time (costs->transfer_ns[i], factor);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      costs->stage[stage].reduce_ns = scale_time (costs->stage[stage].reduce_ns, factor);
      costs->stage[stage].reduce2_ns = scale_time (costs->stage[stage].reduce2_ns, factor);
    }
}

static gboolean
replicate (const PsSetting *setting, const PsCluster *cluster, PsCosts *costs, guint n_devices, GError **error)
{
  guint zero = ps_setting_zero (setting);

  if (cluster != NULL)
    ps_costs_set_reduce (costs, cluster, n_devices, setting->n_replicas);
  if (setting->n_replicas == 1 && setting->n_context == 1)
    {
      for (guint stage = 0; stage < costs->n_stages; stage++)
        costs->stage[stage].reduce_ns = 0;
      return TRUE;
    }
  if (setting->n_replicas == 1 || ps_costs_have_reduce (costs, 1))
    return zero == 0 || ps_costs_zero (costs, setting->n_replicas, zero, error);
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "--replicas %u: %s does not say what an all-reduce takes; give reduce=TIME in --costs, a profile that several "
      "processes measured, or a model on a cluster",
      setting->n_replicas, costs->source);
}

static gboolean
save_memory (const PsSetting *setting, const PsCluster *cluster, PsCosts *costs, GError **error)
{
  gboolean has_model = ps_setting_source (setting)->has_model;
  g_autoptr (PsModel) model = has_model ? ps_setting_model (setting, error) : NULL;

  if ((has_model && model == NULL) || !ps_setting_check_stages (setting, costs->n_stages, error))
    return FALSE;
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (!ps_costs_recompute (costs, stage, model, cluster, ps_setting_recompute (setting, stage), error)
        || !ps_costs_offload (costs, stage, ps_setting_offload (setting, stage), error))
      return FALSE;
  return TRUE;
}

static gboolean
add_context (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error)
{
  g_autoptr (PsModel) model = ps_setting_model (setting, error);

  if (model == NULL)
    return FALSE;
  ps_costs_add_context (costs, model, MAX (costs->n_stages / n_devices, 1));
  return TRUE;
}

/* Changes the costs as the options say. */
static gboolean
adapt (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error)
{
  gboolean has_cluster = ps_setting_source (setting)->has_cluster;
  g_autoptr (PsCluster) cluster = has_cluster ? ps_setting_cluster (setting, error) : NULL;

  if (has_cluster && cluster == NULL)
    return FALSE;
  if (!has_cluster && setting->bandwidth_factor != 1)
    scale_transfers (costs, setting->bandwidth_factor);
  if ((saves_memory (setting) && !save_memory (setting, cluster, costs, error))
      || !replicate (setting, cluster, costs, n_devices, error))
    return FALSE;
  return !has_cluster || add_context (setting, costs, n_devices, error);
}

/* Duration over that of the whole; equal parts of nothing. */
static double
part_of (gint64 slice_ns, gint64 whole_ns, guint n_slices)
{
  return whole_ns > 0 ? (double)slice_ns / (double)whole_ns : 1.0 / n_slices;
}

gboolean
ps_setting_add_slices (const PsSetting *setting, PsCosts *costs, guint n_devices, guint n_slices, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  guint n_stages = costs->n_stages;
  PsSetting said = *setting;

  if (n_slices <= 1 || source == NULL || !source->has_cluster || ps_costs_has_slices (costs, n_slices))
    return TRUE;
  g_autoptr (PsModel) whole = ps_setting_model (setting, error);
  if (whole == NULL)
    return FALSE;
  g_autoptr (PsSliceParts) parts = ps_slice_parts_new (n_slices, n_stages);
  said.n_slices = 0;
  for (guint k = 0; k < n_slices; k++)
    {
      g_autoptr (PsModel) model = ps_model_copy (whole);
      g_autoptr (PsCosts) slice = NULL;

      said.known_model = model;
      said.sequence = 0;
      if (ps_model_slice (model, n_slices, k, setting->n_tensor * setting->n_context, error))
        slice = ps_setting_costs_alike (&said, costs, n_devices, error);
      if (slice == NULL)
        return FALSE;
      for (guint i = 0; i < PS_OP_O * n_stages; i++)
        parts->part[(i / n_stages * n_slices + k) * n_stages + i % n_stages]
            = part_of (slice->op[i].duration_ns, costs->op[i].duration_ns, n_slices);
      for (guint i = 0; k == 0 && i < 2 * n_stages; i++)
        if (costs->transfer_ns[i + 1] > 0)
          parts->transfer[i] = (double)slice->transfer_ns[i + 1] / (double)costs->transfer_ns[i + 1];
    }
  ps_costs_add_slices (costs, g_steal_pointer (&parts));
  return TRUE;
}

PsCosts *
ps_setting_costs (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsCosts) costs = load (setting, n_devices, n_chunks, error);

  return costs != NULL && adapt (setting, costs, n_devices, error)
                 && ps_setting_add_slices (setting, costs, n_devices, setting->n_slices, error)
             ? g_steal_pointer (&costs)
             : NULL;
}

PsCosts *
ps_setting_costs_alike (const PsSetting *setting, const PsCosts *costs, guint n_devices, GError **error)
{
  guint n = costs->n_stages;
  g_autofree PsStageShape *shapes = g_memdup2 (costs->shapes, costs->shapes != NULL ? n * sizeof *shapes : 0);
  PsSetting said = *setting;

  if (shapes != NULL)
    say_how (setting, n, shapes);
  said.known_shapes = shapes;
  return ps_setting_costs (&said, n_devices, n / n_devices, error);
}

gboolean
ps_setting_place (const PsSetting *setting, const PsPlacement *placement, PsCosts *costs, GError **error)
{
  if (placement->kind != PS_PLACEMENT_CUSTOM || placement->n_copies > 1 || !ps_setting_source (setting)->has_cluster)
    return TRUE;
  g_autoptr (PsCluster) cluster = ps_setting_cluster (setting, error);
  g_autoptr (PsModel) model = cluster != NULL ? ps_setting_model (setting, error) : NULL;
  if (model == NULL)
    return FALSE;
  ps_costs_place (costs, model, cluster, placement->device, placement->n_devices);
  return TRUE;
}

gboolean
ps_costs_check_placement (const PsCosts *costs, const PsPlacement *placement, GError **error)
{
  if (!costs->loop_only || placement->kind == PS_PLACEMENT_LOOP)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "placement %s: costs measured with unequal shares of an accelerator hold for placement loop only",
                    ps_placement_name (placement->kind));
}

static gboolean
is_known (const PsCosts *costs, PsOpKind kind, guint stage, GError **error)
{
  if (!(costs->stage[stage].unknown & 1U << kind))
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_INPUT,
      "no %s of stage %u is known: %s; add a run that has it, with another --costs-from or in calib import, "
      "or --model FILE there to estimate it",
      ps_op_kind_name (kind), stage, costs->source);
}

gboolean
ps_costs_check_known (const PsCosts *costs, const PsSchedule *schedule, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW };
  guint unknown = 0;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    unknown |= costs->stage[stage].unknown;
  for (guint i = 0; unknown != 0 && schedule != NULL && i < ps_schedule_n_ops (schedule); i++)
    if (!is_known (costs, (PsOpKind)schedule->ops[i].kind, schedule->ops[i].stage, error))
      return FALSE;
  for (guint i = 0; unknown != 0 && schedule == NULL && i < G_N_ELEMENTS (kinds) * costs->n_stages; i++)
    if (!is_known (costs, kinds[i / costs->n_stages], i % costs->n_stages, error))
      return FALSE;
  return TRUE;
}

static PsCosts *
fastest_costs (const PsPlacement *placement, const PsCosts *costs, const double *speed)
{
  PsCosts *fastest = ps_costs_copy (costs);

  ps_costs_remove_host_time (fastest); /* does not depend on the speed */
  for (guint i = 0; costs->warm != NULL && i < PS_OP_O * costs->n_lengths * costs->n_stages; i++)
    {
      guint kind = i / (costs->n_lengths * costs->n_stages), stage = i % costs->n_stages;
      double warm = MIN (costs->warm[kind * costs->n_stages + stage], 1);

      fastest->op[i].duration_ns = llrint ((double)fastest->op[i].duration_ns * warm);
    }
  for (guint stage = 0; speed != NULL && stage < costs->n_stages; stage++)
    {
      double best = 0;

      for (guint copy = 0; copy < placement->n_copies; copy++)
        best = MAX (best, speed[ps_placement_device (placement, copy, stage)]);
      for (guint i = stage; i < PS_N_OP_KINDS * costs->n_lengths * costs->n_stages; i += costs->n_stages)
        fastest->op[i].duration_ns = llrint ((double)fastest->op[i].duration_ns / best);
      for (guint i = stage; costs->pairs_ns != NULL && i < costs->n_lengths * costs->n_stages; i += costs->n_stages)
        if (fastest->pairs_ns[i] >= 0)
          fastest->pairs_ns[i] = llrint ((double)fastest->pairs_ns[i] / best);
      if (costs->stage[stage].pair_ns >= 0)
        fastest->stage[stage].pair_ns = llrint ((double)fastest->stage[stage].pair_ns / best);
    }
  ps_costs_add_host_time (fastest, placement->device, placement->n_copies);
  return fastest;
}

PsCosts *
ps_setting_fastest_costs (const PsSetting *setting, const PsPlacement *placement, const PsCosts *costs, guint n_slices,
                          GError **error)
{
  g_autofree double *speed = NULL;

  if (!ps_costs_check_placement (costs, placement, error)
      || !ps_setting_speeds (setting, placement->n_devices, &speed, error))
    return NULL;
  PsCosts *fastest = fastest_costs (placement, costs, speed);
  if (n_slices <= 1 || ps_costs_has_slices (costs, n_slices))
    return fastest;
  g_autoptr (PsCosts) whole_slice = ps_costs_slice (costs, n_slices);
  g_autoptr (PsCosts) slice = fastest_costs (placement, whole_slice, speed);
  for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
    fastest->op[i].duration_ns = n_slices * slice->op[i].duration_ns;
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (costs->stage[stage].pair_ns >= 0)
      fastest->stage[stage].pair_ns = n_slices * slice->stage[stage].pair_ns;
  return fastest;
}
