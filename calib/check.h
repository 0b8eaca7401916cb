/* check.h - predictions held against runs on the spot, each run between fresh measurements of its ops. */
#pragma once

#include "measure.h"

#include "run/runtime.h"

/* One run. Errors are (predicted - measured) / measured. */
typedef struct {
  char *schedule;
  guint n_microbatches;
  guint n_chunks;
  guint round;         /* from 1 */
  char *started;       /* ISO 8601 UTC */
  gint64 predicted_ns; /* iteration time by the profile's costs */
  PsInterval interval;
  gint64 measured_ns;
  gint64 fresh_ns;     /* predicted again, with ops and transfers as measured right before and after the run */
  double replay_error; /* of the makespan that the run's own op and transfer times give */
  double op_error;     /* median over all ops of the |error| of their durations */
  double memory_error; /* of the peak; NaN: not known */
  double shift;        /* of the sentinel around the run (ps_sentinel_shifts); NaN: not known */
  PsSlowdown slowdown; /* of the machine at the run, relative to the profile */
  double others;       /* part of all processors that went to other programs and guests meanwhile; NaN: not known */
} PsCheckRun;

/* The work and its results. db, profile and n_devices of the setting are set; so are device, transport, model and rule
 * of the calibration, and what the run needs. */
typedef struct {
  PsSetting *setting;
  char **schedules;    /* names of families or files */
  guint *microbatches; /* [n_microbatches] each schedule runs with each of them */
  guint n_microbatches;
  guint n_rounds;
  gint64 budget_ns; /* no run begins later than that; 0: no limit */
  const gint *stop; /* as ps_note_signals returns it: no run begins when it is not 0; NULL: nothing stops it */
  PsRunSetting run;
  PsCalibration calibration;
  gboolean terminal; /* TRUE: progress is one line that changes */

  GArray *runs;           /* PsCheckRun, in the order taken */
  GPtrArray *sentinels;   /* PsSentinel, in the order read */
  GString *skipped;       /* schedules that can't be predicted or run, with the reasons */
  PsTimeline *last_fresh; /* of the last run, with fresh costs; NULL before it */
  PsTimeline *last_measured;

  /* While it runs */
  PsCostDb *db;
  gint64 profile;            /* its row */
  PsProfileContents *stored; /* the profile before the first run */
  char *copy;                /* path of a database whose profile takes fresh measurements in place of its own */
  PsCostDb *copy_db;
  gint64 copy_profile;
  GPtrArray *cases; /* PsPrediction */
  guint n_chunks;   /* of the cases under way */
  gint64 begin_ns;
  GPtrArray *before, *fresh; /* PsMeasurement of the latest measurements but one, and of the latest */
  guint n_fresh_chunks;      /* of the latest */
} PsCalibCheck;

/* Makes the empty results, and frees results and lists; the setting and whatever run and calibration refer to stay the
 * caller's. */
void ps_calib_check_init (PsCalibCheck *check);
void ps_calib_check_clear (PsCalibCheck *check);

/* Runs every schedule n_rounds times, in random orders that seed of the calibration makes, as far as budget and stop
 * allow; the first run begins in any case. Runs and readings of the sentinel are stored in the database. Progress goes
 * to stderr. */
gboolean ps_calib_check_run (PsCalibCheck *check, GError **error);

#define PS_N_CHECK_FIGURES 13

/* Runs that count. */
typedef struct {
  const PsCheckRun **runs;
  guint n;
} PsCheckRuns;

/* A figure over many runs: a quantile of what each has, or the mean where there is no quantile. */
typedef struct {
  const char *key;
  const char *title;
  double (*of_run) (const PsCheckRuns *all, const PsCheckRun *run); /* NaN: it has none */
  double quantile;                                                  /* 0: there is none */
  gboolean is_ratio;                                                /* no percentage */
} PsCheckFigure;
extern const PsCheckFigure ps_check_figures[PS_N_CHECK_FIGURES];

/* Their values; NaN where there is nothing to tell. */
typedef struct {
  guint n_runs;
  double figure[PS_N_CHECK_FIGURES];
} PsCheckSummary;

/* A run was on a quiet machine if the sentinel shifted by no more than PS_SENTINEL_TOLERANCE around it, and others had
 * no larger part of the processors than this. */
#define PS_QUIET_OTHERS 0.05

/* Counts all runs, or the quiet ones. Runs of one round and one number of microbatches are ranked. */
void ps_check_summary_init (PsCheckSummary *summary, const GArray *runs, gboolean quiet);
