/* predict-rows.h - pipesim predict: the rows that predictions become, as text and as JSON. */
#pragma once

#include "predict-spread.h"

/* The options that say what rows show. */
typedef struct
{
  gboolean several; /* schedules, or all */
  gboolean json;
  gboolean memory;
  gboolean explain;
  double faster; /* what a part saves in the explanation */
  PsColumnChoice columns;
  PsSpreadOptions spread;
} PsPredictShown;

typedef struct _PsPredictRows PsPredictRows;

/* shown and setting must outlive it. Errors: PS_ERROR_USAGE for unknown columns. Free with ps_predict_rows_free. */
PsPredictRows *ps_predict_rows_new (const PsPredictShown *shown, const PsSetting *setting,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_predict_rows_free (PsPredictRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPredictRows, ps_predict_rows_free)

/* Takes ownership of the prediction of one schedule. Errors: those of an explanation and of samples. */
gboolean ps_predict_rows_take (PsPredictRows *rows, PsPrediction *prediction, GError **error);

/* Notes why a schedule has no row. */
void ps_predict_rows_skip (PsPredictRows *rows, const char *name, const GError *reason);

gboolean ps_predict_rows_are_empty (const PsPredictRows *rows);

/* Prints the rows, the fastest first, as text or JSON. */
gboolean ps_predict_rows_print (PsPredictRows *rows, GError **error);
