/* model-costs.h - costs of a model by formulas, cut evenly. */
#pragma once

#include <pipesim/costs.h>

/* ps_costs_model_stages for the stages of ps_model_split. */
static inline PsCosts *model_costs (const PsModel *model, const PsCluster *cluster, guint n_devices, guint n_chunks,
                                    GError **error)
{
  guint n_stages = n_devices * n_chunks;
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_stages);

  return ps_model_split (model, n_stages, shapes, error)
             ? ps_costs_model_stages (model, cluster, shapes, n_devices, n_chunks, error)
             : NULL;
}
