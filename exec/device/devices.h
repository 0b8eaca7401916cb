/* devices.h - the device classes that the table lists; each is defined in its own folder. */
#ifndef PIPESIM_EXEC_DEVICES_H
#define PIPESIM_EXEC_DEVICES_H

#include <pipesim/device.h>

#include <math.h>

G_BEGIN_DECLS

extern const PsDeviceClass ps_cpu_device;   /* a real transformer stage in fp32 */
extern const PsDeviceClass ps_cuda_device;  /* row of the module pipesim-cuda; an open device has its own class */
extern const PsDeviceClass ps_paced_device; /* occupies its thread for the modelled time of each op */
extern const PsDeviceClass ps_null_device;  /* ops take no time: measures the runtime itself */

/* Hooks for classes that do not compute. */
static inline double
ps_device_no_loss (PsDevice *device, guint microbatch)
{
  return NAN;
}

static inline const float *
ps_device_no_gradients (PsDevice *device, guint stage, gsize *n)
{
  *n = 0;
  return NULL;
}

/* Whether an op hands something to another stage. */
static inline gboolean
ps_device_op_has_output (PsOp op, guint n_stages)
{
  switch (op.kind)
    {
    case PS_OP_F:
      return op.stage + 1u < n_stages;
    case PS_OP_B:
    case PS_OP_BW:
      return op.stage > 0;
    default:
      return FALSE;
    }
}

G_END_DECLS

#endif
