/* model-private.h - what the sources about models share. Private to libpipesim. */
#pragma once

#include "ini.h"

#include <pipesim/model.h>

/* Every field but the name; *n entries. */
const PsIniField *ps_model_fields (guint *n);
void ps_model_set_field (PsModel *model, const PsIniField *field, double value);

/* Gives optional fields that are 0 their defaults. */
void ps_model_fill_defaults (PsModel *model);

/* Says which fields contradict each other, and sets the key to blame; NULL: none do. Free with g_free. */
char *ps_model_find_misfit (const PsModel *model, const char **key);

/* Matrices and biases of one expert. */
gint64 ps_model_expert_parameters (const PsModel *model);

/* A figure of a layer, and its sum over the layers of a stage and of its modules of multi-token prediction. */
typedef gint64 (*PsLayerFigure) (const PsModel *model, PsLayerKind kind);
gint64 ps_model_sum_layers (const PsModel *model, const PsStageShape *shape, PsLayerFigure figure);
