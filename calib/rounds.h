/* rounds.h - measures into a profile what it lacks, and once more what was measured while the machine was not quiet. */
#ifndef PIPESIM_CALIB_ROUNDS_H
#define PIPESIM_CALIB_ROUNDS_H

#include "calibration.h"

G_BEGIN_DECLS

#define PS_CLEAR_LINE "\r\033[K" /* of a terminal: wipes the line that progress has written */

typedef struct
{
  PsCostDb *db; /* this and `profile` as ps_costdb_begin_profile has left them; stays the caller's */
  gint64 profile;
  const char *profile_name;
  guint n_again;     /* most rounds that repeat measurements taken while the machine was not quiet */
  gboolean terminal; /* progress is one line that changes */

  guint n_there;    /* stored before the first round */
  guint n_measured; /* in all rounds */

  GHashTable *disturbed; /* keys of what is stored and was measured while the machine was not quiet */
  GHashTable *wanted;    /* keys of what this round measures */
  guint n_wanted;        /* of this round; n_repeated of them are stored already */
  guint n_repeated;
  guint n_done;
} PsCalibRounds;

/* All else zero; profile_name must outlive it. */
void ps_calib_rounds_init (PsCalibRounds *rounds, const char *profile_name);
void ps_calib_rounds_clear (PsCalibRounds *rounds);

/* Each round measures what is missing and, unless n_again is 0, what is stored with a shift of the sentinel beside it
 * of more than PS_SENTINEL_TOLERANCE (ps_sentinel_shifts). That is replaced one by one, so nothing is lost when the
 * program is killed. Devices begin with the profile's choices, and what they decide is stored before what is measured
 * with it. Stops when nothing is left to measure. Progress and warnings go to stderr. The callbacks of
 * `calibration` are not used. */
gboolean ps_calib_rounds_measure (PsCalibRounds *rounds, const PsCalibration *calibration, GError **error);

G_END_DECLS

#endif
