/* devices-detail.c - a nested table of all devices. */
#include "devices-detail.h"

static const PsColumn columns[] = {
  { "busy_ns", NULL, PS_COLUMN_TIME },
  { "span_ns", NULL, PS_COLUMN_TIME },
  { "peak_memory_bytes", NULL, PS_COLUMN_SIZE },
  { "peak_activations", NULL, PS_COLUMN_INTEGER },
};

PsTable *
ps_devices_detail (const PsMetrics *metrics)
{
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));

  for (guint d = 0; d < metrics->n_devices; d++)
    {
      ps_table_add_row (table);
      ps_table_set_integer (table, "busy_ns", metrics->device[d].busy_ns);
      ps_table_set_integer (table, "span_ns", metrics->device[d].span_ns);
      ps_table_set_integer (table, "peak_memory_bytes", metrics->device[d].peak_memory_bytes);
      ps_table_set_integer (table, "peak_activations", metrics->device[d].peak_activations);
    }
  return table;
}
