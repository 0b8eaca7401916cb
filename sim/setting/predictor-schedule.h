/* predictor-schedule.h - the schedule that a name stands for under a setting. Private to libpipesim. */
#pragma once

#include <pipesim/schedule.h>
#include <pipesim/setting.h>

/* ps_predictor_schedule. costs: the setting's for its family's size; NULL: the family sees none. */
PsSchedule *ps_schedule_find (const PsSetting *setting, const char *name_or_file, const PsCosts *costs,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
