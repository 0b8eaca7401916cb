/* trial.h - a program that is run and held against its prediction. */
#pragma once

#include "verify.h"

#include <pipesim/observe.h>
#include <pipesim/setting.h>

typedef struct
{
  char *started;            /* ISO 8601 UTC */
  PsRunResult *result;      /* its timeline is NULL on other ranks than 0, which have nothing of what follows either */
  PsComparison *comparison; /* NULL without prediction */
  gint64 replayed_makespan_ns; /* simulated with the op and transfer times of the measured timeline; 0 without
                                  prediction */
} PsTrial;

void ps_trial_clear (PsTrial *trial);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsTrial, ps_trial_clear)

/* The timeline that a run is held against: a schedule that never drains in its steady state, as it is measured. Free
 * with ps_timeline_free. */
PsTimeline *ps_trial_prediction (const PsPrediction *prediction);

/* Runs the program. prediction: that of the same program; NULL: there are no costs. The caller clears the trial in any
 * case. */
gboolean ps_trial_run (PsTrial *trial, const PsProgram *program, const PsPrediction *prediction,
                       const PsRunSetting *setting, GError **error);

/* Stores the run and its prediction in a database, with the profile (NULL: the only one) that the costs came from. */
gboolean ps_trial_record (const PsTrial *trial, const PsProgram *program, const PsRunSetting *setting, PsCheck check,
                          const char *db, const char *profile, GError **error);
