/* bench-mpi.c - the time of a message between two processes over bare MPI, as large as a letter of the transport "mpi"
 * without data: the least that bench-runtime can show. */
#include "mpi-engine.h"

#include "bench-clock.h"

#include <stdio.h>

#define N_TRIPS 20000

static void
wait_polling (MPI_Request *request)
{
  int there = 0;

  while (!there)
    MPI_Test (request, &there, MPI_STATUS_IGNORE);
}

static void
go_one_way (gboolean sends, PsMpiHead *letter, int peer)
{
  MPI_Request request;

  if (sends)
    MPI_Isend (letter, sizeof *letter, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
  else
    MPI_Irecv (letter, sizeof *letter, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
  wait_polling (&request);
}

int
main (int argc, char **argv)
{
  static gint64 trips_ns[N_TRIPS];
  PsMpiHead letter = { 0 };
  int rank, n_ranks;

  MPI_Init (&argc, &argv);
  MPI_Comm_rank (MPI_COMM_WORLD, &rank);
  MPI_Comm_size (MPI_COMM_WORLD, &n_ranks);
  for (guint i = 0; n_ranks == 2 && i < N_TRIPS; i++)
    {
      gint64 begin_ns = clock_ns (CLOCK_MONOTONIC);

      go_one_way (rank == 0, &letter, 1 - rank);
      go_one_way (rank == 1, &letter, 1 - rank);
      trips_ns[i] = clock_ns (CLOCK_MONOTONIC) - begin_ns;
    }
  if (rank == 0 && n_ranks == 2)
    printf ("bare MPI, %zu bytes: %" G_GINT64_FORMAT " ns one way\n", sizeof letter, ps_median (trips_ns, N_TRIPS) / 2);
  MPI_Finalize ();
  return 0;
}
