/* torch-actions.h - the action lists of torch.distributed.pipelining, as in its two CSV formats. Private to
 * sim/observe. */
#pragma once

#include <pipesim/program.h>

/* Computing types come first; ps_torch_op_kind has their PsOpKinds in the same order. */
typedef enum
{
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

typedef struct
{
  guint8 type;   /* PsTorchType */
  guint8 paired; /* shares a cell with the next action */
  guint16 stage;
  guint32 microbatch; /* 0 where the type has none */
  guint32 cell;       /* of the file, from 1; 0 when not read from one */
} PsTorchAction;

typedef struct
{
  guint n_ranks;
  guint n_stages;
  guint n_microbatches;
  gboolean waits;   /* PyTorch 2.15: every send and every REDUCE_GRAD has its wait; 2.14 has no waits */
  guint16 *rank;    /* [n_stages] */
  GArray **actions; /* [n_ranks] of PsTorchAction */
} PsTorchLists;

void ps_torch_lists_free (PsTorchLists *lists);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsTorchLists, ps_torch_lists_free)

static inline PsTorchAction *
ps_torch_lists_action (const PsTorchLists *lists, guint rank, guint i)
{
  return &g_array_index (lists->actions[rank], PsTorchAction, i);
}

static inline gboolean
ps_torch_is_send (guint type)
{
  return type == TORCH_SEND_F || type == TORCH_SEND_B;
}

static inline gboolean
ps_torch_is_receive (guint type)
{
  return type == TORCH_RECV_F || type == TORCH_RECV_B;
}

PsOpKind ps_torch_op_kind (PsTorchType type); /* of a computing type */

/* Reads one cell: *n (1 or 2) actions, into `actions`. Returns NULL, or a text that says what is wrong. */
const char *ps_torch_cell_parse (const char *text, gsize length, PsTorchAction *actions, guint *n);

/* Splits a CSV into lists and finds ranks, stages and microbatches. compute_only: refuses all but computing actions.
 * Every stage has one rank; ids are dense. */
PsTorchLists *ps_torch_lists_parse (const char *where, const char *text, gsize length, gboolean compute_only,
                                    GError **error);

/* Checks the computing actions of each rank: complete, without duplicates, in order. */
gboolean ps_torch_check_compute (const char *where, const PsTorchLists *lists, GError **error);

/* Checks messages. Every message has one send after its producer and one receive before its consumer; none stays on a
 * rank. PyTorch's messages carry no tag, so a rank receives in the order in which the other one sends. Lists with waits
 * have one after every send and every REDUCE_GRAD, with one reduction under way at a time. */
gboolean ps_torch_check_messages (const char *where, const PsTorchLists *lists, GError **error);

/* Makes a schedule of lists that passed the checks. Actions that do not compute become its posts. */
PsSchedule *ps_torch_lists_to_schedule (const char *where, const PsTorchLists *lists);
