/* weather.h - how fast the machine is beside a run, by the sentinel of the profile that predicts it. */
#pragma once

#include "runtime/runtime.h"

#include <pipesim/costdb.h>

/* All 0: the machine is not watched. */
typedef struct
{
  const PsRunSetting *run;
  PsDeviceSetting setting;
  GPtrArray *measurements; /* PsMeasurement of the profile */
  GPtrArray *sentinels;    /* PsSentinel of the profile, then those read here; NULL: the profile has none */
} PsMachineWatch;

/* Reads what the profile says. The run is of n_devices; run outlives the watch. */
gboolean ps_machine_watch_open (PsMachineWatch *watch, const char *db, const char *profile, const PsRunSetting *run,
                                guint n_devices, GError **error);
void ps_machine_watch_clear (PsMachineWatch *watch);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsMachineWatch, ps_machine_watch_clear)

/* Reads the sentinel, where the profile has one. It takes some tenths of a second, or a few ops. */
gboolean ps_machine_watch_read (PsMachineWatch *watch, GError **error);

/* The weather of a run that started then, between two readings (ps_sentinel_slowdown); NaN: not known. */
PsSlowdown ps_machine_watch_weather (const PsMachineWatch *watch, const char *started);
