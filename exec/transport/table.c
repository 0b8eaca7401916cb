/* table.c - the transport classes of this build. */
#include "transport/transports.h"

static const PsTransportClass *const table[] = { &ps_threads_transport };

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
  g_autoptr (GString) names = g_string_new (NULL);

  g_return_val_if_fail (name != NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    {
      if (g_str_equal (table[i]->name, name))
        return table[i];
      g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", table[i]->name);
    }
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--transport: unknown transport '%s' (this build has %s)", name,
               names->str);
  return NULL;
}
