/* torch-compute.c - PyTorch's CSV of computations, "compute_only". */
#include "formats-private.h"
#include "torch-actions.h"

/* Recognises any text that is no JSON; torch-comms.c has taken the lowered ones before. */
static gboolean
recognise (const char *text, gsize length)
{
  char first = ps_format_first (text, length);

  return g_ascii_isdigit (first) || first == '(' || first == ',' || first == '"';
}

static PsSchedule *
read_compute (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (PsTorchLists) lists = ps_torch_lists_parse (where, text, length, TRUE, error);

  return lists != NULL && ps_torch_check_compute (where, lists, error) ? ps_torch_lists_to_schedule (where, lists)
                                                                       : NULL;
}

static char *
write_compute (const PsSchedule *schedule, GError **error)
{
  g_autoptr (PsTorchLists) lists = ps_torch_lists_from_schedule (schedule, FALSE, error);

  return lists != NULL ? ps_torch_lists_to_csv (lists) : NULL;
}

const PsFormat ps_format_torch_compute = {
  .name = "torch-compute",
  .description = "PyTorch pipelining CSV, computations only (what torchtitan loads)",
  .recognise = recognise,
  .read = read_compute,
  .write = write_compute,
};
