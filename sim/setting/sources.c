/* sources.c - the table of cost sources, and which options go together; the stages of a setting, as --layout says or
 * the cut whose slowest stage is the fastest; and the costs that the setting's source and options give. */
#include "sources-catalogue.h" /* SOURCES, a ROW for each source that sim/meson.build lists */
#include "options.h"

#include <pipesim/costdb.h>
#include <pipesim/model.h>
#include <pipesim/setting.h>

#include <math.h>
#include <string.h>

#define ROW(name) extern const PsCostSource ps_source_##name;
SOURCES
#undef ROW

#define ROW(name) &ps_source_##name,
static const PsCostSource *const table[] = { SOURCES };

const PsCostSource *const *ps_source_table (guint *n)
{
  *n = G_N_ELEMENTS (table);
  return table;
}

const PsCostSource *ps_source_find (const char *option)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i]->option, option))
      return table[i];
  return NULL;
}

static gboolean is_given (const PsSetting *setting, gsize offset)
{
  return G_STRUCT_MEMBER (const char *, setting, offset) != NULL;
}

const PsCostSource *ps_setting_source (const PsSetting *setting)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (is_given (setting, table[i]->offset))
      return setting->cluster != NULL && table[i]->with_cluster != NULL ? table[i]->with_cluster : table[i];
  return NULL;
}

char *ps_source_usage (gboolean in_spec)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    g_string_append_printf (text, "%s%s%s", i == 0 ? "" : ", ", i + 1 == G_N_ELEMENTS (table) ? "or " : "",
                            in_spec ? table[i]->fields : table[i]->usage);
  return g_string_free (text, FALSE);
}

static gboolean check_needs (const PsSetting *setting, const PsCostSource *source, GError **error)
{
  for (const PsOptionNeed *need = source->needs; need->option != NULL; need++)
    if (is_given (setting, need->offset) && !is_given (setting, need->needs_offset))
      return ps_refuse (error, PS_ERROR_USAGE, "--%s: needs --%s FILE, %s", need->option, need->needs, need->why);
  return TRUE;
}

/* Refuses two sources at once, and an option without the option that it needs. */
static gboolean check_sources (const PsSetting *setting, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (is_given (setting, table[i]->offset) && table[i]->offset != source->offset
        && !(source->has_cluster && table[i]->has_cluster))
      return ps_refuse (error, PS_ERROR_USAGE, "--%s and --%s: costs come from one of them, not from both",
                        source->option, table[i]->option);
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (!check_needs (setting, table[i], error))
      return FALSE;
  return TRUE;
}

PsModel *ps_setting_model (const PsSetting *setting, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);

  if (setting->known_model != NULL || setting->model != NULL)
    return ps_setting_given_model (setting, error);
  if (source != NULL && source->model != NULL)
    return source->model (setting, error);
  return ps_refuse_null (error, PS_ERROR_USAGE, "no model: give --model FILE, or --db FILE that holds one");
}

/* Which options go together */

static gboolean check_together (const PsSetting *setting, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  const struct {
    gboolean refused;
    const char *message;
  } rows[] = {
    { setting->blocking && setting->ready_order > 0,
      "--blocking and --ready-order: blocking devices keep the order of their sends and receives" },
    { setting->share_links && setting->cluster == NULL,
      "--share-links: needs --cluster FILE, whose links to share, and --model FILE" },
    { setting->network_factor != 1 && setting->cluster == NULL,
      "--network-factor: needs --cluster FILE, whose network is known; --bandwidth-factor scales given transfers" },
    { setting->latency_factor != 1 && setting->cluster == NULL,
      "--latency-factor: needs --cluster FILE, whose latencies are known" },
    { setting->layout != NULL && source != NULL && !source->has_model,
      "--layout: needs a model, --model with --cluster or --db; given costs are those of stages as they are" },
    { setting->costs_from != NULL && setting->layout != NULL && g_str_equal (setting->layout, "best"),
      "--layout best: --costs-from has stages as they were cut; even, or a string that says how, would be right" },
    { (setting->n_recompute > 0 || setting->n_offload > 0) && source != NULL && source->has_model
          && (setting->layout == NULL || g_str_equal (setting->layout, "best")),
      "--recompute, --offload: values for each stage need --layout, even or a string, which says what these are" },
    { setting->offload_modules != 0 && (setting->offload > 0 || setting->n_offload > 0),
      "--offload and --offload-modules: one of them says what moves to the host" },
    { setting->any_recompute && !setting->takes_auto,
      "--recompute auto: is for pipesim search; none, selective or full would be right" },
    { setting->microbatch_order != PS_ORDER_GIVEN && setting->lengths == NULL,
      "--microbatch-order: needs --lengths FILE; microbatches that are alike have no order" },
    { (setting->serve != PS_SERVE_NONE) != (setting->prompt > 0) || (setting->prompt > 0) != (setting->chunk > 0),
      "--serve prefill: needs --prompt TOKENS and --chunk TOKENS, and these need --serve prefill" },
    { setting->sequence > 0 && setting->model == NULL,
      "--sequence: needs --model FILE, which it gives other sequences" },
    { setting->loss != PS_LOSS_WHOLE && setting->cluster == NULL,
      "--loss: needs modelled costs, --model FILE --cluster FILE" },
    { setting->images > 0 && setting->model == NULL, "--images: needs --model FILE, whose encoder takes them" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].refused) {
      g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, rows[i].message);
      return FALSE;
    }
  return TRUE;
}

/* Gathers are parts of a schedule that begins and ends with a step. */
static gboolean check_zero (const PsSetting *setting, GError **error)
{
  guint zero = ps_setting_zero (setting);

  if (zero > 0 && setting->n_replicas == 1 && setting->n_context == 1)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero %u: needs --replicas D of 2 or more to spread %s over", zero,
                      zero == 3 ? "weights and optimizer state" : "the optimizer state");
  if (zero == 3 && setting->sync == PS_SYNC_BYPASS)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero 3: not with --sync bypass");
  return zero < 3 || !ps_setting_needs_events (setting)
         || ps_refuse (error, PS_ERROR_USAGE,
                       "--zero 3: not with channels, links or speeds (--comm, --blocking, --share-links, --speed, "
                       "--overlap-slowdown, --ready-order)");
}

static gboolean check_tensor (const PsSetting *setting, GError **error)
{
  if (setting->model != NULL && ps_setting_source (setting) == NULL
      && (setting->n_context > 1 || setting->n_experts > 1 || setting->microbatch_size > 0))
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--cluster: missing; name the machine, or give measured costs by --db or --costs-from");
  if (setting->cluster == NULL && (setting->n_context > 1 || setting->n_experts > 1))
    return ps_refuse (error, PS_ERROR_USAGE, "--%s %u: needs modelled costs, --model with --cluster",
                      setting->n_context > 1 ? "context" : "experts",
                      setting->n_context > 1 ? setting->n_context : setting->n_experts);
  if (setting->microbatch_size > 0 && setting->cluster == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-size: needs modelled costs, --model FILE --cluster FILE");
  if (setting->n_tensor == 1 || setting->cluster != NULL || setting->db != NULL || ps_setting_source (setting) == NULL)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "--tensor %u: needs modelled costs, --model with --cluster, or measured ones, --db; given costs are those of a "
      "device as they are",
      setting->n_tensor);
}

gboolean ps_setting_check (const PsSetting *setting, GError **error)
{
  return check_together (setting, error)
         && (setting->serve == PS_SERVE_NONE
             || ps_setting_refuse (setting, PS_FIELD_NOT_SERVE, "is of training; --serve prefill does without it",
                                   error))
         && (setting->model != NULL || setting->db != NULL || setting->cluster != NULL
             || ps_setting_source (setting) == NULL
             || ps_setting_refuse (setting, PS_FIELD_OF_MODEL,
                                   "needs --model FILE with --cluster FILE; given costs and traces stay as they are",
                                   error))
         && check_zero (setting, error) && check_tensor (setting, error) && check_sources (setting, error);
}

/* Layouts */

PsLayers *ps_setting_layers (const PsSetting *setting, const PsModel *model, guint n_devices, PsLink *link,
                             GError **error)
{
  g_autoptr (PsCostDb) db = NULL;
  PsSetting alone = *setting;
  guint n;

  if (setting->cluster == NULL) {
    db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);
    return db != NULL ? ps_layers_costdb (db, setting->profile, model, n_devices, link, error) : NULL;
  }
  g_autofree PsStageShape *units = ps_model_units (model, &n);
  alone.known_model = model;
  alone.known_shapes = units;
  g_autoptr (PsCosts) costs = ps_setting_costs (&alone, 1, n, error);
  return costs != NULL ? ps_layers_from_units (model, costs, error) : NULL;
}

/* Replaces the even cut by the one whose slowest stage is the fastest, if it is faster. */
static gboolean improve_cut (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_stages,
                             PsStageShape *shapes, GError **error)
{
  g_autofree double *speeds = NULL;
  g_autofree PsLink *links = g_new0 (PsLink, n_stages); /* transfers do not count */
  g_autofree PsPartitionStage *stages = g_new0 (PsPartitionStage, n_stages);
  g_autofree guint *end = g_new (guint, n_stages);
  g_autoptr (PsLayers) layers = NULL;
  PsSetting said = *setting;
  guint begin = 0, n, n_again = ps_recompute_layers (setting->recompute, model->layers, &n);

  /* full:layers=N costs every stage the same, however many more layers it has, so it does not move the cut. */
  if (n_again > 0 && n_again * n_stages < model->layers)
    said.recompute = PS_RECOMPUTE_NONE;
  /* Without modelled costs the layout stays even: whoever asks for them learns why there are none. */
  if (setting->cluster != NULL)
    error = NULL;
  if (ps_setting_speeds (setting, n_devices, &speeds, error))
    layers = ps_setting_layers (&said, model, n_devices, NULL, error);
  if (layers == NULL)
    return setting->cluster != NULL;
  for (guint s = 0; s < n_stages; s++) {
    stages[s].first = begin;
    stages[s].last = (begin += ps_stage_shape_units (&shapes[s])) - 1;
  }
  const PsPartition given = { .n_stages = n_stages, .stages = stages };
  const PsPartitionSetting cut = {
    .layers = layers, .n_devices = n_devices, .n_chunks = n_stages / n_devices, .links = links, .speeds = speeds
  };
  g_autoptr (PsPartition) best = ps_partition (ps_partitioner_find ("bottleneck"), &cut, NULL);
  g_autofree PsStageShape *units = ps_model_units (model, &n);
  for (guint s = 0; best != NULL && s < n_stages; s++)
    end[s] = best->stages[s].last + 1;
  if (best != NULL && best->bottleneck_ns < ps_partition_bottleneck (&cut, &given))
    ps_stage_shapes_join (units, end, n_stages, shapes);
  return TRUE;
}

/* Lets the stages say how they run. */
static void say_how (const PsSetting *setting, guint n, PsStageShape *shapes)
{
  for (guint s = 0; s < n; s++) {
    shapes[s].recompute = shapes[s].n_layers > 0 ? ps_setting_recompute (setting, s) : PS_RECOMPUTE_NONE;
    shapes[s].offload = ps_setting_offload (setting, s);
    shapes[s].n_tensor = setting->n_tensor;
  }
}

PsStageShape *ps_setting_shapes (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks,
                                 GError **error)
{
  guint n = n_devices * n_chunks;
  const char *layout = setting->layout != NULL                                   ? setting->layout
                       : setting->cluster != NULL && setting->costs_from == NULL ? "best"
                                                                                 : "even";
  gboolean best = g_str_equal (layout, "best");
  g_autofree PsStageShape *shapes = NULL;

  if (!ps_setting_check_stages (setting, n, error))
    return NULL;
  shapes = ps_setting_cut (best ? "even" : layout, model, n_devices, n_chunks, error);
  if (shapes == NULL || (best && n > 1 && !improve_cut (setting, model, n_devices, n, shapes, error)))
    return NULL;
  say_how (setting, n, shapes);
  return g_steal_pointer (&shapes);
}

/* Costs */

/* Whether a stage recomputes or offloads. */
static gboolean saves_memory (const PsSetting *setting)
{
  return setting->recompute != PS_RECOMPUTE_NONE || setting->n_recompute > 0 || setting->offload > 0
         || setting->n_offload > 0 || setting->offload_modules != 0;
}

guint ps_setting_recompute_sets (const PsSetting *setting, PsRecompute *sets)
{
  static const PsRecompute usual[PS_N_RECOMPUTE_SETS]
      = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };
  g_autoptr (PsModel) model = ps_setting_model (setting, NULL);

  if (model != NULL)
    return ps_model_recompute_sets (model, sets);
  memcpy (sets, usual, sizeof usual);
  return PS_N_RECOMPUTE_SETS;
}

/* Measured stages of an open layout: the best ones if all of them were measured, else even ones. */
static PsCosts *load_open (const PsCostSource *source, const PsSetting *setting, guint n_devices, guint n_chunks,
                           GError **error)
{
  g_autoptr (PsModel) model = ps_setting_model (setting, NULL);
  g_autofree PsStageShape *best = NULL, *even = NULL;
  PsSetting said = *setting;
  PsCosts *costs = NULL;

  said.layout = (char *)"best";
  said.known_shapes = best = model != NULL ? ps_setting_shapes (&said, model, n_devices, n_chunks, NULL) : NULL;
  if (best != NULL && !ps_stage_shapes_are_even (best, n_devices * n_chunks))
    costs = source->load (&said, n_devices, n_chunks, NULL);
  if (costs != NULL)
    return costs;
  /* Even stages have shapes of their own only where these have to say how they run. */
  said.layout = (char *)"even";
  if (model != NULL && (saves_memory (setting) || setting->n_tensor > 1))
    even = ps_setting_shapes (&said, model, n_devices, n_chunks, NULL);
  said.known_shapes = even;
  return source->load (&said, n_devices, n_chunks, error);
}

/* Reads the costs of the stages that the layout says. */
static PsCosts *load (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  g_autoptr (PsModel) model = NULL;
  g_autofree PsStageShape *shapes = NULL;
  PsSetting said = *setting;

  if (source == NULL) {
    g_autofree char *usage = ps_source_usage (FALSE);

    return ps_refuse_null (error, PS_ERROR_USAGE, "no costs: give %s", usage);
  }
  if (!check_needs (setting, source, error))
    return NULL;
  if (!source->has_model || setting->known_shapes != NULL)
    return source->load (setting, n_devices, n_chunks, error);
  if (setting->layout == NULL && !source->has_cluster)
    return load_open (source, setting, n_devices, n_chunks, error);
  model = ps_setting_model (setting, error);
  said.known_shapes = shapes = model != NULL ? ps_setting_shapes (setting, model, n_devices, n_chunks, error) : NULL;
  return shapes != NULL ? source->load (&said, n_devices, n_chunks, error) : NULL;
}

PsCostSpread *ps_setting_spread (const PsSetting *setting, const PsStageShape *shapes, guint n_devices, guint n_chunks,
                                 GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  PsSetting said = *setting;

  said.known_shapes = shapes;
  return check_needs (setting, source, error) ? source->spread (&said, n_devices, n_chunks, error) : NULL;
}

static gint64 scale_time (gint64 time_ns, double speed)
{
  return llrint (MIN ((double)time_ns / speed, (double)PS_MAX_TIME_NS));
}

/* A modelled transfer has a latency apart, which its source knows; otherwise the whole time scales. */
static void scale_transfers (PsCosts *costs, double factor)
{
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = scale_time (costs->transfer_ns[i], factor);
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    costs->stage[stage].reduce_ns = scale_time (costs->stage[stage].reduce_ns, factor);
    costs->stage[stage].reduce2_ns = scale_time (costs->stage[stage].reduce2_ns, factor);
  }
}

static gboolean replicate (const PsSetting *setting, const PsModel *model, const PsCluster *cluster, PsCosts *costs,
                           guint n_devices, GError **error)
{
  guint zero = ps_setting_zero (setting);

  if (cluster != NULL)
    ps_costs_set_reduce (costs, cluster, n_devices, setting->n_replicas);
  if (setting->n_replicas == 1 && setting->n_context == 1) {
    for (guint stage = 0; stage < costs->n_stages; stage++)
      costs->stage[stage].reduce_ns = 0;
    return TRUE;
  }
  costs->overlap_gather = setting->overlap_param_gather;
  if (setting->n_replicas == 1 || ps_costs_have_reduce (costs, 1))
    return zero == 0
           || ps_costs_zero (costs, cluster != NULL ? model : NULL, cluster, setting->n_replicas, zero, error);
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "--replicas %u: %s; what an all-reduce takes is not said; give reduce=TIME in --costs, a profile that several "
      "processes measured, or a model on a cluster",
      setting->n_replicas, costs->source);
}

/* Leaves the costs of forwards. What F of a modelled stage takes is its input and the tensors of one layer, and it
 * gives all of it back: the keys and values that stay are those of chunks (prefill.c). */
static gboolean keep_forward (const PsModel *model, const PsCluster *cluster, PsCosts *costs, GError **error)
{
  for (guint stage = 0; cluster != NULL && stage < costs->n_stages; stage++) {
    PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);

    if (!ps_costs_recompute (costs, stage, model, cluster, PS_RECOMPUTE_FULL, error))
      return FALSE;
    costs->shapes[stage].recompute = PS_RECOMPUTE_NONE;
    f->give_bytes += stage > 0 ? costs->message_bytes[ps_transfer_forward (costs, stage - 1)] : 0;
    f->take_bytes = f->give_bytes;
  }
  ps_costs_keep_forward (costs);
  return TRUE;
}

/* Changes the costs as the options say. */
static gboolean adapt (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  gboolean saves = saves_memory (setting), with_model = source->has_cluster || (saves && source->has_model);
  g_autoptr (PsCluster) cluster = source->has_cluster ? ps_setting_cluster (setting, error) : NULL;
  g_autoptr (PsModel) model = NULL;

  if (source->has_cluster && cluster == NULL)
    return FALSE;
  model = with_model ? ps_setting_model (setting, error) : NULL;
  if ((with_model && model == NULL) || (saves && !ps_setting_check_stages (setting, costs->n_stages, error)))
    return FALSE;
  if (cluster == NULL && setting->bandwidth_factor != 1)
    scale_transfers (costs, setting->bandwidth_factor);
  for (guint stage = 0; saves && stage < costs->n_stages; stage++)
    if (!ps_costs_recompute (costs, stage, model, cluster, ps_setting_recompute (setting, stage), error)
        || !ps_costs_offload (costs, stage, ps_setting_offload (setting, stage), error)
        || !ps_costs_offload_modules (costs, stage, model, ps_setting_recompute (setting, stage),
                                      setting->offload_modules, error))
      return FALSE;
  if (!replicate (setting, model, cluster, costs, n_devices, error))
    return FALSE;
  if (setting->serve != PS_SERVE_NONE && !keep_forward (model, cluster, costs, error))
    return FALSE;
  if (cluster != NULL)
    ps_costs_add_context (costs, model, MAX (costs->n_stages / n_devices, 1));
  return TRUE;
}

/* Whether work.h gives the source's durations, for any length of sequences. */
static gboolean is_modelled (const PsSetting *setting)
{
  const PsCostSource *source = ps_setting_source (setting);

  return source != NULL && source->has_cluster && setting->costs_from == NULL;
}

/* A machine that takes 1 ns for 1000 operations and no time for anything else. */
static const PsCluster operations = { .name = (char *)"operations",
                                      .nodes = 1,
                                      .devices_per_node = PS_MAX_DEVICES,
                                      .peak_flops = 1e12,
                                      .efficiency = 1,
                                      .link_bandwidth = 1e9,
                                      .spacing = 1,
                                      .tensor = 1 };

PsCosts *ps_setting_costs_of (const PsSetting *setting, const PsModel *model, const PsCosts *costs, guint n_devices,
                              GError **error)
{
  PsSetting said = *setting;

  if (!is_modelled (setting))
    return ps_costs_model_stages (model, &operations, costs->shapes, n_devices, costs->n_stages / n_devices, error);
  said.known_model = model;
  said.sequence = said.images = said.n_slices = said.prompt = said.n_prompt_each = 0;
  return ps_setting_costs_alike (&said, costs, n_devices, error);
}

static gboolean slices_are_equal (const PsSetting *setting)
{
  return !setting->even_work && setting->n_slice_tokens == 0;
}

guint *ps_setting_cut_slices (const PsSetting *setting, const PsModel *model, guint n_slices, GError **error)
{
  guint n_sharing = setting->n_tensor * setting->n_context;
  double n_waits = (double)(MAX (setting->n_devices, 1) - 1) / MAX (setting->n_microbatches, 1);
  g_autoptr (PsCluster) cluster = NULL;

  if (slices_are_equal (setting))
    return ps_model_cut_equal (model, n_slices, n_sharing, error);
  if (!setting->even_work) {
    if (setting->n_slice_tokens != n_slices)
      return ps_refuse_null (error, PS_ERROR_USAGE, "--slices: has %u lengths; the schedule has %u slices",
                             setting->n_slice_tokens, n_slices);
    return ps_model_check_slices (model, setting->slice_tokens, n_slices, n_sharing, error)
               ? g_memdup2 (setting->slice_tokens, n_slices * sizeof *setting->slice_tokens)
               : NULL;
  }
  if (!is_modelled (setting))
    return ps_work_cut_even (model, &operations, n_slices, n_waits, error);
  cluster = ps_setting_cluster (setting, error);
  return cluster != NULL ? ps_work_cut_even (model, cluster, n_slices, n_waits, error) : NULL;
}

/* Adds the gradients of keys and values that backwards of later slices leave to slice i, whose model this is. A
 * backward makes room for those that no slice after its own reads; slice i's own gives all of them back. */
static void add_gradients (const PsModel *model, const PsCosts *costs, guint n_tensor, guint i, PsSliceParts *parts)
{
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    gint64 left = ps_tensor_key_bytes (model, &costs->shapes[stage], n_tensor, 0);

    for (guint kind = PS_OP_B; kind <= PS_OP_BW; kind += PS_OP_BW - PS_OP_B)
      parts->give_bytes[(kind * parts->n + i) * costs->n_stages + stage] += left;
    for (guint j = i + 1, distance = 0; j < parts->n && left > 0; j++) {
      distance += parts->tokens[j];
      gint64 further = ps_tensor_key_bytes (model, &costs->shapes[stage], n_tensor, distance);

      for (guint kind = PS_OP_B; kind <= PS_OP_BW; kind += PS_OP_BW - PS_OP_B)
        parts->take_bytes[(kind * parts->n + j) * costs->n_stages + stage] += left - further;
      left = further;
    }
  }
}

/* Keeps the keys and values of slice k, whose model this is, where its layers run again: later slices read them. */
static void keep_keys (const PsSetting *setting, const PsModel *model, const PsCosts *costs, guint k,
                       PsSliceParts *parts)
{
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    PsRecompute recompute = ps_setting_recompute (setting, stage);
    const PsStageShape again = ps_recompute_shape (&costs->shapes[stage], recompute);
    gint64 bytes = recompute & (PS_RECOMPUTE_FULL | PS_RECOMPUTE_MLA_UP_PROJ)
                       ? ps_tensor_key_bytes (model, &again, setting->n_tensor, 0)
                       : 0;

    parts->take_bytes[(PS_OP_F * parts->n + k) * costs->n_stages + stage] += bytes;
    for (guint kind = PS_OP_B; kind <= PS_OP_BW; kind += PS_OP_BW - PS_OP_B)
      parts->give_bytes[(kind * parts->n + k) * costs->n_stages + stage] += bytes;
  }
}

/* Sets the parts of slice k. `whole` are costs of whole sequences from where those of the slice are. */
static void set_slice (const PsCosts *whole, const PsCosts *slice, guint k, PsSliceParts *parts)
{
  guint n = whole->n_stages;

  for (guint i = 0; i < PS_OP_O * n; i++) {
    gsize at = (i / n * parts->n + k) * n + i % n;

    parts->part[at] = whole->op[i].duration_ns > 0 ? (double)slice->op[i].duration_ns / (double)whole->op[i].duration_ns
                                                   : 1.0 / parts->n;
    if (parts->take_bytes != NULL) {
      parts->take_bytes[at] += slice->op[i].take_bytes;
      parts->give_bytes[at] += slice->op[i].give_bytes;
    }
  }
  for (guint i = 0; i < 2 * n && parts->take_bytes != NULL; i++)
    if (whole->transfer_ns[i + 1] > 0)
      parts->transfer[2 * n * k + i] = (double)slice->transfer_ns[i + 1] / (double)whole->transfer_ns[i + 1];
}

/* All slices of a stage take their mean time. */
static void level_slices (PsSliceParts *parts, guint n_stages)
{
  for (guint i = 0; i < PS_OP_O * n_stages; i++) {
    double *part = &parts->part[(gsize)(i / n_stages) * parts->n * n_stages + i % n_stages], sum = 0;

    for (guint k = 0; k < parts->n; k++)
      sum += part[(gsize)k * n_stages];
    for (guint k = 0; k < parts->n; k++)
      part[(gsize)k * n_stages] = sum / parts->n;
  }
}

gboolean ps_setting_add_slices (const PsSetting *setting, PsCosts *costs, guint n_devices, guint n_slices,
                                GError **error)
{
  const PsSliceParts *known = ps_costs_slices (costs, n_slices);
  gboolean equal = slices_are_equal (setting), modelled = is_modelled (setting);

  if (setting->attention_exchange && !modelled)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--attention-exchange: is known of modelled costs; give --model and --cluster");
  if (n_slices <= 1 || (equal && (!modelled || known != NULL)) || (known != NULL && known->tokens != NULL))
    return TRUE;
  if (costs->shapes == NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--slices: the costs of %s are of no model, whose slices could have other lengths; "
                      "--slices %u would be right",
                      costs->source, n_slices);
  g_autoptr (PsModel) model = ps_setting_model (setting, error);
  g_autofree guint *tokens = model != NULL ? ps_setting_cut_slices (setting, model, n_slices, error) : NULL;
  g_autoptr (PsCosts) formulas
      = tokens != NULL && !modelled ? ps_setting_costs_of (setting, model, costs, n_devices, error) : NULL;
  if (tokens == NULL || (!modelled && formulas == NULL))
    return FALSE;
  g_autoptr (PsSliceParts) parts = ps_slice_parts_new (n_slices, tokens, costs->n_stages);
  if (modelled) {
    parts->take_bytes = g_new0 (gint64, (gsize)PS_OP_O * n_slices * costs->n_stages);
    parts->give_bytes = g_new0 (gint64, (gsize)PS_OP_O * n_slices * costs->n_stages);
  }
  for (guint k = 0; k < n_slices; k++) {
    g_autoptr (PsModel) part = ps_model_copy (model);

    ps_model_slice (part, tokens, n_slices, k);
    g_autoptr (PsCosts) slice = ps_setting_costs_of (setting, part, costs, n_devices, error);
    if (slice == NULL)
      return FALSE;
    set_slice (modelled ? costs : formulas, slice, k, parts);
    if (modelled) {
      keep_keys (setting, part, costs, k, parts);
      add_gradients (part, costs, setting->n_tensor, k, parts);
    }
  }
  if (setting->attention_exchange)
    level_slices (parts, costs->n_stages);
  ps_costs_add_slices (costs, g_steal_pointer (&parts));
  return TRUE;
}

PsCosts *ps_setting_costs (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsCosts) costs = load (setting, n_devices, n_chunks, error);

  return costs != NULL && adapt (setting, costs, n_devices, error)
                 && ps_setting_add_slices (setting, costs, n_devices, setting->n_slices, error)
             ? g_steal_pointer (&costs)
             : NULL;
}

PsCosts *ps_setting_costs_alike (const PsSetting *setting, const PsCosts *costs, guint n_devices, GError **error)
{
  guint n = costs->n_stages;
  g_autofree PsStageShape *shapes = g_memdup2 (costs->shapes, costs->shapes != NULL ? n * sizeof *shapes : 0);
  PsSetting said = *setting;

  if (shapes != NULL)
    say_how (setting, n, shapes);
  said.known_shapes = shapes;
  return ps_setting_costs (&said, n_devices, n / n_devices, error);
}

gboolean ps_setting_place (const PsSetting *setting, const PsPlacement *placement, PsCosts *costs, GError **error)
{
  if ((placement->kind != PS_PLACEMENT_CUSTOM && placement->n_copies == 1) || !ps_setting_source (setting)->has_cluster)
    return TRUE;
  g_autoptr (PsCluster) cluster = ps_setting_cluster (setting, error);
  g_autoptr (PsModel) model = cluster != NULL ? ps_setting_model (setting, error) : NULL;
  if (model == NULL)
    return FALSE;
  ps_costs_place (costs, model, cluster, placement->device, placement->n_devices, placement->n_copies);
  return TRUE;
}

/* R ops */

/* Whether a stage recomputes or offloads every microbatch. */
static gboolean saves_all (const PsSetting *setting, guint stage)
{
  return ps_setting_recompute (setting, stage) != PS_RECOMPUTE_NONE || ps_setting_offload (setting, stage) > 0
         || setting->offload_modules != 0;
}

PsCosts *ps_setting_full_costs (const PsSetting *setting, const PsCosts *costs, guint n_devices, GError **error)
{
  PsSetting said = *setting;

  if (ps_setting_source (setting) == NULL) {
    g_autoptr (PsCosts) full = ps_costs_copy (costs);

    for (guint stage = 0; stage < costs->n_stages; stage++)
      if (!ps_costs_recompute (full, stage, NULL, NULL, PS_RECOMPUTE_FULL, error))
        return NULL;
    return g_steal_pointer (&full);
  }
  said.recompute = PS_RECOMPUTE_FULL;
  said.n_recompute = said.n_offload = said.offload_modules = 0;
  said.offload = 0;
  return ps_setting_costs_alike (&said, costs, n_devices, error);
}

PsCosts *ps_setting_recomputed (const PsSetting *setting, const PsSchedule *schedule, const PsCosts *costs,
                                const PsCosts *full, GError **error)
{
  if (!ps_setting_check_stages (setting, costs->n_stages, error))
    return NULL;
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++) {
    PsOp op = schedule->ops[i];

    if (op.kind == PS_OP_R && saves_all (setting, op.stage))
      return ps_refuse_null (
          error, PS_ERROR_USAGE,
          "schedule '%s': stage %u has an R, which recomputes one microbatch; with it %s would be right",
          schedule->name, op.stage, ps_setting_offload (setting, op.stage) > 0 ? "--offload 0" : "--recompute none");
  }
  g_autoptr (PsCosts) some = ps_costs_copy (full);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (saves_all (setting, stage))
      ps_costs_copy_stage (some, stage, costs, stage);
  return ps_costs_split_recompute (costs, some);
}

/* What costs serve for */

gboolean ps_costs_check_placement (const PsCosts *costs, const PsPlacement *placement, GError **error)
{
  if (!costs->loop_only || placement->kind == PS_PLACEMENT_LOOP)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "placement %s: costs measured with unequal shares of an accelerator hold for placement loop only",
                    ps_placement_name (placement->kind));
}

/* Whether the op is a part of a pair that has a time of its own. */
static gboolean is_timed_pair (const PsCosts *costs, const PsSchedule *schedule, gsize i)
{
  gsize first = schedule->ops[i].paired || i == 0 ? i : i - 1;
  const PsOp *pair = &schedule->ops[first];

  return pair->paired && costs->stage[pair[pair->kind != PS_OP_F].stage].pair_ns >= 0
         && (pair[0].kind == PS_OP_BW || pair[1].kind == PS_OP_BW);
}

gboolean ps_costs_check_known (const PsCosts *costs, const PsSchedule *schedule, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW };
  gsize n = schedule != NULL ? ps_schedule_n_ops (schedule) : G_N_ELEMENTS (kinds) * costs->n_stages;
  guint unknown = 0;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    unknown |= costs->stage[stage].unknown;
  for (gsize i = 0; unknown != 0 && i < n; i++) {
    PsOpKind kind = schedule != NULL ? (PsOpKind)schedule->ops[i].kind : kinds[i / costs->n_stages];
    guint stage = schedule != NULL ? schedule->ops[i].stage : (guint)(i % costs->n_stages);

    if (costs->stage[stage].unknown & 1U << kind && (schedule == NULL || !is_timed_pair (costs, schedule, i)))
      return ps_refuse (error, PS_ERROR_INPUT,
                        "no %s of stage %u is known: %s; add a run that has it, with another --costs-from or in "
                        "calib import, or --model FILE there to estimate it",
                        ps_op_kind_name (kind), stage, costs->source);
  }
  return TRUE;
}

static PsCosts *fastest_costs (const PsPlacement *placement, const PsCosts *costs, const double *speed)
{
  PsCosts *fastest = ps_costs_copy (costs);

  ps_costs_remove_host_time (fastest); /* does not depend on the speed */
  for (guint i = 0; costs->warm != NULL && i < PS_OP_O * costs->n_lengths * costs->n_stages; i++) {
    guint kind = i / (costs->n_lengths * costs->n_stages), stage = i % costs->n_stages;
    double warm = MIN (costs->warm[kind * costs->n_stages + stage], 1);

    fastest->op[i].duration_ns = llrint ((double)fastest->op[i].duration_ns * warm);
  }
  for (guint stage = 0; speed != NULL && stage < costs->n_stages; stage++) {
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

PsCosts *ps_setting_fastest_costs (const PsSetting *setting, const PsPlacement *placement, const PsCosts *costs,
                                   guint n_slices, GError **error)
{
  g_autofree double *speed = NULL;

  if (!ps_costs_check_placement (costs, placement, error)
      || !ps_setting_speeds (setting, placement->n_devices, &speed, error))
    return NULL;
  PsCosts *fastest = fastest_costs (placement, costs, speed);
  if (n_slices <= 1 || ps_costs_slices (costs, n_slices) != NULL)
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
