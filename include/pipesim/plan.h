/* plan.h - the best setting to train a model on n GPUs: p devices in a pipeline, t GPUs to a device, d replicas,
 * microbatch size, recomputation, chunks and schedule. */
#ifndef PIPESIM_PLAN_H
#define PIPESIM_PLAN_H

#include <pipesim/setting.h>
#include <pipesim/sweep.h>

G_BEGIN_DECLS

typedef struct {
  /* What all layouts have: the model (NULL: the one that db holds) and its precision; the cluster, which says memory
   * and peak rate of a GPU, and without db all costs; measured costs, a db and a profile (NULL: all of the model,
   * whatever their size of microbatches); other options with PS_FIELD_ALIKE. Its texts must live as long as the answer.
   * Measured costs know neither replicas nor other sizes of microbatches, and hold for the device as it was measured: p
   * is n_gpus then. */
  PsSetting given;
  guint n_gpus;        /* p * t * c * d; 0: those of the cluster */
  guint tensor;        /* t; 0: 1, 2, 4 and 8, within a node */
  guint context;       /* c; 0: 1, and with sequences of more than 4096 tokens 2, 4, ... to so many of each 4096 */
  guint experts;       /* GPUs that share the experts; 0: 1, 8, 16, 32 and 64, as the experts allow */
  const char *runner;  /* one of ps_launch_frameworks: layouts that it does not run come after those that it runs, and
                          replicas of a device are neighbours, as frameworks place them; NULL: none is asked for */
  gint64 global_batch; /* sequences per step */
  gint64 tokens;       /* of the whole training; 0: not known */
  double days;         /* that the training may take; 0: any number. Needs tokens */
  gint64 slowest_ns;   /* step of the slowest setting that is an answer; 0: any. days count if this is 0 */
  gint64 memory_limit; /* bytes per GPU; 0: the cluster's */
  gint64 reserve;      /* bytes of them that stay free; PS_LAYOUT_USUAL_RESERVE: ps_memory_reserve */
  guint zero;          /* the stage of ZeRO that spreads state over the replicas, where there are some; 0: none */
  char **schedules;    /* families; NULL: all that are synchronous */
  guint top;           /* number of layouts wanted, the best ones; with a runner also of those that it does not run */
  gboolean fold;       /* settings with the same p, t, c, e and d are one: the fastest */
  guint n_jobs;        /* threads; 0: 1. The answer is the same for any number */
} PsLayoutQuestion;

/* Trust in a prediction, by the weakest of the figures that it is made from. */
typedef enum {
  PS_CONFIDENCE_LOW,    /* times, transfers or sizes are modelled, and no runs of the class were published */
  PS_CONFIDENCE_MEDIUM, /* they are modelled and such runs were published, or they lie between measured ones */
  PS_CONFIDENCE_HIGH,   /* all were measured */
} PsConfidence;

const char *ps_confidence_name (PsConfidence confidence); /* "low", "medium", "high" */

#define PS_LAYOUT_NEAR 1.01
#define PS_LAYOUT_SLICE 2048

typedef struct {
  const char *schedule;
  char *near;            /* other schedules of the same p, t, c, e and d, no slower than PS_LAYOUT_NEAR times the step,
                            the fastest first: "zb-v, 1f1b"; NULL: there is none, or fold is not asked for */
  gboolean not_run;      /* the question's runner has no name for the schedule, or refuses the run */
  gboolean asynchronous; /* its gradients are of older weights: another training */
  PsSetting setting;     /* that predicts it again; never cleared, and valid while question and answer are */
  guint microbatch_size; /* b, sequences; of measured costs, too */
  gint64 step_ns;        /* iteration time of PsPrediction, all-reduce of the gradients included */
  gint64 peak_memory_bytes; /* peak of a GPU */
  double bubble_ratio;      /* bubble ratio of the iteration */
  double tokens_per_second; /* global_batch s / step */
  double mfu;               /* model FLOPs utilisation: step_flops / (step * n_gpus * peak_flops) of PsLayouts */
  const char *costs_origin; /* "modelled", "measured" */
  PsConfidence confidence;
} PsLayout;

/* The layouts that were tried, and the best of them. Every setting of the space counts once. */
typedef struct {
  GArray *best; /* PsLayout, the fastest first, equal ones by p, t, b, recomputation, schedule, chunks; those that the
                   runner does not run after all others, and as many as they at most */
  guint64 n_settings;
  guint64 n_fit;        /* predicted, and fit the memory */
  guint64 n_too_large;  /* predicted, and do not */
  guint64 n_hopeless;   /* not predicted: weights, gradients, optimizer state and one microbatch do not fit */
  guint64 n_outrun;     /* not predicted: the work alone takes longer than the last of the best */
  guint64 n_impossible; /* refused by the schedule or the costs */
  guint n_gpus;
  guint n_there;       /* GPUs that the cluster has; more nodes of the kind are assumed beyond them */
  guint n_sizes;       /* numbers of GPUs that were tried */
  gint64 slowest_ns;   /* as in the question, or what its days come to */
  gint64 step_tokens;  /* global_batch times the model's sequence */
  gint64 memory_limit; /* less the reserve */
  gint64 reserve;
  gint64 state_bytes;   /* weights, gradients and optimizer state of the model, by ps_model_state */
  double unrest;        /* largest PsCosts.unrest of the layouts that fit */
  double step_flops;    /* operations of the model, see ps_layout_step_flops */
  double peak_flops;    /* rate of one GPU, in the model's precision (ps_work_peak_flops) */
  const char *peak_key; /* key of the cluster that states it */
  char *model;          /* their names */
  char *cluster;
  PsSweep *sweep; /* that has the texts of its layouts */
} PsLayouts;

#define PS_LAYOUT_USUAL_RESERVE (-1)

/* The floating-point operations that a step of global_batch sequences needs: F, B and W of the whole model as
 * ps_model_stage_flops counts them. Recomputation does not count (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B:
 * 6N + 12LHQT per token; N here without the embedding, which is looked up). */
double ps_layout_step_flops (const PsModel *model, gint64 global_batch);

/* Predicts the layouts with p t c d = n_gpus:
 * - p no more than layers, embedding and loss; t as ps_tensor_check and the nodes allow; b = 1, 2, 4, 8, 16; all
 * recomputations;
 * - all schedules with their own number of chunks v. Schedules that take others also with v = 2, 4, 8 and every v up to
 *   20 that cuts the layers evenly, or these with embedding and loss. For p = 1, where there is no pipeline, the
 * fastest with one chunk stands for all; families of several chunks count there only where 1f1b is not asked for. A
 *   family with p slices (slimpipe) counts where a GPU has PS_LAYOUT_SLICE tokens of a slice, or where it is asked for.
 *   Slices as long as that are also cut to even work, in the fastest layout of each schedule for each p, t, c, e and d,
 *   unless a runner is asked for; the faster cut counts.
 *
 * Two bounds save predictions and change no answer: weights and one microbatch of a pipeline against its memory, and
 * the work of a step spread evenly over p against the last of the best. Settings that do not fit are no answer; when
 * none fits, best is empty. Shows progress. Errors: PS_ERROR_USAGE, PS_ERROR_IO, PS_ERROR_INPUT.
 */
PsLayouts *ps_layouts_find (const PsLayoutQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_layouts_free (PsLayouts *layouts);

/* The same on the fewest GPUs where a step takes no longer than the question's slowest_ns or days; its n_gpus is not
 * read. The best of the answer are the layouts on so many GPUs. Where no number is enough, best is empty and n_gpus the
 * largest number tried.
 *
 * Numbers tried: 1, 2, 4 and then multiples of 8, where 8 is the largest power of two up to 8 that divides a node; only
 * those that are p t c d with a d that divides the batch; without a network those of one node. Powers of two are tried
 * first, until one is enough. A step need not get shorter with every GPU (a number may cut the model or the batch
 * badly), so all smaller numbers are tried after it, the smallest first, except those that no layout can make enough:
 * the work of a step, spread evenly, takes too long. "Fewest" is therefore exact among these numbers.
 *
 * Errors: those of ps_layouts_find, and PS_ERROR_USAGE with measured costs, which hold for one number of GPUs. */
PsLayouts *ps_layouts_find_least (const PsLayoutQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsLayouts, ps_layouts_free)

/* The command line that predicts one of them again. Free with g_free. */
char *ps_layout_command (const PsLayout *layout);

/* A run in the words of training frameworks: launch flags and configuration keys, and what a framework asks of a run.
 * Names of options are those of
 *
 * - megatron: HybridModel of Megatron-LM 0.18 and later (megatron/training/arguments.py), flags; the model's definition
 * among them. A pattern (model.h) says units and stages. Latent attention is there from 0.19 on. Overlapped messages of
 * experts want [ ] around the units of a layer (NVIDIA/Megatron-LM pull request 4798).
 * - megatron-gpt: GPTModel of 0.16 to 0.19, which later releases call deprecated. Even layouts that divide are given by
 * numbers of layers, all others by --pipeline-model-parallel-layout (model.h).
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

typedef struct {
  const PsSetting *setting;   /* GPUs of a device, replicas, ZeRO, recomputation, groups */
  const PsModel *model;       /* NULL: not known */
  const PsStageShape *shapes; /* [n_devices * n_chunks]; NULL: not known */
  guint n_devices;
  guint n_chunks;
  const char *schedule;    /* family or file, as it was named; NULL: not known, only the stages are printed */
  const PsSchedule *order; /* the schedule itself; NULL: not known */
} PsLaunch;

/* What intervals of modelled costs are worth for torchtitan. */
#define PS_TITAN_RUNS "the published runs are of Megatron-LM and its like; none is of torchtitan"

/* The options of a command that prints a launch. */
typedef struct {
  char *to;       /* a framework; NULL: no launch is asked for */
  gboolean force; /* also where the run does not fit memory */
} PsLaunchChoice;

extern const PsOption ps_launch_rows[];

/* --from and --print-command, of the commands that ps_launch_expand reads a launch for; their base is any. */
typedef struct {
  char *from;
  gboolean print_command;
} PsFromChoice;

extern const PsOption ps_from_rows[];

/* A command line with what the file of --from says. */
typedef struct {
  char **words;          /* the line with the file's options before those given; NULL: it has no --from */
  char *notes;           /* lines about what is not modelled, for standard error */
  const char *framework; /* of ps_launch_frameworks, that reads the file; NULL: none */
  char *schedule;        /* the family that it runs; NULL: not known, or another one is given */
  char *file;            /* its name */
  char *const *argv;     /* the line as it was given, not owned */
  gboolean print;        /* --print-command */
  gboolean counted;      /* the file says no number of GPUs, and --replicas of the line does */
} PsLaunchCommand;

/* Reads a launch as its framework reads it, and turns it into options:
 * - arguments of Megatron-LM: a script with the command, or the words alone. Variables, arrays and functions count
 * where they are plain. Nothing is executed; a value that needs it is an error where it is asked for;
 * - its arguments as its log lists them, and its YAML or Megatron-Bridge's;
 * - torchtitan's TOML or words, and DeepSpeed's JSON with a config.json in the same folder;
 * - a config.json alone.
 * Options of argv win over the file. Those that the rows do not have are left out; a command that searches layouts gets
 * the model and the batch alone. Errors: PS_ERROR_USAGE, PS_ERROR_IO, PS_ERROR_INPUT "FILE:LINE: ...". Clear in any
 * case. */
gboolean ps_launch_expand (const PsOption *rows, char *const *argv, PsLaunchCommand *command, GError **error);
void ps_launch_command_clear (PsLaunchCommand *command);

/* Prints the command line as a shell reads it, and the notes. */
gboolean ps_launch_print (const PsLaunchCommand *command, GError **error);

/* Prints the notes, and the precondition of the framework that the setting breaks (NULL: not known). */
void ps_launch_note (const PsLaunchCommand *command, const PsSetting *setting);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsLaunchCommand, ps_launch_command_clear)

/* The names of all frameworks; *n of them. */
const char *const *ps_launch_frameworks (guint *n);

/* Checks the name of a framework, for rows of options. Errors: those of ps_parse_name. */
gboolean ps_launch_parse (const char *where, const char *text, guint *framework, GError **error);

/* Lets --to imply --framework, where memory is counted for that framework, and gradients in fp32 for torchtitan.
 * Errors: PS_ERROR_USAGE where another one was given. */
gboolean ps_launch_imply (const char *to, PsSetting *setting, GError **error);

/* The text for that framework, of lines. Errors: PS_ERROR_USAGE where there is no such framework, or where it does not
 * run that. Free with g_free. */
char *ps_launch_write (const char *framework, const PsLaunch *launch, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a prediction of costs that are those of a model. Errors also: PS_ERROR_SCHEDULE where it does not fit
 * memory, unless choice->force. */
char *ps_launch_prediction (const PsLaunchChoice *choice, const PsSetting *setting, const char *schedule,
                            const PsPrediction *prediction, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Why a framework (of ps_launch_frameworks, pytorch or colossalai) does not run that by a name of its own for the
 * family: "-m 3: ..."; NULL: it does. megatron runs what either of its forms runs. The stages are those of the
 * setting's model, where it names one. Free with g_free.
 */
char *ps_launch_refusal (const char *framework, const PsSetting *setting, const char *family);

/* The frameworks that do: "megatron, torchtitan"; "" for none. Free with g_free. */
char *ps_launch_runs_in (const PsSetting *setting, const char *family);

/* Adds the refusals of frameworks that know the family: "megatron: -m 3: ...", as PsFinding. */
void ps_launch_lint (const PsSetting *setting, const char *family, GPtrArray *findings);

/* What to change in a run: one thing after the other, on the same GPUs, with the same sequences per step. */

/* A run that differs from the one that was asked about. */
typedef struct {
  const char *change; /* what changes: "recompute", "tensor and data parallelism"; "together" */
  char *options;      /* what differs, as options: "--recompute none --tensor 4" */
  PsSetting setting;  /* its texts are static, or those of the question's setting */
  const char *schedule;
  gint64 step_ns;
  gint64 peak_memory_bytes; /* of a GPU */
  gint64 excess_bytes;      /* of the device that is most above its limit; below 0: all are below */
  const char *fits;         /* ps_fits */
  PsInterval interval;      /* of the step, where costs are measured */
  double gain;              /* part of the step that is saved; below 0: it takes longer */
  double certainty;         /* probability that it is faster than the run as it stands */
  char *text;               /* the launch in the words of the question's framework; NULL: there is none */
  guint n_chunks;           /* v of its schedule */
} PsAdvised;

typedef struct {
  const PsSetting *setting; /* of the run as it stands. All must live as long as the advice */
  const char *schedule;
  const char *framework; /* of ps_launch_frameworks, that is to run the others; NULL: any may */
  const PsModel *model;  /* that the launch defines, where costs are of no model; NULL: not known */
  gboolean every;        /* list all values of a change, not only the best one */
  guint n_jobs;          /* threads; 0: 1. The answer is the same for any number */
} PsAdviceQuestion;

#define PS_ADVICE_CERTAIN 0.9     /* less than that is noise */
#define PS_ADVICE_LEAST_GAIN 2e-3 /* a smaller one is none */

typedef struct {
  PsPrediction *prediction; /* of the run as it stands */
  PsAdvised run;            /* it */
  char *broken;             /* the framework's precondition that it breaks; NULL: none is */
  GArray *changes;          /* PsAdvised, the fastest first: those that fit. Where the run does not fit, also those that
                               need less memory, by the time that they lose */
  PsAdvised together;       /* the best few; where the run does not fit, the fewest that make it fit, and what is
                               gained then. options NULL: no two are better than one */
  guint n_predicted;
  guint n_refused; /* by the framework or by the costs */
  double error;    /* relative standard deviation of a step; 0: measured costs, whose intervals count */
} PsAdvice;

/* Predicts the run and its changes. A change counts where the framework runs it and has words for it.
 *
 * certainty = Phi (ln (step / changed step) / deviation). With measured costs the deviation is that of both intervals,
 * as if they were independent. With modelled ones it is half of that of a step (PsClassErrors): two settings of a class
 * are taken to share three quarters and more of an error's variance, 7/8, because settings of one series, predicted
 * from one of them, are 0.8 and 3.0 % off where single steps are 3.4 and 6.7 % off (docs/accuracy.md, MLPerf, Primus,
 * vTrain).
 *
 * Errors: those of ps_predict. Free with ps_advice_free. */
PsAdvice *ps_advice_new (const PsAdviceQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_advice_free (PsAdvice *advice);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsAdvice, ps_advice_free)

/* The file of a launch, changed to another run of its advice. */
typedef struct {
  char *text;  /* of the file; NULL: it cannot say that, as a log */
  char *diff;  /* lines that differ; NULL as text */
  char *flags; /* what differs in words of the framework: "--micro-batch-size 2, without --sequence-parallel" */
} PsAdvisedFile;

/* Edits the text of a launch, which where names. Whether it reads back as the run, its reader says. Clear in any case.
 */
void ps_advice_edit (const PsAdvice *advice, const PsAdvised *advised, const char *where, const char *text,
                     PsAdvisedFile *file);
void ps_advised_file_clear (PsAdvisedFile *file);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsAdvisedFile, ps_advised_file_clear)

G_END_DECLS

#endif
