/* nccl-endpoint.c - one device's ends of all its channels. */
#include "nccl-endpoint.h"

#include "clock.h"
#include "run/transports.h"

#include <string.h>

#define MARK_BYTES sizeof (gint64) /* of a message without data: when it may be used */
#define HOST_SIZE 128
#define BUS_SIZE 32

/* Every device gives one to the others, so that two on one GPU are found. */
typedef struct {
  char host[HOST_SIZE];
  char bus[BUS_SIZE];
  ncclUniqueId sums[PS_N_CIRCLE_KINDS]; /* of the first device of a circle: name of the communicator of all */
} Card;

PsNcclEndpoint *ps_nccl_endpoint_new (const PsTransportSetting *setting, guint at, gint *aborted)
{
  PsNcclEndpoint *endpoint = g_new0 (PsNcclEndpoint, 1);
  guint n = setting->n_devices, index = at % n;

  endpoint->at = at;
  endpoint->index = index;
  endpoint->wire_bytes = setting->message_bytes > 0 ? setting->message_bytes : MARK_BYTES;
  endpoint->out = g_new0 (PsNcclChannel *, n);
  endpoint->in = g_new0 (PsNcclChannel *, n);
  for (guint i = 0; i < n; i++) {
    if (setting->uses[(gsize)index * n + i])
      endpoint->out[i] = ps_nccl_channel_new (PS_NCCL_SEND, index, i, aborted, setting->timeout_ns);
    if (setting->uses[(gsize)i * n + index])
      endpoint->in[i] = ps_nccl_channel_new (PS_NCCL_RECEIVE, index, i, aborted, setting->timeout_ns);
  }
  for (guint kind = 0; kind < PS_N_CIRCLE_KINDS; kind++)
    if (kind != PS_CIRCLE_REPLICAS && ps_circle_of (setting, at, kind).n > 1) {
      endpoint->sums[kind] = ps_nccl_channel_new (PS_NCCL_ADD, index, index, aborted, setting->timeout_ns);
      endpoint->sums[kind]->circle = kind;
    }
  return endpoint;
}

/* The end of a channel between two devices that this one has; NULL: it has none. */
static PsNcclChannel *channel_between (const PsNcclEndpoint *endpoint, guint from, guint to)
{
  if (endpoint->index == from)
    return endpoint->out[to];
  return endpoint->index == to ? endpoint->in[from] : NULL;
}

void ps_nccl_endpoint_visit (PsNcclEndpoint *endpoint, guint n_devices,
                             void (*visit) (PsNcclChannel *channel, gpointer data), gpointer data)
{
  for (guint from = 0; from < n_devices; from++)
    for (guint to = 0; to < n_devices; to++) {
      PsNcclChannel *channel = channel_between (endpoint, from, to);

      if (channel != NULL)
        visit (channel, data);
    }
  for (guint kind = 0; kind < PS_N_CIRCLE_KINDS; kind++)
    if (endpoint->sums[kind] != NULL)
      visit (endpoint->sums[kind], data);
}

static void free_channel (PsNcclChannel *channel, gpointer data)
{
  ps_nccl_channel_free (channel);
}

void ps_nccl_endpoint_free (PsNcclEndpoint *endpoint, guint n_devices)
{
  if (endpoint == NULL)
    return;
  ps_nccl_endpoint_visit (endpoint, n_devices, free_channel, NULL);
  ps_cuda_clock_close (&endpoint->clock);
  if (endpoint->idle != NULL)
    cudaStreamDestroy (endpoint->idle);
  g_free (endpoint->out);
  g_free (endpoint->in);
  g_free (endpoint);
}

/* NCCL takes processes with equal NCCL_HOSTID for processes of one host; without it, it goes by the host itself. */
static gboolean fill_card (Card *card, const PsTransportSetting *setting, const PsNcclEndpoint *endpoint,
                           GError **error)
{
  const char *host = g_getenv ("NCCL_HOSTID");
  int gpu = 0;

  memset (card, 0, sizeof *card);
  g_strlcpy (card->host, host != NULL ? host : g_get_host_name (), sizeof card->host);
  if (!ps_nccl_cuda_ok ("cudaGetDevice", cudaGetDevice (&gpu), error)
      || !ps_nccl_cuda_ok ("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId (card->bus, sizeof card->bus, gpu), error))
    return FALSE;
  for (guint kind = 0; kind < PS_N_CIRCLE_KINDS; kind++)
    if (endpoint->sums[kind] != NULL && ps_circle_of (setting, endpoint->at, kind).own == 0
        && !ps_nccl_ok ("ncclGetUniqueId", NULL, ncclGetUniqueId (&card->sums[kind]), error))
      return FALSE;
  return TRUE;
}

static gboolean check_cards (const Card *cards, guint n, guint own, guint n_devices, GError **error)
{
  for (guint i = 0; i < n; i++)
    if (i != own && strncmp (cards[i].host, cards[own].host, HOST_SIZE) == 0
        && strncmp (cards[i].bus, cards[own].bus, BUS_SIZE) == 0)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                        "device %u: shares GPU %s with device %u%s; NCCL needs a GPU for each", own % n_devices,
                        cards[own].bus, i % n_devices, i / n_devices != own / n_devices ? " of another copy" : "");
  return TRUE;
}

static gboolean exchange (const PsTransportSetting *setting, guint at, gconstpointer mine, gsize n_bytes, gpointer all,
                          GError **error)
{
  return setting->group->exchange (setting->group->data, at, mine, n_bytes, all, error);
}

/* Devices of all pipelines. */
static guint count_devices (const PsTransportSetting *setting)
{
  return setting->n_devices * setting->n_replicas * MAX (setting->n_tensor, 1);
}

/* names: of the communicators for sums, by PsCircleKind. */
static gboolean meet_peers (const PsNcclEndpoint *endpoint, const PsTransportSetting *setting, ncclUniqueId *names,
                            GError **error)
{
  guint n = count_devices (setting);
  g_autofree Card *cards = g_new0 (Card, n);
  Card mine;

  if (!fill_card (&mine, setting, endpoint, error)
      || !exchange (setting, endpoint->at, &mine, sizeof mine, cards, error))
    return FALSE;
  for (guint kind = 0; kind < PS_N_CIRCLE_KINDS; kind++)
    names[kind] = cards[ps_circle_of (setting, endpoint->at, kind).first].sums[kind];
  return check_cards (cards, n, setting->pipeline * setting->n_devices + endpoint->at, setting->n_devices, error);
}

/* names[from * n_devices + to] for all channels of this replica; each is made by its sender. Free with g_free. */
static ncclUniqueId *exchange_names (const PsNcclEndpoint *endpoint, const PsTransportSetting *setting, GError **error)
{
  guint n = setting->n_devices;
  gsize n_bytes = n * sizeof (ncclUniqueId);
  g_autofree ncclUniqueId *mine = g_new0 (ncclUniqueId, n);
  g_autofree ncclUniqueId *all = g_new0 (ncclUniqueId, (gsize)n * count_devices (setting));
  guint pipeline = setting->pipeline + endpoint->at / n;

  for (guint to = 0; to < n; to++)
    if (endpoint->out[to] != NULL && !ps_nccl_ok ("ncclGetUniqueId", NULL, ncclGetUniqueId (&mine[to]), error))
      return NULL;
  if (!exchange (setting, endpoint->at, mine, n_bytes, all, error))
    return NULL;
  return g_memdup2 (all + (gsize)pipeline * n * n, n * n_bytes);
}

/* Sends a message for no op, or adds up one number: NCCL connects with the first one. */
static gboolean warm_up (const PsNcclEndpoint *endpoint, PsNcclChannel *channel, GError **error)
{
  PsNcclJob *job = g_new0 (PsNcclJob, 1);

  job->staging = ps_nccl_channel_block (channel, endpoint->wire_bytes, error);
  if (job->staging == NULL) {
    ps_nccl_job_free (channel, job);
    return FALSE;
  }
  return ps_nccl_channel_post (channel, job, job->staging, channel->kind == PS_NCCL_ADD ? 1 : endpoint->wire_bytes,
                               error)
         && ps_nccl_channel_reap (channel, TRUE, error);
}

/* All devices open their channels in one order, of senders and then of receivers. So there is always a channel that
 * both its ends have reached, and no device waits for ever. */
static gboolean open_channels (PsNcclEndpoint *endpoint, const PsTransportSetting *setting, const ncclUniqueId *names,
                               GError **error)
{
  guint n = setting->n_devices;

  for (guint from = 0; from < n; from++)
    for (guint to = 0; to < n; to++) {
      PsNcclChannel *channel = channel_between (endpoint, from, to);

      if (channel == NULL)
        continue;
      if (!ps_nccl_channel_open (channel, &names[(gsize)from * n + to], channel->kind == PS_NCCL_SEND ? 0 : 1, 2, error)
          || !warm_up (endpoint, channel, error))
        return FALSE;
    }
  return TRUE;
}

/* A device that is on no GPU itself borrows one for its messages, another one than its neighbours. */
static gboolean borrow_gpu (const PsNcclEndpoint *endpoint, const PsTransportSetting *setting, GError **error)
{
  guint number = setting->local + endpoint->at - setting->first;
  int n_gpus = 0;

  return ps_nccl_cuda_ok ("cudaGetDeviceCount", cudaGetDeviceCount (&n_gpus), error)
         && ps_nccl_cuda_ok ("cudaSetDevice", cudaSetDevice ((int)number % n_gpus), error);
}

static gboolean open_clock (PsNcclEndpoint *endpoint, GError **error)
{
  return ps_nccl_cuda_ok ("cudaStreamCreateWithFlags",
                          cudaStreamCreateWithFlags (&endpoint->idle, cudaStreamNonBlocking), error)
         && ps_nccl_cuda_ok ("cudaEventCreate", ps_cuda_clock_open (&endpoint->clock), error)
         && ps_nccl_endpoint_anchor (endpoint, error);
}

/* Sums within ops run in the device's own stream, after what they add up and before all that reads it. */
static gboolean open_sums (PsNcclEndpoint *endpoint, const PsTransportSetting *setting, const ncclUniqueId *names,
                           GError **error)
{
  PsDevice *device = endpoint->device;

  for (guint kind = 0; kind < PS_N_CIRCLE_KINDS; kind++) {
    const PsCircle circle = ps_circle_of (setting, endpoint->at, kind);
    PsNcclChannel *channel = endpoint->sums[kind];

    if (channel == NULL)
      continue;
    if (kind == PS_CIRCLE_TENSOR && device->class->stream != NULL)
      channel->stream = device->class->stream (device);
    channel->borrows = channel->stream != NULL;
    if (!ps_nccl_channel_open (channel, &names[kind], circle.own, circle.n, error)
        || !warm_up (endpoint, channel, error))
      return FALSE;
  }
  return TRUE;
}

gboolean ps_nccl_endpoint_join (PsNcclEndpoint *endpoint, const PsTransportSetting *setting, PsDevice *device,
                                GError **error)
{
  ncclUniqueId sums[PS_N_CIRCLE_KINDS];

  endpoint->device = device;
  endpoint->staged = device->class->read == NULL;
  if (endpoint->staged && !borrow_gpu (endpoint, setting, error))
    return FALSE;
  if (!meet_peers (endpoint, setting, sums, error))
    return FALSE;
  g_autofree ncclUniqueId *names = exchange_names (endpoint, setting, error);
  return names != NULL && open_channels (endpoint, setting, names, error) && open_sums (endpoint, setting, sums, error)
         && open_clock (endpoint, error);
}

gboolean ps_nccl_endpoint_anchor (PsNcclEndpoint *endpoint, GError **error)
{
  return ps_nccl_cuda_ok ("cudaEventRecord", ps_cuda_clock_set (&endpoint->clock, endpoint->idle), error);
}

gint64 ps_nccl_endpoint_time (const PsNcclEndpoint *endpoint, cudaEvent_t event)
{
  gint64 ns;

  return ps_cuda_clock_time (&endpoint->clock, event, &ns) ? ns : ps_clock_now ();
}
