/* machine-speed.h - how fast the machine is at the time of a run, by the sentinel of the profile that predicts it. */
#pragma once

#include "run/runtime.h"

#include <pipesim/costdb.h>

/* All 0: nothing is read. */
typedef struct {
  const PsRunSetting *run;
  GPtrArray *measurements; /* PsMeasurement of the profile */
  GPtrArray *sentinels;    /* PsSentinel of the profile, then those read here; NULL: the profile has none */
} PsMachineSpeed;

/* Reads what the profile says. run outlives the readings. */
gboolean ps_machine_speed_open (PsMachineSpeed *speed, const char *db, const char *profile, const PsRunSetting *run,
                                GError **error);
void ps_machine_speed_clear (PsMachineSpeed *speed);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsMachineSpeed, ps_machine_speed_clear)

/* Reads the sentinel, where the profile has one. It takes some tenths of a second, or a few ops. */
gboolean ps_machine_speed_read (PsMachineSpeed *speed, GError **error);

/* Of a run that started then, between two readings (ps_sentinel_slowdown); NaN: not known. */
PsSlowdown ps_machine_speed_of_run (const PsMachineSpeed *speed, const char *started);
