/* launch.h - a run as training frameworks are told of it: launch flags and configuration keys, and what a framework
 * asks of a run. Names of options are those of
 *
 * - megatron: Megatron-LM 0.16 to 0.19 (megatron/training/arguments.py), flags; the model's definition among them. Even
 * layouts that divide are given by numbers of layers, all others by --pipeline-model-parallel-layout (layout-string.h).
 * - torchtitan: torchtitan 0.3 (torchtitan/config/configs.py), words of the command line: --section.key VALUE. A
 * schedule that PyTorch has no class for, or whose class refuses the number of microbatches or takes another group,
 * comes as a CSV (formats.h, torch-compute), if its placement is loop: torchtitan places CSV schedules in a loop.
 * Modules are named as in torchtitan's Llama models.
 * - torchtitan-0.2: the same keys as TOML (torchtitan/config/job_config.py); the head is output there, lm_head in 0.3.
 * - deepspeed: DeepSpeed 0.17 to 0.19 (deepspeed/runtime/pipe/module.py), Python and JSON. PipelineModule knows no
 * uneven layout: `parts` is for a subclass that overrides _partition_layers.
 *
 * Form: a comment has a line of its own, which begins with #. One of them is "# launch: COMMAND", the command on each
 * node with the environment variables before it; "# pipesim schedule convert ..." makes the CSV. All other lines are
 * what the framework reads: of megatron and torchtitan words as a shell splits them, to go after the command.
 */
#ifndef PIPESIM_LAUNCH_H
#define PIPESIM_LAUNCH_H

#include <pipesim/predictor.h>

G_BEGIN_DECLS

typedef struct
{
  const PsSetting *setting;   /* GPUs of a device, replicas, ZeRO, recomputation, groups */
  const PsModel *model;       /* NULL: not known */
  const PsStageShape *shapes; /* [n_devices * n_chunks]; NULL: not known */
  guint n_devices;
  guint n_chunks;
  const char *schedule;    /* family or file, as it was named; NULL: not known, only the stages are told */
  const PsSchedule *order; /* the schedule itself; NULL: not known */
} PsLaunch;

/* The options of a command that prints a launch. */
typedef struct
{
  char *to;       /* a framework; NULL: no launch is asked for */
  gboolean force; /* also where the run does not fit memory */
} PsLaunchChoice;

extern const PsOption ps_launch_rows[];

/* The names of all frameworks; *n of them. */
const char *const *ps_launch_frameworks (guint *n);

/* Checks the name of a framework, for rows of options. Errors: those of ps_parse_name. */
gboolean ps_launch_parse (const char *where, const char *text, guint *framework, GError **error);

/* Lets --to imply --framework, where memory is counted for that framework. Errors: PS_ERROR_USAGE where another one was
 * given. */
gboolean ps_launch_imply (const char *to, PsFramework *framework, GError **error);

/* The text for that framework, of lines. Errors: PS_ERROR_USAGE where there is no such framework, or where it does not
 * run that. Free with g_free. */
char *ps_launch_write (const char *framework, const PsLaunch *launch, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a prediction of costs that are those of a model. Errors besides: PS_ERROR_SCHEDULE where it does not fit
 * memory, unless choice->force. */
char *ps_launch_prediction (const PsLaunchChoice *choice, const PsSetting *setting, const char *schedule,
                            const PsPrediction *prediction, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Why a framework (of ps_launch_frameworks, pytorch or colossalai) does not run that by a name of its own for the
 * family: "-m 3: ..."; NULL: it does. The stages are those of the setting's model, where it names one. Free with
 * g_free.
 */
char *ps_launch_refusal (const char *framework, const PsSetting *setting, const char *family);

/* The frameworks that do: "megatron, torchtitan"; "" for none. Free with g_free. */
char *ps_launch_runs_in (const PsSetting *setting, const char *family);

/* Adds the refusals of frameworks that know the family: "megatron: -m 3: ...". */
void ps_launch_lint (const PsSetting *setting, const char *family, GPtrArray *findings);

G_END_DECLS

#endif
