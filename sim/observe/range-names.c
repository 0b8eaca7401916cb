/* range-names.c - the names that PyTorch and Megatron-LM give to the ranges of a profiler. */
#include "range-names.h"

#include <string.h>

static gboolean
parse_torch (const char *name, PsRangeName *parsed)
{
  parsed->naming = PS_RANGES_NAMED;
  return g_str_has_prefix (name, "PP:")
         && ps_torch_cell_parse (name + 3, strlen (name + 3), parsed->actions, &parsed->n) == NULL;
}

static gboolean
parse_gpipe (const char *name, PsRangeName *parsed)
{
  static const char *const words[] = { "Forward ", "Backward " };
  static const PsTorchType types[] = { TORCH_F, TORCH_B };
  guint64 microbatch;

  parsed->naming = PS_RANGES_OF_RANK;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (name, words[i])
        && g_ascii_string_to_unsigned (name + strlen (words[i]), 10, 0, PS_MAX_MICROBATCHES - 1, &microbatch, NULL))
      {
        parsed->actions[0] = (PsTorchAction){ .type = (guint8)types[i], .microbatch = (guint32)microbatch };
        return TRUE;
      }
  return FALSE;
}

/* Whether the name ends in this word: all of it, or its last part. */
static gboolean
ends_in (const char *name, const char *word)
{
  gsize length = strlen (name), n = strlen (word);

  return length >= n && strcmp (name + length - n, word) == 0
         && (length == n || strchr (".:/ ", name[length - n - 1]) != NULL);
}

static gboolean
parse_megatron (const char *name, PsRangeName *parsed)
{
  static const struct
  {
    const char *word;
    PsTorchType type;
  } words[] = {
    { "forward_step", TORCH_F },           { "forward-compute", TORCH_F },       { "microbatch.forward", TORCH_F },
    { "backward_step", TORCH_B },          { "backward-compute", TORCH_B },      { "microbatch.backward", TORCH_B },
    { "p2p.send_forward", TORCH_SEND_F },  { "p2p.recv_forward", TORCH_RECV_F }, { "p2p.send_backward", TORCH_SEND_B },
    { "p2p.recv_backward", TORCH_RECV_B },
  };

  parsed->naming = PS_RANGES_COUNTED;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (ends_in (name, words[i].word))
      {
        parsed->actions[0] = (PsTorchAction){ .type = (guint8)words[i].type };
        return TRUE;
      }
  return FALSE;
}

gboolean
ps_range_name_parse (const char *name, PsRangeName *parsed)
{
  parsed->n = 1;
  return parse_torch (name, parsed) || parse_gpipe (name, parsed) || parse_megatron (name, parsed);
}

gboolean
ps_range_name_is_update (const char *name)
{
  return g_str_has_prefix (name, "Optimizer.step#") || ends_in (name, "optimizer_step");
}

gboolean
ps_range_name_is_mark (const char *name)
{
  return ps_range_name_is_update (name) || g_str_has_prefix (name, "ProfilerStep#") || ends_in (name, "train_step")
         || ends_in (name, "training.iteration");
}
