/* sources.h - where costs come from: the table of sources, and the costs of the source that a setting names. */
#ifndef PIPESIM_SOURCES_H
#define PIPESIM_SOURCES_H

#include <pipesim/costdb.h>
#include <pipesim/partition.h>
#include <pipesim/setting.h>

G_BEGIN_DECLS

/* An option of SETTING that needs another one. Names are long names without dashes; offsets are those of the options'
 * texts in PsSetting. */
typedef struct
{
  const char *option; /* NULL: ends a list of needs */
  gsize offset;
  const char *needs;
  gsize needs_offset;
  const char *why; /* ends the error: "--option: needs --needs FILE, why" */
} PsOptionNeed;

typedef struct
{
  const char *option;    /* names the source: the option's long name, without dashes */
  gsize offset;          /* of the option's text in PsSetting; where that is NULL, the setting has another source */
  const char *usage;     /* how to give the source on a command line */
  const char *fields;    /* how to give it in the spec of a sweep */
  PsOptionNeed needs[3]; /* of the options that belong to the source */
  gboolean has_model;    /* the costs are those of a model: --model's, or the source's own */
  gboolean has_cluster;  /* the costs are modelled: links, any microbatch size and any group of GPUs are known */
  /* Costs of n_devices with n_chunks each. model: --model's; NULL: not given. The stages of a model are those of
   * known_shapes, which is NULL with an open layout of a source without cluster: even ones. Free with ps_costs_free. */
  PsCosts *(*load) (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks, GError **error);
  /* The source's own model; NULL hook: it has none. Free with ps_model_free. */
  PsModel *(*model) (const PsSetting *setting, GError **error);
  /* Reads the file that `text`, a value of `option`, names. *digest: of its content (free with g_free), left alone for
   * files that ship with pipesim. NULL hook: the option names no file. */
  gboolean (*digest) (const char *text, char **digest, GError **error);
  /* How measured costs of that size spread; NULL hook: the costs are not measured. Free with ps_cost_spread_free. */
  PsCostSpread *(*spread) (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks,
                           GError **error);
} PsCostSource;

/* All sources; *n entries. */
const PsCostSource *const *ps_source_table (guint *n);
const PsCostSource *ps_source_find (const char *option); /* NULL when no source has that option */

/* The setting's source; NULL: it names none. */
const PsCostSource *ps_setting_source (const PsSetting *setting);

/* How to give each source on a command line or in a spec, as the end of an error: "costs, db, or model and cluster".
 * Free with g_free. */
char *ps_source_usage (gboolean in_spec);

/* Refuses two sources at once, and an option without the option that it needs. Errors: PS_ERROR_USAGE. */
gboolean ps_sources_check (const PsSetting *setting, GError **error);

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
 * - else a string of layout-string.h, or the name of a file that holds one.
 * Not given it is best with a cluster, else even.
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

/* Gives modelled costs of the setting the times of each of n_slices slices, by the kernels of its tokens (work.h), if
 * they do not have them. Other costs have those that were measured. ps_setting_costs does so for --slices. */
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
 * custom and the costs are modelled. Errors: those of reading model and cluster. */
gboolean ps_setting_place (const PsSetting *setting, const PsPlacement *placement, PsCosts *costs, GError **error);

/* The costs that stand for those of --lengths where microbatches must be alike: their average times, and the bytes of
 * the longest. costs are the setting's; without --lengths the result is a copy of them. Errors: those of
 * ps_lengths_read, and PS_ERROR_USAGE where the file has another number of microbatches. Free with ps_costs_free. */
PsCosts *ps_setting_average (const PsSetting *setting, const PsCosts *costs, guint n_devices, guint n_microbatches,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The paths of the text of --costs-from, which is one path if there is such a file. Free with g_strfreev. */
char **ps_costs_from_paths (const char *text) G_GNUC_WARN_UNUSED_RESULT;

/* Refuses costs that hold for placement loop only (PsCosts.loop_only) under another one. Errors: PS_ERROR_USAGE. */
gboolean ps_costs_check_placement (const PsCosts *costs, const PsPlacement *placement, GError **error);

/* Refuses a schedule with an op whose duration is not known (PsStageCost.unknown). schedule NULL: refuses any of F, B,
 * W and BW that is not known. Errors: PS_ERROR_INPUT. */
gboolean ps_costs_check_known (const PsCosts *costs, const PsSchedule *schedule, GError **error);

/* The costs, with host times, and every op as fast as the fastest device that holds its stage runs it under --speed,
 * and warm if it may be. They are exact where each stage has one device and no op is warm, a lower bound otherwise.
 * n_slices: of a microbatch that the costs are of; its times are then n_slices of those of a slice, which is rounded
 * after the speed. Free with ps_costs_free. Fails like ps_setting_speeds and ps_costs_check_placement. */
PsCosts *ps_setting_fastest_costs (const PsSetting *setting, const PsPlacement *placement, const PsCosts *costs,
                                   guint n_slices, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
