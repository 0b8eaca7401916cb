/* diagnose-run.h - pipesim diagnose: a run, measured and predicted, and other schedules under the same costs. */
#pragma once

#include "predict-explain.h"

#include <pipesim/observe.h>
#include <pipesim/formats.h>

typedef struct
{
  const char *where;    /* names the run in messages */
  PsSetting *setting;   /* -p, -m and --memory-limit become those of the run */
  gint64 time_limit_ns; /* of the search; 0: none */
  double saving;        /* of the list of parts that would pay off */
} PsDiagnoseOptions;

/* A schedule under the costs of the run. */
typedef struct
{
  char *name;
  guint n_chunks;
  guint n_copies;
  gboolean asynchronous;
  gboolean is_run;  /* the order and placement of the run itself */
  gboolean guessed; /* it needs costs that are guesses */
  gboolean fits;    /* the memory of the run */
  gint64 iteration_ns;
  double bubble_ratio;
  double memory_ratio; /* peak over that of the run */
} PsRival;

typedef struct
{
  GPtrArray *iterations; /* of PsTimeline */
  const PsTimeline *run; /* the median one, which is explained */
  PsIterationSpread spread;
  PsMetrics metrics;        /* of the run, measured */
  PsCosts *costs;           /* medians over the iterations */
  gboolean says_memory;     /* sizes are the run's; FALSE: memory counts activations, all stages alike */
  guint guessed;            /* bit 1 << PsOpKind: costs of some stage that nothing says (ps_costs_guess) */
  PsPrediction *prediction; /* of the run's own order under the costs */
  PsSimulation *measured;   /* its steps as they were measured */
  PsExplainReport *explain;
  GArray *slow;      /* of PsSlow */
  gint64 replay_ns;  /* iteration with the run's own durations and no gaps between them */
  gint64 even_ns;    /* predicted iteration of equal stages */
  GPtrArray *rivals; /* of PsRival: fit for the run's memory, above it, two copies of the weights, asynchronous;
                        each by iteration time */
  GString *skipped;  /* schedules that cannot be, with the reasons */
} PsDiagnosis;

/* Takes the iterations of one run. Errors: PS_ERROR_INPUT where they are no schedule, and those of predictions of the
 * run's own. Free with ps_diagnosis_free. */
PsDiagnosis *ps_diagnosis_new (GPtrArray *iterations, const PsDiagnoseOptions *options,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_diagnosis_free (PsDiagnosis *diagnosis);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsDiagnosis, ps_diagnosis_free)

/* The row of the run's own order; NULL: no published schedule has it. */
const PsRival *ps_diagnosis_own (const PsDiagnosis *diagnosis);

/* The fastest that trains as the run does, within its memory; NULL: there is none. */
const PsRival *ps_diagnosis_best (const PsDiagnosis *diagnosis);

/* The schedule's name, with remarks: "zb-v (guess)". Free with g_free. */
char *ps_rival_label (const PsRival *rival);
