/* measuring.c - programs of given streams, and what they take that nobody makes. */
#include "measuring.h"

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
