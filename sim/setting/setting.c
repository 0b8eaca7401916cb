/* setting.c - a setting, and which of its options go together. */
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
  const char *message = NULL;

  if (setting->blocking && setting->ready_order > 0)
    message = "--blocking and --ready-order: blocking devices keep the order of their sends and receives";
  else if (setting->share_links && setting->cluster == NULL)
    message = "--share-links: needs --cluster FILE, whose links to share, and --model FILE";
  else if (setting->latency_factor != 1 && setting->cluster == NULL)
    message = "--latency-factor: needs --cluster FILE, whose latencies are known";
  else if (setting->layout != NULL && ps_setting_source (setting) != NULL && !ps_setting_source (setting)->has_model)
    message = "--layout: needs a model, --model with --cluster or --db; given costs are those of stages as they are";
  else if ((setting->n_recompute > 0 || setting->n_offload > 0) && ps_setting_source (setting) != NULL
           && ps_setting_source (setting)->has_model
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
