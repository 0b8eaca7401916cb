/* worker-messages.c - messages beside those of the program: norms of gradients, and gradients of the shared matrix. */
#include "worker.h"

#include "device/devices.h"

gboolean
ps_worker_send (PsWorker *worker, guint to, PsOp name, gconstpointer bytes, gsize n_bytes, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsTensor *tensor = worker->device->class->tensor_new (worker->device);

  if (tensor == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "device %u: no memory to send gradients or their norm",
                      worker->index);
  if (tensor->data == NULL || ps_device_write (worker->device, tensor->data, bytes, n_bytes, error))
    return transport->class->send (transport, worker->at, ps_worker_peer (worker, to), name, tensor, 0, error);
  worker->device->class->tensor_free (tensor);
  return FALSE;
}

gboolean
ps_worker_receive (PsWorker *worker, guint from, PsOp name, GError **error)
{
  PsTransport *transport = worker->run->transport;

  return transport->class->receive (transport, worker->at, ps_worker_peer (worker, from), name, error);
}

gboolean
ps_worker_take (PsWorker *worker, guint from, PsOp name, gpointer bytes, gsize n_bytes, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsTensor *tensor = transport->class->wait (transport, worker->at, ps_worker_peer (worker, from), name, worker->device,
                                             &worker->unrecorded, error);

  if (tensor == NULL)
    return FALSE;
  gboolean done
      = bytes == NULL || tensor->data == NULL || ps_device_read (worker->device, bytes, tensor->data, n_bytes, error);
  worker->device->class->tensor_free (tensor);
  return done;
}
