/* setting.c - the options that every subcommand shares, and what they name: costs, model, schedule. */
#include <pipesim/costdb.h>
#include <pipesim/formats.h>
#include "setting-comm.h"
#include "setting-private.h"
#include "setting-training.h"

#include <math.h>
#include <string.h>

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
check_sources (const PsSetting *setting, GError **error)
{
  const char *message = NULL;

  if (setting->costs && setting->db)
    message = "--costs and --db: costs come from one of them, not from both";
  else if (setting->costs && setting->cluster)
    message = "--costs and --cluster: costs come from one of them, not from both";
  else if (setting->db && setting->cluster)
    message = "--db and --cluster: costs come from one of them, not from both";
  else if (setting->profile && !setting->db)
    message = "--profile: needs --db FILE, the database that holds it";
  else if (setting->precision && !setting->model)
    message = "--precision: needs --model FILE, which it gives another number format";
  else if (setting->cluster && !setting->model)
    message = "--cluster: needs --model FILE, what to run on it";
  if (message)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

gboolean
ps_setting_check (const PsSetting *setting, GError **error)
{
  return ps_comm_check (setting, error) && ps_training_check (setting, error) && check_sources (setting, error);
}

static PsCosts *
costs_from_db (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsCostDb) db = NULL;
  g_autoptr (PsModel) model = NULL;

  if (setting->model != NULL && (model = ps_setting_model (setting, error)) == NULL)
    return NULL;
  db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);
  return db ? ps_costdb_costs (db, setting->profile, model, n_devices, n_chunks, error) : NULL;
}

PsCluster *
ps_setting_cluster (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCluster) cluster
      = setting->known_cluster ? ps_cluster_copy (setting->known_cluster) : ps_cluster_load (setting->cluster, error);

  if (cluster == NULL || !ps_cluster_group (cluster, setting->n_tensor, error))
    return NULL;
  ps_cluster_scale (cluster, setting->bandwidth_factor, setting->latency_factor);
  return g_steal_pointer (&cluster);
}

static gint64
scale_time (gint64 time_ns, double speed)
{
  return llrint (MIN ((double)time_ns / speed, (double)PS_MAX_TIME_NS));
}

static PsCosts *
costs_from_model (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsModel) model = ps_setting_model (setting, error);
  g_autoptr (PsCluster) cluster = model ? ps_setting_cluster (setting, error) : NULL;

  if (cluster == NULL || !ps_cluster_check_size (cluster, (guint64)n_devices * setting->n_replicas, error))
    return NULL;
  return ps_costs_model (model, cluster, n_devices, n_chunks, error);
}

PsCosts *
ps_setting_source (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  if (setting->costs)
    return ps_costs_parse (setting->costs, n_devices, n_chunks, error);
  if (setting->db)
    return costs_from_db (setting, n_devices, n_chunks, error);
  if (setting->cluster)
    return costs_from_model (setting, n_devices, n_chunks, error);
  g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE,
                       "no costs: give --costs 'f=1ms,b=1ms,w=1ms', --db FILE, or --model FILE with --cluster FILE");
  return NULL;
}

/* Of a cluster the latency is known apart; of given and measured transfers the whole time scales. */
static void
scale_transfers (const PsSetting *setting, PsCosts *costs)
{
  if (setting->bandwidth_factor == 1 || setting->cluster)
    return;
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = scale_time (costs->transfer_ns[i], setting->bandwidth_factor);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      costs->stage[stage].reduce_ns = scale_time (costs->stage[stage].reduce_ns, setting->bandwidth_factor);
      costs->stage[stage].reduce2_ns = scale_time (costs->stage[stage].reduce2_ns, setting->bandwidth_factor);
    }
}

gboolean
ps_setting_adapt (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error)
{
  scale_transfers (setting, costs);
  return ps_training_apply (setting, costs, n_devices, error);
}

PsCosts *
ps_setting_costs (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsCosts) costs = ps_setting_source (setting, n_devices, n_chunks, error);

  return costs && ps_setting_adapt (setting, costs, n_devices, error) ? g_steal_pointer (&costs) : NULL;
}

PsModel *
ps_setting_model (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCostDb) db = NULL;

  if (setting->model || setting->known_model)
    {
      g_autoptr (PsModel) model
          = setting->known_model ? ps_model_copy (setting->known_model) : ps_model_load (setting->model, error);

      if (model == NULL || !ps_model_set_precision (model, "--precision", setting->precision, error))
        return NULL;
      if (setting->microbatch_size > 0)
        model->microbatch_size = setting->microbatch_size;
      return g_steal_pointer (&model);
    }
  if (setting->db)
    {
      db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);
      return db ? ps_costdb_model (db, setting->profile, error) : NULL;
    }
  g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, "no model: give --model FILE, or --db FILE that holds one");
  return NULL;
}

static gboolean
has_costs (const PsSetting *setting)
{
  return setting->costs != NULL || setting->db != NULL || setting->cluster != NULL;
}

static PsSchedule *
generate_sized (const PsSetting *setting, const PsFamily *family, PsFamilySetting *size, GError **error)
{
  g_autoptr (PsCosts) costs = NULL;
  g_autofree gint64 *limit = NULL;

  if (family->uses_costs && !size->costs && has_costs (setting))
    {
      size->costs = costs = ps_setting_costs (setting, size->n_devices, size->n_chunks, error);
      if (costs == NULL)
        return NULL;
    }
  if ((size->costs && !ps_costs_check (size->costs, size->n_microbatches, error))
      || (family->uses_costs && !ps_setting_memory_limit (setting, size->n_devices, &limit, error)))
    return NULL;
  size->memory_limit = limit;
  return ps_setting_generate (family, size, error);
}

static PsSchedule *
generate (const PsSetting *setting, const PsFamily *family, const PsCosts *costs, GError **error)
{
  PsFamilySetting size = {
    .n_devices = setting->n_devices,
    .n_microbatches = setting->n_microbatches,
    .n_chunks = setting->n_chunks ? setting->n_chunks : family->default_chunks,
    .n_slices = setting->n_slices,
    .group_size = setting->group_size,
    .costs = costs,
    .by_makespan = setting->sync == PS_SYNC_GLOBAL,
  };

  if (size.n_devices != 0 && size.n_microbatches != 0)
    return generate_sized (setting, family, &size, error);
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "%s: missing; schedule '%s' is generated for -p devices and -m microbatches",
               size.n_devices == 0 ? "-p/--devices" : "-m/--microbatches", family->name);
  return NULL;
}

static gboolean
check_agrees (const char *path, const char *option, guint given, guint found, GError **error)
{
  if (given == 0 || given == found)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s %u: the schedule of %s has %u", option, given, path, found);
  return FALSE;
}

static PsSchedule *
read_file (const PsSetting *setting, const char *path, GError **error)
{
  g_autoptr (PsSchedule) schedule = ps_format_read (path, error);
  const PsPlacement *placement;

  if (schedule == NULL)
    return NULL;
  if (setting->reorder)
    g_clear_pointer (&schedule->posts, g_array_unref);
  placement = schedule->placement;
  if (!check_agrees (path, "-p", setting->n_devices, placement->n_devices, error)
      || !check_agrees (path, "-m", setting->n_microbatches, schedule->n_microbatches, error)
      || !check_agrees (path, "-v", setting->n_chunks, ps_placement_max_chunks (placement), error))
    return NULL;
  if (!ps_schedule_validate (schedule, error))
    {
      g_prefix_error (error, "%s: ", path);
      return NULL;
    }
  return g_steal_pointer (&schedule);
}

static gboolean
is_file (const char *text)
{
  return strpbrk (text, "/.") != NULL || g_file_test (text, G_FILE_TEST_EXISTS);
}

static char *
family_names (void)
{
  guint n;
  const PsFamily *const *table = ps_family_table (&n);
  g_autoptr (GString) names = g_string_new (NULL);

  for (guint i = 0; i < n; i++)
    g_string_append_printf (names, "%s%s", i ? " " : "", table[i]->name);
  return g_string_free (g_steal_pointer (&names), FALSE);
}

static PsSchedule *
find_schedule (const PsSetting *setting, const char *name_or_file, const PsCosts *costs, GError **error)
{
  const PsFamily *family = ps_family_find (name_or_file);
  g_autofree char *names = NULL;

  if (family)
    return generate (setting, family, costs, error);
  if (is_file (name_or_file))
    return read_file (setting, name_or_file, error);
  names = family_names ();
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "schedule '%s': no such family or file; families are: %s", name_or_file,
               names);
  return NULL;
}

static gboolean
has_wanted_placement (const PsSetting *setting, const PsSchedule *schedule, GError **error)
{
  if (!setting->has_placement || setting->placement == schedule->placement->kind)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--placement %s: schedule '%s' has placement %s",
               ps_placement_name (setting->placement), schedule->name, ps_placement_name (schedule->placement->kind));
  return FALSE;
}

PsSchedule *
ps_setting_schedule_for (const PsSetting *setting, const char *name_or_file, const PsCosts *costs, GError **error)
{
  g_autoptr (PsSchedule) schedule = find_schedule (setting, name_or_file, costs, error);

  return schedule != NULL && has_wanted_placement (setting, schedule, error) ? g_steal_pointer (&schedule) : NULL;
}

PsSchedule *
ps_setting_schedule (const PsSetting *setting, const char *name_or_file, GError **error)
{
  return ps_setting_schedule_for (setting, name_or_file, NULL, error);
}
