/* families-private.h - what the files of the catalogue share. */
#ifndef PIPESIM_FAMILIES_PRIVATE_H
#define PIPESIM_FAMILIES_PRIVATE_H

#include <pipesim/families.h>

extern const PsFamily ps_family_naive;
extern const PsFamily ps_family_gpipe;
extern const PsFamily ps_family_1f1b;
extern const PsFamily ps_family_eager_1f1b;
extern const PsFamily ps_family_interleaved;
extern const PsFamily ps_family_looped_bfs;
extern const PsFamily ps_family_zb_h1;
extern const PsFamily ps_family_zb_h2;
extern const PsFamily ps_family_interleaved_zb;
extern const PsFamily ps_family_seq1f1b;
extern const PsFamily ps_family_pipedream;
extern const PsFamily ps_family_pipedream_2bw;

/* A check for families with one chunk per device and no other constraint. */
gboolean ps_family_check_one_chunk (const char *name, const PsFamilySetting *setting, GError **error);

/* A builder over n_devices devices in the given placement. */
PsScheduleBuilder *ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting);

/* Loop placement, see loop-walk.c. Units are counted over chunks, microbatches and slices of a device. */
typedef struct
{
  guint warmup;   /* forwards before the first backward; more than there are: all of them */
  guint group;    /* microbatches that go through a chunk in a row; 0: all */
  gboolean split; /* B and W rather than BW */
  guint delay;    /* the W of a unit follows the B that comes so many units later */
} PsWalk;

PsSchedule *ps_family_walk (const char *name, const PsFamilySetting *setting, PsWalk (*rule) (const PsFamilySetting *setting, guint device));

/* The rule of 1F1B: a warm-up of p - 1 - r. */
PsWalk ps_family_1f1b_rule (const PsFamilySetting *setting, guint device);

/* Families with groups, see groups.c: the group size to use, and whether the one asked for goes. */
guint ps_family_group_size (const PsFamilySetting *setting);
gboolean ps_family_check_groups (const char *name, const PsFamilySetting *setting, GError **error);

#endif
