/* replay.c - simulates a program with the op and transfer times of a timeline. */
#include <pipesim/timeline.h>

/* The duration of each step, and of the transfer that it waits for. */
typedef struct
{
  const PsProgram *program;
  gint64 *duration_ns;
  gint64 *transfer_ns;
  gint64 *result_ns; /* [2 * n_cells] by ps_schedule_result: its transfer */
} Replay;

static void
replay_clear (Replay *replay)
{
  g_free (replay->duration_ns);
  g_free (replay->transfer_ns);
  g_free (replay->result_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Replay, replay_clear)

static gboolean
same_op (PsOp a, PsOp b)
{
  return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch && a.slice == b.slice;
}

/* The first op of a pair takes no time as a step, and the pair's span is that of both. */
static gboolean
read_device (Replay *replay, const PsTimeline *timeline, guint device, guint *span_index, GError **error)
{
  const PsSchedule *schedule = replay->program->schedule;
  char name[48];

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; (*span_index)++)
    {
      const PsSpan *span
          = *span_index < timeline->ops->len ? &g_array_index (timeline->ops, PsSpan, *span_index) : NULL;

      if (span != NULL && span->device == device && span->op.kind == PS_OP_O)
        continue;
      if (span == NULL || span->device != device || !same_op (span->op, schedule->ops[i]))
        return ps_refuse (error, PS_ERROR_INPUT, "%s: device %u: the timeline does not go on with %s", timeline->source,
                          device, ps_op_format (schedule->ops[i], name));
      replay->duration_ns[replay->program->step_of[i]] = schedule->ops[i].paired ? 0 : span->end_ns - span->start_ns;
      i++;
    }
  while (*span_index < timeline->ops->len && g_array_index (timeline->ops, PsSpan, *span_index).device == device)
    (*span_index)++;
  return TRUE;
}

static void
read_transfers (Replay *replay, const PsTimeline *timeline)
{
  const PsProgram *program = replay->program;

  for (guint i = 0; i < timeline->transfers->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->transfers, PsSpan, i);

      replay->result_ns[ps_schedule_result (program->schedule, span->op)] = span->end_ns - span->start_ns;
    }
  for (guint i = 0; i < program->n_messages; i++)
    replay->transfer_ns[program->messages[i].consumer]
        = replay->result_ns[ps_schedule_result (program->schedule, program->messages[i].op)];
}

gboolean
ps_timeline_replay (const PsProgram *program, const PsCosts *costs, const PsTimeline *timeline,
                    PsSimulation *simulation, GError **error)
{
  const PsSchedule *schedule = program->schedule;
  g_auto (Replay) replay = { .program = program };
  guint span = 0;

  replay.duration_ns = g_new0 (gint64, program->n_steps);
  replay.transfer_ns = g_new0 (gint64, program->n_steps);
  replay.result_ns = g_new0 (gint64, 2 * ps_schedule_n_cells (schedule));
  for (guint device = 0; device < schedule->placement->n_devices; device++)
    if (!read_device (&replay, timeline, device, &span, error))
      return FALSE;
  read_transfers (&replay, timeline);
  ps_simulate_steps (program, costs, replay.duration_ns, replay.transfer_ns, simulation);
  return TRUE;
}
