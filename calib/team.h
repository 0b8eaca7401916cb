/* team.h - the devices of a rotation that share layers, with calibration->n_tensor parts of each: they add up within
 * ops and end together. One process has all parts, or each process has the part of its rank. */
#pragma once

#include "calibration.h"

typedef struct _PsTeam PsTeam;

/* The devices of a team that are in this process: those of one part after the other. */
guint ps_team_n_here (const PsCalibration *calibration, guint n_busy);

/* The part that device `at` of them has. */
guint ps_team_part_of (const PsCalibration *calibration, guint n_busy, guint at);

/* n_busy devices of each part. Errors are the transport's. */
PsTeam *ps_team_new (const PsCalibration *calibration, guint n_busy, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Ends the sums, after all devices have made their last one. team may be NULL. */
void ps_team_free (PsTeam *team);

/* The thread of each device, which has attached it, calls this once before it adds up. It waits for all others. */
gboolean ps_team_join (PsTeam *team, guint at, PsDevice *device, GError **error);

/* The thread of each device calls this last, whether it has joined or not. */
void ps_team_part (PsTeam *team, guint at);

/* Replaces n numbers by their sums over the parts of the device. */
gboolean ps_team_add_up (PsTeam *team, guint at, float *values, gsize n, GError **error);

/* Notes the first failure, and ends all sums with it. From any thread. Where there are other processes, it ends all of
 * them and does not return. */
void ps_team_fail (PsTeam *team, const GError *error);

/* A copy of that failure. */
GError *ps_team_failure (PsTeam *team);
