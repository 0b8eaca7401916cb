/* processes.c - the other processes of a program that a launcher has started several times. */
#include "processes.h"

#include "launch.h"

/* How long they wait for each other to start, and for a sign of life later. */
#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define JOIN_NS (120 * SECOND_NS)
#define SILENCE_NS (30 * SECOND_NS)

gboolean
ps_processes_join (PsRendezvous **others, GError **error)
{
  g_auto (GStrv) environment = g_get_environ ();
  g_auto (PsLaunch) launch = { 0 };
  PsRendezvousSetting setting;

  *others = NULL;
  if (!ps_launch_read (environment, &launch, error))
    return FALSE;
  if (launch.n_ranks == 1)
    return TRUE;
  setting = (PsRendezvousSetting){ .rank = launch.rank,
                                   .n_ranks = launch.n_ranks,
                                   .host = launch.host,
                                   .port = launch.port,
                                   .join_ns = JOIN_NS,
                                   .silence_ns = SILENCE_NS };
  *others = ps_rendezvous_join (&setting, error);
  return *others != NULL;
}

void
ps_processes_part (PsRendezvous *others, GError **error)
{
  gint64 moment_ns;

  if (others == NULL || (*error == NULL && ps_rendezvous_meet (others, 0, &moment_ns, error)))
    return;
  ps_rendezvous_abort (others, *error);
  g_clear_error (error);
  ps_rendezvous_check (others, error);
}
