/* cuda-shared.c - memory that the stages of a device share. */
#include "cuda-shared.h"

#include "train/data.h"

#include <string.h>

/* RoFormer (arXiv 2104.09864), section 3.3. */
#define ROTARY_BASE 10000.0

void *ps_cuda_shared_take (PsCudaShared *shared, gsize bytes, PsUseKind kind, const char *what, GError **error)
{
  void *block = ps_memory_pool_take (shared->memory, bytes, kind);

  if (block == NULL) {
    g_autofree char *size = ps_format_size ((gint64)bytes);

    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "no memory for %s of %s", size, what);
  }
  return block;
}

static gboolean take (PsCudaShared *shared, void *to, gsize bytes, GError **error)
{
  void *block = ps_cuda_shared_take (shared, bytes, PS_USE_STATE, "workspace", error);

  *(void **)to = block;
  return block != NULL;
}

/* Returns the largest workspace of any kernel. */
static gsize scratch_bytes (const PsCudaSizes *sizes)
{
  const int widest = MAX (MAX (sizes->hidden, sizes->qkv_width), sizes->up_width);
  const gsize columns = ps_cuda_columns_workspace (sizes->tokens, widest);
  const gsize attention = ps_cuda_attention_workspace (&sizes->attention);
  const gsize embedding = ps_cuda_embedding_workspace (sizes->batch, sizes->sequence);

  return MAX (MAX (columns, attention), MAX (embedding, ps_cuda_norm_square_workspace ()));
}

static gboolean take_rotary (PsCudaShared *shared, GError **error)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const int head_size = sizes->attention.head_size;

  return take (shared, &shared->rotary, ps_cuda_rotary_table_bytes (ps_cuda_sizes_whole (sizes), head_size), error)
         && ps_cuda_ok ("rotary table",
                        ps_cuda_rotary_table (shared->rotary, ps_cuda_sizes_whole (sizes), head_size, ROTARY_BASE,
                                              shared->context.stream),
                        error);
}

static gboolean take_scratch (PsCudaShared *shared, GError **error)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const gsize narrow = ps_cuda_sizes_boundary_bytes (sizes);
  const gsize inner = (gsize)sizes->tokens * (gsize)sizes->width * ps_cuda_element_bytes (sizes->element);
  const gsize wide = (gsize)sizes->tokens * (gsize)sizes->feed_forward * ps_cuda_element_bytes (sizes->element);
  const gsize keys = (gsize)(sizes->slices * sizes->tokens) * (gsize)ps_cuda_sizes_kv_width (sizes)
                     * ps_cuda_element_bytes (sizes->element);
  const gsize sums = sizeof (float) * (gsize)sizes->tokens * (gsize)sizes->hidden;
  void *workspace;

  if (!take (shared, &shared->normed, narrow, error) || !take (shared, &shared->dcontext, inner, error)
      || !take (shared, &shared->token_losses, sizeof (float) * (gsize)sizes->tokens, error)
      || !take (shared, &shared->scratch, scratch_bytes (sizes), error)
      || !take (shared, &workspace, ps_cuda_products_workspace (), error))
    return FALSE;
  if (sizes->parts > 1 && !take (shared, &shared->totals, 2 * sums, error))
    return FALSE;
  if (sizes->parts > 1 && sizes->element != PS_CUDA_FP32 && !take (shared, &shared->sums, sums, error))
    return FALSE;
  if (sizes->slices > 1 && (!take (shared, &shared->keys, keys, error) || !take (shared, &shared->dkeys, keys, error)))
    return FALSE;
  if (sizes->gated
      && (!take (shared, &shared->wide, wide, error) || (shared->rotary == NULL && !take_rotary (shared, error))))
    return FALSE;
  shared->products = ps_cuda_products_new (&shared->context, sizes->element, workspace, error);
  return shared->products != NULL;
}

gboolean ps_cuda_shared_twin (PsCudaShared *twin, const PsCudaShared *shared, GError **error)
{
  *twin = *shared;
  twin->lane = 1;
  twin->products = NULL;
  return ps_cuda_context_open_twin (&twin->context, &shared->context, error) && take_scratch (twin, error);
}

void ps_cuda_shared_clear_twin (PsCudaShared *twin)
{
  ps_cuda_products_free (twin->products);
  ps_cuda_context_close_twin (&twin->context);
}

void ps_cuda_shared_add_up (PsCudaShared *shared, void *values)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const PsDeviceSetting *setting = shared->setting;
  const gsize n = (gsize)sizes->tokens * (gsize)sizes->hidden;
  PsCudaContext *context = &shared->context;
  float *sums = shared->sums != NULL ? shared->sums : values;
  g_autoptr (GError) error = NULL;

  /* After a failure the others wait in vain, and the run ends. */
  if (sizes->parts == 1 || setting->add_up == NULL || shared->alone || context->failure != NULL)
    return;
  if (shared->sums != NULL)
    ps_cuda_note (context, "widening partial sums",
                  ps_cuda_rows_add (sizes->element, sums, TRUE, (PsCudaRows){ values, sizes->tokens, sizes->hidden }, 1,
                                    sizes->tokens, sizes->hidden, context->stream));
  if (!setting->add_up (setting->add_up_data, sums, n, &error))
    ps_cuda_note_text (context, "adding up", error->message);
  if (shared->sums != NULL)
    ps_cuda_note (context, "rounding sums", ps_cuda_to_bf16 (values, sums, n, context->stream));
}

static gsize words_per_slice (const PsCudaSizes *sizes)
{
  return (gsize)sizes->batch * ((gsize)sizes->sequence + 1);
}

static gsize words_bytes (const PsCudaShared *shared)
{
  return words_per_slice (&shared->sizes) * (gsize)shared->sizes.slices * shared->n_microbatches * sizeof (guint32);
}

/* A slice has the word after its last one, too, which may be the first of the next slice. */
static guint32 *cut_words (const PsCudaSizes *sizes, const guint32 *whole, guint32 *words)
{
  const int n = sizes->sequence, stride = ps_cuda_sizes_whole (sizes) + 1;

  for (int slice = 0; slice < sizes->slices; slice++)
    for (int row = 0; row < sizes->batch; row++, words += n + 1)
      memcpy (words, whole + row * stride + slice * n, (gsize)(n + 1) * sizeof *words);
  return words;
}

static gboolean write_words (PsCudaShared *shared, GError **error)
{
  const PsCudaSizes *sizes = &shared->sizes;
  g_autofree guint32 *words = g_malloc (words_bytes (shared));
  g_autofree guint32 *whole = g_new (guint32, (gsize)sizes->batch * ((gsize)ps_cuda_sizes_whole (sizes) + 1));
  guint32 *cursor = words;

  for (guint i = 0; i < shared->n_microbatches; i++) {
    ps_data_read (whole, shared->setting, shared->step, i);
    cursor = cut_words (sizes, whole, cursor);
  }
  return ps_cuda_copy (&shared->context, shared->words, words, words_bytes (shared), error);
}

gboolean ps_cuda_shared_begin (PsCudaShared *shared, guint64 step, GError **error)
{
  const PsTraining *training = shared->setting->training;
  const gboolean changes = training != NULL && training->text != NULL && step != shared->step;

  shared->step = step;
  return !changes || shared->words == NULL || write_words (shared, error);
}

static gboolean take_words (PsCudaShared *shared, GError **error)
{
  return take (shared, &shared->words, words_bytes (shared), error) && write_words (shared, error);
}

gboolean ps_cuda_shared_prepare (PsCudaShared *shared, gboolean words, GError **error)
{
  return (shared->products != NULL || take_scratch (shared, error))
         && (!words || shared->words != NULL || take_words (shared, error));
}

const uint32_t *ps_cuda_shared_words (const PsCudaShared *shared, guint microbatch, guint slice)
{
  return shared->words + (microbatch * (guint)shared->sizes.slices + slice) * words_per_slice (&shared->sizes);
}
