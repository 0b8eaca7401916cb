/* nccl-self.c - a message from a GPU to itself: it crosses no link, so it takes the time of launching a transfer. */
#include "nccl-channel.h"
#include "nccl-transport.h"

#include "clock.h"

/* A message takes microseconds: after so long NCCL hangs. */
#define TIMEOUT_NS G_GINT64_CONSTANT (30000000000)

typedef struct {
  PsNcclChannel *channel; /* of one rank */
  void *from, *to;
  gsize n_bytes;
} Mirror;

static void mirror_clear (Mirror *mirror)
{
  cudaFree (mirror->from);
  cudaFree (mirror->to);
  ps_nccl_channel_free (mirror->channel);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Mirror, mirror_clear)

static gboolean mirror_open (Mirror *mirror, GError **error)
{
  ncclUniqueId id;

  return ps_nccl_ok ("ncclGetUniqueId", NULL, ncclGetUniqueId (&id), error)
         && ps_nccl_channel_open (mirror->channel, &id, 0, 1, error)
         && ps_nccl_cuda_ok ("cudaMalloc", cudaMalloc (&mirror->from, mirror->n_bytes), error)
         && ps_nccl_cuda_ok ("cudaMalloc", cudaMalloc (&mirror->to, mirror->n_bytes), error);
}

/* One message: its whole time, and the part of it that posting holds the calling thread. */
static gboolean mirror_once (const Mirror *mirror, gint64 *ns, gint64 *post_ns, GError **error)
{
  PsNcclChannel *channel = mirror->channel;
  gint64 start_ns = ps_clock_now ();
  ncclResult_t sent, received, ended;

  if (!ps_nccl_ok ("ncclGroupStart", NULL, ncclGroupStart (), error))
    return FALSE;
  sent = ncclSend (mirror->from, mirror->n_bytes, ncclChar, 0, channel->comm, channel->stream);
  received = ncclRecv (mirror->to, mirror->n_bytes, ncclChar, 0, channel->comm, channel->stream);
  ended = ps_nccl_channel_settle (channel, ncclGroupEnd ());
  if (!ps_nccl_ok ("ncclSend", channel->comm, ps_nccl_channel_settle (channel, sent), error)
      || !ps_nccl_ok ("ncclRecv", channel->comm, ps_nccl_channel_settle (channel, received), error)
      || !ps_nccl_ok ("ncclGroupEnd", channel->comm, ended, error))
    return FALSE;
  *post_ns = ps_clock_now () - start_ns;
  if (!ps_nccl_cuda_ok ("cudaStreamSynchronize", cudaStreamSynchronize (channel->stream), error))
    return FALSE;
  *ns = ps_clock_now () - start_ns;
  return TRUE;
}

gboolean ps_nccl_self_send (PsDevice *device, gsize n_bytes, guint n_samples, gint64 *samples_ns, GError **error)
{
  gint aborted = 0;
  g_auto (Mirror) mirror
      = { .channel = ps_nccl_channel_new (PS_NCCL_SEND, 0, 0, &aborted, TIMEOUT_NS), .n_bytes = MAX (n_bytes, 1) };
  gint64 first_ns, post_ns, posts_ns = 0;

  /* The first one connects. */
  if (!mirror_open (&mirror, error) || !mirror_once (&mirror, &first_ns, &post_ns, error))
    return FALSE;
  for (guint i = 0; i < n_samples; i++, posts_ns += post_ns)
    if (!mirror_once (&mirror, &samples_ns[i], &post_ns, error))
      return FALSE;
  g_info ("nccl: posting a message of %" G_GSIZE_FORMAT " B holds the host for %.1f us on average", n_bytes,
          (double)posts_ns / 1e3 / MAX (n_samples, 1));
  return TRUE;
}
