/* rounds.h - measures what a profile lacks, and measures again what was taken while the machine was not quiet. */
#pragma once

#include "calibration.h"

typedef struct {
  PsCostDb *db; /* `db` and `profile` are as ps_costdb_begin_profile has left them; db stays the caller's */
  gint64 profile;
  const char *profile_name;
  const PsProfile *here; /* the circumstances of another calibration */
  guint n_again;         /* most rounds that repeat measurements of an unquiet machine */
  gboolean terminal;     /* TRUE: progress is one line that changes */

  guint n_there;    /* measurements stored before the first round */
  guint n_measured; /* measurements in all rounds */

  GHashTable *disturbed; /* keys of stored measurements that were taken while the machine was not quiet */
  GHashTable *wanted;    /* keys that this round measures */
  GPtrArray *known;      /* PsMeasurement that were stored before this round */
  guint n_wanted;        /* keys of this round; n_repeated of them are stored already */
  guint n_repeated;
  guint n_done;
  guint n_unmeasured; /* keys of this round that ended without any sample */

  const PsCalibration *added; /* ps_calib_rounds_add is under way, with these two */
  guint n_chunks;
} PsCalibRounds;

/* Sets everything else to zero. profile_name must outlive rounds. */
void ps_calib_rounds_init (PsCalibRounds *rounds, const char *profile_name);
void ps_calib_rounds_clear (PsCalibRounds *rounds);

/* Samples of `before`, then those of m, as one measurement. Free with ps_measurement_free. */
PsMeasurement *ps_calib_join (const PsMeasurement *before, const PsMeasurement *m) G_GNUC_WARN_UNUSED_RESULT;

/* Samples once more what predictions take: the ops of n_chunks per device while all devices are busy, or the boundary's
 * transfer (0). The new samples are added to the stored ones. Call it after ps_calib_rounds_measure. */
gboolean ps_calib_rounds_add (PsCalibRounds *rounds, const PsCalibration *calibration, guint n_chunks, GError **error);

/* Begins another calibration of the profile where the last one has all keys; otherwise goes on with it. Each round
 * measures the missing keys. Unless n_again is 0 it also measures again the stored ones beside which the
 * sentinel shifted by more than PS_SENTINEL_TOLERANCE (ps_sentinel_shifts). It replaces them one by one, so a killed
 * program loses nothing.
 *
 * Devices begin with the profile's choices. Their new choices are stored before the measurements that use them.
 * Rounds end when nothing is left to measure. Progress and warnings go to stderr. The callbacks of `calibration` are
 * not used. */
gboolean ps_calib_rounds_measure (PsCalibRounds *rounds, const PsCalibration *calibration, GError **error);
