/* bypass.h - optimizer steps without a meeting of all devices: post-validation (arXiv 2401.10241, section 4).
 *
 * When a device has done all ops of a step it takes the norms of the gradients of the devices before it, adds its own
 * and hands them on. It steps at once if these norms call for no clipping. The last device knows all norms and sends
 * them to every other one. Each device looks at them before its first backward of the next step: if the global norm
 * calls for clipping, or is no number, the device takes its step back, steps again as the global norm demands, and runs
 * the forwards since then once more. */
#pragma once

#include "worker.h"

/* Where a device validates, and what it does after a step was taken back. */
struct _PsBypassPlan
{
  guint validate; /* index of the action before which it validates */
  guint8 *posted; /* [n_actions] receives that stand before that place, of messages that no sender has sent at its own:
                     they stay posted */
  GArray *stray;  /* of PsInstruction: messages that were sent and that nobody will use, by their waits, or by their
                     receives where these stand after the place */
};

/* One for each device. Free with ps_bypass_plans_free. */
PsBypassPlan *ps_bypass_plans_new (const PsScript *scripts, const PsProgram *program);
void ps_bypass_plans_free (PsBypassPlan *plans, guint n_devices);

/* The factor of all gradients under a global norm; squares [n_stages]: of the norms of stages, -1 for those not known.
 * 0: the step is left out, since a gradient is no finite number. clip 0: no clipping. */
float ps_bypass_scale (const double *squares, guint n_stages, double clip);

/* Between work and O where all devices meet: all devices find the factor of their gradients. */
gboolean ps_bypass_meet (PsWorker *worker, GError **error);

/* Runs all steps. */
gboolean ps_bypass_run (PsWorker *worker, GError **error);
