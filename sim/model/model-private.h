/* model-private.h - what the sources about models share. Private to libpipesim. */
#pragma once

#include "ini.h"

#include <pipesim/model.h>

/* Every field but the name; *n entries. */
const PsIniField *ps_model_fields (guint *n);
void ps_model_set_field (PsModel *model, const PsIniField *field, double value);

/* Whether one of the words of a list, with blanks between, is in the text. */
gboolean ps_has_word (const char *text, const char *list);

/* Reads a config.json (config.c); else as ps_model_parse. */
PsModel *ps_model_parse_config (const char *where, const char *text, gsize length,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Reads an .ini description; else as ps_model_parse. */
PsModel *ps_model_parse_ini (const char *where, const char *text, gsize length,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Says the model's pattern by dense_layers and full_every instead where they can. */
void ps_model_simplify_pattern (PsModel *model);

/* Gives optional fields that are 0 their defaults. */
void ps_model_fill_defaults (PsModel *model);

/* Says which fields contradict each other, and sets the key to blame; NULL: none do. Free with g_free. */
char *ps_model_find_misfit (const PsModel *model, const char **key);

gboolean ps_model_has_dropout (const PsModel *model);

/* Weights and biases of one of these matrices. */
gint64 ps_matrix_parameters (const PsMatrix *matrix);

/* PsUnitFigure computes a figure of one unit, and ps_model_sum_units adds it up over the units of a stage. `what` says
 * which tensors count, those that have all of these PsKeptFlags, or which multiplications, those of this PsOpKind.
 * Other figures ignore it. */
typedef gint64 (*PsUnitFigure) (const PsModel *model, const PsUnitParts *parts, guint what);
gint64 ps_model_sum_units (const PsModel *model, const PsStageShape *shape, PsUnitFigure figure, guint what);

/* Bytes of a microbatch that F keeps, a PsUnitFigure. `what` is PsKeptFlags. PS_KEPT_BUT leaves out the tensors that
 * one of these modules drops, and PS_KEPT_MOVED all that none of these modules moves. */
gint64 ps_unit_kept_bytes (const PsModel *model, const PsUnitParts *parts, guint what);
#define PS_KEPT_BUT(recompute_flags) ((recompute_flags) << 8)
#define PS_KEPT_MOVED(offload_flags) ((guint)(offload_flags) << 24)

/* The same of a stage under a recomputation; the inputs of layers that run again have none of the flags but
 * PS_KEPT_WIDE. */
gint64 ps_model_sum_kept (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint what);
