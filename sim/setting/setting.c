/* setting.c - a setting: which of its options go together, and what it says of its devices: memory, speed, and how
 * transfers between them go. */
#include <pipesim/setting.h>

PsSetting *
ps_setting_new (void)
{
  PsSetting *setting = g_new0 (PsSetting, 1);

  ps_options_reset (ps_setting_options, setting);
  return setting;
}

void
ps_setting_free (PsSetting *setting)
{
  if (setting == NULL)
    return;
  ps_options_reset (ps_setting_options, setting);
  g_free (setting);
}

static gboolean
check_together (const PsSetting *setting, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  const char *message = NULL;

  if (setting->blocking && setting->ready_order > 0)
    message = "--blocking and --ready-order: blocking devices keep the order of their sends and receives";
  else if (setting->share_links && setting->cluster == NULL)
    message = "--share-links: needs --cluster FILE, whose links to share, and --model FILE";
  else if (setting->latency_factor != 1 && setting->cluster == NULL)
    message = "--latency-factor: needs --cluster FILE, whose latencies are known";
  else if (setting->layout != NULL && source != NULL && !source->has_model)
    message = "--layout: needs a model, --model with --cluster or --db; given costs are those of stages as they are";
  else if ((setting->n_recompute > 0 || setting->n_offload > 0) && source != NULL && source->has_model
           && (setting->layout == NULL || g_str_equal (setting->layout, "best")))
    message
        = "--recompute, --offload: values for each stage need --layout, even or a string, which says what these are";
  else if (setting->any_recompute && !setting->takes_auto)
    message = "--recompute auto: is for pipesim search; none, selective or full would be right";
  else if (setting->microbatch_order != PS_ORDER_GIVEN && setting->lengths == NULL)
    message = "--microbatch-order: needs --lengths FILE; microbatches that are alike have no order";
  else if (setting->sequence > 0 && setting->model == NULL)
    message = "--sequence: needs --model FILE, which it gives other sequences";
  if (message != NULL)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

/* Gathers are parts of a schedule that begins and ends with a step. */
static gboolean
check_zero (const PsSetting *setting, GError **error)
{
  guint zero = ps_setting_zero (setting);

  if (zero > 0 && setting->n_replicas == 1 && setting->n_context == 1)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero %u: needs --replicas D of 2 or more to spread %s over", zero,
                      zero == 3 ? "weights and optimizer state" : "the optimizer state");
  if (zero == 3 && setting->sync == PS_SYNC_BYPASS)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero 3: not with --sync bypass");
  return zero < 3 || !ps_setting_needs_events (setting)
         || ps_refuse (error, PS_ERROR_USAGE,
                       "--zero 3: not with channels, links or speeds (--comm, --blocking, --share-links, --speed, "
                       "--overlap-slowdown, --ready-order)");
}

static gboolean
check_tensor (const PsSetting *setting, GError **error)
{
  if (setting->cluster == NULL && (setting->n_context > 1 || setting->n_experts > 1))
    return ps_refuse (error, PS_ERROR_USAGE, "--%s %u: needs modelled costs, --model with --cluster",
                      setting->n_context > 1 ? "context" : "experts",
                      setting->n_context > 1 ? setting->n_context : setting->n_experts);
  if (setting->microbatch_size > 0 && setting->cluster == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-size: needs modelled costs, --model FILE --cluster FILE");
  if (setting->n_tensor == 1 || setting->cluster != NULL || setting->db != NULL || ps_setting_source (setting) == NULL)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "--tensor %u: needs modelled costs, --model with --cluster, or measured ones, --db; given costs are those of a "
      "device as they are",
      setting->n_tensor);
}

gboolean
ps_setting_check (const PsSetting *setting, GError **error)
{
  return check_together (setting, error) && check_zero (setting, error) && check_tensor (setting, error)
         && ps_sources_check (setting, error);
}

/* Devices */

guint
ps_setting_zero (const PsSetting *setting)
{
  if (setting->zero != PS_ZERO_AUTO)
    return setting->zero;
  return setting->cluster != NULL && (setting->n_replicas > 1 || setting->n_context > 1);
}

gboolean
ps_setting_transfers_wait (const PsSetting *setting)
{
  return setting->comm != PS_CHANNEL_LATENCY || setting->blocking || setting->share_links;
}

gboolean
ps_setting_needs_events (const PsSetting *setting)
{
  return ps_setting_transfers_wait (setting) || setting->n_speeds || setting->overlap_slowdown > 1
         || setting->ready_order;
}

PsEventsSetting
ps_setting_events (const PsSetting *setting)
{
  return (PsEventsSetting){ .comm = setting->comm,
                            .eager_bytes = setting->eager_bytes,
                            .blocking = setting->blocking,
                            .overlap_slowdown = setting->overlap_slowdown,
                            .overlap_waiting = setting->overlap_waiting,
                            .ready_order = setting->ready_order };
}

PsCluster *
ps_setting_cluster (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCluster) cluster = setting->known_cluster != NULL ? ps_cluster_copy (setting->known_cluster)
                                                                 : ps_cluster_load (setting->cluster, error);

  if (cluster == NULL || !ps_cluster_group (cluster, setting->n_tensor, error)
      || !ps_cluster_join (cluster, setting->n_context, error))
    return NULL;
  cluster->spacing = setting->replicas_adjacent ? setting->n_replicas : 1;
  if (setting->cuda_graphs)
    cluster->launch_ns = 0;
  ps_cluster_scale (cluster, setting->bandwidth_factor, setting->latency_factor);
  return g_steal_pointer (&cluster);
}

/* Options that take one value for all devices or stages, or one for each. */
static gboolean
check_count (const char *option, const char *what, guint n_given, guint n, const char *of, GError **error)
{
  if (n_given <= 1 || n_given == n)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u %ss for %u %s; one %s, or %u, would be right", option, n_given, what,
                    n, of, what, n);
}

PsRecompute
ps_setting_recompute (const PsSetting *setting, guint stage)
{
  return setting->n_recompute > 0 ? setting->recompute_each[stage] : setting->recompute;
}

double
ps_setting_offload (const PsSetting *setting, guint stage)
{
  return setting->n_offload > 0 ? setting->offload_each[stage] : setting->offload;
}

gboolean
ps_setting_check_stages (const PsSetting *setting, guint n_stages, GError **error)
{
  return check_count ("--recompute", "kind", setting->n_recompute, n_stages, "stages", error)
         && check_count ("--offload", "ratio", setting->n_offload, n_stages, "stages", error);
}

gboolean
ps_setting_speeds (const PsSetting *setting, guint n_devices, double **speeds, GError **error)
{
  if (!check_count ("--speed", "factor", setting->n_speeds, n_devices, "devices", error))
    return FALSE;
  *speeds = setting->n_speeds > 0 ? g_new (double, n_devices) : NULL;
  for (guint d = 0; *speeds != NULL && d < n_devices; d++)
    (*speeds)[d] = setting->speed[setting->n_speeds == 1 ? 0 : d];
  return TRUE;
}

gint64
ps_memory_reserve (gint64 memory_bytes, PsFramework framework)
{
  gint64 part = memory_bytes / 16, context = ps_framework_context_bytes (PS_FRAMEWORK_MEGATRON);

  return part + (framework == PS_FRAMEWORK_NONE ? MIN (part, context) : 0);
}

const char *
ps_fits (gint64 excess_bytes, gint64 reserve)
{
  return excess_bytes <= 0 ? "yes" : excess_bytes <= reserve ? "tight" : "no";
}

/* The cluster's memory less its reserve. */
static gboolean
cluster_memory (const PsSetting *setting, gint64 *memory, gint64 *reserve, GError **error)
{
  PsFramework framework = setting->framework;
  g_autoptr (PsModel) model = NULL;
  g_autoptr (PsCluster) loaded = NULL;
  const PsCluster *cluster = setting->known_cluster;

  if (cluster == NULL)
    cluster = loaded = ps_cluster_load (setting->cluster, error);
  if (cluster == NULL)
    return FALSE;
  if (framework == PS_FRAMEWORK_NONE && setting->known_model != NULL)
    framework = setting->known_model->framework;
  else if (framework == PS_FRAMEWORK_NONE && setting->model != NULL)
    {
      model = ps_model_load (setting->model, error);
      if (model == NULL)
        return FALSE;
      framework = model->framework;
    }
  *reserve = ps_memory_reserve (cluster->memory_bytes, framework);
  *memory = cluster->memory_bytes - *reserve;
  return TRUE;
}

gboolean
ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, gint64 *reserve, GError **error)
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
