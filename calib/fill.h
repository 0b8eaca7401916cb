/* fill.h - fills a profile: measures what it lacks, measures again what was taken while the machine was not quiet, and
 * spends the rest of a budget on what predictions are most uncertain from. */
#pragma once

#include "measure.h"

typedef struct {
  PsCostDb *db; /* `db` and `profile` are as ps_costdb_begin_profile has left them; db stays the caller's */
  gint64 profile;
  const char *profile_name;
  const PsProfile *here; /* the circumstances of another calibration */
  guint n_again;         /* most passes that repeat measurements of an unquiet machine */
  gboolean terminal;     /* TRUE: progress is one line that changes */

  guint n_there;    /* measurements stored before the first pass */
  guint n_measured; /* measurements in all passes */

  GHashTable *disturbed; /* keys of stored measurements that were taken while the machine was not quiet */
  GHashTable *wanted;    /* keys that this pass measures */
  GPtrArray *known;      /* PsMeasurement that were stored before this pass */
  guint n_wanted;        /* keys of this pass; n_repeated of them are stored already */
  guint n_repeated;
  guint n_done;
  guint n_unmeasured; /* keys of this pass that ended without any sample */

  const PsCalibration *added; /* ps_fill_add is under way, with these two */
  guint n_chunks;
} PsFill;

/* Of a structure of zeros and options. profile_name must outlive the fill. */
void ps_fill_init (PsFill *fill, const char *profile_name);
void ps_fill_clear (PsFill *fill);

/* Begins another calibration of the profile where the last one has all keys; otherwise goes on with it. Each pass
 * measures the missing keys. Unless n_again is 0 it also measures again the stored ones near which the
 * sentinel shifted by more than PS_SENTINEL_TOLERANCE (ps_sentinel_shifts). It replaces them one by one, so a killed
 * program loses nothing.
 *
 * Devices begin with the profile's choices. Their new choices are stored before the measurements that use them.
 * Passes end when nothing is left to measure. Progress and warnings go to stderr. The callbacks of `calibration` are
 * not used. */
gboolean ps_fill_measure (PsFill *fill, const PsCalibration *calibration, GError **error);

/* Whether predictions take the measurement with that key: of ops while all n_local devices are busy, or of the
 * boundary's transfers. */
gboolean ps_fill_is_used (const PsCalibration *calibration, const PsMeasurement *key);

/* Samples once more what predictions take: the ops of n_chunks per device, or the transfer (0). The new samples are
 * added to the stored ones. Call it after ps_fill_measure. */
gboolean ps_fill_add (PsFill *fill, const PsCalibration *calibration, guint n_chunks, GError **error);

/* The time limit of a rule with which everything is measured once in about half of the budget. */
gint64 ps_fill_first_limit (const PsCalibration *calibration, gint64 budget_ns);

/* Spends the time until end_ns (of ps_clock_now) on further samples. Each call of ps_fill_add goes to the ops of one
 * number of chunks, or to the transfer, whichever is the largest part of the error of predictions, and lasts twice as
 * long as its last one. Ends early when more samples would change no prediction. rule.time_limit_ns is that of the
 * first measurements. Says on stderr how it goes on. */
gboolean ps_fill_spend (PsFill *fill, const PsCalibration *calibration, gint64 end_ns, GError **error);

/* Relative standard errors of predicted iteration times, from the errors of the medians of all ops, and from that of
 * the transfer. */
typedef struct {
  double ops;
  double transfers;
} PsSamplingError;

/* Each measured row's part is its error (PsCostSpread.deviation) times its share of the iteration time of 1F1B with
 * twice as many microbatches as devices. Rows are independent of each other. Errors: those of ps_costdb_stage_costs. */
gboolean ps_sampling_error_find (PsSamplingError *sampling, PsCostDb *db, const char *profile, const PsModel *model,
                                 const PsCut *cut, GError **error);
