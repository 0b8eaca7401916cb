/* sentinel.c - times one layer. */
#include "sentinel.h"

#include "clock.h"
#include "layer.h"

typedef struct
{
  PsLayer layer;
  GBytes *choices;
  PsSentinelSample sample;
  gpointer data;
  GError *error;
} Watch;

static gboolean
prepare (Watch *watch, GError **error)
{
  PsDevice *device = watch->layer.device;

  return ps_layer_attach (&watch->layer, error)
         && (watch->choices == NULL || device->class->adopt_choices == NULL
             || device->class->adopt_choices (device, watch->choices, error));
}

static gpointer
watch_main (gpointer data)
{
  Watch *watch = data;
  gboolean ok = prepare (watch, &watch->error);
  gint64 begin = ps_clock_now (), ns;

  do
    ok = ok && ps_layer_run (&watch->layer, &ns, &watch->error);
  while (ok && watch->sample (watch->data, ns, ps_clock_now () - begin));
  return NULL;
}

gboolean
ps_sentinel_run (const PsDeviceClass *class, const PsDeviceSetting *setting, GBytes *choices, PsSentinelSample sample,
                 gpointer data, GError **error)
{
  Watch watch = { .choices = choices, .sample = sample, .data = data };
  PsDeviceSetting whole = *setting;

  whole.index = 0;
  whole.n_local = 1;
  whole.shares = NULL;
  GThread *thread = ps_layer_open (&watch.layer, class, &whole, &watch.error)
                        ? g_thread_try_new ("sentinel", watch_main, &watch, &watch.error)
                        : NULL;

  if (thread != NULL)
    g_thread_join (thread);
  ps_layer_close (&watch.layer);
  if (watch.error == NULL)
    return TRUE;
  g_propagate_prefixed_error (error, watch.error, "sentinel: ");
  return FALSE;
}
