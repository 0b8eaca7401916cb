/* nccl-transport.h - the class that the module pipesim-nccl exports. */
#pragma once

#include <pipesim/transport.h>

#include <gmodule.h>

G_MODULE_EXPORT const PsTransportClass *ps_nccl_transport_class (void);

/* Times a message from a GPU to itself, see PsTransportClass.self_send. */
gboolean ps_nccl_self_send (PsDevice *device, gsize n_bytes, guint n_samples, gint64 *samples_ns, GError **error);
