/* cuda-clock.h - times of a GPU's events by the host's clock. The modules pipesim-cuda and pipesim-nccl each have it.
 */
#pragma once

#include <cuda_runtime.h>

#include <glib.h>

typedef struct {
  cudaEvent_t anchor; /* an event at a known time */
  cudaEvent_t spare;  /* for the next try of an anchor */
  gint64 anchor_ns;   /* when the anchor took place, by CLOCK_MONOTONIC; 0: never yet */
} PsCudaClock;

/* In the context that is current. After a failure, too, the caller must call ps_cuda_clock_close. */
cudaError_t ps_cuda_clock_open (PsCudaClock *clock);
void ps_cuda_clock_close (PsCudaClock *clock);

/* Compares the clocks of GPU and host by the shortest of some tries in a stream that is idle; does nothing where the
 * last comparison is recent. Clocks drift, so it is called again and again. */
cudaError_t ps_cuda_clock_set (PsCudaClock *clock, cudaStream_t stream);
gboolean ps_cuda_clock_is_recent (const PsCudaClock *clock);

/* Returns when an event that is done took place; FALSE: it is not known. */
gboolean ps_cuda_clock_time (const PsCudaClock *clock, cudaEvent_t event, gint64 *ns);
