/* mpi-hosts.c - which processes share a host, and how far apart the clocks of hosts are. On the engine's thread, before
 * other calls of MPI. */
#include "mpi-engine-private.h"

#define N_PINGS 16

static PsMpiEngine *const engine = &ps_mpi_engine;

gboolean
ps_mpi_check (const char *call, int result, GError **error)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;

  if (result == MPI_SUCCESS)
    return TRUE;
  MPI_Error_string (result, text, &length);
  return ps_refuse (error, PS_ERROR_IO, "%s: %s", call, text);
}

/* Rank 0: the offset of another rank's clock. */
static gint64
ask_clock (int rank)
{
  gint64 sent_ns[N_PINGS], there_ns[N_PINGS], came_ns[N_PINGS], uncertainty_ns, offset_ns;

  for (guint i = 0; i < N_PINGS; i++)
    {
      sent_ns[i] = ps_clock_now ();
      MPI_Send (NULL, 0, MPI_BYTE, rank, PS_MPI_GROUP_TAG, MPI_COMM_WORLD);
      MPI_Recv (&there_ns[i], 1, MPI_INT64_T, rank, PS_MPI_GROUP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      came_ns[i] = ps_clock_now ();
    }
  offset_ns = ps_clock_estimate (sent_ns, there_ns, came_ns, N_PINGS, &uncertainty_ns);
  g_info ("rank %d: clock offset %" G_GINT64_FORMAT " ns, within %" G_GINT64_FORMAT " ns", rank, offset_ns,
          uncertainty_ns);
  return offset_ns;
}

static void
tell_clock (void)
{
  for (guint i = 0; i < N_PINGS; i++)
    {
      gint64 now_ns;

      MPI_Recv (NULL, 0, MPI_BYTE, 0, PS_MPI_GROUP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      now_ns = ps_clock_now ();
      MPI_Send (&now_ns, 1, MPI_INT64_T, 0, PS_MPI_GROUP_TAG, MPI_COMM_WORLD);
    }
}

/* first: [n_ranks] lowest rank of the host of each. The processes of one host share its clock. */
static gboolean
compare_clocks (const int *first, GError **error)
{
  engine->clock_offset_ns = g_new0 (gint64, (gsize)engine->n_ranks);
  if (engine->rank > 0 && first[engine->rank] > 0)
    tell_clock ();
  for (int rank = 1; rank < engine->n_ranks && engine->rank == 0; rank++)
    if (first[rank] > 0)
      engine->clock_offset_ns[rank] = ask_clock (rank);
  return ps_mpi_check ("MPI_Bcast",
                       MPI_Bcast (engine->clock_offset_ns, engine->n_ranks, MPI_INT64_T, 0, MPI_COMM_WORLD), error);
}

gboolean
ps_mpi_find_hosts (GError **error)
{
  g_autofree int *first = g_new (int, (gsize)engine->n_ranks);
  int own = engine->rank;
  MPI_Comm host;

  if (!ps_mpi_check ("MPI_Comm_split_type",
                     MPI_Comm_split_type (MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, engine->rank, MPI_INFO_NULL, &host),
                     error))
    return FALSE;
  MPI_Comm_rank (host, &engine->local_rank);
  MPI_Comm_size (host, &engine->n_local);
  return ps_mpi_check ("MPI_Bcast", MPI_Bcast (&own, 1, MPI_INT, 0, host), error)
         && ps_mpi_check ("MPI_Comm_free", MPI_Comm_free (&host), error)
         && ps_mpi_check ("MPI_Allgather", MPI_Allgather (&own, 1, MPI_INT, first, 1, MPI_INT, MPI_COMM_WORLD), error)
         && compare_clocks (first, error);
}
