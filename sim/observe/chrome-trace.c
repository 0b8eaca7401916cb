/* chrome-trace.c - the format of a schedule's simulated timeline, for viewers; it cannot be read as a schedule. */
#include "schedule/formats-private.h"

/* One microsecond for F, B and W each, two for a full backward. */
static PsCosts *
unit_costs (guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      ps_costs_op (costs, kind, stage)->duration_ns = kind == PS_OP_BW ? 2000 : kind == PS_OP_O ? 0 : 1000;
  return costs;
}

static char *
write_trace (const PsSchedule *schedule, GError **error)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, error);
  g_autoptr (PsCosts) costs = unit_costs (schedule->placement->n_stages);

  if (program == NULL)
    return NULL;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  ps_simulate (program, costs, simulation);
  g_autoptr (PsTimeline) timeline = ps_timeline_from_simulation (program, costs, simulation);
  return ps_timeline_to_chrome_trace (timeline);
}

const PsFormat ps_format_chrome_trace = {
  .name = "chrome-trace",
  .description = "simulated timeline for Perfetto (1 us per op without costs); not read as a schedule",
  .write = write_trace,
  .write_timeline = ps_timeline_to_chrome_trace,
};
