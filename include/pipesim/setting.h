/* setting.h - the SETTING part of every command line, the sources of its costs, and the prediction that it asks for. */
#ifndef PIPESIM_SETTING_H
#define PIPESIM_SETTING_H

#include <pipesim/option.h>
#include <pipesim/work.h>
#include <pipesim/costs.h>
#include <pipesim/costdb.h>
#include <pipesim/schedule.h>
#include <pipesim/simulate.h>
#include <pipesim/answer.h>
#include <pipesim/timeline.h>
#include <pipesim/partition.h>

G_BEGIN_DECLS

#define PS_ZERO_AUTO 4 /* --zero is not given */

/* What the pipeline is for. */
typedef enum {
  PS_SERVE_NONE,    /* training: steps of forwards, backwards and an optimizer */
  PS_SERVE_PREFILL, /* taking prompts in, chunk after chunk: forwards alone (schedule.h). Decoding is left out */
} PsServe;

const char *ps_serve_name (PsServe serve); /* "none", "prefill" */
gboolean ps_serve_parse (const char *where, const char *text, PsServe *serve, GError **error);

typedef struct {
  guint n_devices;      /* -p; required where a family is generated */
  guint n_microbatches; /* -m; required where a family is generated */
  guint n_chunks;       /* -v; 0: the family's default */
  guint n_slices;       /* --slices; 0: the family's default */
  gboolean even_work;   /* their F takes the same time; FALSE: they are equally long, unless they are given */
  guint *slice_tokens;  /* [n_slice_tokens] tokens of each, where they are given; else NULL */
  guint n_slice_tokens; /* n_slices then, else 0 */
  PsServe serve;        /* --serve */
  guint prompt;         /* --prompt, tokens of all prompts, or how many prompt_each has; 0: not given */
  guint *prompt_each;   /* tokens of each prompt; further ones repeat them */
  guint n_prompt_each;
  guint chunk;       /* --chunk, tokens of all chunks, or their number (see both below); 0: not given */
  guint *chunk_each; /* tokens of each chunk; further ones have those of the last */
  guint n_chunk_each;
  gboolean even_chunks;           /* each prompt has `chunk` chunks, whose F takes the same time */
  guint group_size;               /* --group; 0: the family's default */
  guint defer_head;               /* --defer-head; 0: none */
  char *lengths;                  /* --lengths; NULL: microbatches are alike */
  char *layout;                   /* --layout; NULL: open, see ps_predictor_predict */
  char *costs;                    /* --costs text */
  char *costs_from;               /* --costs-from: paths with ':' between them */
  char *db;                       /* --db */
  char *profile;                  /* --profile */
  char *model;                    /* --model path or name */
  char *precision;                /* --precision, instead of the model's; NULL: the model's */
  guint sequence;                 /* --sequence, tokens, instead of the model's; 0: the model's */
  guint images;                   /* --images of each sequence, instead of the model's; 0: the model's */
  char *cluster;                  /* --cluster path or name */
  const PsModel *known_model;     /* what model (or db) and cluster hold, where they have been read, not owned; */
  const PsCluster *known_cluster; /* NULL: they are read when they are needed */
  /* Stages to take instead of layout's, not owned; NULL: none. */
  const PsStageShape *known_shapes;
  gboolean op_by_op; /* for measured costs, see ps_costdb_stage_costs: exec --ahead 0 */
  /* --microbatch-order */
  PsMicrobatchOrder microbatch_order;
  PsChannel comm;         /* --comm */
  PsCommOrder comm_order; /* --comm-order; schedules with sends and receives of their own have none */
  gboolean reorder;       /* it was given: it replaces the sends and receives of a schedule file */
  gint64 eager_bytes;     /* --eager */
  gboolean blocking;      /* --blocking */
  gboolean share_links;   /* --share-links */
  double *speed;          /* --speed: one value, or one per device; NULL: not given */
  guint n_speeds;
  double overlap_slowdown;       /* --overlap-slowdown; 1: none */
  gboolean overlap_waiting;      /* --overlap-waiting */
  double bandwidth_factor;       /* --bandwidth-factor; 1: as fast as they are */
  double network_factor;         /* --network-factor, in addition to bandwidth_factor; 1: as fast as it is */
  double latency_factor;         /* --latency-factor; 1: as long as they are */
  guint ready_order;             /* --ready-order; 0: program order */
  PsSync sync;                   /* --sync */
  PsReduce reduce;               /* --reduce */
  guint n_replicas;              /* --replicas */
  gboolean replicas_adjacent;    /* --adjacent-replicas */
  PsCudaGraphs cuda_graphs;      /* --cuda-graphs */
  gboolean tp_comm_overlap;      /* --tp-comm-overlap */
  PsDispatcher dispatcher;       /* --moe-token-dispatcher-type */
  gboolean overlap_param_gather; /* --overlap-param-gather */
  gboolean attention_exchange;   /* --attention-exchange */
  guint n_tensor;                /* --tensor: GPUs of a device that share its layers */
  guint n_context;               /* --context: groups of them in a device, which share each sequence */
  PsCpComm cp_comm;              /* --cp-comm-type */
  guint n_experts;               /* --experts: GPUs of a device and its replicas that share the experts */
  gboolean sequence_parallel;    /* --sequence-parallel; FALSE: as the model says */
  gboolean fp8_input_store;      /* --activation-func-fp8-input-store; FALSE: the model's own */
  PsLoss loss;                   /* --loss; whole: the model's own */
  PsFramework framework;         /* --framework; none: the model's own, see ps_setting_framework */
  gboolean has_framework;        /* it was given, none too */
  PsStateFormats state;          /* --optimizer, --main-grads-dtype and those after it; 0: the model's own */
  guint zero;                    /* --zero: 0 to 3 or PS_ZERO_AUTO; see ps_setting_zero */
  PsRecompute recompute;         /* --recompute of all stages */
  PsRecompute *recompute_each;   /* recomputation of each stage */
  guint n_recompute;
  gboolean any_recompute; /* --recompute auto */
  gboolean takes_auto;    /* the command knows --recompute auto: a search */
  double offload;         /* --offload, as recompute */
  double *offload_each;
  guint n_offload;
  guint offload_modules;     /* --offload-modules: PsOffloadFlags */
  guint microbatch_size;     /* sequences per microbatch, instead of the model's; 0: the model's */
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
typedef enum {
  PS_FIELD_OWN = 1,           /* a field of specs alone; PsSweepValue.own holds its value, not PsSetting */
  PS_FIELD_DERIVED = 2,       /* not even that: a column of the results that follows from others */
  PS_FIELD_NULL = 4,          /* its column is NULL where it is not given */
  PS_FIELD_NOT_PARTITION = 8, /* pipesim partition does not look at it */
  PS_FIELD_NOT_RUN = 16,      /* no device runs it: it is predicted only */
  PS_FIELD_NOT_COMPUTED = 32, /* devices that compute do not run it */
  PS_FIELD_MODELLED = 64,     /* pipesim partition looks at it with modelled costs alone */
  PS_FIELD_NOT_SEARCH = 128,  /* for single schedules; a search does without it */
  PS_FIELD_SHARED = 256,      /* devices that compute run it if they share layers */
  PS_FIELD_NOT_SERVE = 512,   /* of training, not of --serve */
  PS_FIELD_LISTED = 1024,     /* pipesim predict takes several values of it, by rows of its own */
  PS_FIELD_ALIKE = 2048,      /* pipesim plan takes it, for all layouts alike */
  PS_FIELD_DECIDED = 4096,    /* whoever trains decides it; else it is a circumstance: machine, model or training */
  PS_FIELD_SCHEDULE = 8192,   /* it comes with the schedule, and is no question of its own */
  PS_FIELD_OF_MODEL = 16384,  /* given costs and traces do not change with it: it needs a model */
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
 * g_free), NULL when neither is known. *reserve is set to the bytes that the limit leaves free, 0 without a cluster;
 * NULL: it is not asked for. Fails when the option has neither one value nor n_devices, and as ps_cluster_load and
 * ps_model_load. */
gboolean ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, gint64 *reserve,
                                  GError **error);

/* The stage of ZeRO that spreads state over replicas and contexts (ps_costs_zero); 0: none. Where --zero is not given
 * it is 1 with modelled costs; given and measured costs are those of a device as they are. */
guint ps_setting_zero (const PsSetting *setting);

/* The framework that is said, by the setting or else by its model. Where none is, megatron for a cluster of which the
 * file states a datasheet's values (PsCluster.datasheet): a real run holds more than the formulas need. */
PsFramework ps_setting_framework (const PsSetting *setting, const PsModel *model);

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

/* What --recompute auto, --joint and plans try for the model of the setting (ps_model_recompute_sets); without one
 * PS_RECOMPUTE_NONE, SELECTIVE and FULL. */
guint ps_setting_recompute_sets (const PsSetting *setting, PsRecompute *sets);

/* --recompute and --offload of a stage. */
PsRecompute ps_setting_recompute (const PsSetting *setting, guint stage);
double ps_setting_offload (const PsSetting *setting, guint stage);

/* Refuses values of --recompute and --offload for each stage where there are not n_stages of them. Errors:
 * PS_ERROR_USAGE. */
gboolean ps_setting_check_stages (const PsSetting *setting, guint n_stages, GError **error);

/* --model and --cluster as their files say, or copies of known_model and known_cluster. Errors: those of ps_model_load
 * and ps_cluster_load. */
PsModel *ps_setting_read_model (const PsSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;
PsCluster *ps_setting_read_cluster (const PsSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* --cluster with --bandwidth-factor, --network-factor and --latency-factor, its devices those of --tensor. Errors:
 * PS_ERROR_IO, PS_ERROR_INPUT, PS_ERROR_USAGE. */
PsCluster *ps_setting_cluster (const PsSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Where costs come from: the table of sources, and the costs of the source that a setting names. */

/* An option of SETTING that needs another one. Names are long names without dashes; offsets are those of the options'
 * texts in PsSetting. */
typedef struct {
  const char *option; /* NULL: ends a list of needs */
  gsize offset;
  const char *needs;
  gsize needs_offset;
  const char *why; /* ends the error: "--option: needs --needs FILE, why" */
} PsOptionNeed;

typedef struct _PsCostSource PsCostSource;
struct _PsCostSource {
  const char *option; /* names the source: the option's long name, without dashes */
  gsize offset;       /* offset of the option's text in PsSetting; where that is NULL, the setting has another source */
  const char *usage;  /* how to give the source on a command line */
  const char *fields; /* how to give it in the spec of a sweep */
  PsOptionNeed needs[3]; /* needs of the options that belong to the source */
  gboolean has_model;    /* the costs are those of a model: --model's, or the source's own */
  gboolean has_cluster;  /* the costs are modelled: links, any microbatch size and any group of GPUs are known */
  /* Costs of n_devices with n_chunks each. The stages of a model are those of known_shapes, which is NULL with an open
   * layout of a source without cluster: even ones. Free with ps_costs_free. */
  PsCosts *(*load) (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error);
  /* The source's own model; NULL hook: it has none. Free with ps_model_free. */
  PsModel *(*model) (const PsSetting *setting, GError **error);
  /* Reads the file that `text`, a value of `option`, names. *digest: of its content (free with g_free), left alone for
   * files that ship with pipesim. NULL hook: the option names no file. */
  gboolean (*digest) (const char *text, char **digest, GError **error);
  /* How measured costs of that size spread; NULL hook: the costs are not measured. Free with ps_cost_spread_free. */
  PsCostSpread *(*spread) (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error);
  const PsCostSource *with_cluster; /* takes its place where --cluster is given, too; NULL: it goes without */
};

/* All sources; *n entries. */
const PsCostSource *const *ps_source_table (guint *n);
const PsCostSource *ps_source_find (const char *option); /* NULL when no source has that option */

/* The setting's source; NULL: it names none. With both --costs-from and --cluster, durations of ops, R, O and host
 * times are those of the runs; transfers, all-reduces and all sizes are modelled, and so is what the GPUs of a device
 * say to each other where ranks were recorded apart. Stages are even ones, or those that --layout says were run. */
const PsCostSource *ps_setting_source (const PsSetting *setting);

/* How to give each source on a command line or in a spec, as the end of an error: "costs, db, or model and cluster".
 * Free with g_free. */
char *ps_source_usage (gboolean in_spec);

/* The model that the setting names (by --model or stored with --db), with --precision. Errors: PS_ERROR_USAGE when it
 * names none. */
PsModel *ps_setting_model (const PsSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The units of the model as layers, with the costs that the setting's options leave. link is as in ps_layers_costdb.
 * Free with ps_layers_free. */
PsLayers *ps_setting_layers (const PsSetting *setting, const PsModel *model, guint n_devices, PsLink *link,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The stages [n_devices * n_chunks] that --layout says for the model.
 * - even: as many layers for every stage. even:first=N:last=N: the first and the last device have N.
 *   even:embedding:loss: they count as a layer each. These divide exactly or are refused, as in Megatron-LM.
 * - best: the slowest stage is as fast as can be, by the bottleneck algorithm over the costs of ps_setting_layers with
 *   --speed; even where that is as fast.
 * - else a string of model.h, or the name of a file that holds one.
 * Not given it is best with a cluster and no --costs-from, else even.
 * Errors: PS_ERROR_USAGE where the stages do not fit, and those of what it reads. Free with g_free. */
PsStageShape *ps_setting_shapes (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The spread of the source's costs, for stages of these shapes (NULL: as the source cuts them). The source must have
 * the hook. */
PsCostSpread *ps_setting_spread (const PsSetting *setting, const PsStageShape *shapes, guint n_devices, guint n_chunks,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The source's costs for n_devices with n_chunks each, changed by --bandwidth-factor, --recompute, --offload,
 * --replicas (one pays no reduce_ns) and --zero. Errors: PS_ERROR_USAGE, PS_ERROR_INPUT, PS_ERROR_IO. Free with
 * ps_costs_free. */
PsCosts *ps_setting_costs (const PsSetting *setting, guint n_devices, guint n_chunks,
                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for the stages that these costs are of, wherever the setting would cut the model. They are of n_devices. */
PsCosts *ps_setting_costs_alike (const PsSetting *setting, const PsCosts *costs, guint n_devices,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for another length of the setting's model. Where durations are not modelled, costs of a machine that takes 1
 * ns for 1000 operations, for ratios of them. costs->shapes are known. */
PsCosts *ps_setting_costs_of (const PsSetting *setting, const PsModel *model, const PsCosts *costs, guint n_devices,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The lengths of n_slices slices of the model's sequences as --slices says (model.h): equal, with F of the same time
 * (ps_work_cut_even for -p and -m, for measured costs by operations), or given. Free with g_free. Errors:
 * PS_ERROR_USAGE. */
guint *ps_setting_cut_slices (const PsSetting *setting, const PsModel *model, guint n_slices,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gives the setting's costs n_slices slices as --slices cuts them, if they do not have them. Modelled costs get times
 * and messages by the kernels of a slice's tokens (work.h), and bytes: what the slice's F keeps; its keys and values
 * where its layers run again, for later slices read them; and their gradients, which the last slice that reads them
 * makes and the slice's own backward gives back. Measured costs have the slices that were measured; for slices of other
 * lengths they take the whole op's time by operations, and its bytes by tokens. ps_setting_costs does so for --slices.
 */
gboolean ps_setting_add_slices (const PsSetting *setting, PsCosts *costs, guint n_devices, guint n_slices,
                                GError **error);

/* The costs of ps_setting_costs with full recomputation on all stages, by measured rows if there are any. Where the
 * setting has no source of costs, these costs say what it takes. Errors: those of ps_setting_costs. Free with
 * ps_costs_free. */
PsCosts *ps_setting_full_costs (const PsSetting *setting, const PsCosts *costs, guint n_devices,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The costs of those microbatches of a schedule that have an R; costs are the setting's, and full those of
 * ps_setting_full_costs. The F of such a microbatch keeps what full recomputation does, R makes the rest again before
 * its backward, and the other microbatches keep all. Errors: PS_ERROR_USAGE where such a stage recomputes or offloads
 * already. Free with ps_costs_free. */
PsCosts *ps_setting_recomputed (const PsSetting *setting, const PsSchedule *schedule, const PsCosts *costs,
                                const PsCosts *full, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Puts the stages of the setting's costs on the devices of a placement, as ps_costs_place does, where its kind is
 * custom or has several copies and the costs are modelled. Errors: those of reading model and cluster. */
gboolean ps_setting_place (const PsSetting *setting, const PsPlacement *placement, PsCosts *costs, GError **error);

/* The prompts of --serve prefill and their chunks, which are the slices of microbatches (schedule.h). */
typedef struct {
  guint n;            /* prompts */
  guint n_slices;     /* most chunks of a prompt */
  guint8 *slices;     /* [n] chunks of each */
  guint *prompt;      /* [n_chunks] of each chunk, one prompt after the other (PsFamilySetting) */
  guint n_chunks;     /* of all */
  PsLengths *lengths; /* of n * n_slices chunks, chunks of a prompt after each other; those that a prompt has not got
                         have the first one's length */
} PsPrefill;

/* Cuts n_prompts prompts. Chunks of given sizes end with their prompt, so that its last one may be smaller. Even chunks
 * are those of ps_work_cut_even or, with `equal` and where costs have no model, equally long. Kernels are slower for
 * odd lengths, so that a prediction tries both and takes the faster ones. Errors: PS_ERROR_USAGE, and those of reading
 * model and cluster. */
PsPrefill *ps_prefill_new (const PsSetting *setting, guint n_prompts, gboolean equal,
                           GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_prefill_free (PsPrefill *prefill);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPrefill, ps_prefill_free)

/* Tokens of a prompt. */
static inline guint ps_prefill_tokens (const PsPrefill *prefill, guint prompt)
{
  guint last = prompt * prefill->n_slices + prefill->slices[prompt] - 1;
  const PsLength *length = &prefill->lengths->length[prefill->lengths->of[last]];

  return length->before + length->tokens;
}

/* Tokens of prompt i, and of the longest one of the setting. */
guint ps_setting_prompt (const PsSetting *setting, guint i);
guint ps_setting_longest_prompt (const PsSetting *setting);

/* The costs that stand for those of --lengths where microbatches must be alike: their average times, and the bytes of
 * the longest. costs are the setting's; without --lengths the result is a copy of them. Errors: those of
 * ps_lengths_read, and PS_ERROR_USAGE where the file has another number of microbatches. Free with ps_costs_free. */
PsCosts *ps_setting_average (const PsSetting *setting, const PsCosts *costs, guint n_devices, guint n_microbatches,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The paths of the text of --costs-from, which is one path if there is such a file. Free with g_strfreev. */
char **ps_costs_from_paths (const char *text) G_GNUC_WARN_UNUSED_RESULT;

/* Refuses costs that hold for placement loop only (PsCosts.loop_only) under another one. Errors: PS_ERROR_USAGE. */
gboolean ps_costs_check_placement (const PsCosts *costs, const PsPlacement *placement, GError **error);

/* Refuses a schedule with an op whose duration is not known (PsStageCost.unknown), alone or as that of its pair.
 * schedule NULL: refuses any of F, B, W and BW that is not known. Errors: PS_ERROR_INPUT. */
gboolean ps_costs_check_known (const PsCosts *costs, const PsSchedule *schedule, GError **error);

/* The costs, with host times, and every op as fast as the fastest device that holds its stage runs it under --speed,
 * and warm if it may be. They are exact where each stage has one device and no op is warm, a lower bound otherwise.
 * n_slices: of a microbatch that the costs are of; its times are then n_slices of those of a slice, which is rounded
 * after the speed. Free with ps_costs_free. Fails like ps_setting_speeds and ps_costs_check_placement. */
PsCosts *ps_setting_fastest_costs (const PsSetting *setting, const PsPlacement *placement, const PsCosts *costs,
                                   guint n_slices, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The chain from a setting to a prediction: costs, schedule, program, simulation, figures, timeline. */

/* One schedule under one setting, simulated. */
typedef struct {
  PsCosts *costs;
  PsProgram *program; /* owns the schedule; ps_program_add_streams makes it fit to run */
  PsSimulation *simulation;
  PsIteration iteration;      /* the time that metrics call the iteration time */
  gint64 mean_first_token_ns; /* of first_token_ns; 0 without prefill */
  PsMetrics metrics;
  PsInterval interval;     /* interval of the iteration time; ps_predictor_add_interval sets it */
  gint64 lower_bound_ns;   /* bound of the makespan; of the period where iterations overlap (answer.h) */
  gboolean feasible;       /* all devices keep to ps_setting_memory_limit */
  const char *fits;        /* ps_fits, "yes" where feasible */
  PsPrefill *prefill;      /* the prompts of --serve prefill; else NULL */
  gint64 *first_token_ns;  /* [m] from the start to the end of each prompt's last F; NULL without prefill */
  guint *order;            /* [m] the microbatch of --lengths that each of the schedule is, counted from 0; NULL:
                              they are alike */
  gint64 even_ns;          /* iteration time with the even layout, where none was asked for and another was better;
                              0: none was */
  PsEventsSetting *events; /* what the events engine ran with; NULL: the relaxation engine was enough. What it points
                              to is the prediction's, too */
  PsProgram *hint;         /* see ps_prediction_hint; NULL: the order was kept */
} PsPrediction;

void ps_prediction_free (PsPrediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPrediction, ps_prediction_free)

/* The program that the engine was given. It is the prediction's, unless --ready-order took its order as a hint: the
 * prediction's program then has the order that came out. Lives as long as the prediction. */
const PsProgram *ps_prediction_hint (const PsPrediction *prediction);

/* The stages that the costs are of, as --layout takes them: "even" or a string of model.h. NULL: costs of no
 * model. Free with g_free. */
char *ps_prediction_layout (const PsPrediction *prediction);

/* The timeline of the simulation, with the iteration time and the interval of the prediction. Free with
 * ps_timeline_free. */
PsTimeline *ps_prediction_timeline (const PsPrediction *prediction);

/* Takes the steps from a setting to a prediction. The costs of each number of devices and chunks are read once. For one
 * thread. */
typedef struct _PsPredictor PsPredictor;

/* setting: lives longer. Between predictions it may change in options that costs do not depend on. given: costs that
 * replace the setting's for as many stages as they have, on the devices that hold these stages; they live longer; NULL:
 * none. */
PsPredictor *ps_predictor_new (const PsSetting *setting, const PsCosts *given);

/* Lets microbatches with an R cost this (ps_setting_recomputed), where all others cost what was given. It lives longer.
 */
void ps_predictor_give_recomputed (PsPredictor *predictor, const PsCosts *recomputed);
void ps_predictor_free (PsPredictor *predictor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPredictor, ps_predictor_free)

/* A family's schedule for -p, -m, -v, --slices and --group, or a schedule file (recognised by '/' or '.' in the text,
 * or by existing). Families that look at costs get the setting's, if it has any. -p, -m and -v, when given, must agree
 * with the file; --comm-order, when given, replaces the file's own sends and receives. The schedule is validated. An
 * unknown name's message lists the families. Free with ps_schedule_free. */
PsSchedule *ps_predictor_schedule (PsPredictor *predictor, const char *name_or_file,
                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* That schedule lowered with --comm-order. Free with ps_program_free. */
PsProgram *ps_predictor_program (PsPredictor *predictor, const char *name_or_file,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The whole chain, with the engine that the setting needs. Where the setting leaves the layout of a model's
 * stages open and the best one differs from the even one, both are predicted, and the better one is returned: one that
 * fits the memory limit, then the faster one. Errors are those of ps_setting_costs and ps_predictor_schedule,
 * PS_ERROR_USAGE for options that the costs cannot serve, and PS_ERROR_SCHEDULE where the run deadlocks. Free with
 * ps_prediction_free. */
PsPrediction *ps_predictor_predict (PsPredictor *predictor, const char *name_or_file,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a valid schedule, which is taken over. */
PsPrediction *ps_predictor_predict_schedule (PsPredictor *predictor, PsSchedule *schedule,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Sets the interval for a run of n_steps, where the setting's costs are measured; it stays 0 where they are not. */
gboolean ps_predictor_add_interval (PsPredictor *predictor, PsPrediction *prediction, guint n_steps, GError **error);

/* One prediction, of which nothing is kept. */
PsPrediction *ps_predict (const PsSetting *setting, const char *name_or_file, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
