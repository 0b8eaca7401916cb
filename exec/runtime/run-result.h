/* run-result.h - makes the result of a run. */
#ifndef PIPESIM_EXEC_RUN_RESULT_H
#define PIPESIM_EXEC_RUN_RESULT_H

#include "runtime.h"

G_BEGIN_DECLS

/* All losses are NaN. There are gradients only if the setting asks for them and the device computes. Free with
 * ps_run_result_free. */
PsRunResult *ps_run_result_new (const PsProgram *program, const PsRunSetting *setting, guint n_replicas);

G_END_DECLS

#endif
