/* prefill.c - the prompts of --serve prefill: their chunks, and the costs of a chunk. */
#include "base/names.h"
#include "options.h"

#include <pipesim/setting.h>

#include <math.h>

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

/* The tokens of the chunks of a prompt, at most one more than PS_MAX_SLICES; none with an error. */
static GArray *cut_prompt (const PsSetting *setting, guint tokens, gboolean equal, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  GArray *cut = g_array_new (FALSE, FALSE, sizeof (guint));
  guint n = setting->n_chunk_each, left = tokens;

  if (setting->even_chunks && !equal && source != NULL && source->has_model) {
    g_autoptr (PsModel) model = ps_setting_model (setting, error);
    g_autofree guint *even = NULL;
    PsSetting said = *setting;

    said.even_work = TRUE;
    if (model != NULL && ps_model_resize (model, 0, tokens, 0, error))
      even = ps_setting_cut_slices (&said, model, setting->chunk, error);
    g_array_append_vals (cut, even, even != NULL ? setting->chunk : 0);
    return cut;
  }
  for (guint k = 0; left > 0 && k <= PS_MAX_SLICES; k++) {
    guint chunk = setting->even_chunks ? left / (setting->chunk - k)
                  : n > 0              ? setting->chunk_each[MIN (k, n - 1)]
                                       : setting->chunk;

    chunk = MIN (chunk, left);
    g_array_append_val (cut, chunk);
    left -= chunk;
  }
  return cut;
}

/* Adds a length for each chunk of a prompt. Without a model the work of a chunk is as its tokens. */
static void add_lengths (const PsSetting *setting, const GArray *cut, GArray *lengths)
{
  guint before = 0;

  for (guint k = 0; k < cut->len; k++) {
    guint tokens = g_array_index (cut, guint, k);
    double part = (double)tokens / ps_setting_longest_prompt (setting);
    const PsLength length = { .tokens = tokens,
                              .before = before,
                              .last = k + 1 == cut->len,
                              .images = -1,
                              .factors = { part, part, part, 1, part, part } };

    g_array_append_val (lengths, length);
    before += tokens;
  }
}

PsPrefill *ps_prefill_new (const PsSetting *setting, guint n_prompts, gboolean equal, GError **error)
{
  guint n_cuts = MIN (MAX (setting->n_prompt_each, 1), n_prompts);
  g_autofree guint *first = g_new (guint, n_cuts + 1); /* length of each cut */
  GArray *lengths = g_array_new (FALSE, FALSE, sizeof (PsLength));
  g_autoptr (PsPrefill) prefill = g_new0 (PsPrefill, 1);
  PsLengths *all = prefill->lengths = g_new0 (PsLengths, 1);

  prefill->n = n_prompts;
  prefill->slices = g_new (guint8, n_prompts);
  for (guint i = 0; i < n_cuts; i++) {
    guint tokens = ps_setting_prompt (setting, i);
    g_autoptr (GArray) cut = cut_prompt (setting, tokens, equal, error);

    first[i] = lengths->len;
    add_lengths (setting, cut, lengths);
    prefill->n_slices = MAX (prefill->n_slices, cut->len);
    if (cut->len > PS_MAX_SLICES || (setting->even_chunks && tokens < setting->chunk))
      ps_refuse (error, PS_ERROR_USAGE, "--prompt %u: makes more than %u chunks; give a larger --chunk", tokens,
                 MIN (tokens, PS_MAX_SLICES));
    if (cut->len == 0 || cut->len > PS_MAX_SLICES || (setting->even_chunks && tokens < setting->chunk)) {
      g_array_unref (lengths);
      return NULL;
    }
  }
  first[n_cuts] = all->n_lengths = lengths->len;
  all->length = (PsLength *)(gpointer)g_array_free (lengths, FALSE);
  all->n = n_prompts * prefill->n_slices;
  all->of = g_new0 (guint16, all->n);
  for (guint i = 0; i < n_prompts; i++) {
    prefill->slices[i] = (guint8)(first[i % n_cuts + 1] - first[i % n_cuts]);
    for (guint k = 0; k < prefill->slices[i]; k++)
      all->of[i * prefill->n_slices + k] = (guint16)(first[i % n_cuts] + k);
  }
  return g_steal_pointer (&prefill);
}

void ps_prefill_free (PsPrefill *prefill)
{
  if (prefill == NULL)
    return;
  ps_lengths_free (prefill->lengths);
  g_free (prefill->slices);
  g_free (prefill);
}

void ps_prefill_set_memory (const PsSetting *setting, const PsModel *model, const PsCosts *whole, const PsLength *chunk,
                            PsCosts *costs)
{
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    const PsOpCost *of_whole = ps_costs_op (whole, PS_OP_F, stage);
    PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);
    guint ends[] = { chunk->before, chunk->before + chunk->tokens };
    gint64 kept[2];

    for (guint i = 0; i < 2; i++)
      kept[i] = model != NULL ? ps_tensor_cache_bytes (model, &whole->shapes[stage], ends[i], setting->n_tensor)
                              : llrint ((double)of_whole->take_bytes * ends[i] / ps_setting_longest_prompt (setting));
    f->give_bytes = model != NULL ? of_whole->give_bytes * chunk->tokens / model->sequence : 0;
    f->take_bytes = f->give_bytes + kept[1] - kept[0];
    f->give_bytes += chunk->last ? kept[1] : 0;
  }
}
