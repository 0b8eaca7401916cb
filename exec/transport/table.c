/* table.c - the transport classes of this build. */
#include "transport/transports.h"

static const PsTransportClass *const table[] = { &ps_threads_transport, &ps_nccl_transport };

const PsTransportClass *const *
ps_transport_table (guint *n)
{
  g_return_val_if_fail (n != NULL, NULL);

  *n = G_N_ELEMENTS (table);
  return table;
}

const PsTransportClass *
ps_transport_find (const char *name, GError **error)
{
  g_return_val_if_fail (name != NULL, NULL);

  return ps_table_find ("--transport", "transport", name, table, G_N_ELEMENTS (table), error);
}
