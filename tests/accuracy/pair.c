/* pair.c - reads the profile of one overlapped pair: its kernels by annotation and layer. */
#include "rows.h"

#include <math.h>

/* The part of a layer that an annotation names; NULL: none. */
static gint64 *find_part (PsPairLayer *layer, const char *annotation)
{
  static const char *const kinds = "FBW";
  static const struct {
    const char *name;
    gsize offset;
    guint n_kinds;
  } parts[] = { { "attn", G_STRUCT_OFFSET (PsPairLayer, attention_ns), 3 },
                { "mlp", G_STRUCT_OFFSET (PsPairLayer, experts_ns), 3 },
                { "dispatch", G_STRUCT_OFFSET (PsPairLayer, dispatch_ns), 2 },
                { "combine", G_STRUCT_OFFSET (PsPairLayer, combine_ns), 2 } };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    for (guint kind = 0; kind < parts[i].n_kinds; kind++) {
      g_autofree char *name = g_strdup_printf ("%s(%c)", parts[i].name, kinds[kind]);

      if (g_str_equal (name, annotation))
        return &G_STRUCT_MEMBER (gint64, layer, parts[i].offset + kind * sizeof (gint64));
    }
  return NULL;
}

/* Kernels that run side by side, on any streams, share the multiprocessors. */
static gint64 kernels_ns (const Row *line)
{
  static const char *const streams[] = { "compute_stream7_ms", "comm_stream27_ms", "wgrad_stream23_ms" };
  double ms = 0;

  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    ms += row_number (line, streams[i]);
  return llrint (ms * 1e6);
}

char *row_read_pair (Row *row)
{
  double first = INFINITY, last = 0;

  row->name = g_strdup ("F of one microbatch beside B and W of another");
  row->series = g_strdup ("DeepSeek-V3");
  row->schedule = "dualpipe";
  row->setting->n_devices = row->setting->n_chunks = row->setting->n_microbatches = 1;
  row->pair = g_array_new (FALSE, TRUE, sizeof (PsPairLayer));
  for (guint i = 1; row->cells[0] != NULL && row->cells[i] != NULL; i++) {
    g_auto (GStrv) cells = row_split (row->cells[i]);
    const Row line = { .header = row->header, .cells = cells };
    guint layer = (guint)row_number (&line, "layer_instance");

    if (*row->cells[i] == '\0')
      continue;
    g_array_set_size (row->pair, MAX (row->pair->len, layer + 1));
    gint64 *part = find_part (&g_array_index (row->pair, PsPairLayer, layer), row_text (&line, "annotation"));
    if (part == NULL)
      return g_strdup_printf ("annotation %s", row_text (&line, "annotation"));
    *part = kernels_ns (&line);
    first = MIN (first, row_number (&line, "gpu_first_start_ms"));
    last = MAX (last, row_number (&line, "gpu_last_end_ms"));
  }
  row->measured_s = (last - first) / 1e3;
  return row->pair->len > 0 ? NULL : g_strdup ("no kernels are there");
}
