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

/* Weights and biases of a norm. */
gint64 ps_model_norm_width (const PsModel *model);

/* Weights and biases of one of these matrices. */
gint64 ps_matrix_parameters (const PsMatrix *matrix);

/* Which of the tensors that F keeps. */
typedef enum {
  PS_KEPT_ALL,
  PS_KEPT_FOR_WEIGHTS, /* those that W needs, and the gradients of outputs that it needs in addition */
  PS_KEPT_SCORES,      /* those that selective recomputation drops */
  PS_KEPT_WIDE,        /* those as wide as the model */
  PS_KEPT_WIDE_FOR_WEIGHTS,
} PsKeptChoice;

/* A figure of a unit, and its sum over the units of a stage. Figures that are of no tensors kept ignore the choice. */
typedef gint64 (*PsUnitFigure) (const PsModel *model, const PsUnitParts *parts, PsKeptChoice choice);
gint64 ps_model_sum_units (const PsModel *model, const PsStageShape *shape, PsUnitFigure figure, PsKeptChoice choice);

/* The figure: bytes of a microbatch. */
gint64 ps_unit_kept_bytes (const PsModel *model, const PsUnitParts *parts, PsKeptChoice choice);
