/* weather.c - reads the sentinel beside a run. */
#include "weather.h"

#include "clock.h"
#include "runtime/layer.h"

#include <math.h>

/* A reading ends after this, but has enough samples; the first one, which finds cold caches, does not count. */
#define READING_NS G_GINT64_CONSTANT (150000000)

void
ps_machine_watch_clear (PsMachineWatch *watch)
{
  g_clear_pointer (&watch->measurements, g_ptr_array_unref);
  g_clear_pointer (&watch->sentinels, g_ptr_array_unref);
}

/* That of device 0 of the run, as calibrations have it. */
static PsDeviceSetting
first_device (const PsRunSetting *run, guint n_devices)
{
  guint n_all = n_devices * ps_run_n_replicas (run, n_devices) * MAX (run->n_tensor, 1);
  guint n_local = n_all / ps_processes_n_ranks (run->processes) * ps_processes_n_local (run->processes);

  return (PsDeviceSetting){ .model = run->model,
                            .n_stages = PS_LAYER_STAGES,
                            .n_microbatches = 1,
                            .core = n_local <= ps_count_cores () ? 0 : -1,
                            .seed = run->seed };
}

gboolean
ps_machine_watch_open (PsMachineWatch *watch, const char *path, const char *profile_name, const PsRunSetting *run,
                       guint n_devices, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, error);
  g_autoptr (PsProfile) profile = db != NULL ? ps_costdb_profile (db, profile_name, error) : NULL;

  if (profile == NULL)
    return FALSE;
  watch->run = run;
  watch->setting = first_device (run, n_devices);
  watch->measurements = ps_costdb_measurements (db, profile->name, FALSE, error);
  watch->sentinels = watch->measurements != NULL ? ps_costdb_sentinels (db, profile->name, error) : NULL;
  if (watch->sentinels == NULL)
    return FALSE;
  if (watch->sentinels->len == 0)
    g_clear_pointer (&watch->sentinels, g_ptr_array_unref);
  return TRUE;
}

/* PsSentinelSample */
static gboolean
add (gpointer samples, gint64 ns, gint64 elapsed_ns)
{
  g_array_append_val ((GArray *)samples, ns);
  return elapsed_ns < READING_NS || ((GArray *)samples)->len <= PS_MEDIAN_MIN_SAMPLES;
}

gboolean
ps_machine_watch_read (PsMachineWatch *watch, GError **error)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));

  if (watch->sentinels == NULL)
    return TRUE;
  if (!ps_sentinel_run (watch->run->device, &watch->setting, watch->run->choices, add, samples, error))
    return FALSE;
  g_array_remove_index (samples, 0);
  PsSentinel *reading = g_new0 (PsSentinel, 1);
  *reading = (PsSentinel){ .what = g_strdup (PS_SENTINEL_OP),
                           .median_ns = ps_median ((gint64 *)(gpointer)samples->data, samples->len),
                           .n = samples->len,
                           .taken = ps_moment_now () };
  g_ptr_array_add (watch->sentinels, reading);
  return TRUE;
}

PsWeather
ps_machine_watch_weather (const PsMachineWatch *watch, const char *started)
{
  PsWeather weather = { NAN, NAN };
  PsMeasurement run = { .taken = (char *)started };
  g_autoptr (GPtrArray) moments = g_ptr_array_new ();

  g_ptr_array_add (moments, &run);
  if (watch->sentinels != NULL)
    ps_sentinel_weather (watch->sentinels, watch->measurements, moments, &weather);
  return weather;
}
