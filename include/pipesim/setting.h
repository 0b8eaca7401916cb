/* setting.h - the SETTING part of every command line. */
#ifndef PIPESIM_SETTING_H
#define PIPESIM_SETTING_H

#include <pipesim/families.h>
#include <pipesim/iterations.h>

G_BEGIN_DECLS

typedef struct
{
  guint n_devices;                /* -p; required where a family is generated */
  guint n_microbatches;           /* -m; likewise */
  guint n_chunks;                 /* -v; 0: the family's default */
  guint n_slices;                 /* --slices; 0: the family's default */
  guint group_size;               /* --group; 0: the family's default */
  char *costs;                    /* --costs text */
  char *db;                       /* --db */
  char *profile;                  /* --profile */
  char *model;                    /* --model path or name */
  char *precision;                /* --precision, of the model in place of its own; NULL: its own */
  char *cluster;                  /* --cluster path or name */
  const PsModel *known_model;     /* what model (or db) and cluster hold, where they have been read, not owned; */
  const PsCluster *known_cluster; /* NULL: they are read when they are needed */
  PsChannel comm;                 /* --comm */
  PsCommOrder comm_order;         /* --comm-order; of schedules with sends and receives of their own none */
  gboolean reorder;               /* it was given: sends and receives of a schedule file give way to it */
  gboolean any_comm_order;        /* no --comm-order, where choices are left to a search */
  gint64 eager_bytes;             /* --eager */
  gboolean blocking;              /* --blocking */
  gboolean share_links;           /* --share-links */
  double *speed;                  /* --speed: one value, or one per device; NULL: not given */
  guint n_speeds;
  double overlap_slowdown; /* --overlap-slowdown; 0: none */
  double bandwidth_factor; /* --bandwidth-factor; 0: none */
  double latency_factor;   /* --latency-factor; 0: none */
  guint ready_order;       /* --ready-order; 0: program order */
  PsSync sync;             /* --sync */
  PsReduce reduce;         /* --reduce */
  guint n_replicas;        /* --replicas */
  guint n_tensor;          /* --tensor: GPUs of a device */
  gboolean zero;           /* --zero 1 */
  PsRecompute recompute;   /* --recompute */
  gboolean any_recompute;  /* --recompute auto, where choices are left to a search */
  double offload;          /* --offload */
  guint microbatch_size;   /* sequences per microbatch of the model in place of its own; 0: its own */
  gboolean takes_auto;  /* set before ps_setting_finish: auto goes for --chunks and --recompute, and no --comm-order for
                           any */
  gint64 *memory_limit; /* --memory-limit: one value, or one per device; NULL: none */
  guint n_memory_limits;
  struct PsSettingText *text; /* what GOption wrote; ps_setting_finish reads it */
} PsSetting;

PsSetting *ps_setting_new (void);
void ps_setting_free (PsSetting *setting);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSetting, ps_setting_free)

/* The options of SETTING as main entries of context; valid while setting lives. */
void ps_setting_add_options (PsSetting *setting, GOptionContext *context);

/* Reads and checks what GOption collected. Errors: PS_ERROR_USAGE. */
gboolean ps_setting_finish (PsSetting *setting, GError **error);

/* --memory-limit, else the cluster's memory, as [n_devices] (free with g_free), NULL when neither is known. Fails when
 * the option has neither one value nor n_devices, and as ps_cluster_load. */
gboolean ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, GError **error);

/* Whether transfers wait for each other or for devices, so that the order of sends and receives counts. Where they do
 * not, PS_COMM_PLANNED plans nothing for the setting's costs. */
gboolean ps_setting_transfers_wait (const PsSetting *setting);

/* Whether the relaxation engine cannot do what the setting asks for. */
gboolean ps_setting_needs_events (const PsSetting *setting);

/* The placement that --placement asks for; FALSE: any. */
gboolean ps_setting_placement (const PsSetting *setting, PsPlacementKind *kind);

/* --speed as [n_devices] (free with g_free), NULL when there is none. Fails when it has neither one value nor
 * n_devices.
 */
gboolean ps_setting_speeds (const PsSetting *setting, guint n_devices, double **speeds, GError **error);

/* --cluster with --bandwidth-factor and --latency-factor, its devices those of --tensor. Errors: PS_ERROR_IO,
 * PS_ERROR_INPUT, PS_ERROR_USAGE. */
PsCluster *ps_setting_cluster (const PsSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
