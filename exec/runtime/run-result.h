/* run-result.h - makes the result of a run. */
#pragma once

#include "runtime.h"

/* All losses are NaN. There are gradients only if the setting asks for them and the device computes. Free with
 * ps_run_result_free. */
PsRunResult *ps_run_result_new (const PsProgram *program, const PsRunSetting *setting, guint n_replicas);
