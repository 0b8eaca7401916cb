/* torch-actions.h - the action lists of torch.distributed.pipelining, as in its two CSV formats. Private to
 * sim/observe. */
#pragma once

#include <pipesim/program.h>

/* Computing types come first; ps_torch_op_kind has their PsOpKinds in the same order. */
typedef enum {
  TORCH_F,
  TORCH_I, /* our B */
  TORCH_W,
  TORCH_B, /* our BW */
  TORCH_UNSHARD,
  TORCH_RESHARD,
  TORCH_REDUCE_GRAD,
  TORCH_WAIT_REDUCE_GRAD,
  TORCH_SEND_F,
  TORCH_RECV_F,
  TORCH_SEND_B,
  TORCH_RECV_B,
  TORCH_WAIT_SEND_F,
  TORCH_WAIT_SEND_B,
  TORCH_N_TYPES
} PsTorchType;

#define TORCH_N_COMPUTE (TORCH_B + 1)

typedef struct {
  guint8 type;   /* PsTorchType */
  guint8 paired; /* shares a cell with the next action */
  guint16 stage;
  guint32 microbatch; /* 0 where the type has none */
  guint32 cell;       /* of the file, from 1; 0 when not read from one */
} PsTorchAction;

static inline gboolean ps_torch_is_send (guint type)
{
  return type == TORCH_SEND_F || type == TORCH_SEND_B;
}

static inline gboolean ps_torch_is_receive (guint type)
{
  return type == TORCH_RECV_F || type == TORCH_RECV_B;
}

PsOpKind ps_torch_op_kind (PsTorchType type); /* of a computing type */

/* Reads one cell: *n (1 or 2) actions, into `actions`. Returns NULL, or a text that says what is wrong. */
const char *ps_torch_cell_parse (const char *text, gsize length, PsTorchAction *actions, guint *n);
