/* prefill.c - the prompts of --serve prefill: their chunks, and the costs of a chunk. */
#include "base/names.h"
#include "options.h"

#include <pipesim/setting.h>

#include <math.h>
#include <string.h>

PS_DEFINE_NAMES (PsServe, ps_serve, "none", "prefill")

guint ps_setting_prompt (const PsSetting *setting, guint i)
{
  return setting->n_prompt_each > 0 ? setting->prompt_each[i % setting->n_prompt_each] : setting->prompt;
}

guint ps_setting_longest_prompt (const PsSetting *setting)
{
  guint longest = 0;

  for (guint i = 0; i < MAX (setting->n_prompt_each, 1); i++)
    longest = MAX (longest, ps_setting_prompt (setting, i));
  return longest;
}

/* The tokens of even chunks of a prompt. */
static guint *cut_even (const PsSetting *setting, guint tokens, GError **error)
{
  g_autoptr (PsModel) model = setting->cluster != NULL ? ps_setting_model (setting, error) : NULL;
  g_autoptr (PsCluster) cluster = model != NULL ? ps_setting_cluster (setting, error) : NULL;
  guint n = setting->chunk;

  if (setting->cluster != NULL) {
    if (cluster == NULL || !ps_model_resize (model, 0, tokens, 0, error))
      return NULL;
    return ps_refuse_null (error, PS_ERROR_USAGE, "--chunk even-work: not yet");
  }
  guint *cut = g_new (guint, n);
  for (guint k = 0; k < n; k++)
    cut[k] = (guint)((guint64)tokens * (k + 1) / n - (guint64)tokens * k / n);
  return cut;
}

/* The tokens of the chunks of a prompt, at most PS_MAX_SLICES, or one more where there would be more. */
static GArray *cut_prompt (const PsSetting *setting, guint tokens, GError **error)
{
  GArray *cut = g_array_new (FALSE, FALSE, sizeof (guint));

  if (setting->even_chunks) {
    g_autofree guint *even = cut_even (setting, tokens, error);

    if (even != NULL)
      g_array_append_vals (cut, even, setting->chunk);
    return cut;
  }
  for (guint k = 0; tokens > 0 && k <= PS_MAX_SLICES; k++) {
    guint n = setting->n_chunk_each;
    guint chunk = MIN (n > 0 ? setting->chunk_each[MIN (k, n - 1)] : setting->chunk, tokens);

    g_array_append_val (cut, chunk);
    tokens -= chunk;
  }
  return cut;
}

/* The number of a chunk's length, which may be there already. */
static guint16 find_length (GArray *lengths, guint tokens, guint before, gboolean last)
{
  guint i = 0;
  PsLength length;

  memset (&length, 0, sizeof length);
  length.tokens = tokens;
  length.before = before;
  length.last = last;
  length.images = -1;
  while (i < lengths->len && memcmp (&g_array_index (lengths, PsLength, i), &length, sizeof length) != 0)
    i++;
  if (i == lengths->len)
    g_array_append_val (lengths, length);
  return (guint16)i;
}

static void set_lengths (PsPrefill *prefill, const GPtrArray *cuts)
{
  GArray *lengths = g_array_new (FALSE, FALSE, sizeof (PsLength));
  PsLengths *all = prefill->lengths = g_new0 (PsLengths, 1);

  all->n = prefill->n * prefill->n_slices;
  all->of = g_new0 (guint16, all->n);
  for (guint i = 0; i < prefill->n; i++) {
    const GArray *cut = cuts->pdata[i];
    guint before = 0;

    for (guint k = 0; k < cut->len; k++) {
      guint tokens = g_array_index (cut, guint, k);

      all->of[i * prefill->n_slices + k] = find_length (lengths, tokens, before, k + 1 == cut->len);
      before += tokens;
    }
  }
  all->n_lengths = lengths->len;
  all->length = (PsLength *)(gpointer)g_array_free (lengths, FALSE);
}

PsPrefill *ps_prefill_new (const PsSetting *setting, guint n_prompts, GError **error)
{
  g_autoptr (GPtrArray) cuts = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  g_autoptr (PsPrefill) prefill = g_new0 (PsPrefill, 1);

  prefill->n = n_prompts;
  prefill->slices = g_new (guint8, n_prompts);
  prefill->tokens = g_new (guint, n_prompts);
  for (guint i = 0; i < n_prompts; i++) {
    guint tokens = prefill->tokens[i] = ps_setting_prompt (setting, i);
    guint same = MIN (i, setting->n_prompt_each > 0 ? i % setting->n_prompt_each : 0);
    GArray *cut = same < i ? g_array_ref (cuts->pdata[same]) : cut_prompt (setting, tokens, error);

    g_ptr_array_add (cuts, cut);
    if (cut->len == 0)
      return NULL;
    if (cut->len > PS_MAX_SLICES || (setting->even_chunks && tokens < setting->chunk))
      return ps_refuse_null (error, PS_ERROR_USAGE, "--prompt %u: makes more than %u chunks; give a larger --chunk",
                             tokens, MIN (tokens, PS_MAX_SLICES));
    prefill->slices[i] = (guint8)cut->len;
    prefill->n_slices = MAX (prefill->n_slices, cut->len);
  }
  set_lengths (prefill, cuts);
  return g_steal_pointer (&prefill);
}

void ps_prefill_free (PsPrefill *prefill)
{
  if (prefill == NULL)
    return;
  ps_lengths_free (prefill->lengths);
  g_free (prefill->slices);
  g_free (prefill->tokens);
  g_free (prefill);
}

/* What the costs of chunks follow from. */
typedef struct {
  const PsSetting *setting;
  const PsModel *model; /* of a whole sequence; NULL: costs of no model */
  const PsCosts *whole; /* of a whole sequence, or of the longest prompt where the sequence is not known */
  guint n_devices;
} Whole;

/* Bytes of the first `tokens` of a prompt that stay on a stage until its end. */
static gint64 cached_bytes (const Whole *whole, guint stage, gint64 tokens)
{
  const PsSetting *setting = whole->setting;

  if (whole->model != NULL)
    return ps_tensor_cache_bytes (whole->model, &whole->whole->shapes[stage], tokens, setting->n_tensor);
  return llrint ((double)ps_costs_act_bytes (whole->whole, stage) * (double)tokens
                 / ps_setting_longest_prompt (setting));
}

static gint64 forward_flops (const PsModel *model, const PsStageShape *shape)
{
  PsWork work;

  ps_work_stage (model, shape, PS_OP_F, 1, &work);
  return ps_work_flops (&work);
}

/* Sets what F of a chunk takes, and the message that it sends. Modelled costs have formulas. Measured ones change as
 * the operations of the model do, given ones as the tokens; of both a message keeps its time. */
static gboolean set_forward (const Whole *whole, const PsModel *chunk_model, const PsLength *chunk, PsCosts *costs,
                             GError **error)
{
  g_autoptr (PsCosts) modelled = NULL;
  PsSetting said = *whole->setting;
  guint tokens = whole->model != NULL ? whole->model->sequence : ps_setting_longest_prompt (whole->setting);
  double part = (double)chunk->tokens / tokens;

  said.known_model = chunk_model;
  said.known_shapes = costs->shapes;
  said.prompt = said.n_prompt_each = 0;
  if (whole->setting->cluster != NULL) {
    modelled = ps_setting_costs (&said, whole->n_devices, costs->n_stages / whole->n_devices, error);
    if (modelled == NULL)
      return FALSE;
  }
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);
    guint sent = ps_transfer_forward (costs, stage);
    double work = whole->model != NULL ? (double)forward_flops (chunk_model, &costs->shapes[stage])
                                             / (double)MAX (forward_flops (whole->model, &costs->shapes[stage]), 1)
                                       : part;

    if (modelled == NULL)
      f->duration_ns = llrint ((double)f->duration_ns * work);
    else
      *f = *ps_costs_op (modelled, PS_OP_F, stage);
    costs->message_bytes[sent]
        = modelled != NULL ? modelled->message_bytes[sent] : llrint ((double)costs->message_bytes[sent] * part);
    costs->transfer_ns[sent] = modelled != NULL ? modelled->transfer_ns[sent] : costs->transfer_ns[sent];
  }
  return TRUE;
}

static PsCosts *chunk_costs (const Whole *whole, const PsLength *chunk, GError **error)
{
  g_autoptr (PsCosts) costs = ps_costs_copy (whole->whole);
  g_autoptr (PsModel) model = whole->model != NULL ? ps_model_copy (whole->model) : NULL;
  gint64 end = (gint64)chunk->before + chunk->tokens;

  if (model != NULL) {
    model->before = chunk->before;
    model->sequence = chunk->tokens;
  }
  if (!set_forward (whole, model, chunk, costs, error))
    return NULL;
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);
    gint64 kept = cached_bytes (whole, stage, end);

    f->take_bytes = f->give_bytes + kept - cached_bytes (whole, stage, chunk->before);
    f->give_bytes += chunk->last ? kept : 0;
  }
  return g_steal_pointer (&costs);
}

PsCosts *ps_prefill_costs (const PsSetting *setting, const PsPrefill *prefill, const PsCosts *costs, guint n_devices,
                           GError **error)
{
  g_autoptr (PsModel) model = costs->shapes != NULL ? ps_setting_model (setting, error) : NULL;
  g_autoptr (GPtrArray) each = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_costs_free);
  const Whole whole = { setting, model, costs, n_devices };

  if (costs->shapes != NULL && model == NULL)
    return NULL;
  for (guint i = 0; i < prefill->lengths->n_lengths; i++) {
    PsCosts *chunk = chunk_costs (&whole, &prefill->lengths->length[i], error);

    if (chunk == NULL)
      return NULL;
    g_ptr_array_add (each, chunk);
    if (!ps_costs_check (chunk, prefill->lengths->n, error))
      return NULL;
  }
  return ps_costs_join ((PsCosts *const *)each->pdata, each->len);
}
