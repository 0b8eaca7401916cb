/* layer.c - runs one layer. */
#include "layer.h"

#include "clock.h"

#define STAGE 1

gboolean
ps_layer_open (PsLayer *layer, const PsDeviceClass *class, const PsDeviceSetting *setting, GError **error)
{
  *layer = (PsLayer){ .setting = *setting };
  layer->device = class->open (&layer->setting, error);
  return layer->device != NULL;
}

gboolean
ps_layer_attach (PsLayer *layer, GError **error)
{
  static const PsStageShape shape = { .n_layers = 1 };

  return layer->device->class->attach (layer->device, error)
         && layer->device->class->add_stage (layer->device, STAGE, &shape, error);
}

static gboolean
run_op (PsLayer *layer, PsOpKind kind, gint64 *ns, GError **error)
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

gboolean
ps_layer_run (PsLayer *layer, gint64 *f_ns, GError **error)
{
  gint64 unused;

  return run_op (layer, PS_OP_F, f_ns, error) && run_op (layer, PS_OP_BW, &unused, error);
}

void
ps_layer_close (PsLayer *layer)
{
  ps_lone_inputs_clear (&layer->inputs);
  if (layer->device != NULL)
    layer->device->class->close (layer->device);
}
