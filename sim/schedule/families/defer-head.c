/* defer-head.c - W of the last stage put off into the drain, as Megatron-LM does with the head
 * (defer_embedding_wgrad_compute): the device of the last stage is the first one without backwards, and W fills the
 * time that it would wait. */
#include "families-private.h"

PsSchedule *
ps_family_defer_head (PsSchedule *schedule, guint n_microbatches)
{
  const PsPlacement *placement = schedule->placement;
  PsScheduleBuilder *builder
      = ps_schedule_builder_new (schedule->name, ps_placement_copy (placement), schedule->n_microbatches);
  g_autofree PsOp *waiting = g_new (PsOp, schedule->n_microbatches);

  for (guint d = 0; d < placement->n_devices; d++)
    {
      guint n_waiting = 0;

      for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++)
        {
          PsOp op = schedule->ops[i];

          if (op.kind == PS_OP_BW && op.stage + 1U == placement->n_stages && n_waiting < n_microbatches)
            {
              op.kind = PS_OP_B;
              waiting[n_waiting] = op;
              waiting[n_waiting++].kind = PS_OP_W;
            }
          ps_schedule_builder_add_op (builder, op);
        }
      ps_schedule_builder_add_ops (builder, waiting, n_waiting);
      ps_schedule_builder_next_device (builder);
    }
  ps_schedule_free (schedule);
  return ps_schedule_builder_end (builder);
}
