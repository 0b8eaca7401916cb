/* families-private.h - code shared by the files of the catalogue. */
#pragma once

#include "families-catalogue.h" /* FAMILIES, a ROW for each line of the file catalogue */

#include <pipesim/schedule.h>

#define ROW(name) extern const PsFamily ps_family_##name;
FAMILIES
#undef ROW

/* A check for families with one chunk per device and no other constraint. */
gboolean ps_family_check_one_chunk (const char *name, const PsFamilySetting *setting, GError **error);

/* The same for families on a V: two chunks. */
gboolean ps_family_check_two_chunks (const char *name, const PsFamilySetting *setting, GError **error);

/* Checks that the number n of `things` is a multiple of unit; the message names the multiples around it. */
gboolean ps_family_check_multiple (const char *name, const char *things, guint n, guint unit, GError **error);

/* Checks that there are at least `least` microbatches; the message says why. */
gboolean ps_family_check_microbatches (const char *name, const PsFamilySetting *setting, guint least, const char *why,
                                       GError **error);

/* The most ops of a microbatch, or slice, on a stage. */
#define PS_FAMILY_OPS 3U

/* A builder over n_devices devices in the given placement, with room for all ops. */
PsScheduleBuilder *ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting);

/* Order of a device in loop placement, see loop-walk.c. Units count over its chunks, microbatches and slices. */
typedef struct
{
  guint warmup;   /* forwards before the first backward; more than there are: all of them */
  guint group;    /* microbatches that go through a chunk in a row, on every device; 0: all */
  gboolean split; /* B and W rather than BW */
  guint delay;    /* the W of a unit follows the B that comes this many units later */
  gboolean pairs; /* a forward and the backward after it are one overlapped op */
} PsWalk;

PsSchedule *ps_family_walk (const char *name, const PsFamilySetting *setting,
                            PsWalk (*rule) (const PsFamilySetting *setting, guint device));

/* Rules that more than one family uses. */
PsWalk ps_family_1f1b_rule (const PsFamilySetting *setting, guint device);
PsWalk ps_family_interleaved_rule (const PsFamilySetting *setting, guint device);
PsWalk ps_family_overlap_rule (const PsFamilySetting *setting, guint device);

/* The check of interleaved-overlap and interleaved-overlap-w. */
gboolean ps_family_check_overlap (const char *name, const PsFamilySetting *setting, GError **error);

/* The schedule, which is taken, with each BW of the last stage for its first n_microbatches split: W follows the
 * device's last op. */
PsSchedule *ps_family_defer_head (PsSchedule *schedule, guint n_microbatches);

/* 1F1B without a flush; `versions` gives the versions of the weights on a device. */
PsSchedule *ps_family_walk_asynchronous (const char *name, const PsFamilySetting *setting,
                                         guint (*versions) (const PsFamilySetting *setting, guint device));

/* Families with groups: the check of the size asked for. No group may be smaller than `least`, which the message calls
 * `what`. */
gboolean ps_family_check_groups (const char *name, const PsFamilySetting *setting, guint least, const char *what,
                                 GError **error);
