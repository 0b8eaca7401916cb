/* memory-peaks.c - the peaks of a simulation with the buffers of its messages. */
#include "memory-walk.h"
#include "simulate-private.h"

typedef struct
{
  gint64 bytes;
  gint64 peak_bytes;
} Level;

static gboolean
raise_level (gpointer data, const PsMemoryChange *change)
{
  Level *level = data;

  level->bytes += change->bytes;
  level->peak_bytes = MAX (level->peak_bytes, level->bytes);
  return FALSE;
}

/* held_bytes is the level after the last op. Less the sum of all changes it is the level before the first op. */
static void
count_device (const PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs, guint device,
              PsSimulation *simulation)
{
  PsDeviceResult *result = &simulation->device[device];
  Level level = { 0, 0 };

  ps_memory_walk (program, costs, simulation, buffers, device, raise_level, &level);
  result->peak_bytes = result->held_bytes - level.bytes + level.peak_bytes;
}

static gboolean
knows_sizes (const PsCosts *costs)
{
  gint64 all = 0;

  for (guint i = 1; i <= 2 * costs->n_lengths * costs->n_stages; i++)
    all |= costs->message_bytes[i];
  return all != 0;
}

void
ps_simulation_count_buffers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  PsMemoryBuffers buffers = { .steps = simulation->buffers };

  if (simulation->times_only || (!knows_sizes (costs) && costs->zero < 3))
    return;
  ps_memory_buffers_init (&buffers, program, costs, simulation);
  simulation->buffers = buffers.steps;
  for (guint device = 0; device < simulation->n_devices; device++)
    count_device (&buffers, program, costs, device, simulation);
}
