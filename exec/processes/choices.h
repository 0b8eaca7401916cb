/* choices.h - makes the devices of all processes use the same algorithms, which each device has chosen by timing. Then
 * all of them, and the reference run of one device, give the same bits. */
#pragma once

#include "crew.h"

#include <pipesim/device.h>

/* Every member of all processes, n_members together, calls it with its device after that has chosen. Afterwards each
 * device knows the choices of all, and where they differ the first member's count. Nothing to do for classes without
 * choices. */
gboolean ps_choices_agree (PsCrew *crew, guint member, guint n_members, PsDevice *device, GError **error);
