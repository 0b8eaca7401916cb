/* setting.h - the SETTING part of every command line. */
#ifndef PIPESIM_SETTING_H
#define PIPESIM_SETTING_H

#include <pipesim/families.h>
#include <pipesim/framework.h>
#include <pipesim/iterations.h>
#include <pipesim/lengths.h>
#include <pipesim/option.h>

G_BEGIN_DECLS

#define PS_ZERO_AUTO 4 /* --zero is not given */

typedef struct
{
  guint n_devices;                /* -p; required where a family is generated */
  guint n_microbatches;           /* -m; required where a family is generated */
  guint n_chunks;                 /* -v; 0: the family's default */
  guint n_slices;                 /* --slices; 0: the family's default */
  guint group_size;               /* --group; 0: the family's default */
  guint defer_head;               /* --defer-head; 0: none */
  char *lengths;                  /* --lengths; NULL: microbatches are alike */
  char *layout;                   /* --layout; NULL: open, see ps_predictor_predict */
  char *costs;                    /* --costs text */
  char *costs_from;               /* --costs-from: paths with ':' between them */
  char *db;                       /* --db */
  char *profile;                  /* --profile */
  char *model;                    /* --model path or name */
  char *precision;                /* --precision, of the model in place of its own; NULL: its own */
  guint sequence;                 /* --sequence, tokens, of the model in place of its own; 0: its own */
  char *cluster;                  /* --cluster path or name */
  const PsModel *known_model;     /* what model (or db) and cluster hold, where they have been read, not owned; */
  const PsCluster *known_cluster; /* NULL: they are read when they are needed */
  /* Stages in place of layout's, not owned; NULL: none. */
  const PsStageShape *known_shapes;
  gboolean op_by_op; /* of measured costs, see ps_costdb_stage_costs: exec --ahead 0 */
  /* --microbatch-order */
  PsMicrobatchOrder microbatch_order;
  PsChannel comm;         /* --comm */
  PsCommOrder comm_order; /* --comm-order; of schedules with sends and receives of their own none */
  gboolean reorder;       /* it was given: sends and receives of a schedule file give way to it */
  gint64 eager_bytes;     /* --eager */
  gboolean blocking;      /* --blocking */
  gboolean share_links;   /* --share-links */
  double *speed;          /* --speed: one value, or one per device; NULL: not given */
  guint n_speeds;
  double overlap_slowdown;     /* --overlap-slowdown; 1: none */
  gboolean overlap_waiting;    /* --overlap-waiting */
  double bandwidth_factor;     /* --bandwidth-factor; 1: as fast as they are */
  double latency_factor;       /* --latency-factor; 1: as long as they are */
  guint ready_order;           /* --ready-order; 0: program order */
  PsSync sync;                 /* --sync */
  PsReduce reduce;             /* --reduce */
  guint n_replicas;            /* --replicas */
  gboolean replicas_adjacent;  /* --adjacent-replicas */
  gboolean cuda_graphs;        /* --cuda-graphs */
  guint n_tensor;              /* --tensor: GPUs of a device that share its layers */
  guint n_context;             /* --context: groups of them in a device, which share each sequence */
  guint n_experts;             /* --experts: GPUs of a device and its replicas that share the experts */
  PsFramework framework;       /* --framework; none: the model's own */
  guint zero;                  /* --zero: 0 to 3 or PS_ZERO_AUTO; see ps_setting_zero */
  PsRecompute recompute;       /* --recompute of all stages */
  PsRecompute *recompute_each; /* of each, in its place */
  guint n_recompute;
  gboolean any_recompute; /* --recompute auto */
  gboolean takes_auto;    /* the command knows --recompute auto: a search */
  double offload;         /* --offload, as recompute */
  double *offload_each;
  guint n_offload;
  guint microbatch_size;     /* sequences per microbatch of the model in place of its own; 0: its own */
  PsPlacementKind placement; /* --placement */
  gboolean has_placement;    /* it was given; FALSE: any placement will do */
  gint64 *memory_limit;      /* --memory-limit: one value, or one per device; NULL: none */
  guint n_memory_limits;
} PsSetting;

PsSetting *ps_setting_new (void);
void ps_setting_free (PsSetting *setting);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSetting, ps_setting_free)

/* The options of SETTING; their base is a PsSetting. Hidden ones are fields of a sweep's spec alone. */
extern const PsOption ps_setting_options[];
extern const guint ps_setting_n_options;

/* Checks a text of --layout by itself, for its row. Errors: PS_ERROR_USAGE, PS_ERROR_IO. */
gboolean ps_setting_layout_parse (const char *where, const char *text, guint *value, GError **error);

/* Refuses options that say nothing together. Errors: PS_ERROR_USAGE. */
gboolean ps_setting_check (const PsSetting *setting, GError **error);

/* What is special about an option. */
typedef enum
{
  PS_FIELD_OWN = 1,           /* a field of specs alone; PsSweepValue.own holds its value, not PsSetting */
  PS_FIELD_DERIVED = 2,       /* not even that: a column of the results that follows from others */
  PS_FIELD_NULL = 4,          /* its column is NULL where it is not given */
  PS_FIELD_NOT_PARTITION = 8, /* pipesim partition does not look at it */
  PS_FIELD_NOT_RUN = 16,      /* no device runs it: it is predicted only */
  PS_FIELD_NOT_COMPUTED = 32, /* devices that compute do not run it */
  PS_FIELD_MODELLED = 64,     /* pipesim partition looks at it with modelled costs alone */
  PS_FIELD_NOT_SEARCH = 128,  /* of single schedules; a search does without it */
  PS_FIELD_SHARED = 256,      /* of devices that compute those run it that share layers */
} PsFieldFlags;

/* Refuses the first option given that has one of the flags, for that reason; NULL: for the row's own. Errors:
 * PS_ERROR_USAGE "--tensor 2: REASON". */
gboolean ps_setting_refuse (const PsSetting *setting, PsFieldFlags flags, const char *reason, GError **error);

/* The options that are given, as a command line has them: " -p 4 --blocking". Free with g_free. */
char *ps_setting_typed (const PsSetting *setting);

/* The bytes of a cluster's memory that stay free on each GPU. --memory-limit is taken as it is, without a reserve.
 *
 * - ps_framework_context_bytes for the driver and NCCL's channels, at most a sixteenth of the memory. Nothing where the
 *   framework's habits count: peaks hold it then;
 * - a sixteenth for what allocators lose and predictions miss: published peaks lie up to 5.5 % above their predictions
 *   (docs/accuracy.md).
 *
 * All commands take it from here, so that "fits" means one thing. A schedule fits (yes; in JSON and in databases
 * "feasible" is true) where its peaks leave the reserve free on every device. It is tight where some touch the reserve,
 * and none is above the memory: "feasible" is false. It does not fit (no) where one is above the memory. Searches and
 * plans find what fits; a schedule that does not is still predicted, with exit code 0. */
gint64 ps_memory_reserve (gint64 memory_bytes, PsFramework framework);
const char *ps_fits (gint64 excess_bytes, gint64 reserve); /* "yes", "tight", "no", from what is above the limit */

/* What peaks have to keep to: --memory-limit, else the cluster's memory less its reserve, as [n_devices] (free with
 * g_free), NULL when neither is known. *reserve is set to what is left free besides, 0 if nothing is; NULL: it is not
 * asked for. Fails when the option has neither one value nor n_devices, and as ps_cluster_load and ps_model_load. */
gboolean ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, gint64 *reserve,
                                  GError **error);

/* The stage of ZeRO that spreads state over replicas and contexts (ps_costs_zero); 0: none. Where --zero is not given
 * it is 1 with modelled costs; given and measured costs are those of a device as they are. */
guint ps_setting_zero (const PsSetting *setting);

/* Whether transfers wait for each other or for devices, so that the order of sends and receives counts. Where they do
 * not, PS_COMM_PLANNED plans nothing for the setting's costs. */
gboolean ps_setting_transfers_wait (const PsSetting *setting);

/* Whether the relaxation engine cannot do what the setting asks for. */
gboolean ps_setting_needs_events (const PsSetting *setting);

/* What the setting says to the events engine, without speed, links and memory_limit: those are memory of their own. */
PsEventsSetting ps_setting_events (const PsSetting *setting);

/* --speed as [n_devices] (free with g_free), NULL when there is none. Fails when it has neither one value nor
 * n_devices.
 */
gboolean ps_setting_speeds (const PsSetting *setting, guint n_devices, double **speeds, GError **error);

/* --recompute and --offload of a stage. */
PsRecompute ps_setting_recompute (const PsSetting *setting, guint stage);
double ps_setting_offload (const PsSetting *setting, guint stage);

/* Refuses values of --recompute and --offload for each stage where there are not n_stages of them. Errors:
 * PS_ERROR_USAGE. */
gboolean ps_setting_check_stages (const PsSetting *setting, guint n_stages, GError **error);

/* --cluster with --bandwidth-factor and --latency-factor, its devices those of --tensor. Errors: PS_ERROR_IO,
 * PS_ERROR_INPUT, PS_ERROR_USAGE. */
PsCluster *ps_setting_cluster (const PsSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
