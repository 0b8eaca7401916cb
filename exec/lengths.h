/* lengths.h - microbatches of different lengths, as --lengths gives them to devices that compute. */
#pragma once

#include "runtime/runtime.h"

#include <pipesim/setting.h>

/* Sets tokens and n_tokens of the run, in the order in which the schedule runs the microbatches. Free tokens with
 * g_free. */
gboolean ps_run_lengths (const PsSetting *setting, const PsSchedule *schedule, PsRunSetting *run, GError **error);
