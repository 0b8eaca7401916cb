/* machine-speed.c - reads the sentinel before and after a run. */
#include "exec.h"

#include <math.h>

void ps_machine_speed_clear (PsMachineSpeed *speed)
{
  g_clear_pointer (&speed->profile, ps_profile_contents_free);
}

gboolean ps_machine_speed_open (PsMachineSpeed *speed, const char *path, const char *profile_name,
                                const PsRunSetting *run, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, error);

  speed->run = run;
  speed->profile = db != NULL ? ps_profile_contents_load (db, profile_name, FALSE, error) : NULL;
  if (speed->profile != NULL && speed->profile->sentinels->len == 0) {
    ps_machine_speed_clear (speed);
    return TRUE;
  }
  return speed->profile != NULL;
}

gboolean ps_machine_speed_read (PsMachineSpeed *speed, GError **error)
{
  const PsRunSetting *run = speed->run;

  if (speed->profile == NULL)
    return TRUE;
  PsSentinel *reading
      = ps_sentinel_read (run->device, run->model, run->seed, run->choices, PS_SENTINEL_READING_NS, error);
  if (reading != NULL)
    g_ptr_array_add (speed->profile->sentinels, reading);
  return reading != NULL;
}

PsSlowdown ps_machine_speed_of_run (const PsMachineSpeed *speed, const char *started)
{
  PsSlowdown slowdown = { NAN, NAN };
  PsMeasurement run = { .taken = (char *)started };
  g_autoptr (GPtrArray) moments = g_ptr_array_new ();

  g_ptr_array_add (moments, &run);
  if (speed->profile != NULL)
    ps_sentinel_slowdown (speed->profile->sentinels, speed->profile->measurements, moments, &slowdown);
  return slowdown;
}
