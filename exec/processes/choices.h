/* choices.h - what devices have decided by timing, made the same in all processes of a run: then they, and the
 * reference that one of them computes, give the same bits. */
#ifndef PIPESIM_EXEC_CHOICES_H
#define PIPESIM_EXEC_CHOICES_H

#include "crew.h"

#include <pipesim/device.h>

G_BEGIN_DECLS

/* Every member calls it with its device, once that has decided: afterwards each of n_members, those of all processes,
 * knows the choices of all, and where they differ the first member's count. Nothing to do for classes without
 * choices. */
gboolean ps_choices_agree (PsCrew *crew, guint member, guint n_members, PsDevice *device, GError **error);

G_END_DECLS

#endif
