/* predict-memory.c - tables of what each device holds at its peak. */
#include "predict-memory.h"

#include <pipesim/simulate.h>

typedef struct
{
  char *schedule;
  guint device;
  gint64 peak_bytes;
  PsMemoryMoment peak;
  char *alive;
} Row;

struct _PsMemoryRows
{
  GArray *rows; /* Row */
};

/* In the order of PsMemoryPart. */
static const PsColumn part_columns[PS_N_MEMORY_PARTS] = {
  { "weights_bytes", "weights", PS_COLUMN_SIZE },
  { "gradients_bytes", "gradients", PS_COLUMN_SIZE },
  { "optimizer_bytes", "optimizer", PS_COLUMN_SIZE },
  { "state_bytes", "weights, gradients, optimizer", PS_COLUMN_SIZE },
  { "versions_bytes", "further versions", PS_COLUMN_SIZE },
  { "activations_bytes", "activations", PS_COLUMN_SIZE },
  { "weight_inputs_bytes", "W inputs", PS_COLUMN_SIZE },
  { "workspace_bytes", "workspace", PS_COLUMN_SIZE },
  { "buffers_bytes", "buffers", PS_COLUMN_SIZE },
  { "framework_bytes", "framework", PS_COLUMN_SIZE },
  { "context_bytes", "driver and libraries", PS_COLUMN_SIZE },
};

static const PsColumn alive_columns[] = {
  { "stage", NULL, PS_COLUMN_INTEGER }, { "microbatch", NULL, PS_COLUMN_INTEGER }, { "slice", NULL, PS_COLUMN_INTEGER },
  { "part", NULL, PS_COLUMN_TEXT },     { "bytes", NULL, PS_COLUMN_SIZE },
};

static const PsColumn json_columns[] = {
  { "peak_bytes", NULL, PS_COLUMN_SIZE },
  { "peak_ns", NULL, PS_COLUMN_TIME },
  { "parts", NULL, PS_COLUMN_TABLE },
  { "alive", NULL, PS_COLUMN_TABLE },
};

static void
row_clear (gpointer data)
{
  Row *row = data;

  g_free (row->schedule);
  g_free (row->alive);
}

PsMemoryRows *
ps_memory_rows_new (void)
{
  PsMemoryRows *rows = g_new (PsMemoryRows, 1);

  rows->rows = g_array_new (FALSE, FALSE, sizeof (Row));
  g_array_set_clear_func (rows->rows, row_clear);
  return rows;
}

void
ps_memory_rows_free (PsMemoryRows *rows)
{
  if (rows == NULL)
    return;
  g_array_unref (rows->rows);
  g_free (rows);
}

static void
set_parts (PsTable *table, const PsMemoryMoment *moment, const gboolean *wanted)
{
  for (guint part = 0; part < PS_N_MEMORY_PARTS; part++)
    if (wanted == NULL || wanted[part])
      ps_table_set_integer (table, part_columns[part].key, moment->bytes[part]);
}

static PsTable *
parts_table (const PsMemoryMoment *moment)
{
  PsTable *table = ps_table_new (part_columns, G_N_ELEMENTS (part_columns));

  ps_table_add_row (table);
  set_parts (table, moment, NULL);
  return table;
}

static PsTable *
alive_table (const GArray *alive)
{
  PsTable *table = ps_table_new (alive_columns, G_N_ELEMENTS (alive_columns));

  for (guint i = 0; i < alive->len; i++)
    {
      const PsMemoryHolding *holding = &g_array_index (alive, PsMemoryHolding, i);

      ps_table_add_row (table);
      ps_table_set_integer (table, "stage", holding->stage);
      ps_table_set_integer (table, "microbatch", holding->microbatch);
      ps_table_set_integer (table, "slice", holding->slice);
      ps_table_set_text (table, "part", ps_memory_part_key ((PsMemoryPart)holding->part));
      ps_table_set_integer (table, "bytes", holding->bytes);
    }
  return table;
}

PsTable *
ps_memory_rows_add (PsMemoryRows *rows, const PsPrediction *prediction)
{
  g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);
  PsTable *table = ps_table_new (json_columns, G_N_ELEMENTS (json_columns));

  for (guint d = 0; d < memory->n_devices; d++)
    {
      const PsDeviceMemory *device = &memory->device[d];
      const Row row = { .schedule = g_strdup (prediction->program->schedule->name),
                        .device = d,
                        .peak_bytes = device->peak_bytes,
                        .peak = device->peak,
                        .alive = ps_memory_describe_alive (device) };

      g_array_append_val (rows->rows, row);
      ps_table_add_row (table);
      ps_table_set_integer (table, "peak_bytes", device->peak_bytes);
      ps_table_set_integer (table, "peak_ns", device->peak.time_ns);
      ps_table_set_table (table, "parts", parts_table (&device->peak));
      ps_table_set_table (table, "alive", alive_table (device->alive));
    }
  return table;
}

/* Parts that any row has. */
static void
find_wanted (const PsMemoryRows *rows, gboolean *wanted)
{
  for (guint i = 0; i < rows->rows->len; i++)
    for (guint part = 0; part < PS_N_MEMORY_PARTS; part++)
      wanted[part] |= g_array_index (rows->rows, Row, i).peak.bytes[part] != 0;
}

static guint
choose_columns (const gboolean *wanted, PsColumn *columns)
{
  guint n = 0;

  columns[n++] = (PsColumn){ "schedule", "schedule", PS_COLUMN_TEXT };
  columns[n++] = (PsColumn){ "device", "device", PS_COLUMN_INTEGER };
  columns[n++] = (PsColumn){ "peak_bytes", "peak", PS_COLUMN_SIZE };
  columns[n++] = (PsColumn){ "peak_ns", "at", PS_COLUMN_TIME };
  for (guint part = 0; part < PS_N_MEMORY_PARTS; part++)
    if (wanted[part])
      columns[n++] = part_columns[part];
  columns[n++] = (PsColumn){ "alive", "alive microbatches", PS_COLUMN_TEXT };
  return n;
}

char *
ps_memory_rows_to_text (const PsMemoryRows *rows)
{
  gboolean wanted[PS_N_MEMORY_PARTS] = { FALSE };
  PsColumn columns[PS_N_MEMORY_PARTS + 5];

  find_wanted (rows, wanted);
  g_autoptr (PsTable) table = ps_table_new (columns, choose_columns (wanted, columns));
  for (guint i = 0; i < rows->rows->len; i++)
    {
      const Row *row = &g_array_index (rows->rows, Row, i);

      ps_table_add_row (table);
      ps_table_set_text (table, "schedule", row->schedule);
      ps_table_set_integer (table, "device", row->device);
      ps_table_set_integer (table, "peak_bytes", row->peak_bytes);
      ps_table_set_integer (table, "peak_ns", row->peak.time_ns);
      set_parts (table, &row->peak, wanted);
      ps_table_set_text (table, "alive", row->alive);
    }
  return ps_table_to_text (table);
}
