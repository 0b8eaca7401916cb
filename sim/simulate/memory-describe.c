/* memory-describe.c - who was alive at a peak, in words. */
#include <pipesim/simulate.h>

typedef struct
{
  GString *text;
  guint stage;
  guint from; /* microbatches of a run that is not yet written */
  guint to;
  guint8 part;
  gboolean open;
} Sentence;

static void
close_run (Sentence *sentence)
{
  if (sentence->open)
    g_string_append_printf (sentence->text, "%u", sentence->from);
  if (sentence->open && sentence->to > sentence->from)
    g_string_append_printf (sentence->text, "-%u", sentence->to);
  sentence->open = FALSE;
}

/* Slices of one microbatch count as one. */
static void
add_holding (Sentence *sentence, const PsMemoryHolding *holding)
{
  gboolean same = sentence->text->len > 0 && sentence->stage == holding->stage && sentence->part == holding->part;

  if (same && sentence->open && holding->microbatch <= sentence->to + 1)
    {
      sentence->to = holding->microbatch;
      return;
    }
  gboolean new_stage = sentence->text->len == 0 || sentence->stage != holding->stage;
  close_run (sentence);
  if (new_stage)
    g_string_append_printf (sentence->text, "%sstage %u: ", sentence->text->len ? "; " : "", (guint)holding->stage);
  else
    g_string_append (sentence->text, ", ");
  if (holding->part == PS_MEMORY_WEIGHT_INPUTS && (new_stage || !same))
    g_string_append (sentence->text, "W ");
  sentence->stage = holding->stage;
  sentence->part = holding->part;
  sentence->from = sentence->to = holding->microbatch;
  sentence->open = TRUE;
}

static void
add_part (Sentence *sentence, const GArray *alive, guint stage, PsMemoryPart part)
{
  for (guint i = 0; i < alive->len; i++)
    {
      const PsMemoryHolding *holding = &g_array_index (alive, PsMemoryHolding, i);

      if (holding->stage == stage && holding->part == part)
        add_holding (sentence, holding);
    }
}

char *
ps_memory_describe_alive (const PsDeviceMemory *memory)
{
  g_autoptr (GString) text = g_string_new (NULL);
  Sentence sentence = { .text = text };

  for (guint i = 0; i < memory->alive->len; i++)
    {
      guint stage = g_array_index (memory->alive, PsMemoryHolding, i).stage;

      if (i > 0 && stage == g_array_index (memory->alive, PsMemoryHolding, i - 1).stage)
        continue;
      add_part (&sentence, memory->alive, stage, PS_MEMORY_ACTIVATIONS);
      add_part (&sentence, memory->alive, stage, PS_MEMORY_WEIGHT_INPUTS);
    }
  close_run (&sentence);
  return g_string_free (g_steal_pointer (&text), FALSE);
}
