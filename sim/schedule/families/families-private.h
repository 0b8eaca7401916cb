/* families-private.h - code shared by the files of the catalogue. */
#pragma once

#include "families-catalogue.h" /* FAMILIES, a ROW for each line of the file catalogue */

#include <pipesim/schedule.h>

#define ROW(name) extern const PsFamily ps_family_##name;
FAMILIES
#undef ROW

/* Checks that the number n of `things` is a multiple of unit; the message names the multiples around it. */
gboolean ps_family_check_multiple (const char *name, const char *things, guint n, guint unit, GError **error);

/* Checks that there are at least `least` microbatches; the message says why. */
gboolean ps_family_check_microbatches (const char *name, const PsFamilySetting *setting, guint least, const char *why,
                                       GError **error);

/* The most ops of a microbatch, or slice, on a stage. */
#define PS_FAMILY_OPS 3U

/* A builder over n_devices devices in the given placement, with room for all ops. */
PsScheduleBuilder *ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting);

/* The schedule in which every device follows the rule. */
PsSchedule *ps_family_walk (const char *name, const PsFamilySetting *setting,
                            PsWalk (*rule) (const PsFamilySetting *setting, guint device));

/* V-Min either way (slots.c): the published order is better for some costs. */
PsSchedule *ps_v_min_generate (const PsFamilySetting *setting, gboolean eager);
gboolean ps_v_min_is_eager (guint n_devices); /* as the family v-min makes it */
