/* partition.h - the layers of each stage: a model as a chain of layers with costs of their own, and the algorithms that
 * cut the chain into stages. */
#ifndef PIPESIM_PARTITION_H
#define PIPESIM_PARTITION_H

#include <pipesim/costdb.h>
#include <pipesim/schedule.h>
#include <pipesim/simulate.h>

G_BEGIN_DECLS

#define PS_MAX_LAYERS 16384

/* One layer and one microbatch. */
typedef struct {
  char *name;
  gint64 time_ns;           /* F + B + W */
  gint64 forward_ns;        /* F */
  gint64 backward_ns;       /* B */
  gint64 weight_ns;         /* W */
  gint64 full_backward_ns;  /* BW, both in one op; B + W unless measured */
  gint64 optimizer_ns;      /* O */
  gint64 flops;             /* operations of F + B + W */
  gint64 output_bytes;      /* handed to the next layer; its gradient comes back as large */
  gint64 kept_bytes;        /* kept by F until B and W */
  gint64 weight_kept_bytes; /* the part of it that W still needs after B */
  gint64 parameter_bytes;   /* one version of the weights alone */
  gint64 state_bytes;       /* weights, gradients and optimizer state */
} PsLayer;

/* A model as a chain of layers. The sum of its times is at most PS_MAX_TIME_NS and that of each size at most
 * PS_MAX_SIZE_BYTES, so that no stage overflows. */
typedef struct {
  guint n_layers; /* 1 to PS_MAX_LAYERS */
  PsLayer *layers;
  gboolean has_flops; /* FALSE: flops are not known, and 0 */
  PsOrigin time_origin;
  PsOrigin memory_origin;
  char *source; /* one line for people: "layers.csv", "model 'gpt' on cluster 'x'" */
} PsLayers;

/* All zero and without names. Free with ps_layers_free. */
PsLayers *ps_layers_new (guint n_layers);
void ps_layers_free (PsLayers *layers);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsLayers, ps_layers_free)

/* Reads CSV with the header `layer,time,activation_bytes,parameter_bytes` and one line per layer in model order. A line
 * has a name, the time of F + B + W ("1.5ms"; an integer without a unit is nanoseconds), output bytes per microbatch
 * and bytes of the weights. No quotes and no empty fields. Further columns may follow in the header, in any order:
 * forward, backward (times), flops, kept_bytes, weight_kept_bytes, state_bytes. Where they are missing they are
 * modelled:
 *
 * - F = B = W = time / 3 (each multiplies every matrix once, model.h); B = W where forward alone is given;
 * - kept_bytes = activation_bytes, weight_kept_bytes = kept_bytes;
 * - state_bytes = 4 parameter_bytes (weights, gradients and two moments of Adam in one precision, arXiv 1910.02054,
 *   section 3.1).
 *
 * The origins are PS_ORIGIN_GIVEN. Errors: PS_ERROR_INPUT "FILE:3: time: ...", PS_ERROR_IO.
 */
PsLayers *ps_layers_read (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same from text in memory; `where` names it in messages. */
PsLayers *ps_layers_parse (const char *where, const char *text, gsize length, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* From the costs of the model's units (ps_model_units) as stages of one device: each unit is a layer. */
PsLayers *ps_layers_from_units (const PsModel *model, const PsCosts *costs, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* From stages measured for n_devices devices (profile and model as in ps_costdb_costs). A layer is the mean of the
 * layers in stages without embedding and head. Embedding and head are the rest of the first and the last stage beyond
 * their layers. Takes the fewest stages that the profile holds, 3 at least. *link (may be NULL) gives the measured time
 * of a transfer between neighbours by its bytes. Derived from measurements: the origins are PS_ORIGIN_INTERPOLATED. */
PsLayers *ps_layers_costdb (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, PsLink *link,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The question that an algorithm answers. */
typedef struct {
  const PsLayers *layers;
  guint n_devices;              /* p >= 1 */
  guint n_chunks;               /* v >= 1; S = p v stages */
  const PsPlacement *placement; /* placement of the stages, the family's where there is one; NULL: device s mod p */
  const PsLink *links;          /* [S - 1] between stage s and s + 1 */
  const double *speeds;         /* [n_devices] a time is divided by them; NULL: all 1 */
  const gint64 *memory_limit;   /* [n_devices] bytes, or NULL */
  guint n_microbatches;         /* m; 0: not known */
  const PsFamily *family;       /* the schedule that will run; NULL: not known */
  guint n_slices;               /* its slices, 0: the family's default */
  guint group_size;             /* its groups, 0: the family's default */
  guint defer_head;             /* as in PsFamilySetting */
  PsSync sync;                  /* synchronisation of its iterations */
} PsPartitionSetting;

/* Layers first..last, both included. */
typedef struct {
  guint first;
  guint last;
  guint replicas; /* devices that share the stage, each with microbatches of its own; 1 but for pipedream */
} PsPartitionStage;

typedef struct {
  guint n_stages;
  PsPartitionStage *stages;
  gint64 bottleneck_ns; /* pipedream: as its recurrence counts; others: ps_partition_bottleneck */
} PsPartition;

void ps_partition_free (PsPartition *partition);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPartition, ps_partition_free)

typedef struct {
  const char *name;        /* as typed: "bottleneck" */
  const char *description; /* one line */
  const char *source;      /* where it was published */
  gboolean replicates;     /* may give a stage several devices; wants one chunk and equal speeds */
  PsPartition *(*cut) (const PsPartitionSetting *setting, GError **error);
} PsPartitioner;

/* All algorithms; *n entries. */
const PsPartitioner *ps_partitioner_table (guint *n);
const PsPartitioner *ps_partitioner_find (const char *name); /* NULL when there is none */

/* Checks the setting and cuts. Errors: PS_ERROR_USAGE where the algorithm lacks something or cannot take it,
 * PS_ERROR_SCHEDULE where no partition keeps within the limits. */
PsPartition *ps_partition (const PsPartitioner *partitioner, const PsPartitionSetting *setting,
                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Where the setting's family places its stages. Needs family and n_microbatches; errors are the family's. */
PsPlacement *ps_partition_placement (const PsPartitionSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Time of one microbatch on a stage: the sum of its layers' F + B + W over the speed of its device, to the nearest
 * nanosecond. */
gint64 ps_partition_stage_ns (const PsPartitionSetting *setting, const PsPartition *partition, guint stage);

/* Time that one microbatch holds the link after a stage: the activation out and the gradient back, 2 (latency + bytes /
 * bandwidth). 0 after the last stage. */
gint64 ps_partition_link_ns (const PsPartitionSetting *setting, const PsPartition *partition, guint stage);

/* The largest stage or link time of a partition without replicas. In the long run microbatches leave the pipeline no
 * faster, however well transfers overlap with computation. */
gint64 ps_partition_bottleneck (const PsPartitionSetting *setting, const PsPartition *partition);

/* Peak memory of a stage on a device of its own under 1F1B: its state, and the activations of min (m, S - s)
 * microbatches. */
gint64 ps_partition_memory_bytes (const PsPartitionSetting *setting, const PsPartition *partition, guint stage);

/* The costs of the stages of a partition without replicas, with the speeds of their devices. Fails where a stage lives
 * on two devices of different speeds. */
PsCosts *ps_partition_costs (const PsPartitionSetting *setting, const PsPartition *partition,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The costs of ps_partition_costs as text that ps_costs_parse reads back to the same costs: "f=1ns:2ns,b=...". Free
 * with g_free. */
char *ps_partition_costs_to_text (const PsCosts *costs);

/* A run of the setting's family with a partition without replicas: the simulated iteration time, and the bytes by which
 * its devices exceed their memory limits, all together and the most of one. */
typedef struct {
  gint64 iteration_ns;
  gint64 excess_bytes;
  gint64 most_excess_bytes;
} PsPartitionRun;

/* Needs family and n_microbatches. */
gboolean ps_partition_simulate (const PsPartitionSetting *setting, const PsPartition *partition, PsPartitionRun *run,
                                GError **error);

G_END_DECLS

#endif
