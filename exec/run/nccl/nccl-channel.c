/* nccl-channel.c - one communicator, its stream, and its posted operations. Communicators never block: NCCL finishes a
 * call in a thread of its own, and ps_nccl_channel_settle polls for the end, so that the call can be given up. */
#include "nccl-channel.h"

#include "clock.h"
#include "run/transports.h"

#include <pipesim/program.h>

#define SPIN_NS G_GINT64_CONSTANT (2000000) /* a post takes some 50 us; a sleep would double that */
#define POLL_US 200
#define OTHER_END_NS G_GINT64_CONSTANT (2000000000)

gboolean ps_nccl_cuda_ok (const char *what, cudaError_t status, GError **error)
{
  if (status != cudaSuccess)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: %s", what, cudaGetErrorString (status));
  return status == cudaSuccess;
}

gboolean ps_nccl_ok (const char *what, ncclComm_t comm, ncclResult_t result, GError **error)
{
  const char *detail = comm != NULL && result != ncclSuccess ? ncclGetLastError (comm) : NULL;

  if (result != ncclSuccess)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: %s%s%s", what, ncclGetErrorString (result),
                 detail != NULL && *detail != '\0' ? ": " : "", detail != NULL ? detail : "");
  return result == ncclSuccess;
}

PsNcclChannel *ps_nccl_channel_new (PsNcclKind kind, guint own, guint peer, gint *aborted, gint64 timeout_ns)
{
  PsNcclChannel *channel = g_new0 (PsNcclChannel, 1);

  channel->kind = kind;
  channel->own = own;
  channel->peer = peer;
  channel->aborted = aborted;
  channel->timeout_ns = timeout_ns;
  channel->events = g_ptr_array_new ();
  channel->blocks = g_ptr_array_new ();
  pthread_mutex_init (&channel->lock, NULL);
  g_queue_init (&channel->jobs);
  return channel;
}

static gboolean is_aborted (const PsNcclChannel *channel)
{
  return g_atomic_int_get (channel->aborted) != 0;
}

static gboolean fail_aborted (GError **error)
{
  return ps_refuse (error, PS_ERROR_IO, "run aborted");
}

/* "SEND F0.1 to device 2", for messages; job NULL: the purpose of the channel. Free with g_free. */
static char *describe (const PsNcclChannel *channel, const PsNcclJob *job)
{
  PsInstruction instruction = { .type = channel->kind == PS_NCCL_SEND ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE,
                                .peer = (guint16)channel->peer };

  if (channel->kind == PS_NCCL_ADD)
    return g_strdup_printf ("device %u: sum %s", channel->own,
                            channel->circle == PS_CIRCLE_TENSOR ? "over parts of layers"
                                                                : "of gradients over all copies");
  if (job == NULL)
    return g_strdup_printf ("device %u: channel %s device %u", channel->own,
                            channel->kind == PS_NCCL_SEND ? "to" : "from", channel->peer);
  instruction.op = job->op;
  g_autofree char *text = ps_instruction_format (&instruction);
  return g_strdup_printf ("device %u: %s", channel->own, text);
}

ncclResult_t ps_nccl_channel_settle (PsNcclChannel *channel, ncclResult_t result)
{
  const gint64 begin_ns = ps_clock_now ();
  const gint64 deadline_ns = channel->timeout_ns > 0 ? begin_ns + channel->timeout_ns : G_MAXINT64;
  gint64 now_ns = begin_ns;

  while (result == ncclInProgress && !is_aborted (channel) && now_ns < deadline_ns) {
    ncclResult_t status = ncclCommGetAsyncError (channel->comm, &result);

    if (status != ncclSuccess)
      return status;
    now_ns = ps_clock_now ();
    if (result == ncclInProgress && now_ns - begin_ns > SPIN_NS)
      g_usleep (POLL_US);
    else if (result == ncclInProgress)
      g_thread_yield ();
  }
  return result;
}

/* The result of settling, as an error. */
static gboolean check_settled (PsNcclChannel *channel, const PsNcclJob *job, ncclResult_t result, GError **error)
{
  if (result == ncclSuccess)
    return TRUE;
  if (is_aborted (channel))
    return fail_aborted (error);
  g_autofree char *what = describe (channel, job);
  if (result != ncclInProgress)
    return ps_nccl_ok (what, channel->comm, result, error);
  return ps_refuse (error, PS_ERROR_IO, "%s: not ready after %g s", what, (double)channel->timeout_ns / 1e9);
}

static gboolean create_communicator (PsNcclChannel *channel, const ncclUniqueId *id, guint rank, guint n_ranks,
                                     GError **error)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

  config.blocking = 0;
  pthread_mutex_lock (&channel->lock);
  ncclResult_t result = ncclCommInitRankConfig (&channel->comm, (int)n_ranks, *id, (int)rank, &config);
  result = ps_nccl_channel_settle (channel, result);
  gboolean created = check_settled (channel, NULL, result, error);
  pthread_mutex_unlock (&channel->lock);
  return created;
}

gboolean ps_nccl_channel_open (PsNcclChannel *channel, const ncclUniqueId *id, guint rank, guint n_ranks,
                               GError **error)
{
  int least, greatest;

  if (channel->stream == NULL
      && (!ps_nccl_cuda_ok ("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange (&least, &greatest),
                            error)
          || !ps_nccl_cuda_ok ("cudaStreamCreateWithPriority",
                               cudaStreamCreateWithPriority (&channel->stream, cudaStreamNonBlocking, greatest),
                               error)))
    return FALSE;
  return create_communicator (channel, id, rank, n_ranks, error);
}

static gboolean take_event (PsNcclChannel *channel, cudaEvent_t *event, GError **error)
{
  if (channel->events->len == 0)
    return ps_nccl_cuda_ok ("cudaEventCreateWithFlags", cudaEventCreateWithFlags (event, cudaEventBlockingSync), error);
  *event = g_ptr_array_steal_index_fast (channel->events, channel->events->len - 1);
  return TRUE;
}

void *ps_nccl_channel_block (PsNcclChannel *channel, gsize n_bytes, GError **error)
{
  void *block = NULL;

  if (channel->blocks->len > 0)
    return g_ptr_array_steal_index_fast (channel->blocks, channel->blocks->len - 1);
  return ps_nccl_cuda_ok ("cudaMalloc", cudaMalloc (&block, n_bytes), error) ? block : NULL;
}

void *ps_nccl_channel_room (PsNcclChannel *channel, gsize n_bytes, GError **error)
{
  if (channel->room != NULL && channel->room_bytes >= n_bytes)
    return channel->room;
  cudaFree (channel->room);
  channel->room = NULL;
  channel->room_bytes = n_bytes;
  if (!ps_nccl_cuda_ok ("cudaMalloc", cudaMalloc (&channel->room, n_bytes), error))
    channel->room = NULL;
  return channel->room;
}

void ps_nccl_job_free (PsNcclChannel *channel, PsNcclJob *job)
{
  if (job->tensor != NULL)
    job->tensor->device->class->tensor_free (job->tensor);
  if (job->staging != NULL)
    g_ptr_array_add (channel->blocks, job->staging);
  if (job->done != NULL)
    g_ptr_array_add (channel->events, job->done);
  g_free (job);
}

static ncclResult_t launch (PsNcclChannel *channel, void *memory, gsize n)
{
  switch (channel->kind) {
  case PS_NCCL_SEND:
    return ncclSend (memory, n, ncclChar, 1, channel->comm, channel->stream);
  case PS_NCCL_RECEIVE:
    return ncclRecv (memory, n, ncclChar, 0, channel->comm, channel->stream);
  default:
    return ncclAllReduce (memory, memory, n, ncclFloat, ncclSum, channel->comm, channel->stream);
  }
}

gboolean ps_nccl_channel_post (PsNcclChannel *channel, PsNcclJob *job, void *memory, gsize n, GError **error)
{
  gboolean posted = take_event (channel, &job->done, error);

  if (!posted) {
    ps_nccl_job_free (channel, job);
    return FALSE;
  }
  pthread_mutex_lock (&channel->lock);
  posted = channel->comm != NULL && !is_aborted (channel) ? TRUE : fail_aborted (error);
  if (posted && channel->kind == PS_NCCL_SEND && job->tensor != NULL && job->tensor->ready != NULL)
    posted
        = ps_nccl_cuda_ok ("cudaStreamWaitEvent", cudaStreamWaitEvent (channel->stream, job->tensor->ready, 0), error);
  /* Only when NCCL has put it into the stream may anything follow there. */
  posted = posted && check_settled (channel, job, ps_nccl_channel_settle (channel, launch (channel, memory, n)), error)
           && ps_nccl_cuda_ok ("cudaEventRecord", cudaEventRecord (job->done, channel->stream), error);
  if (channel->kind == PS_NCCL_SEND || channel->borrows)
    job->since_ns = ps_clock_now ();
  if (posted)
    g_queue_push_tail (&channel->jobs, job);
  pthread_mutex_unlock (&channel->lock);
  if (!posted)
    ps_nccl_job_free (channel, job);
  return posted;
}

PsNcclJob *ps_nccl_channel_find (PsNcclChannel *channel, PsOp op)
{
  guint64 key = ps_message_key (op);
  PsNcclJob *found = NULL;

  pthread_mutex_lock (&channel->lock);
  for (GList *link = channel->jobs.head; link != NULL && found == NULL; link = link->next)
    if (ps_message_key (((PsNcclJob *)link->data)->op) == key)
      found = link->data;
  pthread_mutex_unlock (&channel->lock);
  return found;
}

gboolean ps_nccl_channel_await (PsNcclChannel *channel, PsNcclJob *job, GError **error)
{
  g_autofree char *what = describe (channel, job);

  pthread_mutex_lock (&channel->lock);
  job->since_ns = ps_clock_now ();
  pthread_mutex_unlock (&channel->lock);
  cudaError_t status = cudaEventSynchronize (job->done);
  /* An aborted operation counts as done for CUDA. */
  if (is_aborted (channel))
    return fail_aborted (error);
  if (!ps_nccl_cuda_ok (what, status, error))
    return FALSE;
  pthread_mutex_lock (&channel->lock);
  g_queue_remove (&channel->jobs, job);
  pthread_mutex_unlock (&channel->lock);
  return TRUE;
}

/* The oldest job if it is done, or in any case if `all`. */
static PsNcclJob *oldest_done (PsNcclChannel *channel, gboolean all)
{
  pthread_mutex_lock (&channel->lock);
  PsNcclJob *job = g_queue_peek_head (&channel->jobs);
  if (job != NULL && !all && cudaEventQuery (job->done) != cudaSuccess)
    job = NULL;
  pthread_mutex_unlock (&channel->lock);
  return job;
}

gboolean ps_nccl_channel_reap (PsNcclChannel *channel, gboolean all, GError **error)
{
  PsNcclJob *job;

  while ((job = oldest_done (channel, all)) != NULL) {
    if (!ps_nccl_channel_await (channel, job, error))
      return FALSE;
    ps_nccl_job_free (channel, job);
  }
  return TRUE;
}

/* The oldest job that somebody waits for and that is not done. */
static const PsNcclJob *awaited_job (const PsNcclChannel *channel)
{
  for (const GList *link = channel->jobs.head; link != NULL; link = link->next) {
    const PsNcclJob *job = link->data;

    if (job->since_ns > 0 && cudaEventQuery (job->done) == cudaErrorNotReady)
      return job;
  }
  return NULL;
}

/* An error of a communicator most often follows from the end of the process at its other end. The launcher names that
 * process and ends the others, so it gets some time to do so. */
static gboolean has_failed (PsNcclChannel *channel, ncclResult_t *result)
{
  if (ncclCommGetAsyncError (channel->comm, result) != ncclSuccess || *result == ncclSuccess
      || *result == ncclInProgress)
    return FALSE;
  if (channel->failed_ns == 0)
    channel->failed_ns = ps_clock_now ();
  return ps_clock_now () - channel->failed_ns > OTHER_END_NS;
}

static gboolean is_overdue (const PsNcclChannel *channel, const PsNcclJob *job)
{
  return channel->timeout_ns > 0 && job != NULL && ps_clock_now () - job->since_ns > channel->timeout_ns;
}

static GError *examine_locked (PsNcclChannel *channel)
{
  const PsNcclJob *job = awaited_job (channel);
  ncclResult_t result = ncclSuccess;
  GError *error = NULL;

  if (channel->comm == NULL || is_aborted (channel))
    return NULL;
  g_autofree char *what = describe (channel, job != NULL ? job : g_queue_peek_head (&channel->jobs));
  if (has_failed (channel, &result))
    ps_nccl_ok (what, channel->comm, result, &error);
  else if (is_overdue (channel, job))
    g_set_error (&error, PS_ERROR, PS_ERROR_IO, "%s: not done after %g s", what, (double)channel->timeout_ns / 1e9);
  return error;
}

GError *ps_nccl_channel_examine (PsNcclChannel *channel)
{
  /* A thread that posts holds the lock, looks for errors itself and keeps its own deadline. */
  if (pthread_mutex_trylock (&channel->lock) != 0)
    return NULL;
  GError *error = examine_locked (channel);
  pthread_mutex_unlock (&channel->lock);
  return error;
}

void ps_nccl_channel_abort (PsNcclChannel *channel)
{
  pthread_mutex_lock (&channel->lock);
  if (channel->comm != NULL)
    ncclCommAbort (channel->comm);
  channel->comm = NULL;
  pthread_mutex_unlock (&channel->lock);
}

/* All ends do this in one order, so that none waits for one that waits for another. */
static void give_up_communicator (PsNcclChannel *channel)
{
  ncclResult_t result = ncclSuccess;

  pthread_mutex_lock (&channel->lock);
  if (channel->comm != NULL && !is_aborted (channel))
    result = ps_nccl_channel_settle (channel, ncclCommFinalize (channel->comm));
  if (channel->comm != NULL && (result != ncclSuccess || is_aborted (channel)))
    ncclCommAbort (channel->comm);
  else if (channel->comm != NULL)
    ncclCommDestroy (channel->comm);
  channel->comm = NULL;
  pthread_mutex_unlock (&channel->lock);
}

void ps_nccl_channel_free (PsNcclChannel *channel)
{
  PsNcclJob *job;

  if (channel == NULL)
    return;
  give_up_communicator (channel);
  if (channel->stream != NULL)
    cudaStreamSynchronize (channel->stream);
  while ((job = g_queue_pop_head (&channel->jobs)) != NULL)
    ps_nccl_job_free (channel, job);
  for (guint i = 0; i < channel->events->len; i++)
    cudaEventDestroy (g_ptr_array_index (channel->events, i));
  for (guint i = 0; i < channel->blocks->len; i++)
    cudaFree (g_ptr_array_index (channel->blocks, i));
  cudaFree (channel->room);
  if (channel->stream != NULL && !channel->borrows)
    cudaStreamDestroy (channel->stream);
  g_ptr_array_unref (channel->events);
  g_ptr_array_unref (channel->blocks);
  pthread_mutex_destroy (&channel->lock);
  g_free (channel);
}
