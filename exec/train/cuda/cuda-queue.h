/* cuda-queue.h - all that a device's streams have been given and the host has not yet seen done: ops, and copies of
 * messages. Two events of each tell when it ran. */
#pragma once

#include "cuda-clock.h"
#include "cuda-context.h"

#include <pipesim/schedule.h>

typedef struct {
  PsOp op;         /* that runs */
  gboolean copies; /* a message instead; op does not count */
  cudaEvent_t begin, end;
  gboolean ended; /* its end was marked */
  PsTimes *times; /* filled in when it is done; NULL: nobody asks */
} PsCudaJob;

/* A job is given to the streams after all jobs before it; an op is done after them. */
typedef struct {
  GQueue jobs;       /* PsCudaJob, oldest first */
  GPtrArray *idle;   /* PsCudaJob with events, for later jobs */
  guint64 n_started; /* ops so far */
  guint64 n_done;
  PsCudaClock clock;
  gint64 timeout_ns; /* of a wait for a job; 0: none */
  gint64 op_ns;      /* the latest op that is done took so long */
  gboolean lost;     /* a job has not ended in time, so that the streams may never be idle again */
} PsCudaQueue;

/* In the context that is current. After a failure, too, the caller must call ps_cuda_queue_close. */
gboolean ps_cuda_queue_open (PsCudaQueue *queue, gint64 timeout_ns, GError **error);
void ps_cuda_queue_close (PsCudaQueue *queue);

/* Puts a job at the end, whose begin the stream reaches next; the caller puts its work there and then calls
 * ps_cuda_queue_end with the stream that ends it. op NULL: it copies a message. The job belongs to the queue. NULL:
 * there is no event. */
PsCudaJob *ps_cuda_queue_begin (PsCudaQueue *queue, const PsOp *op, PsTimes *times, cudaStream_t stream,
                                GError **error);
gboolean ps_cuda_queue_end (PsCudaJob *job, cudaStream_t stream, GError **error);

/* Takes out the jobs that are done. */
void ps_cuda_queue_reap (PsCudaQueue *queue);

/* Waits until no more than n_left ops are under way; n_left 0: until there are no jobs, either. */
gboolean ps_cuda_queue_await (PsCudaQueue *queue, guint n_left, GError **error);

/* Whether a queue of this process is lost: freeing memory of a GPU might then wait for ever. */
gboolean ps_cuda_queue_any_lost (void);
