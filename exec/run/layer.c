/* layer.c - makes the inputs of ops that are timed by themselves, runs one layer, and times it. */
#include "layer.h"

#include "clock.h"

#include <string.h>

#define STAGE 1

static float ordinary_number (gsize i, float scale)
{
  return scale * ((float)((guint32)i * 2654435761U >> 22) / 512.0F - 1.0F);
}

/* bf16 is the upper half of a float. */
static void fill (void *values, gsize bytes, PsPrecision precision, float scale)
{
  gsize n = bytes / ps_precision_bytes (precision);

  for (gsize i = 0; i < n; i++) {
    float number = ordinary_number (i, scale);
    guint32 bits;

    memcpy (&bits, &number, sizeof bits);
    if (precision == PS_PRECISION_FP32)
      ((float *)values)[i] = number;
    else
      ((guint16 *)values)[i] = (guint16)(bits >> 16);
  }
}

gboolean ps_tensor_fill (PsTensor *tensor, PsPrecision precision, float scale, GError **error)
{
  if (tensor->data == NULL || !tensor->device->class->computes)
    return TRUE;
  if (tensor->device->class->write == NULL) {
    fill (tensor->data, tensor->bytes, precision, scale);
    return TRUE;
  }
  g_autofree void *values = g_malloc (tensor->bytes);
  fill (values, tensor->bytes, precision, scale);
  return tensor->device->class->write (tensor, values, error);
}

static PsTensor *new_input (PsDevice *device, PsOpKind kind, GError **error)
{
  PsTensor *input = device->class->tensor_new (device);

  if (input == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "no memory for the input of %s", ps_op_kind_name (kind));
  return input;
}

/* Takes the tensor and returns it; not ok: frees it and returns NULL. */
static PsTensor *keep_if (PsTensor *tensor, gboolean ok)
{
  if (!ok)
    tensor->device->class->tensor_free (tensor);
  return ok ? tensor : NULL;
}

static PsTensor *filled_input (PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error)
{
  PsTensor *input = new_input (device, kind, error);

  return input != NULL ? keep_if (input, ps_tensor_fill (input, precision, kind == PS_OP_F ? 1.0F : 1e-3F, error))
                       : NULL;
}

PsTensor *ps_lone_input (PsLoneInputs *inputs, PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error)
{
  PsTensor **pattern = kind == PS_OP_F ? &inputs->activation : &inputs->gradient;

  if (device->class->copy == NULL)
    return filled_input (device, precision, kind, error);
  if (*pattern == NULL)
    *pattern = filled_input (device, precision, kind, error);
  PsTensor *input = *pattern != NULL ? new_input (device, kind, error) : NULL;
  return input != NULL ? keep_if (input, device->class->copy (input, *pattern, NULL, error)) : NULL;
}

void ps_lone_inputs_clear (PsLoneInputs *inputs)
{
  PsTensor *const patterns[] = { inputs->activation, inputs->gradient };

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    if (patterns[i] != NULL)
      patterns[i]->device->class->tensor_free (patterns[i]);
  *inputs = (PsLoneInputs){ 0 };
}

/* One layer */

gboolean ps_lone_layer_open (PsLoneLayer *layer, const PsDeviceClass *class, const PsDeviceSetting *setting,
                             GError **error)
{
  *layer = (PsLoneLayer){ .setting = *setting };
  layer->device = class->open (&layer->setting, error);
  return layer->device != NULL;
}

gboolean ps_lone_layer_attach (PsLoneLayer *layer, GError **error)
{
  static const PsStageShape shape = { .n_layers = 1 };

  return layer->device->class->attach (layer->device, error)
         && layer->device->class->add_stage (layer->device, STAGE, &shape, error);
}

static gboolean run_op (PsLoneLayer *layer, PsOpKind kind, gint64 *ns, GError **error)
{
  PsDevice *device = layer->device;
  PsOp op = { .kind = (guint8)kind, .stage = STAGE };
  PsTensor *output = NULL;
  PsTensor *input = ps_lone_input (&layer->inputs, device, layer->setting.model->precision, kind, error);

  if (input == NULL)
    return FALSE;
  gint64 start = ps_clock_now ();
  gboolean ok = device->class->run (device, op, input, &output, error);
  *ns = ps_clock_now () - start;
  if (ok && device->class->op_ns != NULL)
    *ns = device->class->op_ns (device);
  if (output != NULL)
    device->class->tensor_free (output);
  return ok;
}

gboolean ps_lone_layer_run (PsLoneLayer *layer, gint64 *f_ns, GError **error)
{
  gint64 unused;

  return run_op (layer, PS_OP_F, f_ns, error) && run_op (layer, PS_OP_BW, &unused, error);
}

void ps_lone_layer_close (PsLoneLayer *layer)
{
  ps_lone_inputs_clear (&layer->inputs);
  if (layer->device != NULL)
    layer->device->class->close (layer->device);
}

/* The sentinel */

typedef struct {
  PsLoneLayer layer;
  GBytes *choices;
  PsSentinelSample sample;
  gpointer data;
  GError *error;
} Watch;

static gboolean prepare (Watch *watch, GError **error)
{
  PsDevice *device = watch->layer.device;

  return ps_lone_layer_attach (&watch->layer, error)
         && (watch->choices == NULL || device->class->adopt_choices == NULL
             || device->class->adopt_choices (device, watch->choices, error));
}

static gpointer watch_main (gpointer data)
{
  Watch *watch = data;
  gboolean ok = prepare (watch, &watch->error);
  gint64 begin = ps_clock_now (), ns;

  do
    ok = ok && ps_lone_layer_run (&watch->layer, &ns, &watch->error);
  while (ok && watch->sample (watch->data, ns, ps_clock_now () - begin));
  return NULL;
}

gboolean ps_sentinel_run (const PsDeviceClass *class, const PsDeviceSetting *setting, GBytes *choices,
                          PsSentinelSample sample, gpointer data, GError **error)
{
  Watch watch = { .choices = choices, .sample = sample, .data = data };
  PsDeviceSetting whole = *setting;

  whole.index = 0;
  whole.n_local = 1;
  whole.shares = NULL;
  GThread *thread = ps_lone_layer_open (&watch.layer, class, &whole, &watch.error)
                        ? g_thread_try_new ("sentinel", watch_main, &watch, &watch.error)
                        : NULL;

  if (thread != NULL)
    g_thread_join (thread);
  ps_lone_layer_close (&watch.layer);
  if (watch.error == NULL)
    return TRUE;
  g_propagate_prefixed_error (error, watch.error, "sentinel: ");
  return FALSE;
}
