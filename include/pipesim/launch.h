/* launch.h - a run as training frameworks are told of it: launch flags and configuration keys. Names of options are
 * those of
 *
 * - megatron: Megatron-LM (megatron/training/arguments.py, core v0.16). Even layouts that divide are given by numbers
 * of layers, all others by --pipeline-model-parallel-layout (layout-string.h).
 * - torchtitan: torchtitan v0.2 (torchtitan/config/job_config.py), TOML. A schedule that PyTorch has no class for comes
 * as a CSV (formats.h, torch-compute), if its placement is loop: torchtitan places CSV schedules in a loop. Modules are
 * named as in torchtitan's Llama models. v0.3 has the same keys in Python, and lm_head for output.
 * - deepspeed: DeepSpeed 0.17 to 0.19 (deepspeed/runtime/pipe/module.py), Python and JSON. PipelineModule knows no
 * uneven layout: `parts` is for a subclass that overrides _partition_layers.
 */
#ifndef PIPESIM_LAUNCH_H
#define PIPESIM_LAUNCH_H

#include <pipesim/predictor.h>

G_BEGIN_DECLS

typedef struct
{
  const PsSetting *setting; /* GPUs of a device, replicas, ZeRO, recomputation, groups */
  const PsModel *model;
  const PsStageShape *shapes; /* [n_devices * n_chunks] */
  guint n_devices;
  guint n_chunks;
  const char *schedule;    /* family or file, as it was named; NULL: not known, only the stages are told */
  const PsSchedule *order; /* the schedule itself; NULL like its name */
} PsLaunch;

/* The names of all frameworks; *n of them. */
const char *const *ps_launch_frameworks (guint *n);

/* Checks the name of a framework, for rows of options. Errors: those of ps_parse_name. */
gboolean ps_launch_parse (const char *where, const char *text, guint *framework, GError **error);

/* The text for that framework, of lines. Errors: PS_ERROR_USAGE where there is no such framework, where the schedule
 * does not run in it, or where the model has modules of multi-token prediction that it does not know. Free with g_free.
 */
char *ps_launch_write (const char *framework, const PsLaunch *launch, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a prediction of costs that are those of a model. */
char *ps_launch_prediction (const char *framework, const PsSetting *setting, const char *schedule,
                            const PsPrediction *prediction, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The frameworks that have a family by a name of their own: "megatron, torchtitan"; "" for none. Free with g_free. */
char *ps_launch_runs_in (const char *family);

G_END_DECLS

#endif
