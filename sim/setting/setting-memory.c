/* setting-memory.c - limits of memory, and schedules that keep them with their messages. */
#include "setting-private.h"

#define MAX_TIGHTER 6 /* schedules; nearly always the second leaves enough room */

/* 0: not known. */
static gboolean
cluster_memory (const PsSetting *setting, gint64 *bytes, GError **error)
{
  g_autoptr (PsCluster) cluster = setting->cluster ? ps_setting_cluster (setting, error) : NULL;

  *bytes = cluster ? cluster->memory_bytes : 0;
  return cluster != NULL || setting->cluster == NULL;
}

gboolean
ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, GError **error)
{
  const gint64 *given = setting->memory_limit;
  guint n_given = setting->n_memory_limits;
  gint64 memory = 0;

  if (n_given > 1 && n_given != n_devices)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                   "--memory-limit: %u sizes for %u devices; one size, or %u, would be right", n_given, n_devices,
                   n_devices);
      return FALSE;
    }
  if (n_given == 0 && !cluster_memory (setting, &memory, error))
    return FALSE;
  if (memory > 0)
    {
      given = &memory;
      n_given = 1;
    }
  *limit = n_given ? g_new (gint64, n_devices) : NULL;
  for (guint d = 0; *limit != NULL && d < n_devices; d++)
    (*limit)[d] = given[n_given == 1 ? 0 : d];
  return TRUE;
}

/* Takes from each device's limit what its peak exceeds the given limit by, times `factor`; FALSE: no peak does.
 * Transfers never queue here: families see costs, not channels. */
static gboolean
tighten (const PsSchedule *schedule, const PsFamilySetting *size, gint64 factor, gint64 *limit)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, NULL);
  g_autoptr (PsSimulation) simulation = program ? ps_simulation_new (program) : NULL;
  gboolean exceeds = FALSE;

  if (program == NULL)
    return FALSE;
  ps_simulate (program, size->costs, simulation);
  for (guint d = 0; d < simulation->n_devices; d++)
    {
      gint64 excess = simulation->device[d].peak_bytes - size->memory_limit[d];

      limit[d] -= factor * MAX (excess, 0);
      exceeds |= excess > 0;
    }
  return exceeds;
}

PsSchedule *
ps_setting_generate (const PsFamily *family, const PsFamilySetting *size, GError **error)
{
  PsSchedule *schedule = ps_family_generate (family, size, error), *tighter = schedule;
  g_autofree gint64 *limit = g_memdup2 (size->memory_limit, size->n_devices * sizeof *limit);
  PsFamilySetting tight = *size;

  tight.memory_limit = limit;
  for (guint i = 0; tighter && limit && size->costs && i < MAX_TIGHTER && tighten (schedule, size, 1 << i, limit); i++)
    if ((tighter = ps_family_generate (family, &tight, NULL)) != NULL)
      {
        ps_schedule_free (schedule);
        schedule = tighter;
      }
  return schedule;
}
