/* setting.h - the SETTING part of every command line, and the chain from it to a prediction: costs, schedule, program,
 * simulation. */
#ifndef PIPESIM_SETTING_H
#define PIPESIM_SETTING_H

#include <pipesim/events.h>
#include <pipesim/families.h>
#include <pipesim/iterations.h>
#include <pipesim/timeline.h>

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

/* A family's schedule for -p, -m, -v, --slices and --group (families that look at costs get the setting's, if it has
 * any), or a schedule file (recognised by '/' or '.' in the text, or by existing); -p, -m and -v, when given, must
 * agree with the file, and the file's own sends and receives give way to --comm-order, when given. The schedule is
 * validated. An unknown name's message lists the families. */
PsSchedule *ps_setting_schedule (const PsSetting *setting, const char *name_or_file,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Everything that is known about one schedule under one setting. */
typedef struct
{
  PsCosts *costs;
  PsProgram *program; /* owns the schedule */
  PsSimulation *simulation;
  PsIteration iteration; /* the time that metrics call the iteration time */
  PsMetrics metrics;
  gint64 lower_bound_ns;       /* of the makespan; of the period where iterations overlap (bound.h) */
  gboolean feasible;           /* no device above its memory limit */
  struct PsEventsTask *events; /* see ps_prediction_events */
} PsPrediction;

/* The whole chain for a family or a file, with the engine that the setting needs. Errors are those of ps_setting_costs
 * and ps_setting_schedule, PS_ERROR_USAGE for options that the costs cannot serve, and PS_ERROR_SCHEDULE where the run
 * deadlocks. Free with ps_prediction_free. */
PsPrediction *ps_predict (const PsSetting *setting, const char *name_or_file, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a valid schedule, which is taken over. given: what ps_setting_costs has for its devices and chunks,
 * where that is known already; NULL: it is found. */
PsPrediction *ps_predict_schedule (const PsSetting *setting, PsSchedule *schedule, const PsCosts *given,
                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* What the events engine was set to; NULL: the relaxation engine was enough. Lives as long as the prediction. */
const PsEventsSetting *ps_prediction_events (const PsPrediction *prediction);

/* The program that the engine was given: the prediction's, unless its order was but a hint (--ready-order), of which
 * the prediction's is what came of it. Lives as long as the prediction. */
const PsProgram *ps_prediction_hint (const PsPrediction *prediction);

/* The timeline of its simulation, with the iteration time of its metrics. */
PsTimeline *ps_prediction_timeline (const PsPrediction *prediction);
void ps_prediction_free (PsPrediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPrediction, ps_prediction_free)

G_END_DECLS

#endif
