/* partition-model.c - chains of layers from the formulas of a model, and from stages that were measured. */
#include "partition-private.h"

/* Embedding, layers, head. */
static PsLayers *
named_layers (const PsModel *model)
{
  PsLayers *layers = ps_layers_new (model->layers + 2);

  layers->has_flops = TRUE;
  layers->layers[0].name = g_strdup ("embedding");
  for (guint i = 0; i < model->layers; i++)
    layers->layers[i + 1].name = g_strdup_printf ("layer %u", i);
  layers->layers[model->layers + 1].name = g_strdup ("head");
  return layers;
}

static PsStageShape
layer_shape (const PsModel *model, guint layer)
{
  gboolean embedding = layer == 0, head = layer == model->layers + 1;

  return (PsStageShape){
    .first_layer = embedding ? 0 : layer - 1, .n_layers = !embedding && !head, .embedding = embedding, .head = head
  };
}

/* Fills the figures that follow from the model alone, without times. */
static void
fill_formulas (const PsModel *model, guint i, PsLayer *layer)
{
  PsStageShape shape = layer_shape (model, i);

  layer->flops = ps_model_stage_flops (model, &shape, PS_OP_F) + ps_model_stage_flops (model, &shape, PS_OP_B)
                 + ps_model_stage_flops (model, &shape, PS_OP_W);
  layer->output_bytes = shape.head ? 0 : ps_model_boundary_bytes (model);
  layer->kept_bytes = ps_model_stage_activation_bytes (model, &shape);
  layer->weight_kept_bytes = ps_model_stage_weight_activation_bytes (model, &shape);
  layer->parameter_bytes = ps_model_stage_parameters (model, &shape) * ps_precision_bytes (model->precision);
  layer->state_bytes = ps_model_stage_state_bytes (model, &shape);
}

static gboolean
check_n_layers (const PsModel *model, GError **error)
{
  if (model->layers + 2 <= PS_MAX_LAYERS)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "model '%s': %u layers, embedding and head; give at most %u in all",
                    model->name, model->layers, PS_MAX_LAYERS);
}

static gint64
work_ns (const PsModel *model, const PsCluster *cluster, const PsStageShape *shape, PsOpKind kind)
{
  PsWork work = ps_work_stage (model, shape, kind, cluster->tensor);

  return ps_work_ns (&work, cluster);
}

PsLayers *
ps_layers_model (const PsModel *model, const PsCluster *cluster, GError **error)
{
  if (!check_n_layers (model, error))
    return NULL;
  g_autoptr (PsLayers) layers = named_layers (model);
  layers->source = g_strdup_printf ("model '%s' on cluster '%s'", model->name, cluster->name);
  layers->time_origin = layers->memory_origin = PS_ORIGIN_MODELLED;
  for (guint i = 0; i < layers->n_layers; i++)
    {
      PsStageShape shape = layer_shape (model, i);
      PsLayer *layer = &layers->layers[i];

      fill_formulas (model, i, layer);
      layer->forward_ns = work_ns (model, cluster, &shape, PS_OP_F);
      layer->backward_ns = work_ns (model, cluster, &shape, PS_OP_B);
      layer->weight_ns = work_ns (model, cluster, &shape, PS_OP_W);
      layer->full_backward_ns = layer->backward_ns + layer->weight_ns;
      layer->optimizer_ns = ps_work_optimizer_ns (model, cluster, ps_model_stage_parameters (model, &shape));
      layer->time_ns = layer->forward_ns + layer->full_backward_ns;
    }
  return ps_layers_check (layers, error) ? g_steal_pointer (&layers) : NULL;
}

/* From measured stages */

typedef struct
{
  PsLayers *layers;
  const PsCosts *costs;       /* of the measured stages */
  const PsStageShape *shapes; /* [costs->n_stages] */
} Derivation;

typedef gint64 (*StageFigure) (const PsCosts *costs, guint stage);

static gint64
kept_bytes (const PsCosts *costs, guint stage)
{
  const PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);

  return MAX (f->take_bytes - f->give_bytes, 0);
}

static gint64
weight_kept_bytes (const PsCosts *costs, guint stage)
{
  const PsOpCost *w = ps_costs_op (costs, PS_OP_W, stage);

  return CLAMP (w->give_bytes - w->take_bytes, 0, kept_bytes (costs, stage));
}

static gint64
state_bytes (const PsCosts *costs, guint stage)
{
  return costs->stage[stage].weight_bytes;
}

#define DURATION(name, kind)                                                                                           \
  static gint64 name (const PsCosts *costs, guint stage)                                                               \
  {                                                                                                                    \
    return ps_costs_op (costs, kind, stage)->duration_ns;                                                              \
  }
DURATION (duration_f, PS_OP_F)
DURATION (duration_b, PS_OP_B)
DURATION (duration_w, PS_OP_W)
DURATION (duration_bw, PS_OP_BW)
DURATION (duration_o, PS_OP_O)

/* sum * part / whole, without a product that overflows. */
static gint64
share (gint64 sum, guint part, guint whole)
{
  return sum / whole * part + sum % whole * part / whole;
}

/* A layer is the mean of the layers in the stages between first and last. Embedding and head are the rest of the first
 * and the last stage beyond their layers. */
static void
derive (const Derivation *derivation, StageFigure figure, gsize offset)
{
  PsLayers *layers = derivation->layers;
  guint last = derivation->costs->n_stages - 1, n_layers = 0;
  gint64 sum = 0, mean, first_layers, last_layers;

  for (guint s = 1; s < last; s++)
    {
      sum += figure (derivation->costs, s);
      n_layers += derivation->shapes[s].n_layers;
    }
  g_assert (n_layers > 0); /* there are 3 stages at least */
  mean = (sum + n_layers / 2) / n_layers;
  first_layers = share (sum, derivation->shapes[0].n_layers, n_layers);
  last_layers = share (sum, derivation->shapes[last].n_layers, n_layers);
  for (guint i = 1; i + 1 < layers->n_layers; i++)
    G_STRUCT_MEMBER (gint64, &layers->layers[i], offset) = mean;
  G_STRUCT_MEMBER (gint64, &layers->layers[0], offset) = MAX (figure (derivation->costs, 0) - first_layers, 0);
  G_STRUCT_MEMBER (gint64, &layers->layers[layers->n_layers - 1], offset)
      = MAX (figure (derivation->costs, last) - last_layers, 0);
}

static void
derive_all (const Derivation *derivation)
{
  static const struct
  {
    StageFigure figure;
    gsize offset;
  } figures[] = {
    { duration_f, G_STRUCT_OFFSET (PsLayer, forward_ns) },
    { duration_b, G_STRUCT_OFFSET (PsLayer, backward_ns) },
    { duration_w, G_STRUCT_OFFSET (PsLayer, weight_ns) },
    { duration_bw, G_STRUCT_OFFSET (PsLayer, full_backward_ns) },
    { duration_o, G_STRUCT_OFFSET (PsLayer, optimizer_ns) },
    { kept_bytes, G_STRUCT_OFFSET (PsLayer, kept_bytes) },
    { weight_kept_bytes, G_STRUCT_OFFSET (PsLayer, weight_kept_bytes) },
    { state_bytes, G_STRUCT_OFFSET (PsLayer, state_bytes) },
  };

  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    derive (derivation, figures[i].figure, figures[i].offset);
  for (guint i = 0; i < derivation->layers->n_layers; i++)
    {
      PsLayer *layer = &derivation->layers->layers[i];

      layer->time_ns = layer->forward_ns + layer->backward_ns + layer->weight_ns;
      layer->weight_kept_bytes = MIN (layer->weight_kept_bytes, layer->kept_bytes);
    }
}

/* The coarsest cut of the profile that has a stage without embedding and head. Where there is none, the first error is
 * the most useful: it says which stages to measure. */
static PsCosts *
measured_stages (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, GError **error)
{
  guint chunks = n_devices >= 3 ? 1 : n_devices == 2 ? 2 : 3;
  g_autoptr (GError) first = NULL;

  for (; n_devices * chunks <= MAX (model->layers, 3); chunks++)
    {
      g_autoptr (GError) reason = NULL;
      PsCosts *costs = ps_costdb_costs (db, profile, model, n_devices, chunks, &reason);

      if (costs != NULL)
        return costs;
      if (first == NULL)
        first = g_steal_pointer (&reason);
    }
  if (first != NULL)
    g_propagate_error (error, g_steal_pointer (&first));
  else
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                 "model '%s': its %u layers cannot have been measured as stages of %u devices; layers need 3 stages at "
                 "least",
                 model->name, model->layers, n_devices);
  return NULL;
}

/* The link on which the boundary tensor takes its measured time. */
static PsLink
measured_link (const PsModel *model, const PsCosts *costs, guint n_devices)
{
  gint64 ns = n_devices > 1 ? costs->transfer_ns[ps_transfer_forward (costs, 0)] : 0;

  return (PsLink){ .bandwidth = ns > 0 ? (double)ps_model_boundary_bytes (model) * 1e9 / (double)ns : 0 };
}

static PsLayers *
layers_from_stages (const PsModel *model, const PsCosts *costs, GError **error)
{
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, costs->n_stages);

  if (!ps_model_split (model, costs->n_stages, shapes, error))
    return NULL;
  g_autoptr (PsLayers) layers = named_layers (model);
  Derivation derivation = { layers, costs, shapes };
  layers->source = g_strdup_printf ("%u stages of %s", costs->n_stages, costs->source);
  layers->time_origin = layers->memory_origin = PS_ORIGIN_INTERPOLATED;
  for (guint i = 0; i < layers->n_layers; i++)
    fill_formulas (model, i, &layers->layers[i]);
  derive_all (&derivation);
  return ps_layers_check (layers, error) ? g_steal_pointer (&layers) : NULL;
}

/* On unequal parts equal layers differ. */
static gboolean
check_parts (const PsCosts *costs, GError **error)
{
  if (!costs->loop_only)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: costs under unequal shares do not give the time of a single layer",
                    costs->source);
}

PsLayers *
ps_layers_costdb (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, PsLink *link,
                  GError **error)
{
  g_autoptr (PsModel) stored = model != NULL ? NULL : ps_costdb_model (db, profile, error);
  g_autoptr (PsCosts) costs = NULL;

  if (model == NULL && stored == NULL)
    return NULL;
  model = model != NULL ? model : stored;
  if (!check_n_layers (model, error))
    return NULL;
  costs = measured_stages (db, profile, model, n_devices, error);
  if (costs == NULL || !check_parts (costs, error) || !ps_costs_check (costs, 1, error))
    return NULL;
  if (link != NULL)
    *link = measured_link (model, costs, n_devices);
  return layers_from_stages (model, costs, error);
}
