/* measuring.c - streams of instructions, and what they take that nobody makes. */
#include "measuring.h"

#include "train/devices.h"

#include <string.h>

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
static gboolean fill (PsTensor *tensor, PsPrecision precision, float scale, GError **error)
{
  const gsize n = tensor->bytes / ps_precision_bytes (precision);

  if (tensor->data == NULL || !tensor->device->class->computes)
    return TRUE;
  g_autofree void *values = g_malloc (tensor->bytes);
  for (gsize i = 0; i < n; i++) {
    float number = ordinary_number (i, scale);
    guint32 bits;

    memcpy (&bits, &number, sizeof bits);
    if (precision == PS_PRECISION_FP32)
      ((float *)values)[i] = number;
    else
      ((guint16 *)values)[i] = (guint16)(bits >> 16);
  }
  return ps_device_write (tensor->device, tensor->data, values, tensor->bytes, error);
}

static gboolean copy (PsTensor *to, PsTensor *from, GError **error)
{
  if (to->device->class->copy != NULL)
    return to->device->class->copy (to, from, NULL, error);
  if (to->data != NULL)
    memcpy (to->data, from->data, to->bytes);
  return TRUE;
}

static PsTensor *new_input (PsDevice *device, PsOpKind kind, GError **error)
{
  PsTensor *input = device->class->tensor_new (device);

  if (input == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "no memory for the input of %s", ps_op_kind_name (kind));
  return input;
}

PsTensor *ps_lone_input (PsLoneInputs *inputs, PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error)
{
  PsTensor **pattern = kind == PS_OP_F ? &inputs->activation : &inputs->gradient;

  if (*pattern == NULL) {
    *pattern = new_input (device, kind, error);
    if (*pattern == NULL || !fill (*pattern, precision, kind == PS_OP_F ? 1.0F : 1e-3F, error))
      return NULL;
  }
  PsTensor *input = new_input (device, kind, error);
  if (input == NULL || copy (input, *pattern, error))
    return input;
  device->class->tensor_free (input);
  return NULL;
}

void ps_lone_inputs_clear (PsLoneInputs *inputs)
{
  PsTensor *const patterns[] = { inputs->activation, inputs->gradient };

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    if (patterns[i] != NULL)
      patterns[i]->device->class->tensor_free (patterns[i]);
  *inputs = (PsLoneInputs){ 0 };
}
