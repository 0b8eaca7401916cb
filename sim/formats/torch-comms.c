/* torch-comms.c - PyTorch's CSV of everything that its runtime executes, "compute_comms". */
#include "formats-private.h"
#include "torch-actions.h"

/* What only lowered lists hold. */
static gboolean
recognise (const char *text, gsize length)
{
  static const char *const words[] = { "SHARD", "SEND_", "RECV_", "REDUCE_GRAD" };

  if (!ps_format_torch_compute.recognise (text, length))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_strstr_len (text, (gssize)length, words[i]))
      return TRUE;
  return FALSE;
}

/* Whether any channels can run the lists; which they need is lint's to say. */
static gboolean
can_run (const char *where, const TorchLists *lists, GError **error)
{
  g_autoptr (PsProgram) program = torch_lists_to_program (where, lists);
  g_autoptr (GError) cause = NULL;

  if (ps_program_check (program, PS_CHANNEL_LATENCY, &cause))
    return TRUE;
  g_set_error_literal (error, PS_ERROR, PS_ERROR_INPUT, cause->message);
  return FALSE;
}

static PsSchedule *
read_comms (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (TorchLists) lists = torch_lists_parse (where, text, length, FALSE, error);

  if (lists && torch_check_compute (where, lists, error) && torch_check_messages (where, lists, error)
      && can_run (where, lists, error))
    return torch_lists_to_schedule (where, lists);
  return NULL;
}

static char *
write_comms (const PsSchedule *schedule, GError **error)
{
  g_autoptr (TorchLists) compute = torch_lists_from_schedule (schedule, error);
  g_autoptr (TorchLists) lists = compute ? torch_lists_lower (compute, error) : NULL;

  return lists ? torch_lists_to_csv (lists) : NULL;
}

static char *
write_program (const PsProgram *program, GError **error)
{
  g_autoptr (TorchLists) compute = torch_lists_from_schedule (program->schedule, error);
  g_autoptr (TorchLists) lists = compute ? torch_lists_follow (compute, program) : NULL;

  return lists ? torch_lists_to_csv (lists) : NULL;
}

const PsFormat ps_format_torch_comms = {
  .name = "torch-comms",
  .description = "PyTorch pipelining CSV with sends, receives and weight handling",
  .recognise = recognise,
  .read = read_comms,
  .write = write_comms,
  .write_program = write_program,
};
