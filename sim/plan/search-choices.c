/* search-choices.c - placements, chunks, recomputation and microbatch sizes for a search. */
#include "search-choices.h"

char *
search_choice_describe (const SearchChoice *choice)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%s v=%u", ps_placement_name (choice->placement), choice->n_chunks);
  if (choice->microbatch_size > 0)
    g_string_append_printf (text, " b=%u", choice->microbatch_size);
  if (choice->n_slices > 1)
    g_string_append_printf (text, " slices=%u", choice->n_slices);
  if (choice->recompute != PS_RECOMPUTE_NONE)
    g_string_append_printf (text, " recompute=%s", ps_recompute_name (choice->recompute));
  return g_string_free (text, FALSE);
}

void
search_choice_apply (const SearchChoice *choice, PsSetting *setting)
{
  setting->n_chunks = choice->n_chunks;
  setting->microbatch_size = choice->microbatch_size;
  setting->n_microbatches = choice->n_microbatches;
  setting->recompute = choice->recompute;
  setting->n_slices = choice->n_slices;
}

static void
add_choice (GArray *choices, const PsSetting *setting, PsPlacementKind placement, guint n_chunks)
{
  SearchChoice choice
      = { placement, n_chunks, 0, setting->n_microbatches, setting->recompute, MAX (setting->n_slices, 1) };

  if ((setting->n_chunks != 0 && setting->n_chunks != n_chunks)
      || (setting->has_placement && setting->placement != placement))
    return;
  g_array_append_val (choices, choice);
}

static GArray *
placements (const PsSetting *setting, guint most_chunks, guint most_slices)
{
  GArray *choices = g_array_new (FALSE, FALSE, sizeof (SearchChoice));

  if (setting->has_placement && setting->placement == PS_PLACEMENT_WAVE && setting->n_chunks == 0 && most_chunks < 4)
    add_choice (choices, setting, PS_PLACEMENT_WAVE, 4);
  add_choice (choices, setting, PS_PLACEMENT_LOOP, 1);
  add_choice (choices, setting, PS_PLACEMENT_V, 2);
  add_choice (choices, setting, PS_PLACEMENT_LOOP, 2);
  add_choice (choices, setting, PS_PLACEMENT_BIDIRECTIONAL, 1);
  for (guint v = 3; v <= MAX (most_chunks, setting->n_chunks); v++)
    {
      add_choice (choices, setting, PS_PLACEMENT_LOOP, v);
      if (v % 2 == 0 || v == setting->n_chunks)
        add_choice (choices, setting, PS_PLACEMENT_WAVE, v);
    }
  for (guint slices = 2; slices <= most_slices; slices *= 2)
    {
      guint n = choices->len;

      add_choice (choices, setting, PS_PLACEMENT_LOOP, 1);
      if (choices->len > n)
        g_array_index (choices, SearchChoice, n).n_slices = slices;
    }
  return choices;
}

/* Every choice with each of the sizes, if the batch divides by it. */
static gboolean
spread_sizes (const PsSetting *setting, guint size, gboolean any_size, GArray *choices, GError **error)
{
  g_autoptr (PsModel) model = NULL;
  guint n = choices->len;
  gint64 batch;

  if (size == 0 && !any_size)
    return TRUE;
  model = ps_setting_model (setting, error);
  if (model == NULL)
    return FALSE;
  batch = (gint64)model->microbatch_size * setting->n_microbatches;
  for (gint64 b = any_size ? 1 : size; b <= (any_size ? MIN (batch, 64) : size); b *= 2)
    for (guint i = 0; i < n && batch % b == 0; i++)
      {
        SearchChoice choice = g_array_index (choices, SearchChoice, i);

        choice.microbatch_size = (guint)b;
        choice.n_microbatches = (guint)(batch / b);
        g_array_append_val (choices, choice);
      }
  if (choices->len == n)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--microbatch-size %u: does not divide the batch of %" G_GINT64_FORMAT " sequences", size, batch);
  g_array_remove_range (choices, 0, n);
  return TRUE;
}

/* Two copies share the devices and the microbatches evenly. */
static void
drop_odd (GArray *choices, guint n_devices)
{
  for (guint i = choices->len; i-- > 0;)
    {
      const SearchChoice *choice = &g_array_index (choices, SearchChoice, i);

      if (choice->placement == PS_PLACEMENT_BIDIRECTIONAL && (choice->n_microbatches % 2 || n_devices % 2))
        g_array_remove_index (choices, i);
    }
}

static gboolean
check_any (const GArray *choices, GError **error)
{
  if (choices->len > 0)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "--placement: the search knows loop with any -v, V with -v 2, wave with an even -v from 4 on, "
                    "and bidirectional with -v 1, an even -p and an even number of microbatches");
}

GArray *
search_choices (const PsSetting *setting, guint size, gboolean any_size, guint most_chunks, guint most_slices,
                GError **error)
{
  g_autoptr (GArray) choices = placements (setting, most_chunks, setting->n_slices == 0 ? most_slices : 0);
  guint n = choices->len;

  for (guint i = 0; i < n && setting->any_recompute; i++)
    for (PsRecompute recompute = PS_RECOMPUTE_SELECTIVE; recompute <= PS_RECOMPUTE_FULL; recompute++)
      {
        SearchChoice choice = g_array_index (choices, SearchChoice, i);

        choice.recompute = recompute;
        g_array_append_val (choices, choice);
      }
  if (!check_any (choices, error) || !spread_sizes (setting, size, any_size, choices, error))
    return NULL;
  drop_odd (choices, setting->n_devices);
  return check_any (choices, error) ? g_steal_pointer (&choices) : NULL;
}
