/* paced-device.c - devices that compute nothing. On "paced" each op occupies its thread for the modelled time: any
 * number of devices run on any machine, and any time that a run measures beyond the model is the runtime's own. On
 * "null" ops take no time: a run measures the runtime's own cost. */
#include "clock.h"
#include "train/devices.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

typedef struct {
  PsDevice base;
  const PsDeviceSetting *setting;
  gint64 deadline_ns; /* when the latest op should have ended; 0: there was none */
  gboolean updating;  /* it was an O */
  gint64 input_ns;    /* when the latest input of the current op or pair had come */
  gboolean in_pair;   /* the latest op was the first of a pair */
  PsOp first;         /* that op */
  PsTensor *output;   /* and what it hands on; NULL: nothing, or it is freed */
  PsMemoryUse memory;
} PacedDevice;

static PsDevice *paced_open (const PsDeviceSetting *setting, GError **error)
{
  PacedDevice *device;

  if (setting->costs == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "device paced: needs costs: they say how long ops take");
  device = g_new0 (PacedDevice, 1);
  device->base.class = &ps_paced_device;
  device->setting = setting;
  return &device->base;
}

static void paced_close (PsDevice *device)
{
  g_free (device);
}

/* The thread sleeps nearly all the time and must wake on time, also where other programs keep the cores busy. On 2 busy
 * cores real-time scheduling brought the error of iteration times from 2 % to 0.1 %. A thread that may not have it
 * keeps its scheduling. */
static gboolean paced_attach (PsDevice *device, GError **error)
{
  const struct sched_param lowest = { .sched_priority = sched_get_priority_min (SCHED_RR) };

  pthread_setschedparam (pthread_self (), SCHED_RR, &lowest);
  /* The default slack of 50 us would be added to every sleep of an ordinary thread. */
  prctl (PR_SET_TIMERSLACK, 1UL);
  return TRUE;
}

static gboolean paced_add_stage (PsDevice *base, guint stage, const PsStageShape *shape, GError **error)
{
  PacedDevice *device = (PacedDevice *)base;
  const PsDeviceSetting *setting = device->setting;
  gint64 bytes;

  g_return_val_if_fail (stage < setting->costs->n_stages, FALSE);

  bytes = ps_costs_held_bytes (setting->costs, stage, MAX (setting->n_versions, 1));
  device->memory.current[PS_USE_STATE] += bytes;
  device->memory.peak_bytes += bytes;
  return TRUE;
}

static PsTensor *paced_tensor_new (PsDevice *device)
{
  PsTensor *tensor = g_new0 (PsTensor, 1);

  tensor->device = device;
  return tensor;
}

static void paced_tensor_free (PsTensor *tensor)
{
  PacedDevice *device = (PacedDevice *)tensor->device;

  if (device->output == tensor)
    device->output = NULL;
  g_free (tensor);
}

/* The index of the op's cost. */
static guint cost_of (const PacedDevice *device, PsOp op)
{
  const PsDeviceSetting *setting = device->setting;
  const PsCosts *costs = setting->costs;
  guint length = setting->length != NULL ? setting->length[ps_device_cell (setting, op)] : 0;

  return ps_op_index (costs->n_stages, costs->n_lengths, op.kind, length, op.stage);
}

static void give_memory (PacedDevice *device, PsOp op)
{
  device->memory.current[PS_USE_ACTIVATION] -= device->setting->costs->op[cost_of (device, op)].give_bytes;
}

/* All devices have met before the step, unless the run is endless. */
static gboolean paced_begin (PsDevice *base, guint64 step, GError **error)
{
  PacedDevice *device = (PacedDevice *)base;

  if (!device->setting->endless)
    device->deadline_ns = 0;
  return TRUE;
}

/* Sleeps for the duration of the op, or of the whole pair that it ends. It starts when the op before should have ended,
 * or when its input came if that is later. An accelerator, too, starts a queued op without the host, so late waking
 * does not add up. The first op after a meeting of all devices starts now. They meet before the first op, and around O
 * unless the run is endless. */
static void occupy (PacedDevice *device, PsOp op)
{
  const PsCosts *costs = device->setting->costs;
  const double speed = device->setting->speed;
  const gboolean updates = op.kind == PS_OP_O;
  const gboolean meets = device->deadline_ns == 0 || (!device->setting->endless && device->updating != updates);

  device->deadline_ns = meets ? ps_clock_now () : MAX (device->deadline_ns, device->input_ns);
  gint64 duration_ns = device->in_pair ? ps_costs_pair_ns (costs, cost_of (device, device->first), cost_of (device, op))
                                       : costs->op[cost_of (device, op)].duration_ns;
  device->deadline_ns += speed == 0 || speed == 1 ? duration_ns : llrint ((double)duration_ns / speed);
  ps_clock_sleep_until (device->deadline_ns);
  device->updating = updates;
  device->input_ns = 0;
}

static void set_ready (PsTensor *output, gint64 ready_ns)
{
  if (output != NULL)
    output->ready_ns = ready_ns;
}

/* The first op of a pair only takes its memory. The second one takes the time of both and gives back the memory of
 * both. */
static gboolean paced_run (PsDevice *base, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  PacedDevice *device = (PacedDevice *)base;
  PsMemoryUse *memory = &device->memory;
  guint next;

  memory->current[PS_USE_ACTIVATION] += device->setting->costs->op[cost_of (device, op)].take_bytes;
  memory->peak_bytes = MAX (memory->peak_bytes, ps_memory_use_held (memory));
  if (input != NULL) {
    device->input_ns = MAX (device->input_ns, input->ready_ns);
    paced_tensor_free (input);
  }
  *output = ps_op_output (op, device->setting->n_stages, &next) ? paced_tensor_new (base) : NULL;
  if (op.paired) {
    device->first = op;
    device->output = *output;
    device->in_pair = TRUE;
    return TRUE;
  }
  occupy (device, op);
  set_ready (*output, device->deadline_ns);
  if (device->in_pair) {
    set_ready (device->output, device->deadline_ns);
    give_memory (device, device->first);
  }
  give_memory (device, op);
  device->in_pair = FALSE;
  return TRUE;
}

static void paced_memory (PsDevice *device, PsMemoryUse *use)
{
  *use = ((PacedDevice *)device)->memory;
}

static void paced_reset_peak (PsDevice *base)
{
  PsMemoryUse *memory = &((PacedDevice *)base)->memory;

  memory->peak_bytes = ps_memory_use_held (memory);
}

const PsDeviceClass ps_paced_device = {
  .name = "paced",
  .description = "computes nothing; each op takes the modelled time and memory",
  .open = paced_open,
  .close = paced_close,
  .attach = paced_attach,
  .add_stage = paced_add_stage,
  .tensor_new = paced_tensor_new,
  .tensor_free = paced_tensor_free,
  .begin = paced_begin,
  .run = paced_run,
  .loss = ps_device_no_loss,
  .gradients = ps_device_no_gradients,
  .memory = paced_memory,
  .reset_peak = paced_reset_peak,
};

/* Every tensor of a null device is one: its tensors have no contents. */
typedef struct {
  PacedDevice paced;
  PsTensor tensor;
} NullDevice;

static PsDevice *null_open (const PsDeviceSetting *setting, GError **error)
{
  NullDevice *device = g_new0 (NullDevice, 1);

  device->paced = (PacedDevice){ .base.class = &ps_null_device, .setting = setting };
  device->tensor.device = &device->paced.base;
  return &device->paced.base;
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

  *output = ps_op_output (op, ((PacedDevice *)device)->setting->n_stages, &next) ? null_tensor_new (device) : NULL;
  return TRUE;
}

const PsDeviceClass ps_null_device = {
  .name = "null",
  .description = "ops take no time and no memory: measures the runtime itself",
  .open = null_open,
  .close = paced_close,
  .attach = null_attach,
  .add_stage = null_add_stage,
  .tensor_new = null_tensor_new,
  .tensor_free = null_tensor_free,
  .run = null_run,
  .loss = ps_device_no_loss,
  .gradients = ps_device_no_gradients,
  .memory = paced_memory,
  .reset_peak = paced_reset_peak,
};
