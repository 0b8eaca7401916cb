/* machine-speed.c - reads the sentinel before and after a run. */
#include "machine-speed.h"

#include "clock.h"
#include "run/layer.h"

#include <math.h>

/* A reading ends after this, but has enough samples; the first one, which finds cold caches, does not count. */
#define READING_NS G_GINT64_CONSTANT (150000000)

void ps_machine_speed_clear (PsMachineSpeed *speed)
{
  g_clear_pointer (&speed->measurements, g_ptr_array_unref);
  g_clear_pointer (&speed->sentinels, g_ptr_array_unref);
}

/* That of device 0 of the run, as calibrations have it. */
static PsDeviceSetting first_device (const PsRunSetting *run, guint n_devices)
{
  guint n_all = n_devices * ps_run_n_replicas (run, n_devices) * MAX (run->n_tensor, 1);
  guint n_local = n_all / ps_processes_n_ranks (run->processes) * ps_processes_n_local (run->processes);

  return (PsDeviceSetting){ .model = run->model,
                            .n_stages = PS_LAYER_STAGES,
                            .n_microbatches = 1,
                            .core = n_local <= ps_count_cores () ? 0 : -1,
                            .seed = run->seed };
}

gboolean ps_machine_speed_open (PsMachineSpeed *speed, const char *path, const char *profile_name,
                                const PsRunSetting *run, guint n_devices, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, error);
  g_autoptr (PsProfile) profile = db != NULL ? ps_costdb_profile (db, profile_name, error) : NULL;

  if (profile == NULL)
    return FALSE;
  speed->run = run;
  speed->setting = first_device (run, n_devices);
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
  return elapsed_ns < READING_NS || ((GArray *)samples)->len <= PS_MEDIAN_MIN_SAMPLES;
}

gboolean ps_machine_speed_read (PsMachineSpeed *speed, GError **error)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));

  if (speed->sentinels == NULL)
    return TRUE;
  if (!ps_sentinel_run (speed->run->device, &speed->setting, speed->run->choices, add, samples, error))
    return FALSE;
  g_array_remove_index (samples, 0);
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
  PsSlowdown weather = { NAN, NAN };
  PsMeasurement run = { .taken = (char *)started };
  g_autoptr (GPtrArray) moments = g_ptr_array_new ();

  g_ptr_array_add (moments, &run);
  if (speed->sentinels != NULL)
    ps_sentinel_slowdown (speed->sentinels, speed->measurements, moments, &weather);
  return weather;
}
