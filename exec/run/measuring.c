/* measuring.c - programs of given streams, what they take that nobody makes, and the sentinel. */
#include "measuring.h"

#include "runtime.h"
#include "transports.h"

#include <string.h>

PsProgram *ps_measuring_program (GArray *const *streams, guint n_devices, guint n_stages, guint n_microbatches,
                                 guint n_slices)
{
  g_autofree guint16 *device = g_new0 (guint16, n_stages);
  PsScheduleBuilder *builder
      = ps_schedule_builder_new ("measuring", ps_placement_new_custom (n_devices, n_stages, 1, device), n_microbatches);
  PsProgram *program = g_new0 (PsProgram, 1);
  guint n = 0;

  program->schedule = ps_schedule_builder_end (builder);
  program->schedule->n_slices = n_slices;
  program->first = g_new0 (guint, n_devices + 1);
  for (guint i = 0; i < n_devices; i++)
    program->first[i + 1] = n += streams[i]->len;
  program->instructions = g_new (PsInstruction, MAX (n, 1));
  for (guint i = 0; i < n_devices; i++)
    if (streams[i]->len > 0)
      memcpy (program->instructions + program->first[i], streams[i]->data, streams[i]->len * sizeof (PsInstruction));
  return program;
}

void ps_stream_add (GArray *stream, PsInstructionType type, PsOp op, guint peer)
{
  PsInstruction instruction = { .type = (guint16)type, .peer = (guint16)peer, .op = op };

  g_array_append_val (stream, instruction);
}

/* Lone inputs */

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

static gboolean fill_tensor (PsTensor *tensor, PsPrecision precision, float scale, GError **error)
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

  return input != NULL ? keep_if (input, fill_tensor (input, precision, kind == PS_OP_F ? 1.0F : 1e-3F, error)) : NULL;
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

/* The sentinel: F, and BW, which gives back what F keeps. */

typedef struct {
  PsSentinelSample sample;
  gpointer data;
  gint64 begin_ns; /* of the first sample; 0: it has not begun */
} Sentinel;

/* PsMeasuring.step */
static gboolean read_sentinel (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error)
{
  Sentinel *sentinel = data;
  const PsMeasuredEvent *f = &g_array_index (step->events, PsMeasuredEvent, 0);
  const PsMeasuredEvent *bw = &g_array_index (step->events, PsMeasuredEvent, 1);

  *more = TRUE;
  if (step->number == 0)
    return TRUE;
  if (sentinel->begin_ns == 0)
    sentinel->begin_ns = f->times.start_ns;
  *more = sentinel->sample (sentinel->data, f->own_ns > 0 ? f->own_ns : f->times.end_ns - f->times.start_ns,
                            bw->times.end_ns - sentinel->begin_ns);
  return TRUE;
}

gboolean ps_sentinel_run (const PsDeviceClass *class, const PsModel *model, guint64 seed, GBytes *choices,
                          PsSentinelSample sample, gpointer data, GError **error)
{
  const PsStageShape shapes[PS_LAYER_STAGES] = { [PS_LAYER_STAGE] = { .n_layers = 1 } };
  Sentinel sentinel = { .sample = sample, .data = data };
  const PsMeasuring measuring = { .n_local = 1, .step = read_sentinel, .data = &sentinel };
  const PsRunSetting setting = { .device = class,
                                 .transport = &ps_threads_transport,
                                 .model = model,
                                 .shapes = shapes,
                                 .n_steps = 1,
                                 .n_replicas = 1,
                                 .seed = seed,
                                 .choices = choices,
                                 .measuring = &measuring };
  g_autoptr (GArray) stream = g_array_new (FALSE, FALSE, sizeof (PsInstruction));

  ps_stream_add (stream, PS_INSTRUCTION_COMPUTE, (PsOp){ .kind = PS_OP_F, .stage = PS_LAYER_STAGE }, 0);
  ps_stream_add (stream, PS_INSTRUCTION_COMPUTE, (PsOp){ .kind = PS_OP_BW, .stage = PS_LAYER_STAGE }, 0);
  g_autoptr (PsProgram) program = ps_measuring_program (&stream, 1, PS_LAYER_STAGES, 1, 1);
  g_autoptr (PsRunResult) result = ps_run (program, &setting, error);
  if (result == NULL)
    g_prefix_error (error, "sentinel: ");
  return result != NULL;
}
