/* nccl-channel.h - one communicator and its stream, for messages from one device to another or for the sums of a
 * circle. Operations run in the order of their posts. */
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <pipesim/transport.h>

#include <pthread.h>

typedef enum {
  PS_NCCL_SEND,
  PS_NCCL_RECEIVE,
  PS_NCCL_ADD, /* all-reduce */
} PsNcclKind;

/* One posted operation. */
typedef struct {
  PsOp op;          /* its message; not for PS_NCCL_ADD */
  PsTensor *tensor; /* to be sent, or to be filled; the job's until it is done. NULL: none */
  void *staging;    /* device memory that stands for host memory; NULL: none */
  gint64 due_ns;    /* messages without data: by the clock of all, when they may be used */
  cudaEvent_t done; /* after it in the stream */
  gint64 since_ns;  /* since when a thread or later work waits for it; 0: neither does. Under the channel's lock */
} PsNcclJob;

typedef struct {
  PsNcclKind kind;
  guint own;           /* the device at this end */
  guint peer;          /* and at the other; not for PS_NCCL_ADD */
  PsCircleKind circle; /* for PS_NCCL_ADD */
  gint *aborted;       /* atomic, the transport's: no communicator will do anything any more */
  gint64 timeout_ns;   /* of every NCCL call; 0: none */
  cudaStream_t stream; /* of the highest priority, or the device's own */
  gboolean borrows;    /* the device's own */
  GPtrArray *events;   /* idle; of the device's thread */
  GPtrArray *blocks;   /* idle staging memory; of the device's thread */
  void *room;          /* device memory for sums of numbers that are the host's; NULL: none. Of the device's thread */
  gsize room_bytes;
  pthread_mutex_t lock;
  ncclComm_t comm;  /* under lock; NULL: not there, or aborted */
  GQueue jobs;      /* PsNcclJob, oldest first; under lock */
  gint64 failed_ns; /* since when NCCL reports an error; 0: it does not. Under lock */
} PsNcclChannel;

PsNcclChannel *ps_nccl_channel_new (PsNcclKind kind, guint own, guint peer, gint *aborted, gint64 timeout_ns);

/* Gives up the communicator, together with its other ends unless the transport was aborted, and frees everything. The
 * jobs that are left must be done or aborted; their tensors are freed. NULL: nothing to do. */
void ps_nccl_channel_free (PsNcclChannel *channel);

/* Creates stream (unless the channel has one) and communicator; returns when all n_ranks ends have done so. */
gboolean ps_nccl_channel_open (PsNcclChannel *channel, const ncclUniqueId *id, guint rank, guint n_ranks,
                               GError **error);

/* Polls until NCCL has finished the call that gave `result`, at most timeout_ns; spins first, then sleeps between.
 * Returns the call's own result, or ncclInProgress when aborted or too late. */
ncclResult_t ps_nccl_channel_settle (PsNcclChannel *channel, ncclResult_t result);

/* Starts an operation on n elements in device memory (bytes; floats for PS_NCCL_ADD) and puts it after the others; job
 * (taken, also on failure) is complete but for `done`. Fails when NCCL has not taken it within timeout_ns: the first
 * message waits for the other end's first post. */
gboolean ps_nccl_channel_post (PsNcclChannel *channel, PsNcclJob *job, void *memory, gsize n, GError **error);

/* Sleeps until a posted job is done and takes it out; the caller frees it. NULL when aborted. */
gboolean ps_nccl_channel_await (PsNcclChannel *channel, PsNcclJob *job, GError **error);

/* The posted job of that name, the oldest if there are several; NULL: none. */
PsNcclJob *ps_nccl_channel_find (PsNcclChannel *channel, PsOp op);

/* Frees the oldest jobs as far as they are done, tensors included; all: waits for all of them. */
gboolean ps_nccl_channel_reap (PsNcclChannel *channel, gboolean all, GError **error);

/* Frees a job that was taken out, its tensor too unless that is NULL by now. */
void ps_nccl_job_free (PsNcclChannel *channel, PsNcclJob *job);

/* Staging memory of n_bytes, the same number in every call. */
void *ps_nccl_channel_block (PsNcclChannel *channel, gsize n_bytes, GError **error);

/* The channel's device memory of at least n_bytes; only the latest call's lasts. NULL on failure. */
void *ps_nccl_channel_room (PsNcclChannel *channel, gsize n_bytes, GError **error);

/* Looks for an error that NCCL reports, and for a job that somebody has waited for longer than timeout_ns (0: never).
 * NULL: there is none. From any thread. */
GError *ps_nccl_channel_examine (PsNcclChannel *channel);

/* Ends all operations under way, here and, sooner or later, at the other ends. *aborted has been set. From any thread.
 */
void ps_nccl_channel_abort (PsNcclChannel *channel);

/* FALSE with "WHAT: REASON" unless the call went well. comm: whose last error to add; NULL: none. */
gboolean ps_nccl_cuda_ok (const char *what, cudaError_t status, GError **error);
gboolean ps_nccl_ok (const char *what, ncclComm_t comm, ncclResult_t result, GError **error);
