/* nccl-transport.c - the class "nccl": messages and sums by NCCL, and a watchdog that ends a hanging run. Each device's
 * thread has a GPU, in one process or in several.
 *
 * Host memory travels by way of staging memory on the GPU. Messages without data carry the moment from which they may
 * be used instead. */
#include "nccl-endpoint.h"
#include "nccl-transport.h"

#include "clock.h"
#include "train/cuda/cuda-context.h"
#include "module.h"

/* A send or receive on NVLink takes as many multiprocessors as it has channels, and holds them until it is done; NCCL
 * reads the variable when it first needs it. */
#define CHANNELS_VARIABLE "NCCL_MAX_P2P_NCHANNELS"
#define MOST_CHANNELS "4"

#define WATCH_NS G_GINT64_CONSTANT (50000000)

typedef struct {
  PsTransport base;
  PsTransportSetting setting;
  gint aborted;              /* atomic */
  PsNcclEndpoint **endpoint; /* [n_ends]; NULL: not in this process, or has left. Under lock */
  guint n_ends;              /* first + n_here */
  GThread *watchdog;
  pthread_mutex_t lock;
  pthread_cond_t closing_changed;
  gboolean closing; /* under lock */
} NcclTransport;

static NcclTransport *nccl_transport (PsTransport *transport)
{
  return (NcclTransport *)transport;
}

static gboolean fail_aborted (GError **error)
{
  return ps_refuse (error, PS_ERROR_IO, "run aborted");
}

static void examine (PsNcclChannel *channel, gpointer data)
{
  GError **problem = data;

  if (*problem == NULL)
    *problem = ps_nccl_channel_examine (channel);
}

/* Looks at all channels, under the lock. */
static GError *find_problem (NcclTransport *transport)
{
  GError *problem = NULL;

  for (guint i = 0; i < transport->n_ends; i++)
    if (transport->endpoint[i] != NULL)
      ps_nccl_endpoint_visit (transport->endpoint[i], transport->setting.n_devices, examine, &problem);
  return problem;
}

static gpointer watch (gpointer data)
{
  NcclTransport *transport = data;
  GError *problem = NULL;

  pthread_mutex_lock (&transport->lock);
  while (!transport->closing && problem == NULL) {
    struct timespec until = ps_clock_timespec (ps_clock_now () + WATCH_NS);

    pthread_cond_timedwait (&transport->closing_changed, &transport->lock, &until);
    if (!transport->closing)
      problem = find_problem (transport);
  }
  pthread_mutex_unlock (&transport->lock);
  if (problem != NULL)
    transport->setting.group->fail (transport->setting.group->data, problem);
  return NULL;
}

static void init_locks (NcclTransport *transport)
{
  pthread_mutex_init (&transport->lock, NULL);
  ps_clock_condition_init (&transport->closing_changed);
}

static gboolean nccl_available (GError **error)
{
  int n_gpus = 0;
  GError *cause = NULL;

  if (!ps_nccl_cuda_ok ("nccl transport", cudaGetDeviceCount (&n_gpus), &cause)) {
    cause->code = PS_ERROR_UNAVAILABLE;
    g_propagate_error (error, cause);
    return FALSE;
  }
  if (n_gpus == 0)
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "nccl transport: no GPU");
  return n_gpus > 0;
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
  transport->endpoint = g_new0 (PsNcclEndpoint *, transport->n_ends);
  for (guint i = setting->first; i < transport->n_ends; i++)
    transport->endpoint[i] = ps_nccl_endpoint_new (setting, i, &transport->aborted);
  init_locks (transport);
  transport->watchdog = g_thread_try_new ("watchdog", watch, transport, error);
  if (transport->watchdog != NULL)
    return &transport->base;
  nccl_class.close (&transport->base);
  return NULL;
}

/* Takes an endpoint out, so that no other thread looks at it any more. */
static PsNcclEndpoint *take_endpoint (NcclTransport *transport, guint at)
{
  PsNcclEndpoint *endpoint;

  pthread_mutex_lock (&transport->lock);
  endpoint = g_steal_pointer (&transport->endpoint[at]);
  pthread_mutex_unlock (&transport->lock);
  return endpoint;
}

static void nccl_part (PsTransport *base, guint at)
{
  NcclTransport *transport = nccl_transport (base);

  ps_nccl_endpoint_free (take_endpoint (transport, at), transport->setting.n_devices);
}

static void nccl_close (PsTransport *base)
{
  NcclTransport *transport = nccl_transport (base);

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

static gboolean nccl_join (PsTransport *base, guint at, PsDevice *device, GError **error)
{
  NcclTransport *transport = nccl_transport (base);

  return ps_nccl_endpoint_join (transport->endpoint[at], &transport->setting, device, error);
}

/* Copies between host and GPU; done on return. cudaMemcpy may return before the bytes are on the GPU, and the channels'
 * streams do not wait for its stream. */
static gboolean copy (const PsNcclEndpoint *endpoint, void *to, const void *from, gsize n_bytes, GError **error)
{
  return ps_nccl_cuda_ok ("cudaMemcpyAsync", cudaMemcpyAsync (to, from, n_bytes, cudaMemcpyDefault, endpoint->idle),
                          error)
         && ps_nccl_cuda_ok ("cudaStreamSynchronize", cudaStreamSynchronize (endpoint->idle), error);
}

/* The memory that NCCL sends for a tensor: its device memory, or staging memory with its bytes. NULL on failure. */
static void *stage_out (const PsNcclEndpoint *endpoint, PsNcclChannel *channel, PsNcclJob *job, GError **error)
{
  const void *host = job->tensor->bytes > 0 ? job->tensor->data : &job->due_ns;

  if (!endpoint->staged)
    return job->tensor->data;
  job->staging = ps_nccl_channel_block (channel, endpoint->wire_bytes, error);
  return job->staging != NULL && copy (endpoint, job->staging, host, endpoint->wire_bytes, error) ? job->staging : NULL;
}

static gboolean nccl_send (PsTransport *base, guint from, guint to, PsOp message, PsTensor *tensor, gint64 delay_ns,
                           GError **error)
{
  NcclTransport *transport = nccl_transport (base);
  PsNcclEndpoint *endpoint = transport->endpoint[from];
  PsNcclChannel *channel = endpoint->out[to % transport->setting.n_devices];
  PsNcclJob *job = g_new0 (PsNcclJob, 1);

  g_assert (delay_ns == 0 || tensor->bytes == 0);

  *job = (PsNcclJob){ .op = message,
                      .tensor = tensor,
                      .due_ns = ps_clock_now () + delay_ns + transport->setting.clock_offset_ns };
  void *memory = ps_nccl_channel_reap (channel, FALSE, error) ? stage_out (endpoint, channel, job, error) : NULL;
  if (memory != NULL)
    return ps_nccl_channel_post (channel, job, memory, endpoint->wire_bytes, error);
  ps_nccl_job_free (channel, job);
  return FALSE;
}

static gboolean nccl_receive (PsTransport *base, guint at, guint from, PsOp message, GError **error)
{
  NcclTransport *transport = nccl_transport (base);
  PsNcclEndpoint *endpoint = transport->endpoint[at];
  PsNcclChannel *channel = endpoint->in[from % transport->setting.n_devices];
  PsNcclJob *job = g_new0 (PsNcclJob, 1);

  job->op = message;
  job->tensor = endpoint->device->class->tensor_new (endpoint->device);
  if (job->tensor == NULL) {
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "device %u: no memory for a message from device %u",
                 channel->own, channel->peer);
    ps_nccl_job_free (channel, job);
    return FALSE;
  }
  if (endpoint->staged)
    job->staging = ps_nccl_channel_block (channel, endpoint->wire_bytes, error);
  if (endpoint->staged && job->staging == NULL) {
    ps_nccl_job_free (channel, job);
    return FALSE;
  }
  return ps_nccl_channel_post (channel, job, endpoint->staged ? job->staging : job->tensor->data, endpoint->wire_bytes,
                               error);
}

/* Copies a message to host memory where that is wanted. */
static gboolean stage_in (const PsNcclEndpoint *endpoint, PsNcclJob *job, GError **error)
{
  void *host = job->tensor->bytes > 0 ? job->tensor->data : &job->due_ns;

  return !endpoint->staged || copy (endpoint, host, job->staging, endpoint->wire_bytes, error);
}

/* A message without data is used when it is due. Sleeps in short pieces, as the run may be aborted. */
static gboolean await_due (NcclTransport *transport, gint64 due_ns, GError **error)
{
  gint64 until_ns = due_ns - transport->setting.clock_offset_ns;

  while (until_ns - WATCH_NS > ps_clock_now () && g_atomic_int_get (&transport->aborted) == 0)
    ps_clock_sleep_until (MIN (until_ns, ps_clock_now () + WATCH_NS));
  ps_clock_sleep_until (g_atomic_int_get (&transport->aborted) != 0 ? 0 : until_ns);
  return g_atomic_int_get (&transport->aborted) == 0 || fail_aborted (error);
}

static PsTensor *take_message (NcclTransport *transport, PsNcclEndpoint *endpoint, PsNcclJob *job,
                               PsTransferTimes *times, GError **error)
{
  if (!stage_in (endpoint, job, error))
    return NULL;
  *times = (PsTransferTimes){ .end_ns = ps_nccl_endpoint_time (endpoint, job->done) };
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
  NcclTransport *transport = nccl_transport (base);
  PsNcclEndpoint *endpoint = transport->endpoint[at];
  PsNcclChannel *channel = endpoint->in[from % transport->setting.n_devices];
  PsNcclJob *job = ps_nccl_channel_find (channel, message);
  char name[48];

  if (job == NULL)
    return ps_refuse_null (error, PS_ERROR_SCHEDULE, "device %u: waits for %s from device %u without a receive",
                           channel->own, ps_op_format (message, name), channel->peer);
  if (!ps_nccl_channel_await (channel, job, error))
    return NULL;
  PsTensor *tensor = take_message (transport, endpoint, job, times, error);
  ps_nccl_job_free (channel, job);
  return tensor;
}

static gboolean nccl_flush (PsTransport *base, guint from, GError **error)
{
  NcclTransport *transport = nccl_transport (base);
  PsNcclEndpoint *endpoint = transport->endpoint[from];

  for (guint to = 0; to < transport->setting.n_devices; to++)
    if (endpoint->out[to] != NULL && !ps_nccl_channel_reap (endpoint->out[to], TRUE, error))
      return FALSE;
  return ps_nccl_endpoint_anchor (endpoint, error);
}

/* Adds up in memory of the GPU; all: returns when it is done. */
static gboolean add_up (PsNcclChannel *channel, float *values, gsize n, gboolean all, GError **error)
{
  return ps_nccl_channel_post (channel, g_new0 (PsNcclJob, 1), values, n, error)
         && ps_nccl_channel_reap (channel, all, error);
}

static gboolean nccl_sum (PsTransport *base, guint at, PsCircleKind kind, G_GNUC_UNUSED PsSumHalves halves,
                          float *values, gsize n, GError **error)
{
  const PsNcclEndpoint *endpoint = nccl_transport (base)->endpoint[at];
  PsNcclChannel *channel = endpoint->sums[kind];
  gsize n_bytes = n * sizeof *values;

  if (channel == NULL)
    return TRUE;
  if (ps_cuda_is_on_gpu (values))
    return add_up (channel, values, n, !channel->borrows, error);
  void *there = ps_nccl_channel_room (channel, n_bytes, error);

  return there != NULL && copy (endpoint, there, values, n_bytes, error) && add_up (channel, there, n, TRUE, error)
         && copy (endpoint, values, there, n_bytes, error);
}

static void abort_channel (PsNcclChannel *channel, gpointer data)
{
  ps_nccl_channel_abort (channel);
}

static void nccl_abort (PsTransport *base)
{
  NcclTransport *transport = nccl_transport (base);

  g_atomic_int_set (&transport->aborted, 1);
  pthread_mutex_lock (&transport->lock);
  for (guint i = 0; i < transport->n_ends; i++)
    if (transport->endpoint[i] != NULL)
      ps_nccl_endpoint_visit (transport->endpoint[i], transport->setting.n_devices, abort_channel, NULL);
  pthread_mutex_unlock (&transport->lock);
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
  .self_send = ps_nccl_self_send,
  .abort = nccl_abort,
};

const guint64 ps_module_stamp = PS_MODULE_STAMP;

const PsTransportClass *ps_nccl_transport_class (void)
{
  g_setenv (CHANNELS_VARIABLE, MOST_CHANNELS, FALSE);
  return &nccl_class;
}
