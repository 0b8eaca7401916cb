/* null-device.c - a device whose ops take no time and no memory: a run on it measures the runtime's own cost. */
#include "train/devices.h"

typedef struct {
  PsDevice base;
  guint n_stages;
  PsTensor tensor; /* every tensor of the device: tensors without contents may be one */
} NullDevice;

static PsDevice *null_open (const PsDeviceSetting *setting, GError **error)
{
  NullDevice *device = g_new0 (NullDevice, 1);

  device->base.class = &ps_null_device;
  device->n_stages = setting->n_stages;
  device->tensor.device = &device->base;
  return &device->base;
}

static void null_close (PsDevice *device)
{
  g_free (device);
}

static gboolean null_attach (PsDevice *device, GError **error)
{
  return TRUE;
}

static gboolean null_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  return TRUE;
}

static PsTensor *null_tensor_new (PsDevice *device)
{
  return &((NullDevice *)device)->tensor;
}

static void null_tensor_free (PsTensor *tensor)
{
}

static gboolean null_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  guint next;

  *output = ps_op_output (op, ((NullDevice *)device)->n_stages, &next) ? null_tensor_new (device) : NULL;
  return TRUE;
}

static void null_memory (PsDevice *device, PsMemoryUse *use)
{
  *use = (PsMemoryUse){ 0 };
}

static void null_reset_peak (PsDevice *device)
{
}

const PsDeviceClass ps_null_device = {
  .name = "null",
  .description = "ops take no time and no memory: measures the runtime itself",
  .open = null_open,
  .close = null_close,
  .attach = null_attach,
  .add_stage = null_add_stage,
  .tensor_new = null_tensor_new,
  .tensor_free = null_tensor_free,
  .run = null_run,
  .loss = ps_device_no_loss,
  .gradients = ps_device_no_gradients,
  .memory = null_memory,
  .reset_peak = null_reset_peak,
};
