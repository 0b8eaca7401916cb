/* placement.c - the known placements and how a file's own one is recognised. */
#include <pipesim/schedule.h>

#include <string.h>

static const char *const names[] = {
  [PS_PLACEMENT_LOOP] = "loop",     [PS_PLACEMENT_V] = "V",
  [PS_PLACEMENT_WAVE] = "wave",     [PS_PLACEMENT_BIDIRECTIONAL] = "bidirectional",
  [PS_PLACEMENT_CUSTOM] = "custom",
};

const char *
ps_placement_name (PsPlacementKind kind)
{
  g_return_val_if_fail ((guint)kind < G_N_ELEMENTS (names), NULL);
  return names[kind];
}

gboolean
ps_placement_parse (const char *where, const char *text, PsPlacementKind *kind, GError **error)
{
  return ps_parse_name (where, text, names, PS_PLACEMENT_CUSTOM, kind, error);
}

static PsPlacement *
placement_alloc (PsPlacementKind kind, guint n_devices, guint n_stages, guint n_copies)
{
  PsPlacement *placement = g_new0 (PsPlacement, 1);

  placement->kind = kind;
  placement->n_devices = n_devices;
  placement->n_stages = n_stages;
  placement->n_copies = n_copies;
  placement->device = g_new0 (guint16, (gsize)n_stages * n_copies);
  placement->chunk = g_new0 (guint16, (gsize)n_stages * n_copies);
  return placement;
}

static guint
known_device (PsPlacementKind kind, guint n_devices, guint copy, guint stage)
{
  guint column = stage % n_devices;
  gboolean up
      = kind == PS_PLACEMENT_BIDIRECTIONAL ? copy == 1 : kind != PS_PLACEMENT_LOOP && (stage / n_devices) % 2 == 1;

  return up ? n_devices - 1 - column : column;
}

static void
number_chunks (PsPlacement *placement)
{
  g_autofree guint16 *held = g_new0 (guint16, placement->n_devices);

  for (gsize i = 0; i < (gsize)placement->n_stages * placement->n_copies; i++)
    placement->chunk[i] = held[placement->device[i]]++;
}

PsPlacement *
ps_placement_new (PsPlacementKind kind, guint n_devices, guint n_chunks)
{
  g_return_val_if_fail (kind != PS_PLACEMENT_CUSTOM && n_devices >= 1 && n_chunks >= 1, NULL);
  g_return_val_if_fail (kind != PS_PLACEMENT_V || n_chunks == 2, NULL);
  g_return_val_if_fail (kind != PS_PLACEMENT_BIDIRECTIONAL || n_chunks == 1, NULL);
  guint n_copies = kind == PS_PLACEMENT_BIDIRECTIONAL ? 2 : 1;
  PsPlacement *placement = placement_alloc (kind, n_devices, n_devices * n_chunks, n_copies);
  for (guint copy = 0; copy < n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++)
      placement->device[(gsize)copy * placement->n_stages + stage]
          = (guint16)known_device (kind, n_devices, copy, stage);
  number_chunks (placement);
  return placement;
}

static gboolean
is_known (const PsPlacement *placement, PsPlacementKind kind)
{
  guint chunks = placement->n_stages / placement->n_devices;

  if (placement->n_stages % placement->n_devices != 0 || (kind == PS_PLACEMENT_V && chunks != 2)
      || (kind == PS_PLACEMENT_BIDIRECTIONAL && chunks != 1)
      || placement->n_copies != (kind == PS_PLACEMENT_BIDIRECTIONAL ? 2U : 1U))
    return FALSE;
  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++)
      if (ps_placement_device (placement, copy, stage) != known_device (kind, placement->n_devices, copy, stage))
        return FALSE;
  return TRUE;
}

PsPlacement *
ps_placement_new_custom (guint n_devices, guint n_stages, guint n_copies, const guint16 *device)
{
  PsPlacement *placement = placement_alloc (PS_PLACEMENT_CUSTOM, n_devices, n_stages, n_copies);

  memcpy (placement->device, device, (gsize)n_stages * n_copies * sizeof *device);
  number_chunks (placement);
  for (guint kind = 0; kind < PS_PLACEMENT_CUSTOM; kind++)
    if (is_known (placement, (PsPlacementKind)kind))
      {
        placement->kind = (PsPlacementKind)kind;
        break;
      }
  return placement;
}

PsPlacement *
ps_placement_copy (const PsPlacement *placement)
{
  return ps_placement_new_custom (placement->n_devices, placement->n_stages, placement->n_copies, placement->device);
}

void
ps_placement_free (PsPlacement *placement)
{
  if (placement == NULL)
    return;
  g_free (placement->device);
  g_free (placement->chunk);
  g_free (placement);
}

gboolean
ps_placement_holds (const PsPlacement *placement, guint device, guint stage)
{
  for (guint copy = 0; copy < placement->n_copies; copy++)
    if (ps_placement_device (placement, copy, stage) == device)
      return TRUE;
  return FALSE;
}

guint
ps_placement_max_chunks (const PsPlacement *placement)
{
  g_autofree guint *held = g_new0 (guint, (gsize)placement->n_copies * placement->n_devices);
  guint most = 0;

  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++)
      {
        guint n = ++held[(gsize)copy * placement->n_devices + ps_placement_device (placement, copy, stage)];

        most = MAX (most, n);
      }
  return most;
}
