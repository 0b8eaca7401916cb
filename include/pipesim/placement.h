/* placement.h - the device that holds each stage. */
#ifndef PIPESIM_PLACEMENT_H
#define PIPESIM_PLACEMENT_H

#include <pipesim/base.h>

G_BEGIN_DECLS

typedef enum
{
  PS_PLACEMENT_LOOP,          /* stage s on device s mod p */
  PS_PLACEMENT_V,             /* two chunks: down 0..p-1, then up p-1..0 */
  PS_PLACEMENT_WAVE,          /* any number of chunks, down and up in turn */
  PS_PLACEMENT_BIDIRECTIONAL, /* one chunk, two weight copies: copy 0 down, copy 1 up */
  PS_PLACEMENT_CUSTOM,        /* anything else, as a schedule file says */
} PsPlacementKind;

typedef struct
{
  PsPlacementKind kind;
  guint n_devices;
  guint n_stages;  /* of one copy of the model */
  guint n_copies;  /* weight copies: 1, or 2 for bidirectional */
  guint16 *device; /* [copy * n_stages + stage] */
  guint16 *chunk;  /* [copy * n_stages + stage] 0.. in the order of (copy, stage) on that device */
} PsPlacement;

/* n_devices >= 1, n_chunks >= 1; V wants 2 chunks, bidirectional 1 per copy (programmer's duty). Free with
 * ps_placement_free. */
PsPlacement *ps_placement_new (PsPlacementKind kind, guint n_devices, guint n_chunks);

/* device has n_copies * n_stages entries below n_devices and is copied; kind is recognised when it is one of the known
 * ones. */
PsPlacement *ps_placement_new_custom (guint n_devices, guint n_stages, guint n_copies, const guint16 *device);

/* Free with ps_placement_free. */
PsPlacement *ps_placement_copy (const PsPlacement *placement);
void ps_placement_free (PsPlacement *placement);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlacement, ps_placement_free)

static inline guint
ps_placement_device (const PsPlacement *placement, guint copy, guint stage)
{
  return placement->device[(gsize)copy * placement->n_stages + stage];
}

/* Whether a device holds a stage, in any copy. */
gboolean ps_placement_holds (const PsPlacement *placement, guint device, guint stage);

/* v: the largest number of stages of one copy of the model that one device holds. */
guint ps_placement_max_chunks (const PsPlacement *placement);

const char *ps_placement_name (PsPlacementKind kind); /* "loop", "V", "wave", "bidirectional", "custom" */

/* Reads the names of ps_placement_name except "custom". Errors as those of ps_parse_name. */
gboolean ps_placement_parse (const char *where, const char *text, PsPlacementKind *kind, GError **error);

G_END_DECLS

#endif
