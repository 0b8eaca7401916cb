/* partition-job.h - what pipesim partition works on, from its options. */
#pragma once

#include <pipesim/partition.h>
#include <pipesim/setting.h>

/* NULL or 0 where not given. */
typedef struct
{
  char *layers;
  gint64 bandwidth; /* bytes per second */
  char *schedule;
  PsSetting *setting; /* finished */
} PartitionOptions;

/* A task and the memory that it points into. */
typedef struct
{
  PsLayers *layers;
  PsModel *model;     /* whose units they are; NULL: of a file */
  PsCluster *cluster; /* NULL: none; owns parts of links */
  PsLink *links;
  PsPlacement *placement;
  double *speeds;
  gint64 *memory_limit;
  gint64 reserve; /* of memory, besides the limit */
  PsPartitionSetting task;
} PartitionJob;

/* Errors: PS_ERROR_USAGE, and those of what it reads. */
PartitionJob *partition_job_new (const PartitionOptions *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void partition_job_free (PartitionJob *job);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PartitionJob, partition_job_free)
