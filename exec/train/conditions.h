/* conditions.h - reads the state of devices' hardware every 20 ms while they work, on a thread of its own. */
#pragma once

#include <pipesim/device.h>

/* Reads the state at this moment; values that the class can't tell stay 0. */
static inline void ps_condition_read (PsDevice *device, PsCondition *condition)
{
  if (device->class->condition != NULL)
    device->class->condition (device, condition);
}

typedef struct _PsConditions PsConditions;

/* Takes a first reading at once, then goes on until freed. The n devices are of one class, outlive it and have just
 * been opened. Where all share an accelerator, one reading serves all. NULL: the class can't tell. */
PsConditions *ps_conditions_new (PsDevice *const *devices, guint n);
void ps_conditions_free (PsConditions *conditions);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsConditions, ps_conditions_free)

/* Takes medians over the readings of device number i that hold from begin_ns to end_ns (CLOCK_MONOTONIC).
 * median->throttle holds the reasons of all these readings. A reading holds until the next one. conditions NULL: zeros.
 * From any thread. */
void ps_conditions_median (PsConditions *conditions, guint i, gint64 begin_ns, gint64 end_ns, PsCondition *median);
