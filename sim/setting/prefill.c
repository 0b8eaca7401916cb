/* prefill.c - the prompts of --serve prefill: their chunks, and the costs of a chunk. */
#include "options.h"

#include <pipesim/setting.h>

#include <math.h>

/* Sets the tokens of the chunks of a prompt. Returns their number; 0 with an error. */
static guint cut_prompt (const PsSetting *setting, guint tokens, gboolean equal, guint cut[PS_MAX_SLICES],
                         GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  guint n = 0, n_each = setting->n_chunk_each, most = MIN (tokens, PS_MAX_SLICES), left = tokens;

  if (setting->even_chunks && setting->chunk <= most && !equal && source != NULL && source->has_model) {
    g_autoptr (PsModel) model = ps_setting_model (setting, error);
    g_autofree guint *even = NULL;
    PsSetting said = *setting;

    said.even_work = TRUE;
    if (model != NULL && ps_model_resize (model, 0, tokens, 0, error))
      even = ps_setting_cut_slices (&said, model, setting->chunk, error);
    for (; even != NULL && n < setting->chunk; n++)
      cut[n] = even[n];
    return n;
  }
  for (; left > 0 && n < most && (!setting->even_chunks || setting->chunk <= most); n++) {
    guint chunk = setting->even_chunks ? left / (setting->chunk - n)
                  : n_each > 0         ? setting->chunk_each[MIN (n, n_each - 1)]
                                       : setting->chunk;

    cut[n] = MIN (chunk, left);
    left -= cut[n];
  }
  if (left == 0)
    return n;
  if (setting->even_chunks)
    ps_refuse (error, PS_ERROR_USAGE, "--chunk even-work:%u: --prompt %u has at most %u chunks", setting->chunk, tokens,
               most);
  else
    ps_refuse (error, PS_ERROR_USAGE, "--prompt %u: makes more than %u chunks; give a larger --chunk", tokens, most);
  return 0;
}

/* Adds a length for each chunk of a prompt. Without a model the work of a chunk is as its tokens. */
static void add_lengths (const PsSetting *setting, const guint *cut, guint n, GArray *lengths)
{
  guint before = 0;

  for (guint k = 0; k < n; k++) {
    double part = (double)cut[k] / ps_setting_longest_prompt (setting);
    const PsLength length = { .tokens = cut[k],
                              .before = before,
                              .last = k + 1 == n,
                              .images = -1,
                              .factors = { part, part, part, 1, part, part } };

    g_array_append_val (lengths, length);
    before += cut[k];
  }
}

PsPrefill *ps_prefill_new (const PsSetting *setting, guint n_prompts, gboolean equal, GError **error)
{
  guint n_cuts = MIN (MAX (setting->n_prompt_each, 1), n_prompts), cut[PS_MAX_SLICES];
  g_autofree guint *first = g_new0 (guint, n_cuts + 1); /* length of each cut */
  g_autoptr (GArray) lengths = g_array_new (FALSE, FALSE, sizeof (PsLength));
  g_autoptr (PsPrefill) prefill = g_new0 (PsPrefill, 1);
  PsLengths *all = prefill->lengths = g_new0 (PsLengths, 1);

  for (guint i = 0; i < n_cuts; i++) {
    guint n = cut_prompt (setting, ps_setting_prompt (setting, i), equal, cut, error);

    if (n == 0)
      return NULL;
    add_lengths (setting, cut, n, lengths);
    first[i + 1] = lengths->len;
    prefill->n_slices = MAX (prefill->n_slices, n);
  }
  all->n_lengths = lengths->len;
  all->length = g_memdup2 (lengths->data, lengths->len * sizeof *all->length);
  all->n = n_prompts * prefill->n_slices;
  all->of = g_new0 (guint16, all->n);
  prefill->n = n_prompts;
  prefill->slices = g_new0 (guint8, n_prompts);
  prefill->prompt = g_new (guint, all->n);
  for (guint i = 0; i < n_prompts; i++)
    for (guint k = first[i % n_cuts]; k < first[i % n_cuts + 1]; k++) {
      all->of[i * prefill->n_slices + prefill->slices[i]++] = (guint16)k;
      prefill->prompt[prefill->n_chunks++] = i;
    }
  return g_steal_pointer (&prefill);
}

void ps_prefill_free (PsPrefill *prefill)
{
  if (prefill == NULL)
    return;
  ps_lengths_free (prefill->lengths);
  g_free (prefill->slices);
  g_free (prefill->prompt);
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
