/* cpu-sizes.c - the models that the cpu device takes, and how blocks are divided. */
#include "cpu-sizes.h"

static gboolean refuse (const char *field, const char *value, const char *supported, GError **error)
{
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: model has %s = %s: only %s is supported", field, value,
                    supported);
}

static gboolean check_kind (const PsModel *model, GError **error)
{
  PsModel plain = *model;

  plain.tied = FALSE;
  const char *special = ps_model_special_key (&plain);
  if (special != NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: model has %s: only models without it are supported",
                      special);
  if (model->precision != PS_PRECISION_FP32)
    return refuse ("precision", ps_precision_name (model->precision), "fp32", error);
  if (model->mlp != PS_MLP_GELU)
    return refuse ("mlp", "swiglu", "gelu", error);
  if (model->flash_attention)
    return refuse ("flash_attention", "true", "false", error);
  if (model->kv_heads != model->heads) {
    g_autofree char *value = g_strdup_printf ("%u", model->kv_heads);
    g_autofree char *supported = g_strdup_printf ("the number of heads, %u,", model->heads);

    return refuse ("kv_heads", value, supported, error);
  }
  return TRUE;
}

/* Keeps every size within an int and every block within PS_MAX_SIZE_BYTES: no index overflows. */
static gboolean check_size (const PsModel *model, GError **error)
{
  const double tokens = (double)model->microbatch_size * model->sequence;
  const double widest = MAX (MAX (3.0 * model->hidden, model->feed_forward), model->vocabulary);
  const double deepest = MAX (MAX (tokens, widest), model->sequence);
  const double rows = MAX (deepest, (double)model->heads * tokens);

  if (tokens <= G_MAXINT / 2 && widest <= G_MAXINT && model->heads <= G_MAXINT && model->layers <= G_MAXINT
      && rows * deepest * 64 * model->layers <= (double)PS_MAX_SIZE_BYTES)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_UNAVAILABLE,
      "cpu device: model of %u layers, hidden %u, feed_forward %u, vocabulary %u, %u x %u tokens is too large",
      model->layers, model->hidden, model->feed_forward, model->vocabulary, model->microbatch_size, model->sequence);
}

gboolean ps_cpu_sizes_init (PsCpuSizes *sizes, const PsModel *model, guint n_slices, GError **error)
{
  if (!check_kind (model, error) || !check_size (model, error))
    return FALSE;
  g_return_val_if_fail (model->heads > 0 && model->hidden % model->heads == 0, FALSE);
  if (model->sequence % n_slices != 0)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: %u slices: do not divide the model's sequence of %u",
                      n_slices, model->sequence);

  *sizes = (PsCpuSizes){
    .layers = (int)model->layers,
    .tokens = (int)(model->microbatch_size * model->sequence / n_slices),
    .batch = (int)model->microbatch_size,
    .sequence = (int)(model->sequence / n_slices),
    .longest = (int)model->sequence,
    .slices = (int)n_slices,
    .hidden = (int)model->hidden,
    .parts = 1,
    .heads = (int)model->heads,
    .head_size = (int)(model->hidden / model->heads),
    .width = (int)model->hidden,
    .feed_forward = (int)model->feed_forward,
    .vocabulary = (int)model->vocabulary,
    .tied = model->tied,
  };
  return TRUE;
}

void ps_cpu_sizes_share (PsCpuSizes *sizes, guint n, guint part)
{
  sizes->parts = (int)n;
  sizes->part = (int)part;
  sizes->heads /= sizes->parts;
  sizes->width /= sizes->parts;
  sizes->feed_forward /= sizes->parts;
}

gsize ps_cpu_sizes_boundary (const PsCpuSizes *sizes)
{
  return (gsize)sizes->tokens * sizes->hidden;
}

gsize ps_cpu_sizes_message (const PsCpuSizes *sizes)
{
  return (gsize)sizes->batch * sizes->longest / sizes->slices * sizes->hidden;
}

float *ps_cpu_carve (float **cursor, gsize n)
{
  const guintptr start = (guintptr)*cursor;
  const gsize bytes = (n * sizeof (float) + 63) / 64 * 64;

  *cursor = (float *)(start + bytes);
  return (float *)start;
}

gsize ps_cpu_carved (const float *cursor)
{
  return (gsize)(guintptr)cursor / sizeof (float);
}

gsize ps_cpu_workspace_lay_out (PsCpuWorkspace *workspace, const PsCpuSizes *sizes, float *block)
{
  float *cursor = block;
  const gsize sequence = (gsize)sizes->sequence;

  workspace->normed = ps_cpu_carve (&cursor, ps_cpu_sizes_boundary (sizes));
  workspace->wide = ps_cpu_carve (&cursor, (gsize)sizes->tokens * sizes->feed_forward);
  workspace->square = ps_cpu_carve (&cursor, sequence * sequence);
  workspace->narrow = ps_cpu_carve (&cursor, sequence * sizes->head_size);
  G_STATIC_ASSERT (sizeof (guint32) == sizeof (float));
  workspace->words = (guint32 *)(void *)ps_cpu_carve (&cursor, sizes->batch * ((gsize)sizes->longest + 1));
  return ps_cpu_carved (cursor) - ps_cpu_carved (block);
}
