/* team.c - a transport for sums alone, and the crew of those who use it. */
#include "team.h"

#include "run/crew.h"

#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

struct _PsTeam {
  PsCrew *crew;
  PsTransport *transport;
  PsTransportGroup group;
  guint8 *uses; /* PsTransportSetting.uses: no messages go */
};

guint ps_team_n_here (const PsCalibration *calibration, guint n_busy)
{
  return calibration->processes != NULL ? n_busy : n_busy * MAX (calibration->n_tensor, 1);
}

guint ps_team_part_of (const PsCalibration *calibration, guint n_busy, guint at)
{
  return calibration->n_tensor > 1 ? ps_processes_rank (calibration->processes) + at / n_busy : 0;
}

/* PsTransportGroup.exchange */
static gboolean exchange (gpointer data, guint at, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  return ps_crew_exchange (((PsTeam *)data)->crew, at, mine, n_bytes, all, error);
}

static void fail (gpointer data, GError *error)
{
  ps_crew_fail (((PsTeam *)data)->crew, error);
}

static void abort_transport (gpointer data)
{
  PsTransport *transport = data;

  transport->class->abort (transport);
}

PsTeam *ps_team_new (const PsCalibration *calibration, guint n_busy, GError **error)
{
  PsTeam *team = g_new0 (PsTeam, 1);
  const guint rank = ps_processes_rank (calibration->processes), n_here = ps_team_n_here (calibration, n_busy);

  team->crew = ps_crew_new (n_here, calibration->processes, TIMEOUT_NS);
  team->group = (PsTransportGroup){ .data = team, .exchange = exchange, .fail = fail };
  team->uses = g_new0 (guint8, (gsize)n_busy * n_busy);
  const PsTransportSetting setting = { .n_devices = n_busy,
                                       .message_bytes = (gsize)ps_model_boundary_bytes (calibration->model),
                                       .timeout_ns = TIMEOUT_NS,
                                       .n_here = n_here,
                                       .local = ps_processes_local_rank (calibration->processes) * n_here,
                                       .pipeline = rank,
                                       .n_replicas = 1,
                                       .n_tensor = calibration->n_tensor,
                                       .uses = team->uses,
                                       .clock_offset_ns = ps_processes_clock_offset (calibration->processes, rank),
                                       .group = &team->group };
  team->transport = calibration->transport->open (&setting, error);
  if (team->transport == NULL)
    g_clear_pointer (&team, ps_team_free);
  else
    ps_crew_on_failure (team->crew, abort_transport, team->transport);
  return team;
}

void ps_team_free (PsTeam *team)
{
  if (team == NULL)
    return;
  ps_crew_on_failure (team->crew, NULL, NULL);
  if (team->transport != NULL)
    team->transport->class->close (team->transport);
  ps_crew_free (team->crew);
  g_free (team->uses);
  g_free (team);
}

gboolean ps_team_join (PsTeam *team, guint at, PsDevice *device, GError **error)
{
  const PsTransportClass *class = team->transport->class;

  return class->join == NULL || class->join (team->transport, at, device, error);
}

void ps_team_part (PsTeam *team, guint at)
{
  const PsTransportClass *class = team->transport->class;

  if (class->part != NULL)
    class->part (team->transport, at);
}

gboolean ps_team_add_up (PsTeam *team, guint at, float *values, gsize n, GError **error)
{
  return team->transport->class->sum (team->transport, at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, n, error);
}

void ps_team_fail (PsTeam *team, const GError *error)
{
  ps_crew_fail (team->crew, g_error_copy (error));
}

GError *ps_team_failure (PsTeam *team)
{
  GError *first = NULL;

  ps_crew_check (team->crew, &first);
  return first;
}
