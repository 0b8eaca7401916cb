/* partition-job.c - the options of pipesim partition, checked and turned into a task. */
#include "partition-job.h"

void
partition_job_free (PartitionJob *job)
{
  if (job == NULL)
    return;
  ps_layers_free (job->layers);
  ps_model_free (job->model);
  ps_cluster_free (job->cluster);
  ps_placement_free (job->placement);
  g_free (job->links);
  g_free (job->speeds);
  g_free (job->memory_limit);
  g_free (job);
}

static gboolean
check_sources (const PartitionOptions *options, GError **error)
{
  const PsSetting *setting = options->setting;

  if (setting->costs != NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--costs: has stages, and partition makes them; give --layers FILE.csv, --db FILE, or --model "
                      "FILE with --cluster FILE");
  if (options->layers != NULL && (setting->db != NULL || setting->model != NULL || setting->cluster != NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "--layers and %s: layers come from one of them, not from both",
                      setting->db != NULL      ? "--db"
                      : setting->model != NULL ? "--model"
                                               : "--cluster");
  if (options->layers == NULL && setting->db == NULL && setting->cluster == NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "no layers: give --layers FILE.csv, --db FILE, or --model FILE with --cluster FILE");
  if (options->bandwidth > 0 && options->layers == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--bandwidth: goes with --layers; %s has its own",
                      setting->db != NULL ? "--db" : "--cluster");
  if (setting->n_devices == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-p/--devices: missing; how many devices share the layers");
  if (options->layers != NULL && options->bandwidth == 0 && setting->n_devices > 1)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--bandwidth: missing; give the rate between two neighbours, such as 10GB/s");
  return TRUE;
}

static gboolean
read_schedule (PartitionJob *job, const PartitionOptions *options, GError **error)
{
  const PsSetting *setting = options->setting;

  if (options->schedule != NULL)
    {
      job->task.family = ps_family_find (options->schedule);
      if (job->task.family == NULL)
        return ps_refuse (error, PS_ERROR_USAGE,
                          "--schedule: '%s' is no schedule family; pipesim schedule list has them", options->schedule);
      if (setting->n_microbatches == 0)
        return ps_refuse (error, PS_ERROR_USAGE, "-m/--microbatches: missing; schedule '%s' is simulated for them",
                          options->schedule);
    }
  job->task.n_microbatches = setting->n_microbatches;
  job->task.n_slices = setting->n_slices;
  job->task.group_size = setting->group_size;
  job->task.defer_head = setting->defer_head;
  job->task.n_chunks = setting->n_chunks          ? setting->n_chunks
                       : job->task.family != NULL ? job->task.family->default_chunks
                                                  : 1;
  return TRUE;
}

static gboolean
read_file (PartitionJob *job, const PartitionOptions *options, PsLink *link, GError **error)
{
  *link = (PsLink){ .bandwidth = (double)options->bandwidth };
  job->layers = ps_layers_read (options->layers, error);
  return job->layers != NULL;
}

static guint
device_of (const PartitionJob *job, guint stage)
{
  return job->placement != NULL ? ps_placement_device (job->placement, 0, stage) : stage % job->task.n_devices;
}

/* Boundaries inside a device take no time. */
static void
set_links (PartitionJob *job, const PsLink *link)
{
  guint n_stages = job->task.n_devices * job->task.n_chunks;

  job->links = g_new0 (PsLink, n_stages);
  for (guint s = 0; s + 1 < n_stages; s++)
    {
      guint a = device_of (job, s), b = device_of (job, s + 1);

      if (a != b)
        job->links[s] = job->cluster != NULL ? ps_cluster_link (job->cluster, a, b) : *link;
    }
  job->task.links = job->links;
}

/* From a model and a cluster, or from measured stages. */
static gboolean
read_units (PartitionJob *job, const PsSetting *setting, PsLink *link, GError **error)
{
  job->model = ps_setting_model (setting, error);
  if (job->model == NULL)
    return FALSE;
  if (setting->cluster != NULL)
    {
      job->cluster = ps_setting_cluster (setting, error);
      if (job->cluster == NULL || !ps_cluster_check_size (job->cluster, setting->n_devices, error))
        return FALSE;
    }
  job->layers = ps_setting_layers (setting, job->model, setting->n_devices, link, error);
  return job->layers != NULL;
}

static gboolean
read_layers (PartitionJob *job, const PartitionOptions *options, GError **error)
{
  PsLink link = { 0 };

  if (!(options->layers != NULL ? read_file (job, options, &link, error)
                                : read_units (job, options->setting, &link, error)))
    return FALSE;
  job->task.layers = job->layers;
  set_links (job, &link);
  return TRUE;
}

/* Measured and given layers are those of a device as they are. */
static gboolean
check_looks (const PsSetting *setting, GError **error)
{
  if (setting->cluster != NULL)
    return ps_setting_refuse (
        setting, PS_FIELD_NOT_PARTITION,
        "partition does not look at it; give it to predict, with the layout that partition prints", error);
  return ps_setting_refuse (setting, PS_FIELD_NOT_PARTITION | PS_FIELD_MODELLED,
                            "partition does not look at it; give it to predict, with the costs of --print-costs",
                            error);
}

static gboolean
fill_job (PartitionJob *job, const PartitionOptions *options, GError **error)
{
  const PsSetting *setting = options->setting;

  if (!check_sources (options, error) || !check_looks (setting, error))
    return FALSE;
  job->task.n_devices = setting->n_devices;
  job->task.sync = setting->sync;
  if (!read_schedule (job, options, error)
      || !ps_setting_memory_limit (setting, setting->n_devices, &job->memory_limit, &job->reserve, error))
    return FALSE;
  job->task.memory_limit = job->memory_limit;
  if ((guint64)job->task.n_devices * job->task.n_chunks > PS_MAX_STAGES)
    return ps_refuse (error, PS_ERROR_USAGE, "-v/--chunks: %u on %u devices; give 1 to %u stages in all",
                      job->task.n_chunks, job->task.n_devices, PS_MAX_STAGES);
  if (!ps_setting_speeds (options->setting, job->task.n_devices, &job->speeds, error))
    return FALSE;
  job->task.speeds = job->speeds;
  if (job->task.family != NULL)
    job->placement = ps_partition_placement (&job->task, error);
  if (job->task.family != NULL && job->placement == NULL)
    return FALSE;
  job->task.placement = job->placement;
  return read_layers (job, options, error);
}

PartitionJob *
partition_job_new (const PartitionOptions *options, GError **error)
{
  g_autoptr (PartitionJob) job = g_new0 (PartitionJob, 1);

  return fill_job (job, options, error) ? g_steal_pointer (&job) : NULL;
}
