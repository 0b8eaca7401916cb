/* check.h - predictions held against runs on the spot, each run between fresh measurements of its ops. */
#pragma once

#include "calibration.h"

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
  double shift;        /* of the sentinel beside the run (ps_sentinel_shifts); NaN: not known */
  PsSlowdown weather;  /* the machine at the run, relative to the profile */
  double others;       /* part of all processors that went to other programs and guests meanwhile; NaN: not known */
} PsCheckRun;

/* The work and its results. db, profile and n_devices of the setting are set; so are device, transport, model and rule
 * of the calibration, and what the run needs. */
typedef struct {
  PsSetting *setting;
  char **schedules;          /* names of families or files */
  const guint *microbatches; /* [n_microbatches] each schedule runs with each of them */
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
} PsCalibCheck;

/* Makes the empty results, and frees results and lists; the setting and whatever run and calibration refer to stay the
 * caller's. */
void ps_calib_check_init (PsCalibCheck *check);
void ps_calib_check_clear (PsCalibCheck *check);

/* Runs every schedule n_rounds times, in random orders that seed of the calibration makes, as far as budget and stop
 * allow; the first run begins in any case. Runs and readings of the sentinel are stored in the database. Progress goes
 * to stderr. */
gboolean ps_calib_check_run (PsCalibCheck *check, GError **error);

/* Figures over many runs; NaN where there is nothing to tell. */
typedef struct {
  guint n_runs;
  double error;         /* median |error| of the iteration time */
  double error_p95;     /* 95 of 100 runs have a smaller one */
  double fresh_error;   /* median |error| with fresh costs: without drift */
  double fresh_total;   /* error of the sum over all runs with fresh costs */
  double weather_error; /* the same of the prediction times the weather */
  double replay_error;
  double op_error; /* medians over runs */
  double memory_error;
  double coverage;         /* part of the runs inside p10-p90 */
  double coverage_wide;    /* and inside the 95 % interval */
  double coverage_weather; /* part of the runs of known weather inside p10-p90 in that weather */
  double rank;             /* mean of Kendall's tau-b between predicted and measured times of a round's schedules */
  double regret; /* median over rounds of how much longer the schedule predicted to be the fastest takes than the one
                    that is */
} PsCheckSummary;

/* A run was on a quiet machine if the sentinel shifted by no more than PS_SENTINEL_TOLERANCE beside it, and others had
 * no larger part of the processors than this. */
#define PS_QUIET_OTHERS 0.05

/* Counts all runs, or the quiet ones. Runs of one round and one number of microbatches are ranked. */
void ps_check_summary_init (PsCheckSummary *summary, const GArray *runs, gboolean quiet);
