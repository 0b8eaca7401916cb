/* search-choices.h - what pipesim search tries, one after the other. */
#pragma once

#include <pipesim/setting.h>

/* One way to place and cut the model. */
typedef struct
{
  PsPlacementKind placement;
  guint n_chunks;
  guint microbatch_size; /* 0: the model's own */
  guint n_microbatches;
  PsRecompute recompute;
  guint n_slices;
} SearchChoice;

/* "V v=2 b=4 recompute=full". Free with g_free. */
char *search_choice_describe (const SearchChoice *choice);

/* Makes the setting say what the choice does, but for its placement. */
void search_choice_apply (const SearchChoice *choice, PsSetting *setting);

/* Array of SearchChoice, at least one: all that the setting leaves open, with up to most_chunks stages per device, 2 at
 * least, and a single stage with up to most_slices slices. Microbatches hold `size` sequences (0: as many as the model
 * says), or every power of two that divides the batch (any_size). Errors: PS_ERROR_USAGE where nothing is left to try,
 * and those of reading the model. */
GArray *search_choices (const PsSetting *setting, guint size, gboolean any_size, guint most_chunks, guint most_slices,
                        GError **error) G_GNUC_WARN_UNUSED_RESULT;
