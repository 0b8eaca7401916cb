/* dualpipe.c - DualPipe and DualPipeV: two streams of microbatches meet on each device, forwards of one overlap with
 * backwards of the other, and W fills the gaps. In DualPipe the streams go in opposite directions over two weight
 * copies. DualPipeV is its half: the streams are the two chunks of a V, so that one weight copy is enough. */
#include "families-private.h"

/* One device in the rule's terms. Two streams of microbatches meet here: phase 0 is the one whose source is nearer than
 * its end. */
typedef struct {
  guint half;           /* P: devices from one end to where the streams meet */
  guint distance;       /* h: devices between this one and its end, 0 .. P - 1 */
  guint n_microbatches; /* of each phase */
  guint stage[2];       /* [phase] */
  guint first[2];       /* [phase] first microbatch */
  /* state of add_device */
  guint next_forward[2];  /* [phase] */
  guint next_backward[2]; /* [phase] */
  PsOp *weights;          /* [2 n_microbatches] W put off, in the order of their B */
  guint n_weights;
  guint n_weights_done;
  PsScheduleBuilder *builder;
} Device;

static PsOp op (const Device *device, PsOpKind kind, guint phase, guint microbatch)
{
  return (PsOp){
    .kind = (guint8)kind,
    .stage = (guint16)device->stage[phase],
    .microbatch = (device->first[phase] + microbatch) & G_MAXINT32,
  };
}

static void forward (Device *device, guint phase)
{
  ps_schedule_builder_add_op (device->builder, op (device, PS_OP_F, phase, device->next_forward[phase]++));
}

static void backward (Device *device, guint phase)
{
  ps_schedule_builder_add_op (device->builder, op (device, PS_OP_BW, phase, device->next_backward[phase]++));
}

/* Leaves W for later. */
static void backward_input (Device *device, guint phase)
{
  guint microbatch = device->next_backward[phase]++;

  ps_schedule_builder_add_op (device->builder, op (device, PS_OP_B, phase, microbatch));
  device->weights[device->n_weights++] = op (device, PS_OP_W, phase, microbatch);
}

static void weights (Device *device)
{
  ps_schedule_builder_add_op (device->builder, device->weights[device->n_weights_done++]);
}

/* A forward of one phase overlapped with a full backward of the other. */
static void pair (Device *device, guint phase)
{
  PsOp first = op (device, PS_OP_F, phase, device->next_forward[phase]++);

  first.paired = TRUE;
  ps_schedule_builder_add_op (device->builder, first);
  backward (device, 1 - phase);
}

static void warm_up (Device *device)
{
  guint outside = device->half - device->distance - 1;

  for (guint i = 0; i < 2 * outside; i++)
    forward (device, 0);
  for (guint i = 0; i <= device->distance; i++) {
    forward (device, 0);
    forward (device, 1);
  }
  for (guint i = 0; i < outside; i++) {
    backward_input (device, 1);
    weights (device);
    forward (device, 1);
  }
}

static void steady (Device *device)
{
  guint n = device->n_microbatches - 2 * device->half + device->distance + 1;

  for (guint i = 0; i < n; i++) {
    /* Where the streams meet there is nothing yet to overlap the first forward with. */
    if (i == 0 && device->distance + 1 == device->half) {
      forward (device, 0);
      backward (device, 1);
    } else
      pair (device, 0);
    pair (device, 1);
  }
  for (guint i = 0; i + 1 < device->half - device->distance; i++) {
    backward (device, 1);
    pair (device, 1);
  }
}

/* From half-way on, Ws wait until after the last backwards that others wait for. */
static void drain (Device *device)
{
  for (guint i = 0; i < 2 * (device->distance + 1); i++)
    (i > device->distance ? backward_input : backward) (device, 1 - i % 2);
  for (guint i = 0; i + 1 < device->half - device->distance; i++) {
    weights (device);
    backward_input (device, 0);
  }
  while (device->n_weights_done < device->n_weights)
    weights (device);
}

/* Adds the device's whole order to the builder. n_microbatches >= 2 P. */
static void add_device (Device *device, PsScheduleBuilder *builder)
{
  g_autofree PsOp *put_off = g_new (PsOp, 2 * (gsize)device->n_microbatches);

  device->builder = builder;
  device->weights = put_off;
  warm_up (device);
  steady (device);
  drain (device);
  ps_schedule_builder_next_device (builder);
}

static gboolean check_v (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_microbatches (family->name, setting, 2 * setting->n_devices, "two for each device", error);
}

static gboolean check (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_multiple (family->name, "devices", setting->n_devices, 2, error)
         && ps_family_check_multiple (family->name, "microbatches", setting->n_microbatches, 2, error)
         && check_v (family, setting, error);
}

/* Copy 0 of the weights goes down the devices and takes the first half of the microbatches. The near end of the first
 * half of the devices is the source of copy 0. */
static Device describe (const PsFamilySetting *setting, guint r)
{
  guint p = setting->n_devices, half = setting->n_microbatches / 2;
  Device device = { .half = p / 2, .distance = MIN (r, p - 1 - r), .n_microbatches = half };
  guint near = r < p / 2 ? 0 : 1;

  for (guint phase = 0; phase < 2; phase++) {
    gboolean up = (phase == 0) == (near == 1);

    device.stage[phase] = up ? p - 1 - r : r;
    device.first[phase] = up ? half : 0;
  }
  return device;
}

static PsSchedule *generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("dualpipe", PS_PLACEMENT_BIDIRECTIONAL, setting);
  guint m = setting->n_microbatches;

  for (guint r = 0; r < setting->n_devices; r++) {
    Device device = describe (setting, r);

    add_device (&device, builder);
  }
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  schedule->copy = g_new (guint8, m);
  for (guint microbatch = 0; microbatch < m; microbatch++)
    schedule->copy[microbatch] = microbatch >= m / 2;
  return schedule;
}

const PsFamily ps_family_dualpipe = {
  .name = "dualpipe",
  .description = "two opposite streams, forwards overlapped with backwards in pairs, two weight copies",
  .constraints = "p even, m even, m >= 2 p",
  .memory = "p + 1",
  .source = "DeepSeek-V3, arXiv 2412.19437, section 3.2.1",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};

static PsSchedule *generate_v (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("dualpipe-v", PS_PLACEMENT_V, setting);
  guint p = setting->n_devices;

  for (guint r = 0; r < p; r++) {
    Device device
        = { .half = p, .distance = r, .n_microbatches = setting->n_microbatches, .stage = { r, 2 * p - 1 - r } };

    add_device (&device, builder);
  }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_dualpipe_v = {
  .name = "dualpipe-v",
  .torch = "DualPipeV",
  .description = "DualPipe on a V: forwards overlapped with backwards in pairs, one weight copy",
  .constraints = "v = 2, m >= 2 p",
  .memory = "p + 1/2",
  .source = "DualPipeV, Sea AI Lab; DeepSeek's DualPipe repository; torch.distributed.pipelining ScheduleDualPipeV",
  .default_chunks = 2,
  .check = check_v,
  .generate = generate_v,
};
