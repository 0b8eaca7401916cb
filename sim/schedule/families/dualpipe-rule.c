/* dualpipe-rule.c - forwards of one stream overlap with backwards of the other; W fills the gaps. */
#include "dualpipe-rule.h"

static PsOp
op (const PsDualPipeDevice *device, PsOpKind kind, guint phase, guint microbatch)
{
  return (PsOp){
    .kind = (guint8)kind,
    .stage = (guint16)device->stage[phase],
    .microbatch = (device->first[phase] + microbatch) & G_MAXINT32,
  };
}

static void
forward (PsDualPipeDevice *device, guint phase)
{
  ps_schedule_builder_add_op (device->builder, op (device, PS_OP_F, phase, device->next_forward[phase]++));
}

static void
backward (PsDualPipeDevice *device, guint phase)
{
  ps_schedule_builder_add_op (device->builder, op (device, PS_OP_BW, phase, device->next_backward[phase]++));
}

/* Leaves W for later. */
static void
backward_input (PsDualPipeDevice *device, guint phase)
{
  guint microbatch = device->next_backward[phase]++;

  ps_schedule_builder_add_op (device->builder, op (device, PS_OP_B, phase, microbatch));
  device->weights[device->n_weights++] = op (device, PS_OP_W, phase, microbatch);
}

static void
weights (PsDualPipeDevice *device)
{
  ps_schedule_builder_add_op (device->builder, device->weights[device->n_weights_done++]);
}

/* A forward of one phase overlapped with a full backward of the other. */
static void
pair (PsDualPipeDevice *device, guint phase)
{
  PsOp first = op (device, PS_OP_F, phase, device->next_forward[phase]++);

  first.paired = TRUE;
  ps_schedule_builder_add_op (device->builder, first);
  backward (device, 1 - phase);
}

static void
warm_up (PsDualPipeDevice *device)
{
  guint outside = device->half - device->distance - 1;

  for (guint i = 0; i < 2 * outside; i++)
    forward (device, 0);
  for (guint i = 0; i <= device->distance; i++)
    {
      forward (device, 0);
      forward (device, 1);
    }
  for (guint i = 0; i < outside; i++)
    {
      backward_input (device, 1);
      weights (device);
      forward (device, 1);
    }
}

static void
steady (PsDualPipeDevice *device)
{
  guint n = device->n_microbatches - 2 * device->half + device->distance + 1;

  for (guint i = 0; i < n; i++)
    {
      /* Where the streams meet there is nothing yet to overlap the first forward with. */
      if (i == 0 && device->distance + 1 == device->half)
        {
          forward (device, 0);
          backward (device, 1);
        }
      else
        pair (device, 0);
      pair (device, 1);
    }
  for (guint i = 0; i + 1 < device->half - device->distance; i++)
    {
      backward (device, 1);
      pair (device, 1);
    }
}

/* From half-way on, Ws wait until after the last backwards that others wait for. */
static void
drain (PsDualPipeDevice *device)
{
  for (guint i = 0; i < 2 * (device->distance + 1); i++)
    (i > device->distance ? backward_input : backward) (device, 1 - i % 2);
  for (guint i = 0; i + 1 < device->half - device->distance; i++)
    {
      weights (device);
      backward_input (device, 0);
    }
  while (device->n_weights_done < device->n_weights)
    weights (device);
}

void
ps_dualpipe_add (PsDualPipeDevice *device, PsScheduleBuilder *builder)
{
  g_autofree PsOp *put_off = g_new (PsOp, 2 * (gsize)device->n_microbatches);

  device->builder = builder;
  device->weights = put_off;
  warm_up (device);
  steady (device);
  drain (device);
}
