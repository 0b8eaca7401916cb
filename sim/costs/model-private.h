/* model-private.h - what the sources about models share. Private to libpipesim. */
#ifndef PIPESIM_MODEL_PRIVATE_H
#define PIPESIM_MODEL_PRIVATE_H

#include <pipesim/model.h>

/* Gives optional fields that are 0 their defaults. */
void ps_model_fill_defaults (PsModel *model);

/* What is wrong with the fields together, and the key to blame; NULL: nothing. Free with g_free. */
char *ps_model_find_misfit (const PsModel *model, const char **key);

/* A figure of a layer, and its sum over the layers of a stage and of its modules of multi-token prediction. */
typedef gint64 (*PsLayerFigure) (const PsModel *model, PsLayerKind kind);
gint64 ps_model_sum_layers (const PsModel *model, const PsStageShape *shape, PsLayerFigure figure);

#endif
