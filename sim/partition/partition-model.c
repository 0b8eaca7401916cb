/* partition-model.c - chains of layers from the formulas of a model, and from stages that were measured. */
#include "partition-private.h"

/* The units of the model, without costs. */
static PsLayers *
named_layers (const PsModel *model, const PsStageShape *units, guint n_units)
{
  PsLayers *layers = ps_layers_new (n_units);

  layers->has_flops = TRUE;
  for (guint i = 0; i < n_units; i++)
    {
      PsLayer *layer = &layers->layers[i];
      const PsStageShape *unit = &units[i];

      layer->name = unit->n_layers ? g_strdup_printf ("layer %u", unit->first_layer)
                                   : g_strdup (unit->embedding ? "embedding"
                                               : unit->head    ? "head"
                                                               : "mtp");
      layer->flops = ps_model_stage_flops (model, unit, PS_OP_F) + ps_model_stage_flops (model, unit, PS_OP_B)
                     + ps_model_stage_flops (model, unit, PS_OP_W);
    }
  return layers;
}

static gboolean
check_n_layers (const PsModel *model, GError **error)
{
  if (model->layers + 2 <= PS_MAX_LAYERS)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "model '%s': %u layers, embedding and head; give at most %u in all",
                    model->name, model->layers, PS_MAX_LAYERS);
}

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

/* The figures that follow from costs. */
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

static PsLayers *
finish_layers (PsLayers *taken, GError **error)
{
  g_autoptr (PsLayers) layers = taken;

  for (guint i = 0; i < layers->n_layers; i++)
    {
      PsLayer *layer = &layers->layers[i];

      layer->time_ns = layer->forward_ns + layer->backward_ns + layer->weight_ns;
      layer->weight_kept_bytes = MIN (layer->weight_kept_bytes, layer->kept_bytes);
    }
  return ps_layers_check (layers, error) ? g_steal_pointer (&layers) : NULL;
}

PsLayers *
ps_layers_from_units (const PsModel *model, const PsCosts *costs, GError **error)
{
  PsLayers *layers = named_layers (model, costs->shapes, costs->n_stages);

  layers->source = g_strdup (costs->source);
  layers->time_origin = costs->time_origin;
  layers->memory_origin = costs->memory_origin;
  for (guint i = 0; i < layers->n_layers; i++)
    {
      PsLayer *layer = &layers->layers[i];

      for (guint j = 0; j < G_N_ELEMENTS (figures); j++)
        G_STRUCT_MEMBER (gint64, layer, figures[j].offset) = figures[j].figure (costs, i);
      layer->parameter_bytes = costs->stage[i].version_bytes;
      layer->output_bytes = costs->message_bytes[ps_transfer_forward (costs, i)];
    }
  return finish_layers (layers, error);
}

/* From measured stages */

typedef struct
{
  PsLayers *layers;
  const PsCosts *costs; /* of the measured stages */
} Derivation;

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
      n_layers += derivation->costs->shapes[s].n_layers;
    }
  g_assert (n_layers > 0); /* there are 3 stages at least */
  mean = (sum + n_layers / 2) / n_layers;
  first_layers = share (sum, derivation->costs->shapes[0].n_layers, n_layers);
  last_layers = share (sum, derivation->costs->shapes[last].n_layers, n_layers);
  for (guint i = 1; i + 1 < layers->n_layers; i++)
    G_STRUCT_MEMBER (gint64, &layers->layers[i], offset) = mean;
  G_STRUCT_MEMBER (gint64, &layers->layers[0], offset) = MAX (figure (derivation->costs, 0) - first_layers, 0);
  G_STRUCT_MEMBER (gint64, &layers->layers[layers->n_layers - 1], offset)
      = MAX (figure (derivation->costs, last) - last_layers, 0);
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
  guint n;
  g_autofree PsStageShape *units = ps_model_units (model, &n);
  PsLayers *layers = named_layers (model, units, n);
  Derivation derivation = { layers, costs };

  layers->source = g_strdup_printf ("%u stages of %s", costs->n_stages, costs->source);
  layers->time_origin = layers->memory_origin = PS_ORIGIN_INTERPOLATED;
  for (guint i = 0; i < n; i++)
    {
      layers->layers[i].parameter_bytes
          = ps_model_stage_parameters (model, &units[i]) * ps_precision_bytes (model->precision);
      layers->layers[i].output_bytes = i + 1 < n ? ps_model_boundary_bytes (model) : 0;
    }
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    derive (&derivation, figures[i].figure, figures[i].offset);
  return finish_layers (layers, error);
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

  if (model == NULL && stored == NULL)
    return NULL;
  model = model != NULL ? model : stored;
  if (!check_n_layers (model, error))
    return NULL;
  g_autoptr (PsCosts) costs = measured_stages (db, profile, model, n_devices, error);
  if (costs == NULL || !check_parts (costs, error) || !ps_costs_check (costs, 1, error))
    return NULL;
  if (link != NULL)
    *link = measured_link (model, costs, n_devices);
  return layers_from_stages (model, costs, error);
}
