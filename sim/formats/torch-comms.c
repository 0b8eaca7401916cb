/* torch-comms.c - PyTorch's CSV of all actions that its runtime executes, "compute_comms", as of 2.15 and of 2.14. */
#include "formats-private.h"
#include "torch-actions.h"

static gboolean
holds_any (const char *text, gsize length, const char *const *words)
{
  for (; *words != NULL; words++)
    if (g_strstr_len (text, (gssize)length, *words) != NULL)
      return TRUE;
  return FALSE;
}

/* Recognises words that only lowered lists have. */
static gboolean
recognise_2_14 (const char *text, gsize length)
{
  static const char *const words[] = { "SHARD", "SEND_", "RECV_", "REDUCE_GRAD", NULL };

  return ps_format_torch_compute.recognise (text, length) && holds_any (text, length, words);
}

static gboolean
recognise (const char *text, gsize length)
{
  static const char *const words[] = { "WAIT_", NULL };

  return recognise_2_14 (text, length) && holds_any (text, length, words);
}

/* Whether the lists can run with any channels; lint says which channels they need. */
static gboolean
can_run (const char *where, const PsTorchLists *lists, GError **error)
{
  PsSchedule *schedule = ps_torch_lists_to_schedule (where, lists);
  g_autoptr (GError) cause = NULL;

  g_free (schedule->name);
  schedule->name = g_strdup (where);
  g_autoptr (PsProgram) program = ps_program_lower (schedule, PS_COMM_ASAP, &cause);
  if (program != NULL && ps_program_check (program, PS_CHANNEL_LATENCY, &cause))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s", cause->message);
}

static PsSchedule *
read_comms (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (PsTorchLists) lists = ps_torch_lists_parse (where, text, length, FALSE, error);

  if (lists != NULL && ps_torch_check_compute (where, lists, error) && ps_torch_check_messages (where, lists, error)
      && can_run (where, lists, error))
    return ps_torch_lists_to_schedule (where, lists);
  return NULL;
}

/* Writes the schedule's own sends and receives, or those of PyTorch's lowering if it has none. */
static char *
write_comms (const PsSchedule *schedule, gboolean waits, GError **error)
{
  g_autoptr (PsTorchLists) own = ps_torch_lists_from_schedule (schedule, TRUE, error);

  if (own == NULL)
    return NULL;
  if (schedule->posts != NULL)
    {
      ps_torch_lists_set_waits (own, waits);
      return ps_torch_lists_to_csv (own);
    }
  g_autoptr (PsTorchLists) lowered = ps_torch_lists_lower (own, waits, error);
  return lowered != NULL ? ps_torch_lists_to_csv (lowered) : NULL;
}

static char *
write_program (const PsProgram *program, gboolean waits, GError **error)
{
  g_autoptr (PsTorchLists) compute = ps_torch_lists_from_schedule (program->schedule, FALSE, error);
  g_autoptr (PsTorchLists) lists = compute != NULL ? ps_torch_lists_follow (compute, program, waits) : NULL;

  return lists != NULL ? ps_torch_lists_to_csv (lists) : NULL;
}

static char *
write_2_15 (const PsSchedule *schedule, GError **error)
{
  return write_comms (schedule, TRUE, error);
}

static char *
write_2_14 (const PsSchedule *schedule, GError **error)
{
  return write_comms (schedule, FALSE, error);
}

static char *
write_program_2_15 (const PsProgram *program, GError **error)
{
  return write_program (program, TRUE, error);
}

static char *
write_program_2_14 (const PsProgram *program, GError **error)
{
  return write_program (program, FALSE, error);
}

const PsFormat ps_format_torch_comms = {
  .name = "torch-comms",
  .description = "PyTorch 2.15 pipelining CSV with sends, receives, waits and weight handling",
  .recognise = recognise,
  .read = read_comms,
  .write = write_2_15,
  .write_program = write_program_2_15,
};

const PsFormat ps_format_torch_comms_2_14 = {
  .name = "torch-comms-2.14",
  .description = "The same for PyTorch 2.14, which knows no waits",
  .recognise = recognise_2_14,
  .read = read_comms,
  .write = write_2_14,
  .write_program = write_program_2_14,
};
