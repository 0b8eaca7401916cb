/* torch-lint.c - the faults of a schedule that PyTorch's runtime and torchtitan would refuse or run wrongly. */
#include "schedule/formats-private.h"
#include "torch-actions.h"

#include <string.h>

static void G_GNUC_PRINTF (2, 3) warn (GPtrArray *findings, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_ptr_array_add (findings, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

/* torchtitan builds the stages of a rank from the name of the schedule: V for two names, a loop for all others. */
static void
lint_placement (const PsPlacement *placement, GPtrArray *findings)
{
  guint n_chunks = placement->n_stages / placement->n_devices;

  if (placement->n_copies > 1)
    warn (findings, "a stage lies on two devices (two weight copies); PyTorch refuses a stage on two ranks");
  else if (placement->kind == PS_PLACEMENT_V || (placement->kind == PS_PLACEMENT_WAVE && n_chunks == 2))
    warn (findings, "placement V: torchtitan loads it only under the schedule name ZBVZeroBubble or DualPipeV");
  else if (placement->kind != PS_PLACEMENT_LOOP)
    warn (findings, "placement %s: torchtitan cannot load it; it knows loops and, with two stages per rank, V",
          ps_placement_name (placement->kind));
}

static void
lint_representation (const PsSchedule *schedule, GPtrArray *findings)
{
  gboolean stashes = FALSE;

  for (guint d = 0; schedule->weight_versions != NULL && d < schedule->placement->n_devices; d++)
    stashes |= schedule->weight_versions[d] > 1;
  if (schedule->asynchronous)
    warn (findings,
          "asynchronous: PyTorch's runtime steps the optimizer after all microbatches; it would run this schedule "
          "synchronously");
  else if (stashes)
    warn (findings, "several weight versions: PyTorch's runtime keeps one");
  if (schedule->n_slices > 1)
    warn (findings, "sequence slices: PyTorch's formats cannot hold them");
  if (schedule->recomputes)
    warn (findings, "recomputation (R): PyTorch's formats cannot hold it");
}

static void
lint_reduce (const PsTorchLists *lists, GPtrArray *findings)
{
  g_autofree gboolean *reduced = g_new0 (gboolean, lists->n_stages);

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++)
      {
        const PsTorchAction *action = ps_torch_lists_action (lists, r, i);

        if (action->type == TORCH_REDUCE_GRAD)
          reduced[action->stage] = TRUE;
        else if (reduced[action->stage] && (action->type == TORCH_W || action->type == TORCH_B))
          reduced[action->stage] = FALSE;
      }
  for (guint stage = 0; stage < lists->n_stages; stage++)
    if (!reduced[stage])
      warn (findings,
            "rank %u: no %uREDUCE_GRAD after the last backward of stage %u: its gradients would be neither scaled nor "
            "reduced",
            lists->rank[stage], stage, stage);
}

/* FSDP asserts that weights are there when they are used. */
static void
lint_weights (const PsTorchLists *lists, GPtrArray *findings)
{
  g_autofree gboolean *gathered = g_new0 (gboolean, lists->n_stages);
  g_autofree gboolean *told = g_new0 (gboolean, lists->n_stages);

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++)
      {
        const PsTorchAction *action = ps_torch_lists_action (lists, r, i);

        if (action->type == TORCH_UNSHARD || action->type == TORCH_RESHARD)
          gathered[action->stage] = action->type == TORCH_UNSHARD;
        else if (action->type < TORCH_N_COMPUTE && !gathered[action->stage] && !told[action->stage])
          {
            warn (findings, "rank %u: cell %u: stage %u is used without %uUNSHARD before it: FSDP would stop", r,
                  action->cell, action->stage, action->stage);
            told[action->stage] = TRUE;
          }
      }
}

/* Whether a computation of another cell stands between the receive of a message and its use. */
static gboolean
is_early (const PsProgram *program, const PsMessage *message)
{
  const PsSchedule *schedule = program->schedule;
  guint use = program->op_of[message->consumer], first = schedule->first[message->receiver];

  if (use > first && schedule->ops[use - 1].paired)
    use--;
  return (message->posted == 0 ? first : program->op_of[message->posted - 1] + 1) < use;
}

static void
lint_receives (const PsProgram *program, GPtrArray *findings)
{
  g_autofree guint *early = g_new0 (guint, program->schedule->placement->n_devices);
  guint total = 0, worst = 0;

  for (guint i = 0; i < program->n_messages; i++)
    if (is_early (program, &program->messages[i]))
      {
        early[program->messages[i].receiver]++;
        total++;
      }
  for (guint r = 1; r < program->schedule->placement->n_devices; r++)
    if (early[r] > early[worst])
      worst = r;
  if (total > 0)
    warn (findings,
          "receives posted before computations that do not need them: %u, most on rank %u (%u); with one communicator "
          "per pair of ranks they hold up later transfers",
          total, worst, early[worst]);
}

static void
lint_deadlocks (const PsProgram *program, GPtrArray *findings)
{
  guint n_models;
  const PsChannelModel *models = ps_channel_table (&n_models);

  for (guint i = 0; i < n_models; i++)
    {
      g_autoptr (GError) deadlock = NULL;

      if (models[i].pytorch != NULL && !ps_program_check (program, (PsChannel)i, &deadlock))
        warn (findings, "with %s: %s", models[i].pytorch, strstr (deadlock->message, "deadlock"));
    }
}

static void
lint_lists (const PsTorchLists *lists, GPtrArray *findings)
{
  g_autoptr (GError) circle = NULL;
  g_autoptr (PsProgram) program = ps_program_lower (ps_torch_lists_to_schedule ("", lists), PS_COMM_ASAP, &circle);

  lint_reduce (lists, findings);
  lint_weights (lists, findings);
  if (program == NULL)
    {
      warn (findings, "%s", strstr (circle->message, "deadlock"));
      return;
    }
  lint_receives (program, findings);
  lint_deadlocks (program, findings);
}

/* Lists that were written and read have cells to name. */
static void
lint_text (const char *text, GPtrArray *findings)
{
  g_autoptr (PsTorchLists) lists = ps_torch_lists_parse ("", text, strlen (text), FALSE, NULL);

  if (lists != NULL)
    lint_lists (lists, findings);
}

GPtrArray *
ps_torch_lint (const PsSchedule *schedule, const char *comms)
{
  GPtrArray *findings = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) cause = NULL;
  gboolean fits = schedule->placement->n_copies == 1 && schedule->n_slices == 1 && !schedule->recomputes;
  g_autofree char *text = comms != NULL || !fits ? g_strdup (comms) : ps_format_torch_comms.write (schedule, &cause);

  lint_placement (schedule->placement, findings);
  lint_representation (schedule, findings);
  if (text != NULL)
    lint_text (text, findings);
  else if (fits)
    warn (findings, "%s", cause->message);
  return findings;
}

GPtrArray *
ps_torch_lint_comms (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (PsTorchLists) lists = ps_torch_lists_parse (where, text, length, FALSE, error);

  if (lists == NULL || !ps_torch_check_compute (where, lists, error) || !ps_torch_check_messages (where, lists, error))
    return NULL;
  GPtrArray *findings = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (PsSchedule) schedule = ps_torch_lists_to_schedule (where, lists);
  if (!lists->waits)
    warn (findings, "no waits for sends and reductions: PyTorch 2.15 refuses the file, 2.14 takes it");
  lint_placement (schedule->placement, findings);
  lint_lists (lists, findings);
  return findings;
}
