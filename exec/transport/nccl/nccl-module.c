/* nccl-module.c - the row "nccl" of the table: loads the module that holds the real class. */
#include "transport/transports.h"

static gboolean
nccl_available (GError **error)
{
  const PsTransportClass *class = ps_transport_load ("nccl", error);

  return class != NULL && class->available (error);
}

static char *
nccl_libraries (void)
{
  const PsTransportClass *class = ps_transport_load ("nccl", NULL);

  return class != NULL ? class->libraries () : NULL;
}

static PsTransport *
nccl_open (const PsTransportSetting *setting, GError **error)
{
  const PsTransportClass *class = ps_transport_load ("nccl", error);

  return class != NULL ? class->open (setting, error) : NULL;
}

static gboolean
nccl_all_reduce (PsTransport *transport, guint at, float *values, gsize n, GError **error)
{
  return transport->class->all_reduce (transport, at, values, n, error);
}

static gboolean
nccl_self_send (PsDevice *device, gsize n_bytes, guint n_samples, gint64 *samples_ns, GError **error)
{
  const PsTransportClass *class = ps_transport_load ("nccl", error);

  return class != NULL && class->self_send (device, n_bytes, n_samples, samples_ns, error);
}

const PsTransportClass ps_nccl_transport = {
  .name = "nccl",
  .description = "NCCL between NVIDIA GPUs, one device each, in one process or several",
  .spans_processes = TRUE,
  .ordered = TRUE,
  .exclusive = TRUE,
  .occupies = TRUE,
  .available = nccl_available,
  .libraries = nccl_libraries,
  .open = nccl_open,
  .all_reduce = nccl_all_reduce,
  .self_send = nccl_self_send,
};
