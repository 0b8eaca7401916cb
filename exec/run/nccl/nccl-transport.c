/* nccl-transport.c - the class "nccl": messages and sums by NCCL, and a watchdog that ends a hanging run. Each device's
 * thread has a GPU, in one process or in several.
 *
 * A channel is one communicator and its stream, for messages from one device to another or for the sums of a circle.
 * Its operations run in the order of their posts. Communicators never block: NCCL finishes a call in a thread of its
 * own, and settle polls for the end, so that the call can be given up.
 *
 * Host memory travels by way of staging memory on the GPU. Messages without data carry the moment from which they may
 * be used instead. */
#include "clock.h"
#include "module.h"
#include "run/transports.h"
#include "train/cuda/cuda-clock.h"
#include "train/cuda/cuda-context.h"

#include <pipesim/program.h>

#include <nccl.h>
#include <pthread.h>
#include <string.h>

/* A send or receive on NVLink takes as many multiprocessors as it has channels, and holds them until it is done; NCCL
 * reads the variable when it first needs it. */
#define CHANNELS_VARIABLE "NCCL_MAX_P2P_NCHANNELS"
#define MOST_CHANNELS "4"

#define LOOK_NS G_GINT64_CONSTANT (50000000)
#define SPIN_NS G_GINT64_CONSTANT (2000000) /* a post takes some 50 us; a sleep would double that */
#define POLL_US 200
#define OTHER_END_NS G_GINT64_CONSTANT (2000000000)
#define SELF_SEND_NS G_GINT64_CONSTANT (30000000000) /* it takes microseconds: after so long NCCL hangs */
#define MARK_BYTES sizeof (gint64)                   /* of a message without data: when it may be used */

typedef enum {
  SENDS,
  RECEIVES,
  ADDS, /* all-reduce */
} Kind;

/* One posted operation. */
typedef struct {
  PsMessageName name; /* its message; not for ADDS */
  PsTensor *tensor;   /* to be sent, or to be filled; the job's until it is done. NULL: none */
  void *staging;      /* device memory that stands for host memory; NULL: none */
  gint64 due_ns;      /* messages without data: by the clock of all, when they may be used */
  cudaEvent_t done;   /* after it in the stream */
  gint64 since_ns;    /* since when a thread or later work waits for it; 0: neither does. Under the channel's lock */
} Job;

typedef struct {
  Kind kind;
  guint own;           /* the device at this end */
  guint peer;          /* and at the other; ADDS: the PsCircleKind */
  gint *aborted;       /* atomic, the transport's: no communicator will do anything any more */
  gint64 timeout_ns;   /* of every NCCL call; 0: none */
  cudaStream_t stream; /* of the highest priority, or the device's own */
  gboolean borrows;    /* the device's own */
  GPtrArray *events;   /* idle; of the device's thread */
  GPtrArray *blocks;   /* idle staging memory; of the device's thread */
  pthread_mutex_t lock;
  ncclComm_t comm;  /* under lock; NULL: not there, or aborted */
  GQueue jobs;      /* of Job, oldest first; under lock */
  gint64 failed_ns; /* since when NCCL reports an error; 0: it does not. Under lock */
} Channel;

/* A device's ends of all its channels. */
typedef struct {
  PsDevice *device;
  guint at;            /* first .. first + n_here - 1, as in PsTransportSetting */
  guint index;         /* of its pipeline's devices */
  gboolean staged;     /* the device's tensors are host memory: they travel by way of staging memory */
  gsize wire_bytes;    /* of every message */
  GPtrArray *channels; /* of Channel, in the order in which all devices open theirs */
  PsCudaClock clock;
  cudaStream_t idle; /* for the clock, and copies between host and GPU */
} Endpoint;

typedef struct {
  PsTransport base;
  PsTransportSetting setting;
  gint aborted;        /* atomic */
  Endpoint **endpoint; /* [n_ends]; NULL: not in this process, or has left. Under lock */
  guint n_ends;        /* first + n_here */
  GThread *watchdog;
  pthread_mutex_t lock;
  pthread_cond_t closing_changed;
  gboolean closing; /* under lock */
} NcclTransport;

/* FALSE with "WHAT: REASON" unless the call went well. comm: whose last error to add; NULL: none. */
static gboolean cuda_ok (const char *what, cudaError_t status, GError **error)
{
  if (status != cudaSuccess)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: %s", what, cudaGetErrorString (status));
  return status == cudaSuccess;
}

static gboolean nccl_ok (const char *what, ncclComm_t comm, ncclResult_t result, GError **error)
{
  const char *detail = comm != NULL && result != ncclSuccess ? ncclGetLastError (comm) : NULL;

  if (result != ncclSuccess)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: %s%s%s", what, ncclGetErrorString (result),
                 detail != NULL && *detail != '\0' ? ": " : "", detail != NULL ? detail : "");
  return result == ncclSuccess;
}

static Channel *channel_new (Kind kind, guint own, guint peer, gint *aborted, gint64 timeout_ns)
{
  Channel *channel = g_new0 (Channel, 1);

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

static gboolean is_aborted (const Channel *channel)
{
  return g_atomic_int_get (channel->aborted) != 0;
}

/* "SEND F0.1 to device 2", for messages; job NULL: the purpose of the channel. Free with g_free. */
static char *describe (const Channel *channel, const Job *job)
{
  static const char *const sums[PS_N_CIRCLE_KINDS] = { [PS_CIRCLE_WEIGHTS] = "of gradients over all copies",
                                                       [PS_CIRCLE_TENSOR] = "over parts of layers",
                                                       [PS_CIRCLE_TIED] = "of a shared matrix's gradients" };
  PsInstruction instruction = { .type = channel->kind == SENDS ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE,
                                .peer = (guint16)channel->peer };

  if (channel->kind == ADDS)
    return g_strdup_printf ("device %u: sum %s", channel->own, sums[channel->peer]);
  if (job == NULL)
    return g_strdup_printf ("device %u: channel %s device %u", channel->own, channel->kind == SENDS ? "to" : "from",
                            channel->peer);
  instruction.op = job->name.op;
  g_autofree char *text = ps_instruction_format (&instruction);
  return g_strdup_printf ("device %u: %s", channel->own, text);
}

/* Polls until NCCL has finished the call that gave `result`, at most timeout_ns; spins first, then sleeps between.
 * Returns the call's own result, or ncclInProgress when aborted or too late. */
static ncclResult_t settle (Channel *channel, ncclResult_t result)
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
static gboolean check_settled (Channel *channel, const Job *job, ncclResult_t result, GError **error)
{
  if (result == ncclSuccess)
    return TRUE;
  if (is_aborted (channel))
    return ps_refuse_aborted (error);
  g_autofree char *what = describe (channel, job);
  if (result != ncclInProgress)
    return nccl_ok (what, channel->comm, result, error);
  return ps_refuse (error, PS_ERROR_IO, "%s: not ready after %g s", what, (double)channel->timeout_ns / 1e9);
}

/* Creates stream (unless the channel has one) and communicator; returns when all n_ranks ends have done so. */
static gboolean channel_open (Channel *channel, const ncclUniqueId *id, guint rank, guint n_ranks, GError **error)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  int least, greatest;

  if (channel->stream == NULL
      && (!cuda_ok ("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange (&least, &greatest), error)
          || !cuda_ok ("cudaStreamCreateWithPriority",
                       cudaStreamCreateWithPriority (&channel->stream, cudaStreamNonBlocking, greatest), error)))
    return FALSE;
  config.blocking = 0;
  pthread_mutex_lock (&channel->lock);
  ncclResult_t result = ncclCommInitRankConfig (&channel->comm, (int)n_ranks, *id, (int)rank, &config);
  gboolean created = check_settled (channel, NULL, settle (channel, result), error);
  pthread_mutex_unlock (&channel->lock);
  return created;
}

/* Staging memory of n_bytes, the same number in every call. */
static void *take_block (Channel *channel, gsize n_bytes, GError **error)
{
  void *block = NULL;

  if (channel->blocks->len > 0)
    return g_ptr_array_steal_index_fast (channel->blocks, channel->blocks->len - 1);
  return cuda_ok ("cudaMalloc", cudaMalloc (&block, n_bytes), error) ? block : NULL;
}

/* Frees a job that is in no queue, its tensor too unless that is NULL by now. */
static void job_free (Channel *channel, Job *job)
{
  if (job->tensor != NULL)
    job->tensor->device->class->tensor_free (job->tensor);
  if (job->staging != NULL)
    g_ptr_array_add (channel->blocks, job->staging);
  if (job->done != NULL)
    g_ptr_array_add (channel->events, job->done);
  g_free (job);
}

static ncclResult_t launch (Channel *channel, void *memory, gsize n)
{
  if (channel->kind == SENDS)
    return ncclSend (memory, n, ncclChar, 1, channel->comm, channel->stream);
  if (channel->kind == RECEIVES)
    return ncclRecv (memory, n, ncclChar, 0, channel->comm, channel->stream);
  return ncclAllReduce (memory, memory, n, ncclFloat, ncclSum, channel->comm, channel->stream);
}

/* Starts an operation on n elements in device memory (bytes; floats for ADDS) and puts it after the others; job (taken,
 * also on failure) is complete but for `done`. Fails when NCCL has not taken it within timeout_ns: the first message
 * waits for the other end's first post. */
static gboolean channel_post (Channel *channel, Job *job, void *memory, gsize n, GError **error)
{
  const cudaEvent_t ready = channel->kind == SENDS && job->tensor != NULL ? job->tensor->ready : NULL;
  gboolean posted = TRUE;

  if (channel->events->len > 0)
    job->done = g_ptr_array_steal_index_fast (channel->events, channel->events->len - 1);
  else
    posted = cuda_ok ("cudaEventCreateWithFlags", cudaEventCreateWithFlags (&job->done, cudaEventBlockingSync), error);
  pthread_mutex_lock (&channel->lock);
  if (posted && (channel->comm == NULL || is_aborted (channel)))
    posted = ps_refuse_aborted (error);
  if (posted && ready != NULL)
    posted = cuda_ok ("cudaStreamWaitEvent", cudaStreamWaitEvent (channel->stream, ready, 0), error);
  /* Only when NCCL has put it into the stream may anything follow there. */
  posted = posted && check_settled (channel, job, settle (channel, launch (channel, memory, n)), error)
           && cuda_ok ("cudaEventRecord", cudaEventRecord (job->done, channel->stream), error);
  if (channel->kind == SENDS || channel->borrows)
    job->since_ns = ps_clock_now ();
  if (posted)
    g_queue_push_tail (&channel->jobs, job);
  pthread_mutex_unlock (&channel->lock);
  if (!posted)
    job_free (channel, job);
  return posted;
}

/* Sleeps until a posted job is done and takes it out; the caller frees it. */
static gboolean channel_await (Channel *channel, Job *job, GError **error)
{
  g_autofree char *what = describe (channel, job);

  pthread_mutex_lock (&channel->lock);
  job->since_ns = ps_clock_now ();
  pthread_mutex_unlock (&channel->lock);
  cudaError_t status = cudaEventSynchronize (job->done);
  /* An aborted operation counts as done for CUDA. */
  if (is_aborted (channel))
    return ps_refuse_aborted (error);
  if (!cuda_ok (what, status, error))
    return FALSE;
  pthread_mutex_lock (&channel->lock);
  g_queue_remove (&channel->jobs, job);
  pthread_mutex_unlock (&channel->lock);
  return TRUE;
}

/* Frees the oldest jobs as far as they are done, tensors included; all: waits for all of them. */
static gboolean channel_reap (Channel *channel, gboolean all, GError **error)
{
  for (;;) {
    pthread_mutex_lock (&channel->lock);
    Job *job = g_queue_peek_head (&channel->jobs);
    pthread_mutex_unlock (&channel->lock);
    if (job == NULL || (!all && cudaEventQuery (job->done) != cudaSuccess))
      return TRUE;
    if (!channel_await (channel, job, error))
      return FALSE;
    job_free (channel, job);
  }
}

/* The oldest job that somebody waits for and that is not done. */
static const Job *awaited_job (const Channel *channel)
{
  for (const GList *link = channel->jobs.head; link != NULL; link = link->next) {
    const Job *job = link->data;

    if (job->since_ns > 0 && cudaEventQuery (job->done) == cudaErrorNotReady)
      return job;
  }
  return NULL;
}

/* Looks for an error that NCCL reports, and for a job that somebody has waited for longer than timeout_ns (0: never).
 * An error of a communicator most often follows from the end of the process at its other end. The launcher names that
 * process and ends the others, so it gets some time to do so. Under the lock. */
static void channel_examine (Channel *channel, GError **error)
{
  const gint64 now_ns = ps_clock_now ();
  const Job *job = awaited_job (channel);
  ncclResult_t result = ncclSuccess;

  if (channel->comm == NULL || is_aborted (channel))
    return;
  g_autofree char *what = describe (channel, job != NULL ? job : g_queue_peek_head (&channel->jobs));
  const gboolean failed = ncclCommGetAsyncError (channel->comm, &result) == ncclSuccess && result != ncclSuccess
                          && result != ncclInProgress;
  if (failed && channel->failed_ns == 0)
    channel->failed_ns = now_ns;
  if (failed && now_ns - channel->failed_ns > OTHER_END_NS)
    nccl_ok (what, channel->comm, result, error);
  else if (channel->timeout_ns > 0 && job != NULL && now_ns - job->since_ns > channel->timeout_ns)
    ps_refuse (error, PS_ERROR_IO, "%s: not done after %g s", what, (double)channel->timeout_ns / 1e9);
}

/* Gives up the communicator, together with its other ends unless the transport was aborted, and frees everything. All
 * ends do this in one order, so that none waits for one that waits for another. The jobs that are left must be done or
 * aborted; their tensors are freed. */
static void channel_free (Channel *channel)
{
  ncclResult_t result = ncclSuccess;
  Job *job;

  pthread_mutex_lock (&channel->lock);
  if (channel->comm != NULL && !is_aborted (channel))
    result = settle (channel, ncclCommFinalize (channel->comm));
  if (channel->comm != NULL && (result != ncclSuccess || is_aborted (channel)))
    ncclCommAbort (channel->comm);
  else if (channel->comm != NULL)
    ncclCommDestroy (channel->comm);
  channel->comm = NULL;
  pthread_mutex_unlock (&channel->lock);
  if (channel->stream != NULL)
    cudaStreamSynchronize (channel->stream);
  while ((job = g_queue_pop_head (&channel->jobs)) != NULL)
    job_free (channel, job);
  for (guint i = 0; i < channel->events->len; i++)
    cudaEventDestroy (g_ptr_array_index (channel->events, i));
  for (guint i = 0; i < channel->blocks->len; i++)
    cudaFree (g_ptr_array_index (channel->blocks, i));
  if (channel->stream != NULL && !channel->borrows)
    cudaStreamDestroy (channel->stream);
  g_ptr_array_unref (channel->events);
  g_ptr_array_unref (channel->blocks);
  pthread_mutex_destroy (&channel->lock);
  g_free (channel);
}

/* Endpoints */

/* Channels between two devices stand in the order of senders and then of receivers, and those of sums follow. */
static Endpoint *endpoint_new (const PsTransportSetting *setting, guint at, gint *aborted)
{
  const guint n = setting->n_devices, own = at % n;
  Endpoint *endpoint = g_new0 (Endpoint, 1);

  endpoint->at = at;
  endpoint->index = own;
  endpoint->wire_bytes = setting->message_bytes > 0 ? setting->message_bytes : MARK_BYTES;
  endpoint->channels = g_ptr_array_new_with_free_func ((GDestroyNotify)channel_free);
  for (guint i = 0; i < n * n; i++) {
    const guint from = i / n, to = i % n;

    if (setting->uses[i] && (from == own || to == own))
      g_ptr_array_add (endpoint->channels, channel_new (from == own ? SENDS : RECEIVES, own, from == own ? to : from,
                                                        aborted, setting->timeout_ns));
  }
  for (guint kind = 0; kind < PS_N_CIRCLE_KINDS; kind++)
    if (kind != PS_CIRCLE_REPLICAS && ps_circle_of (setting, at, kind).n > 1)
      g_ptr_array_add (endpoint->channels, channel_new (ADDS, own, kind, aborted, setting->timeout_ns));
  return endpoint;
}

/* NULL: there is none. */
static Channel *find_channel (const Endpoint *endpoint, Kind kind, guint peer)
{
  for (guint i = 0; i < endpoint->channels->len; i++) {
    Channel *channel = g_ptr_array_index (endpoint->channels, i);

    if (channel->kind == kind && channel->peer == peer)
      return channel;
  }
  return NULL;
}

/* What every device with channels says to the others: its GPU, so that two on one GPU are found, and the names of
 * communicators. */
typedef struct {
  char host[128];
  char bus[32];
  ncclUniqueId sums[PS_N_CIRCLE_KINDS]; /* of the first device of a circle: for all of the circle */
  ncclUniqueId messages[];              /* [n_devices] of a sender: for each receiver */
} Identity;

static Identity *identity_at (gpointer identities, const PsTransportSetting *setting, guint number)
{
  return (Identity *)((char *)identities + number * (sizeof (Identity) + setting->n_devices * sizeof (ncclUniqueId)));
}

/* NCCL takes processes with equal NCCL_HOSTID for processes of one host; without it, it goes by the host itself. */
static gboolean fill_identity (Identity *identity, const PsTransportSetting *setting, const Endpoint *endpoint,
                               GError **error)
{
  const char *host = g_getenv ("NCCL_HOSTID");
  int gpu = 0;

  if (endpoint->channels->len == 0)
    return TRUE;
  g_strlcpy (identity->host, host != NULL ? host : g_get_host_name (), sizeof identity->host);
  if (!cuda_ok ("cudaGetDevice", cudaGetDevice (&gpu), error)
      || !cuda_ok ("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId (identity->bus, sizeof identity->bus, gpu), error))
    return FALSE;
  for (guint i = 0; i < endpoint->channels->len; i++) {
    const Channel *channel = g_ptr_array_index (endpoint->channels, i);
    ncclUniqueId *name = channel->kind == SENDS ? &identity->messages[channel->peer] : &identity->sums[channel->peer];

    if ((channel->kind == SENDS
         || (channel->kind == ADDS && ps_circle_of (setting, endpoint->at, channel->peer).own == 0))
        && !nccl_ok ("ncclGetUniqueId", NULL, ncclGetUniqueId (name), error))
      return FALSE;
  }
  return TRUE;
}

/* The identities of all devices; NULL where two share a GPU. Free with g_free. */
static gpointer exchange_identities (const PsTransportSetting *setting, const Endpoint *endpoint, GError **error)
{
  const guint n_devices = setting->n_devices, n = n_devices * setting->n_replicas * MAX (setting->n_tensor, 1);
  const guint number = setting->pipeline * n_devices + endpoint->at;
  const gsize n_bytes = sizeof (Identity) + n_devices * sizeof (ncclUniqueId);
  g_autofree Identity *own = g_malloc0 (n_bytes);
  g_autofree gpointer identities = g_malloc0 (n * n_bytes);

  if (!fill_identity (own, setting, endpoint, error)
      || !setting->group->exchange (setting->group->data, endpoint->at, own, n_bytes, identities, error))
    return NULL;
  for (guint i = 0; i < n; i++) {
    const Identity *identity = identity_at (identities, setting, i);

    if (i != number && *own->bus != '\0' && g_str_equal (identity->host, own->host)
        && g_str_equal (identity->bus, own->bus))
      return ps_refuse_null (error, PS_ERROR_UNAVAILABLE,
                             "device %u: shares GPU %s with device %u%s; NCCL needs a GPU for each", endpoint->index,
                             own->bus, i % n_devices, i / n_devices != number / n_devices ? " of another copy" : "");
  }
  return g_steal_pointer (&identities);
}

/* Opens a channel and sends a message for no op, or adds up one number: NCCL connects with the first one. */
static gboolean connect_channel (const Endpoint *endpoint, Channel *channel, const PsTransportSetting *setting,
                                 gpointer identities, GError **error)
{
  const PsDeviceClass *class = endpoint->device->class;
  const PsCircle circle = channel->kind == ADDS ? ps_circle_of (setting, endpoint->at, channel->peer)
                                                : (PsCircle){ .n = 2, .own = channel->kind == RECEIVES };
  const guint first = (setting->pipeline + endpoint->at / setting->n_devices) * setting->n_devices;
  const ncclUniqueId *name
      = channel->kind == SENDS      ? &identity_at (identities, setting, first + channel->own)->messages[channel->peer]
        : channel->kind == RECEIVES ? &identity_at (identities, setting, first + channel->peer)->messages[channel->own]
                                    : &identity_at (identities, setting, circle.first)->sums[channel->peer];

  /* Sums within ops run in the device's own stream, after what they add up and before all that reads it. */
  if (channel->kind == ADDS && channel->peer == PS_CIRCLE_TENSOR && class->stream != NULL)
    channel->stream = class->stream (endpoint->device);
  channel->borrows = channel->stream != NULL;
  if (!channel_open (channel, name, circle.own, circle.n, error))
    return FALSE;
  Job *job = g_new0 (Job, 1);
  job->staging = take_block (channel, endpoint->wire_bytes, error);
  if (job->staging != NULL)
    return channel_post (channel, job, job->staging, channel->kind == ADDS ? 1 : endpoint->wire_bytes, error)
           && channel_reap (channel, TRUE, error);
  job_free (channel, job);
  return FALSE;
}

static gboolean set_clock (Endpoint *endpoint, GError **error)
{
  return cuda_ok ("cudaEventRecord", ps_cuda_clock_set (&endpoint->clock, endpoint->idle), error);
}

/* The class's hooks */

/* The watchdog's thread. */
static gpointer watchdog_main (gpointer data)
{
  NcclTransport *transport = data;
  GError *problem = NULL;

  pthread_mutex_lock (&transport->lock);
  while (!transport->closing && problem == NULL) {
    struct timespec until = ps_clock_timespec (ps_clock_now () + LOOK_NS);

    pthread_cond_timedwait (&transport->closing_changed, &transport->lock, &until);
    for (guint i = 0; !transport->closing && i < transport->n_ends; i++)
      for (guint k = 0; transport->endpoint[i] != NULL && k < transport->endpoint[i]->channels->len; k++) {
        Channel *channel = g_ptr_array_index (transport->endpoint[i]->channels, k);

        /* A thread that posts holds the lock, looks for errors itself and keeps its own deadline. */
        if (problem != NULL || pthread_mutex_trylock (&channel->lock) != 0)
          continue;
        channel_examine (channel, &problem);
        pthread_mutex_unlock (&channel->lock);
      }
  }
  pthread_mutex_unlock (&transport->lock);
  if (problem != NULL)
    transport->setting.group->fail (transport->setting.group->data, problem);
  return NULL;
}

static gboolean nccl_available (GError **error)
{
  int n_gpus = 0;
  const cudaError_t status = cudaGetDeviceCount (&n_gpus);

  if (status != cudaSuccess)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "nccl transport: %s", cudaGetErrorString (status));
  return n_gpus > 0 || ps_refuse (error, PS_ERROR_UNAVAILABLE, "nccl transport: no GPU");
}

/* "NCCL 2.28.9, NCCL_MAX_P2P_NCHANNELS=4": the version, and every variable of NCCL that is set. */
static char *nccl_libraries (void)
{
  g_auto (GStrv) names = g_listenv ();
  GString *text = g_string_new (NULL);
  int version = 0;

  ncclGetVersion (&version);
  g_string_append_printf (text, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  for (guint i = 0; names[i] != NULL; i++)
    if (g_str_has_prefix (names[i], "NCCL_"))
      g_string_append_printf (text, ", %s=%s", names[i], g_getenv (names[i]));
  return g_string_free (text, FALSE);
}

static const PsTransportClass nccl_class;

static PsTransport *nccl_open (const PsTransportSetting *setting, GError **error)
{
  NcclTransport *transport = g_new0 (NcclTransport, 1);

  transport->base.class = &nccl_class;
  transport->setting = *setting;
  transport->n_ends = setting->first + setting->n_here;
  transport->endpoint = g_new0 (Endpoint *, transport->n_ends);
  for (guint i = setting->first; i < transport->n_ends; i++)
    transport->endpoint[i] = endpoint_new (setting, i, &transport->aborted);
  pthread_mutex_init (&transport->lock, NULL);
  ps_clock_condition_init (&transport->closing_changed);
  transport->watchdog = g_thread_try_new ("watchdog", watchdog_main, transport, error);
  if (transport->watchdog != NULL)
    return &transport->base;
  nccl_class.close (&transport->base);
  return NULL;
}

static void nccl_part (PsTransport *base, guint at)
{
  NcclTransport *transport = (NcclTransport *)base;

  /* Taken out first, so that no other thread looks at it any more. */
  pthread_mutex_lock (&transport->lock);
  Endpoint *endpoint = g_steal_pointer (&transport->endpoint[at]);
  pthread_mutex_unlock (&transport->lock);
  if (endpoint == NULL)
    return;
  g_ptr_array_unref (endpoint->channels);
  ps_cuda_clock_close (&endpoint->clock);
  if (endpoint->idle != NULL)
    cudaStreamDestroy (endpoint->idle);
  g_free (endpoint);
}

static void nccl_close (PsTransport *base)
{
  NcclTransport *transport = (NcclTransport *)base;

  if (transport == NULL)
    return;
  pthread_mutex_lock (&transport->lock);
  transport->closing = TRUE;
  pthread_cond_broadcast (&transport->closing_changed);
  pthread_mutex_unlock (&transport->lock);
  if (transport->watchdog != NULL)
    g_thread_join (transport->watchdog);
  /* The endpoints of devices that never came to leave. */
  for (guint i = 0; i < transport->n_ends; i++)
    nccl_part (base, i);
  pthread_cond_destroy (&transport->closing_changed);
  pthread_mutex_destroy (&transport->lock);
  g_free (transport->endpoint);
  g_free (transport);
}

/* All devices open their channels in one order. So there is always a channel that both its ends have reached, and no
 * device waits for ever. A device that is on no GPU itself borrows one for its messages, another one than its
 * neighbours. */
static gboolean nccl_join (PsTransport *base, guint at, PsDevice *device, GError **error)
{
  const PsTransportSetting *setting = &((NcclTransport *)base)->setting;
  Endpoint *endpoint = ((NcclTransport *)base)->endpoint[at];
  const guint number = setting->local + endpoint->at - setting->first;
  int n_gpus = 0;

  endpoint->device = device;
  endpoint->staged = device->class->read == NULL;
  if (endpoint->staged
      && (!cuda_ok ("cudaGetDeviceCount", cudaGetDeviceCount (&n_gpus), error)
          || !cuda_ok ("cudaSetDevice", cudaSetDevice ((int)number % n_gpus), error)))
    return FALSE;
  g_autofree gpointer identities = exchange_identities (setting, endpoint, error);
  if (identities == NULL)
    return FALSE;
  for (guint i = 0; i < endpoint->channels->len; i++)
    if (!connect_channel (endpoint, g_ptr_array_index (endpoint->channels, i), setting, identities, error))
      return FALSE;
  return cuda_ok ("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags (&endpoint->idle, cudaStreamNonBlocking),
                  error)
         && cuda_ok ("cudaEventCreate", ps_cuda_clock_open (&endpoint->clock), error) && set_clock (endpoint, error);
}

/* Copies between host and GPU; done on return. cudaMemcpy may return before the bytes are on the GPU, and the channels'
 * streams do not wait for its stream. */
static gboolean copy (const Endpoint *endpoint, void *to, const void *from, gsize n_bytes, GError **error)
{
  return cuda_ok ("cudaMemcpyAsync", cudaMemcpyAsync (to, from, n_bytes, cudaMemcpyDefault, endpoint->idle), error)
         && cuda_ok ("cudaStreamSynchronize", cudaStreamSynchronize (endpoint->idle), error);
}

/* What stands for a message on the host: its numbers, or when it is due. */
static void *host_bytes (Job *job)
{
  return job->tensor->bytes > 0 ? job->tensor->data : &job->due_ns;
}

static gboolean nccl_send (PsTransport *base, guint from, guint to, PsOp message, PsTensor *tensor, gint64 delay_ns,
                           GError **error)
{
  const PsTransportSetting *setting = &((NcclTransport *)base)->setting;
  const Endpoint *endpoint = ((NcclTransport *)base)->endpoint[from];
  Channel *channel = find_channel (endpoint, SENDS, to % setting->n_devices);
  Job *job = g_new0 (Job, 1);

  g_assert (delay_ns == 0 || tensor->bytes == 0);

  *job = (Job){ .name = { channel->peer, message },
                .tensor = tensor,
                .due_ns = ps_clock_now () + delay_ns + setting->clock_offset_ns };
  gboolean ready = channel_reap (channel, FALSE, error);
  if (ready && endpoint->staged) {
    job->staging = take_block (channel, endpoint->wire_bytes, error);
    ready = job->staging != NULL && copy (endpoint, job->staging, host_bytes (job), endpoint->wire_bytes, error);
  }
  if (ready)
    return channel_post (channel, job, endpoint->staged ? job->staging : tensor->data, endpoint->wire_bytes, error);
  job_free (channel, job);
  return FALSE;
}

static gboolean nccl_receive (PsTransport *base, guint at, guint from, PsOp message, GError **error)
{
  const Endpoint *endpoint = ((NcclTransport *)base)->endpoint[at];
  Channel *channel = find_channel (endpoint, RECEIVES, from % ((NcclTransport *)base)->setting.n_devices);
  Job *job = g_new0 (Job, 1);

  job->name = (PsMessageName){ channel->peer, message };
  job->tensor = endpoint->device->class->tensor_new (endpoint->device);
  if (job->tensor == NULL)
    ps_refuse (error, PS_ERROR_UNAVAILABLE, "device %u: no memory for a message from device %u", channel->own,
               channel->peer);
  else if (endpoint->staged)
    job->staging = take_block (channel, endpoint->wire_bytes, error);
  if (job->tensor != NULL && (!endpoint->staged || job->staging != NULL))
    return channel_post (channel, job, endpoint->staged ? job->staging : job->tensor->data, endpoint->wire_bytes,
                         error);
  job_free (channel, job);
  return FALSE;
}

/* A message without data is used when it is due. Sleeps in short pieces, as the run may be aborted. */
static gboolean await_due (NcclTransport *transport, gint64 due_ns, GError **error)
{
  gint64 until_ns = due_ns - transport->setting.clock_offset_ns;

  while (until_ns - LOOK_NS > ps_clock_now () && g_atomic_int_get (&transport->aborted) == 0)
    ps_clock_sleep_until (MIN (until_ns, ps_clock_now () + LOOK_NS));
  ps_clock_sleep_until (g_atomic_int_get (&transport->aborted) != 0 ? 0 : until_ns);
  return g_atomic_int_get (&transport->aborted) == 0 || ps_refuse_aborted (error);
}

/* The tensor of a message that is done; NULL: it can't be used. */
static PsTensor *take_message (NcclTransport *transport, Endpoint *endpoint, Job *job, PsTransferTimes *times,
                               GError **error)
{
  if (endpoint->staged && !copy (endpoint, host_bytes (job), job->staging, endpoint->wire_bytes, error))
    return NULL;
  *times = (PsTransferTimes){ 0 };
  if (!ps_cuda_clock_time (&endpoint->clock, job->done, &times->end_ns))
    times->end_ns = ps_clock_now ();
  if (job->tensor->bytes == 0) {
    if (!await_due (transport, job->due_ns, error))
      return NULL;
    times->end_ns = MAX (times->end_ns, job->due_ns - transport->setting.clock_offset_ns);
  }
  job->tensor->ready_ns = times->end_ns;
  return g_steal_pointer (&job->tensor);
}

static PsTensor *nccl_wait (PsTransport *base, guint at, guint from, PsOp message, PsDevice *into,
                            PsTransferTimes *times, GError **error)
{
  NcclTransport *transport = (NcclTransport *)base;
  Endpoint *endpoint = transport->endpoint[at];
  Channel *channel = find_channel (endpoint, RECEIVES, from % transport->setting.n_devices);

  pthread_mutex_lock (&channel->lock);
  const GList *link = ps_message_find (&channel->jobs, channel->peer, message);
  Job *job = link != NULL ? link->data : NULL;
  pthread_mutex_unlock (&channel->lock);
  if (job == NULL)
    return ps_refuse_unannounced (channel->own, channel->peer, message, error);
  if (!channel_await (channel, job, error))
    return NULL;
  PsTensor *tensor = take_message (transport, endpoint, job, times, error);
  job_free (channel, job);
  return tensor;
}

static gboolean nccl_flush (PsTransport *base, guint from, GError **error)
{
  Endpoint *endpoint = ((NcclTransport *)base)->endpoint[from];

  for (guint i = 0; i < endpoint->channels->len; i++) {
    Channel *channel = g_ptr_array_index (endpoint->channels, i);

    if (channel->kind == SENDS && !channel_reap (channel, TRUE, error))
      return FALSE;
  }
  return set_clock (endpoint, error);
}

/* Adds up in memory of the GPU; all: returns when it is done. */
static gboolean add_up (Channel *channel, float *values, gsize n, gboolean all, GError **error)
{
  return channel_post (channel, g_new0 (Job, 1), values, n, error) && channel_reap (channel, all, error);
}

static gboolean nccl_sum (PsTransport *base, guint at, PsCircleKind kind, G_GNUC_UNUSED PsSumHalves halves,
                          float *values, gsize n, GError **error)
{
  const Endpoint *endpoint = ((NcclTransport *)base)->endpoint[at];
  Channel *channel = find_channel (endpoint, ADDS, kind);
  const gsize n_bytes = n * sizeof *values;
  void *there;

  if (channel == NULL)
    return TRUE;
  if (ps_cuda_is_on_gpu (values))
    return add_up (channel, values, n, !channel->borrows, error);
  if (!cuda_ok ("cudaMalloc", cudaMalloc (&there, n_bytes), error))
    return FALSE;
  const gboolean done = copy (endpoint, there, values, n_bytes, error) && add_up (channel, there, n, TRUE, error)
                        && copy (endpoint, values, there, n_bytes, error);
  cudaFree (there);
  return done;
}

static void nccl_abort (PsTransport *base)
{
  NcclTransport *transport = (NcclTransport *)base;

  g_atomic_int_set (&transport->aborted, 1);
  pthread_mutex_lock (&transport->lock);
  for (guint i = 0; i < transport->n_ends; i++)
    for (guint k = 0; transport->endpoint[i] != NULL && k < transport->endpoint[i]->channels->len; k++) {
      Channel *channel = g_ptr_array_index (transport->endpoint[i]->channels, k);

      pthread_mutex_lock (&channel->lock);
      if (channel->comm != NULL)
        ncclCommAbort (channel->comm);
      channel->comm = NULL;
      pthread_mutex_unlock (&channel->lock);
    }
  pthread_mutex_unlock (&transport->lock);
}

/* A message from a GPU to itself crosses no link, so it takes the time of launching a transfer. *post_ns: the part of
 * its time in which posting holds the calling thread. */
static gboolean send_to_self (Channel *channel, const void *from, void *to, gsize n_bytes, gint64 *ns, gint64 *post_ns,
                              GError **error)
{
  const gint64 start_ns = ps_clock_now ();
  ncclResult_t results[3];

  if (!nccl_ok ("ncclGroupStart", NULL, ncclGroupStart (), error))
    return FALSE;
  results[1] = ncclSend (from, n_bytes, ncclChar, 0, channel->comm, channel->stream);
  results[2] = ncclRecv (to, n_bytes, ncclChar, 0, channel->comm, channel->stream);
  results[0] = ncclGroupEnd ();
  for (guint i = 0; i < G_N_ELEMENTS (results); i++)
    if (!nccl_ok ("message to the same GPU", channel->comm, settle (channel, results[i]), error))
      return FALSE;
  *post_ns = ps_clock_now () - start_ns;
  if (!cuda_ok ("cudaStreamSynchronize", cudaStreamSynchronize (channel->stream), error))
    return FALSE;
  *ns = ps_clock_now () - start_ns;
  return TRUE;
}

static gboolean nccl_self_send (PsDevice *device, gsize n_bytes, guint n_samples, gint64 *samples_ns, GError **error)
{
  const gsize n = MAX (n_bytes, 1);
  gint aborted = 0;
  Channel *channel = channel_new (SENDS, 0, 0, &aborted, SELF_SEND_NS);
  gint64 first_ns, post_ns, posts_ns = 0;
  void *from = NULL, *to = NULL;
  ncclUniqueId id;
  gboolean done = nccl_ok ("ncclGetUniqueId", NULL, ncclGetUniqueId (&id), error)
                  && channel_open (channel, &id, 0, 1, error) && cuda_ok ("cudaMalloc", cudaMalloc (&from, n), error)
                  && cuda_ok ("cudaMalloc", cudaMalloc (&to, n), error)
                  && send_to_self (channel, from, to, n, &first_ns, &post_ns, error); /* the first one connects */

  for (guint i = 0; done && i < n_samples; i++, posts_ns += post_ns)
    done = send_to_self (channel, from, to, n, &samples_ns[i], &post_ns, error);
  cudaFree (from);
  cudaFree (to);
  channel_free (channel);
  g_info ("nccl: posting a message of %" G_GSIZE_FORMAT " B holds the host for %.1f us on average", n_bytes,
          (double)posts_ns / 1e3 / MAX (n_samples, 1));
  return done;
}

static const PsTransportClass nccl_class = {
  .name = "nccl",
  .description = "NCCL between NVIDIA GPUs",
  .spans_processes = TRUE,
  .ordered = TRUE,
  .exclusive = TRUE,
  .occupies = TRUE,
  .available = nccl_available,
  .libraries = nccl_libraries,
  .open = nccl_open,
  .close = nccl_close,
  .join = nccl_join,
  .part = nccl_part,
  .send = nccl_send,
  .receive = nccl_receive,
  .wait = nccl_wait,
  .flush = nccl_flush,
  .sum = nccl_sum,
  .self_send = nccl_self_send,
  .abort = nccl_abort,
};

const guint64 ps_module_stamp = PS_MODULE_STAMP;

G_MODULE_EXPORT const PsTransportClass *ps_nccl_transport_class (void);

const PsTransportClass *ps_nccl_transport_class (void)
{
  g_setenv (CHANNELS_VARIABLE, MOST_CHANNELS, FALSE);
  return &nccl_class;
}
