/* bench-mpi.c - the time of a message between two processes over bare MPI, as large as one of the transport "mpi"
 * without data: the least that bench-runtime can show. */
#include "bench-clock.h"

#include <pipesim/base.h>

#include <mpi.h>
#include <stdio.h>

#define N_TRIPS 20000
#define N_BYTES 24

static void wait_polling (MPI_Request *request)
{
  int there = 0;

  while (!there)
    MPI_Test (request, &there, MPI_STATUS_IGNORE);
}

static void go_one_way (gboolean sends, char *bytes, int peer)
{
  MPI_Request request;

  if (sends)
    MPI_Isend (bytes, N_BYTES, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
  else
    MPI_Irecv (bytes, N_BYTES, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
  wait_polling (&request);
}

int main (int argc, char **argv)
{
  static gint64 trips_ns[N_TRIPS];
  char bytes[N_BYTES] = "";
  int rank, n_ranks;

  MPI_Init (&argc, &argv);
  MPI_Comm_rank (MPI_COMM_WORLD, &rank);
  MPI_Comm_size (MPI_COMM_WORLD, &n_ranks);
  for (guint i = 0; n_ranks == 2 && i < N_TRIPS; i++) {
    gint64 begin_ns = clock_ns (CLOCK_MONOTONIC);

    go_one_way (rank == 0, bytes, 1 - rank);
    go_one_way (rank == 1, bytes, 1 - rank);
    trips_ns[i] = clock_ns (CLOCK_MONOTONIC) - begin_ns;
  }
  if (rank == 0 && n_ranks == 2)
    printf ("bare MPI, %d bytes: %" G_GINT64_FORMAT " ns one way\n", N_BYTES, ps_median (trips_ns, N_TRIPS) / 2);
  MPI_Finalize ();
  return 0;
}
