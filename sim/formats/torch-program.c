/* torch-program.c - action lists as the instruction streams of a program, so that its check finds their deadlocks. */
#include "torch-actions.h"

typedef struct
{
  const TorchLists *lists;
  GArray *instructions; /* of PsInstruction */
} Streams;

/* The stage whose result a transfer moves, and the one at the other end. */
static void
append_transfer (const Streams *streams, const TorchAction *action)
{
  gboolean send = action->type == TORCH_SEND_F || action->type == TORCH_SEND_B;
  gboolean forward = action->type == TORCH_SEND_F || action->type == TORCH_RECV_F;
  guint peer = action->stage;
  torch_action_peer (streams->lists, action, &peer);
  PsInstruction instruction = {
    .type = send ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE,
    .peer = streams->lists->rank[peer],
    .op = { .kind = forward ? PS_OP_F : PS_OP_B,
            .stage = (guint16)(send ? action->stage : peer),
            .microbatch = action->microbatch & G_MAXINT32 },
  };
  g_array_append_val (streams->instructions, instruction);
}

static void
append_compute (const Streams *streams, guint rank, const TorchAction *action)
{
  PsInstruction compute = {
    .type = PS_INSTRUCTION_COMPUTE,
    .peer = (guint16)rank,
    .op = { .kind = (guint8)torch_op_kind (action->type),
            .stage = action->stage,
            .microbatch = action->microbatch & G_MAXINT32 },
  };
  PsInstruction wait = compute;
  TorchType receive;
  guint from;
  if (torch_action_input (streams->lists, action, &from, &receive) && streams->lists->rank[from] != rank)
    {
      wait.type = PS_INSTRUCTION_WAIT;
      wait.peer = streams->lists->rank[from];
      wait.op.kind = receive == TORCH_RECV_F ? PS_OP_F : PS_OP_B;
      wait.op.stage = (guint16)from;
      g_array_append_val (streams->instructions, wait);
    }
  g_array_append_val (streams->instructions, compute);
}

PsProgram *
torch_lists_to_program (const char *where, const TorchLists *lists)
{
  PsProgram *program = g_new0 (PsProgram, 1);
  Streams streams = { lists, g_array_new (FALSE, FALSE, sizeof (PsInstruction)) };
  program->schedule = torch_lists_to_schedule (where, lists);
  g_free (program->schedule->name);
  program->schedule->name = g_strdup (where);
  program->first = g_new0 (guint, lists->n_ranks + 1);
  for (guint r = 0; r < lists->n_ranks; r++)
    {
      for (guint i = 0; i < lists->actions[r]->len; i++)
        {
          const TorchAction *action = torch_lists_action (lists, r, i);
          if (action->type < TORCH_N_COMPUTE)
            append_compute (&streams, r, action);
          else if (action->type >= TORCH_SEND_F)
            append_transfer (&streams, action);
        }
      program->first[r + 1] = streams.instructions->len;
    }
  program->instructions = (PsInstruction *)(gpointer)g_array_free (streams.instructions, FALSE);
  return program;
}
