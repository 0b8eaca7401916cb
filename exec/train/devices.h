/* devices.h - the device classes that are in no module; each is defined in its own folder. */
#pragma once

#include <pipesim/device.h>

#include <math.h>
#include <string.h>

extern const PsDeviceClass ps_cpu_device;   /* a real transformer stage in fp32 */
extern const PsDeviceClass ps_paced_device; /* occupies its thread for the modelled time of each op */
extern const PsDeviceClass ps_null_device;  /* ops take no time: measures the runtime itself */

/* Copy n_bytes from the device's own memory to the host's and back. */
static inline gboolean ps_device_read (PsDevice *device, void *to, void *from, gsize n_bytes, GError **error)
{
  PsTensor there = { .device = device, .bytes = n_bytes, .data = from };

  if (device->class->read != NULL)
    return device->class->read (&there, to, error);
  memcpy (to, from, n_bytes);
  return TRUE;
}

static inline gboolean ps_device_write (PsDevice *device, void *to, const void *from, gsize n_bytes, GError **error)
{
  PsTensor there = { .device = device, .bytes = n_bytes, .data = to };

  if (device->class->write != NULL)
    return device->class->write (&there, from, error);
  memcpy (to, from, n_bytes);
  return TRUE;
}

/* A number for op's stage, microbatch and slice, as ps_schedule_cell has it. */
static inline gsize ps_device_cell (const PsDeviceSetting *setting, PsOp op)
{
  return ((gsize)op.stage * setting->n_microbatches + op.microbatch) * MAX (setting->n_slices, 1) + op.slice;
}

/* What an R or a backward makes again of op's microbatch. */
static inline PsRecompute ps_device_recompute (const PsDeviceSetting *setting, const PsStageShape *shape, PsOp op)
{
  gboolean has_r = setting->recomputed != NULL && setting->recomputed[ps_device_cell (setting, op)];

  return has_r && shape->recompute == PS_RECOMPUTE_NONE ? PS_RECOMPUTE_FULL : shape->recompute;
}

/* Later slices read the keys and values of earlier ones. */
static inline gboolean ps_device_check_slices (const PsDeviceSetting *setting, guint stage, const PsStageShape *shape,
                                               GError **error)
{
  const gsize n = (gsize)setting->n_microbatches * MAX (setting->n_slices, 1);
  const gboolean has_r = setting->recomputed != NULL && shape->recompute == PS_RECOMPUTE_NONE
                         && memchr (setting->recomputed + stage * n, 1, n) != NULL;
  const char *dropper = shape->offload > 0                      ? "--offload"
                        : shape->recompute == PS_RECOMPUTE_FULL ? "--recompute full"
                        : has_r                                 ? "an R"
                                                                : NULL;

  return setting->n_slices <= 1 || dropper == NULL
         || ps_refuse (
             error, PS_ERROR_UNAVAILABLE,
             "stage %u: %s: slices need the keys and values of earlier ones; --recompute selective keeps them", stage,
             dropper);
}

/* Whether a stage of that shape computes on a tensor of the stage before (F) or after it (backward). Stages before the
 * embedding and after the head pass tensors of zeros on, which no stage computes on. */
static inline gboolean ps_device_op_reads (const PsStageShape *shape, PsOp op)
{
  return (op.kind == PS_OP_F && !shape->embedding) || (ps_op_is_backward (op) && !shape->head);
}

/* Hooks for classes that do not compute. */
static inline double ps_device_no_loss (PsDevice *device, guint microbatch)
{
  return NAN;
}

static inline const float *ps_device_no_gradients (PsDevice *device, guint stage, gsize *n)
{
  *n = 0;
  return NULL;
}
