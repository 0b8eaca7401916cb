/* families.h - the table of published schedules and how to generate them. */
#ifndef PIPESIM_FAMILIES_H
#define PIPESIM_FAMILIES_H

#include <pipesim/costs.h>
#include <pipesim/schedule.h>

G_BEGIN_DECLS

/* The question that a family answers. */
typedef struct
{
  guint n_devices;      /* p >= 1 */
  guint n_microbatches; /* m >= 1 */
  guint n_chunks;       /* v >= 1 */
  guint n_slices;       /* q: sequence slices of a microbatch; 0: the family's default */
  guint group_size;     /* N: microbatches that go through a chunk in a row; 0: the family's default */
  guint defer_head;     /* first microbatches whose W on the last stage waits until its device has no other op left */
  const PsCosts *costs; /* of n_devices * n_chunks stages, for families that look at costs; NULL: F, B and W take one
                           unit of time each, transfers none, and F keeps one unit of memory until W */
  const gint64 *memory_limit; /* [n_devices] bytes, weights included, for families that keep to a limit; NULL: none */
  gboolean by_makespan; /* families that look at costs make the makespan as short as they can, then the longest span of
                           a device; FALSE: the span first, as published for steps without a common synchronisation */
} PsFamilySetting;

typedef struct
{
  const char *name;        /* as typed: "1f1b" */
  const char *description; /* one line */
  const char *constraints; /* one line, "none" if there are none */
  const char *memory;      /* activations at the peak of device r, in units of a device's whole share (A) */
  const char *source;      /* where it was published */
  guint default_chunks;    /* v when the user gives none */
  guint default_slices;    /* q when the user gives none; 0: the family does not slice, q must be 1 */
  gboolean groups;         /* takes a group size N; others refuse one */
  gboolean defers;         /* takes defer_head; others refuse it */
  gboolean uses_costs;     /* looks at costs and memory_limit */
  /* Fails with PS_ERROR_USAGE saying which constraint and the nearest allowed value. */
  gboolean (*check) (const PsFamilySetting *setting, GError **error);
  /* setting has passed check, and n_slices is not 0. Fails with PS_ERROR_SCHEDULE only where costs or memory limits
   * make it impossible; the message says which device would need how much. */
  PsSchedule *(*generate) (const PsFamilySetting *setting, GError **error);
} PsFamily;

/* All families in the order of the catalogue; *n entries. */
const PsFamily *const *ps_family_table (guint *n);
const PsFamily *ps_family_find (const char *name); /* NULL when there is none */

/* The schedules of --schedule: as asked, or all families where that is NULL or "all" alone. Free with g_strfreev. */
char **ps_family_names (char *const *asked);

/* Checks the setting (limits of base.h, then the family's own) and generates a schedule that ps_schedule_validate
 * accepts. */
PsSchedule *ps_family_generate (const PsFamily *family, const PsFamilySetting *setting,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The size of the groups in which a family with groups runs microbatches (groups.c): group_size, or where that is 0 the
 * smallest one allowed. `least` is the smallest that the family runs without waiting: p, half of it for gis. */
guint ps_family_group_size (const PsFamilySetting *setting, guint least);

/* A schedule on a V of two chunks that repeats a block of slots, as V-Half and V-Min do: an op takes one slot, and each
 * microbatch comes six slots after the one before. wait: [4 * n_devices], by way (F down, F up, B down, B up) and
 * device, slots that an op waits there before it takes the next one that is free in all periods. Eager, ops may run
 * before their slots. Of the setting, the numbers of devices and microbatches count. */
PsSchedule *ps_family_v_hops (const PsFamilySetting *setting, const guint8 *wait,
                              gboolean eager) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
