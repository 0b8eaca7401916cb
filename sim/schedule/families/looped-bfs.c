/* looped-bfs.c - breadth first: every chunk takes all microbatches before the next one starts. The backward walks the
 * microbatches in reverse, as PyTorch does; first in, first out takes as long. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return TRUE;
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("looped-bfs", PS_PLACEMENT_LOOP, setting);
  guint p = setting->n_devices, m = setting->n_microbatches, v = setting->n_chunks;

  for (guint device = 0; device < p; device++)
    {
      for (guint chunk = 0; chunk < v; chunk++)
        for (guint microbatch = 0; microbatch < m; microbatch++)
          ps_schedule_builder_add (builder, PS_OP_F, chunk * p + device, microbatch);
      for (guint chunk = v; chunk-- > 0;)
        for (guint microbatch = m; microbatch-- > 0;)
          ps_schedule_builder_add (builder, PS_OP_BW, chunk * p + device, microbatch);
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_looped_bfs = {
  .name = "looped-bfs",
  .description = "breadth first: all microbatches through one chunk after the other",
  .constraints = "none",
  .memory = "m",
  .source = "Breadth-First Pipeline Parallelism, arXiv 2211.05953; PyTorch LoopedBFS",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
