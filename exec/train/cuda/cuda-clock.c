/* cuda-clock.c - the clocks of GPU and host, compared. */
#include "cuda-clock.h"

#include "clock.h"

#define TRIES 20
/* Elapsed times are floats: after seconds they lose microseconds. */
#define MOST_AGE_NS G_GINT64_CONSTANT (1000000000)

cudaError_t ps_cuda_clock_open (PsCudaClock *clock)
{
  const cudaError_t status = cudaEventCreate (&clock->anchor);

  return status == cudaSuccess ? cudaEventCreate (&clock->spare) : status;
}

void ps_cuda_clock_close (PsCudaClock *clock)
{
  if (clock->anchor != NULL)
    cudaEventDestroy (clock->anchor);
  if (clock->spare != NULL)
    cudaEventDestroy (clock->spare);
}

/* Records the spare event at *begin_ns of the clock and spins until the GPU has passed it. */
static cudaError_t record_spare (PsCudaClock *clock, cudaStream_t stream, gint64 *begin_ns)
{
  *begin_ns = ps_clock_now ();
  cudaError_t status = cudaEventRecord (clock->spare, stream);
  if (status == cudaSuccess)
    do
      status = cudaEventQuery (clock->spare);
    while (status == cudaErrorNotReady);
  return status;
}

gboolean ps_cuda_clock_is_recent (const PsCudaClock *clock)
{
  return clock->anchor_ns > 0 && ps_clock_now () - clock->anchor_ns < MOST_AGE_NS;
}

cudaError_t ps_cuda_clock_set (PsCudaClock *clock, cudaStream_t stream)
{
  gint64 shortest_ns = G_MAXINT64;

  if (ps_cuda_clock_is_recent (clock))
    return cudaSuccess;
  for (guint i = 0; i < TRIES; i++) {
    gint64 begin_ns, took_ns;
    const cudaError_t status = record_spare (clock, stream, &begin_ns);

    if (status != cudaSuccess)
      return status;
    took_ns = ps_clock_now () - begin_ns;
    if (took_ns < shortest_ns) {
      cudaEvent_t best = clock->spare;

      clock->spare = clock->anchor;
      clock->anchor = best;
      clock->anchor_ns = begin_ns + took_ns / 2;
      shortest_ns = took_ns;
    }
  }
  return cudaSuccess;
}

gboolean ps_cuda_clock_time (const PsCudaClock *clock, cudaEvent_t event, gint64 *ns)
{
  float milliseconds = 0;

  if (clock->anchor_ns == 0 || cudaEventElapsedTime (&milliseconds, clock->anchor, event) != cudaSuccess)
    return FALSE;
  *ns = MIN (clock->anchor_ns + (gint64)((double)milliseconds * 1e6), ps_clock_now ());
  return TRUE;
}
