/* families-private.h - what the files of the catalogue share. */
#ifndef PIPESIM_FAMILIES_PRIVATE_H
#define PIPESIM_FAMILIES_PRIVATE_H

#include <pipesim/families.h>

extern const PsFamily ps_family_naive;
extern const PsFamily ps_family_gpipe;
extern const PsFamily ps_family_1f1b;
extern const PsFamily ps_family_interleaved;
extern const PsFamily ps_family_zb_h1;

/* A check for families with one chunk per device and no other constraint. */
gboolean ps_family_check_one_chunk (const char *name, const PsFamilySetting *setting, GError **error);

/* A builder over n_devices devices in the given placement. */
PsScheduleBuilder *ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting);

#endif
