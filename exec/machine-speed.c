/* machine-speed.c - reads the sentinel before and after a run. */
#include "exec.h"

#include "clock.h"
#include "run/measuring.h"

#include <math.h>

/* A reading ends after this, but has enough samples. */
#define READING_NS G_GINT64_CONSTANT (150000000)

void ps_machine_speed_clear (PsMachineSpeed *speed)
{
  g_clear_pointer (&speed->measurements, g_ptr_array_unref);
  g_clear_pointer (&speed->sentinels, g_ptr_array_unref);
}

gboolean ps_machine_speed_open (PsMachineSpeed *speed, const char *path, const char *profile_name,
                                const PsRunSetting *run, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, error);
  g_autoptr (PsProfile) profile = db != NULL ? ps_costdb_profile (db, profile_name, error) : NULL;

  if (profile == NULL)
    return FALSE;
  speed->run = run;
  speed->measurements = ps_costdb_measurements (db, profile->name, FALSE, error);
  speed->sentinels = speed->measurements != NULL ? ps_costdb_sentinels (db, profile->name, error) : NULL;
  if (speed->sentinels == NULL)
    return FALSE;
  if (speed->sentinels->len == 0)
    g_clear_pointer (&speed->sentinels, g_ptr_array_unref);
  return TRUE;
}

/* PsSentinelSample */
static gboolean add (gpointer samples, gint64 ns, gint64 elapsed_ns)
{
  g_array_append_val ((GArray *)samples, ns);
  return elapsed_ns < READING_NS || ((GArray *)samples)->len < PS_MEDIAN_MIN_SAMPLES;
}

gboolean ps_machine_speed_read (PsMachineSpeed *speed, GError **error)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));

  if (speed->sentinels == NULL)
    return TRUE;
  if (!ps_sentinel_run (speed->run->device, speed->run->model, speed->run->seed, speed->run->choices, add, samples,
                        error))
    return FALSE;
  PsSentinel *reading = g_new0 (PsSentinel, 1);
  *reading = (PsSentinel){ .what = g_strdup (PS_SENTINEL_OP),
                           .median_ns = ps_median ((gint64 *)(gpointer)samples->data, samples->len),
                           .n = samples->len,
                           .taken = ps_moment_now () };
  g_ptr_array_add (speed->sentinels, reading);
  return TRUE;
}

PsSlowdown ps_machine_speed_of_run (const PsMachineSpeed *speed, const char *started)
{
  PsSlowdown slowdown = { NAN, NAN };
  PsMeasurement run = { .taken = (char *)started };
  g_autoptr (GPtrArray) moments = g_ptr_array_new ();

  g_ptr_array_add (moments, &run);
  if (speed->sentinels != NULL)
    ps_sentinel_slowdown (speed->sentinels, speed->measurements, moments, &slowdown);
  return slowdown;
}
