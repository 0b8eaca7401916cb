/* setting.c - what a setting says of its devices and its model: memory, speed, how transfers go, and what options
 * change of the model. */
#include "base/names.h"
#include "options.h"

PS_DEFINE_NAMES (PsServe, ps_serve, "none", "prefill")

guint ps_setting_zero (const PsSetting *setting)
{
  if (setting->zero != PS_ZERO_AUTO)
    return setting->zero;
  return setting->cluster != NULL && (setting->n_replicas > 1 || setting->n_context > 1);
}

gboolean ps_setting_transfers_wait (const PsSetting *setting)
{
  return setting->comm != PS_CHANNEL_LATENCY || setting->blocking || setting->share_links;
}

gboolean ps_setting_needs_events (const PsSetting *setting)
{
  return ps_setting_transfers_wait (setting) || setting->n_speeds || setting->overlap_slowdown > 1
         || setting->ready_order;
}

PsEventsSetting ps_setting_events (const PsSetting *setting)
{
  return (PsEventsSetting){ .comm = setting->comm,
                            .eager_bytes = setting->eager_bytes,
                            .blocking = setting->blocking,
                            .overlap_slowdown = setting->overlap_slowdown,
                            .overlap_waiting = setting->overlap_waiting,
                            .ready_order = setting->ready_order };
}

PsModel *ps_setting_read_model (const PsSetting *setting, GError **error)
{
  return setting->known_model != NULL ? ps_model_copy (setting->known_model) : ps_model_load (setting->model, error);
}

PsCluster *ps_setting_read_cluster (const PsSetting *setting, GError **error)
{
  return setting->known_cluster != NULL ? ps_cluster_copy (setting->known_cluster)
                                        : ps_cluster_load (setting->cluster, error);
}

PsFramework ps_setting_framework (const PsSetting *setting, const PsModel *model)
{
  PsFramework said = setting->framework != PS_FRAMEWORK_NONE ? setting->framework : model->framework;

  if (said != PS_FRAMEWORK_NONE || setting->has_framework || setting->cluster == NULL)
    return said;
  g_autoptr (PsCluster) cluster = ps_setting_read_cluster (setting, NULL);
  return cluster != NULL && cluster->datasheet ? PS_FRAMEWORK_MEGATRON : said;
}

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

PsModel *ps_setting_given_model (const PsSetting *setting, GError **error)
{
  g_autoptr (PsModel) model = ps_setting_read_model (setting, error);

  if (model == NULL || !ps_model_set_precision (model, "--precision", setting->precision, error))
    return NULL;
  ps_setting_unfold (setting, model);
  if (setting->db == NULL)
    model->framework = ps_setting_framework (setting, model);
  if (setting->loss != PS_LOSS_WHOLE)
    model->loss = setting->loss;
  model->fp8_input_store |= setting->fp8_input_store;
  ps_model_set_state (model, &setting->state);
  if (setting->n_context > 1)
    model->spread.context = setting->n_context;
  if (setting->n_experts > 1)
    model->spread.experts = setting->n_experts;
  if (setting->serve != PS_SERVE_NONE) {
    model->serves = TRUE;
    model->mtp = 0; /* its modules guess further tokens */
  }
  guint sequence = setting->serve != PS_SERVE_NONE && setting->db == NULL ? ps_setting_longest_prompt (setting)
                                                                          : setting->sequence;
  return ps_model_resize (model, setting->serve != PS_SERVE_NONE ? 1 : setting->microbatch_size, sequence,
                          setting->images, error)
             ? g_steal_pointer (&model)
             : NULL;
}

PsCluster *ps_setting_cluster (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCluster) cluster = ps_setting_read_cluster (setting, error);

  if (cluster == NULL || !ps_cluster_group (cluster, setting->n_tensor, error)
      || !ps_cluster_join (cluster, setting->n_context, error))
    return NULL;
  cluster->spacing = setting->replicas_adjacent ? setting->n_replicas : 1;
  cluster->cuda_graphs = setting->cuda_graphs;
  cluster->dispatcher = setting->dispatcher;
  cluster->cp_comm = setting->cp_comm;
  if (!setting->tp_comm_overlap)
    cluster->tensor_overlap = 0;
  ps_cluster_scale (cluster, setting->bandwidth_factor, setting->network_factor, setting->latency_factor);
  return g_steal_pointer (&cluster);
}

/* Options that take one value for all devices or stages, or one for each. */
static gboolean check_count (const char *option, const char *what, guint n_given, guint n, const char *of,
                             GError **error)
{
  if (n_given <= 1 || n_given == n)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u %ss for %u %s; one %s, or %u, would be right", option, n_given, what,
                    n, of, what, n);
}

PsRecompute ps_setting_recompute (const PsSetting *setting, guint stage)
{
  return setting->n_recompute > 0 ? setting->recompute_each[stage] : setting->recompute;
}

double ps_setting_offload (const PsSetting *setting, guint stage)
{
  return setting->n_offload > 0 ? setting->offload_each[stage] : setting->offload;
}

gboolean ps_setting_check_stages (const PsSetting *setting, guint n_stages, GError **error)
{
  return check_count ("--recompute", "kind", setting->n_recompute, n_stages, "stages", error)
         && check_count ("--offload", "ratio", setting->n_offload, n_stages, "stages", error);
}

gboolean ps_setting_speeds (const PsSetting *setting, guint n_devices, double **speeds, GError **error)
{
  if (!check_count ("--speed", "factor", setting->n_speeds, n_devices, "devices", error))
    return FALSE;
  *speeds = setting->n_speeds > 0 ? g_new (double, n_devices) : NULL;
  for (guint d = 0; *speeds != NULL && d < n_devices; d++)
    (*speeds)[d] = setting->speed[setting->n_speeds == 1 ? 0 : d];
  return TRUE;
}

gint64 ps_memory_reserve (gint64 memory_bytes, PsFramework framework)
{
  gint64 part = memory_bytes / 16, context = ps_framework_context_bytes (PS_FRAMEWORK_MEGATRON);

  return part + (framework == PS_FRAMEWORK_NONE ? MIN (part, context) : 0);
}

const char *ps_fits (gint64 excess_bytes, gint64 reserve)
{
  return excess_bytes <= 0 ? "yes" : excess_bytes <= reserve ? "tight" : "no";
}

/* The cluster's memory less its reserve. */
static gboolean cluster_memory (const PsSetting *setting, gint64 *memory, gint64 *reserve, GError **error)
{
  gboolean has_model = setting->known_model != NULL || setting->model != NULL;
  g_autoptr (PsCluster) cluster = ps_setting_read_cluster (setting, error);
  g_autoptr (PsModel) model = cluster != NULL && has_model ? ps_setting_read_model (setting, error) : NULL;

  if (cluster == NULL || (has_model && model == NULL))
    return FALSE;
  *reserve = ps_memory_reserve (cluster->memory_bytes,
                                model != NULL ? ps_setting_framework (setting, model) : setting->framework);
  *memory = cluster->memory_bytes - *reserve;
  return TRUE;
}

gboolean ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, gint64 *reserve,
                                  GError **error)
{
  guint n_given = setting->n_memory_limits;
  gint64 memory = 0, free_bytes = 0;

  if (!check_count ("--memory-limit", "size", n_given, n_devices, "devices", error)
      || (n_given == 0 && setting->cluster != NULL && !cluster_memory (setting, &memory, &free_bytes, error)))
    return FALSE;
  if (reserve != NULL)
    *reserve = free_bytes;
  *limit = n_given > 0 || memory > 0 ? g_new (gint64, n_devices) : NULL;
  for (guint d = 0; *limit != NULL && d < n_devices; d++)
    (*limit)[d] = n_given == 0 ? memory : setting->memory_limit[n_given == 1 ? 0 : d];
  return TRUE;
}
