/* inputs.h - what ops take that are timed by themselves, in place of what neighbours would send. */
#pragma once

#include <pipesim/device.h>

/* Fills a tensor with ordinary numbers between -scale and scale, in place of the numbers that a neighbour would
 * send. Only devices that compute need them. precision is the model's. The calling thread has attached the tensor's
 * device. */
gboolean ps_tensor_fill (PsTensor *tensor, PsPrecision precision, float scale, GError **error);

/* The inputs of ops on one device. A class with a copy hook makes the numbers once and copies them from then on. Making
 * them on the host takes longer than an op, and neighbours would not be busy. */
typedef struct
{
  PsTensor *activation, *gradient; /* originals to copy; NULL before first use, and for classes without copy */
} PsLoneInputs;

/* Returns an op's input from a neighbour. NULL: there is no memory for it, or it can't be filled. */
PsTensor *ps_lone_input (PsLoneInputs *inputs, PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error);
void ps_lone_inputs_clear (PsLoneInputs *inputs);
