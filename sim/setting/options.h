/* options.h - what sweeps and refusals know of the options of SETTING beyond PsOption; the model of --model. Private to
 * libpipesim. */
#pragma once

#include <pipesim/setting.h>
#include <pipesim/option.h>

typedef struct PsSweepField {
  PsColumn column;     /* of the results */
  gboolean costs;      /* costs depend on it, so that a sweep keeps none when it changes */
  gint8 pace;          /* in a sweep options of higher pace change faster; those of equal pace keep the table's order */
  const char *not_run; /* why PS_FIELD_NOT_RUN and PS_FIELD_NOT_COMPUTED; NULL: "is predicted only" */
} PsSweepField;

/* --model, or the known model, with what the options change of it. */
PsModel *ps_setting_given_model (const PsSetting *setting, GError **error);

/* Sets the memory of F of a chunk: what it needs while it runs, and the keys and values that stay until the prompt's
 * last chunk has ended. whole: the costs of sequences as long as the model's or, where model is NULL, of the longest
 * prompt. */
void ps_prefill_set_memory (const PsSetting *setting, const PsModel *model, const PsCosts *whole, const PsLength *chunk,
                            PsCosts *costs);

/* Returns [n_devices * n_chunks] stages as a layout other than "best" cuts the model. Free with g_free. Errors:
 * PS_ERROR_USAGE where the model has no such cut. */
PsStageShape *ps_setting_cut (const char *text, const PsModel *model, guint n_devices, guint n_chunks,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The option's column of the results under a setting that holds its value, NONE where only a prediction knows it. */
PsValue ps_setting_column (const PsOption *option, const PsSetting *setting);
