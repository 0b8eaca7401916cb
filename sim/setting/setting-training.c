/* setting-training.c - reads --sync, --reduce, --replicas, --zero, --recompute and --offload and applies them to costs.
 */
#include "setting-training.h"

void
ps_training_text_clear (PsTrainingText *text)
{
  g_free (text->sync);
  g_free (text->reduce);
  g_free (text->replicas);
  g_free (text->tensor);
  g_free (text->zero);
  g_free (text->recompute);
  g_free (text->offload);
}

void
ps_training_add_options (PsTrainingText *text, GOptionContext *context)
{
  const GOptionEntry entries[] = {
    { "sync", 0, 0, G_OPTION_ARG_STRING, &text->sync,
      "At the optimizer: global (all devices meet) or bypass (each steps and goes on)", "KIND" },
    { "replicas", 0, 0, G_OPTION_ARG_STRING, &text->replicas, "Data-parallel copies of the pipeline (default: 1)",
      "D" },
    { "tensor", 0, 0, G_OPTION_ARG_STRING, &text->tensor,
      "GPUs that are one device, by tensor and sequence parallelism within a node (default: 1)", "T" },
    { "reduce", 0, 0, G_OPTION_ARG_STRING, &text->reduce,
      "Gradient all-reduce: overlapped with what the device still has to run, or exposed after it", "KIND" },
    { "zero", 0, 0, G_OPTION_ARG_STRING, &text->zero, "1: spread the optimizer state over the replicas (ZeRO stage 1)",
      "0|1" },
    { "recompute", 0, 0, G_OPTION_ARG_STRING, &text->recompute,
      "What of a forward the backward computes again: none, selective (attention scores) or full", "KIND" },
    { "offload", 0, 0, G_OPTION_ARG_STRING, &text->offload, "Part of the activations that waits on the host, 0 to 1",
      "RATIO" },
    G_OPTION_ENTRY_NULL,
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

static gboolean
read_choices (const PsTrainingText *text, PsSetting *setting, GError **error)
{
  return (!text->sync || ps_sync_parse ("--sync", text->sync, &setting->sync, error))
         && (!text->reduce || ps_reduce_parse ("--reduce", text->reduce, &setting->reduce, error))
         && (!text->recompute || setting->any_recompute
             || ps_recompute_parse ("--recompute", text->recompute, &setting->recompute, error));
}

gboolean
ps_training_read (const PsTrainingText *text, PsSetting *setting, GError **error)
{
  gint64 replicas = 1, tensor = 1, zero = 0;

  setting->any_recompute = setting->takes_auto && g_strcmp0 (text->recompute, "auto") == 0;
  if (!read_choices (text, setting, error)
      || (text->replicas && !ps_parse_integer ("--replicas", text->replicas, 1, PS_MAX_DEVICES, &replicas, error))
      || (text->tensor && !ps_parse_integer ("--tensor", text->tensor, 1, PS_MAX_TENSOR, &tensor, error))
      || (text->zero && !ps_parse_integer ("--zero", text->zero, 0, 1, &zero, error))
      || (text->offload && !ps_parse_number ("--offload", text->offload, 0, 1, &setting->offload, error)))
    return FALSE;
  setting->n_replicas = (guint)replicas;
  setting->n_tensor = (guint)tensor;
  setting->zero = zero == 1;
  return TRUE;
}

gboolean
ps_training_check (const PsSetting *setting, GError **error)
{
  if (setting->zero && setting->n_replicas == 1)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE,
                         "--zero 1: needs --replicas D of 2 or more to spread the optimizer state over");
  else if (setting->n_tensor > 1 && !setting->cluster)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                 "--tensor %u: needs modelled costs, --model with --cluster; given and measured costs are those of a "
                 "device as they are",
                 setting->n_tensor);
  else
    return TRUE;
  return FALSE;
}
