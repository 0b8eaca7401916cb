/* table.c - the transport classes of this build. */
#include "transport/transports.h"

#include "module.h"

typedef const PsTransportClass *(*ClassFunction) (void);

static const PsTransportClass *const table[] = { &ps_threads_transport, &ps_mpi_transport, &ps_nccl_transport };

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

const PsTransportClass *
ps_transport_load (const char *name, GError **error)
{
  g_autofree char *where = g_strconcat (name, " transport", NULL);
  g_autofree char *symbol = g_strdup_printf ("ps_%s_transport_class", name);
  ClassFunction function = (ClassFunction)ps_module_function (where, name, symbol, error);

  return function != NULL ? function () : NULL;
}
