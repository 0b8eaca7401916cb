/* cli.h - the commands that the program pipesim holds itself, and what several of them share. commands.c has their
 * table. */
#pragma once

#include <pipesim/answer.h>
#include <pipesim/setting.h>

/* One command. Its options are a struct that is all 0 until they are read; they are reset by the rows afterwards. */
typedef struct PsCmd {
  PsCommandHelp help;
  char *(*text) (void); /* makes help.text, freed with g_free; NULL: it stands in help */
  const PsOption *rows;
  gsize size;    /* of the options' struct */
  gsize setting; /* offset of its PsSetting *, not the first member; it is made before the options are read; 0: none */
  gsize launch;  /* offset of its const PsLaunchCommand *; the file of --from may stand first then; 0: none */
  gboolean takes_auto; /* PsSetting.takes_auto */
  gsize words;         /* offset of its char **: the words of the command line after the command's name; 0: none */
  /* Fills what follows from options together, before anything is said about them; NULL: nothing does. */
  gboolean (*settle) (gpointer options, GError **error);
  /* Prints data to stdout and talk to stderr. argv holds the command's name and what is no option. Returns the exit
   * code: 0 done, 3 done but outside the tolerance asked for. Sets *error on failure, and main decides the code. */
  int (*run) (const struct PsCmd *command, gpointer options, int argc, char **argv, GError **error);
  gconstpointer data;               /* of run */
  void (*clear) (gpointer options); /* frees what no row does; NULL: nothing */
} PsCmd;

/* Says which keys of a model's file nothing is known of. path NULL: there is no file. */
void ps_note_unread (const char *path);

/* Says which keys a cluster's file omits, and what they are taken to be, and the framework that ps_setting_framework
 * takes then; the length of sequences that a config.json does not say; and the rate of products that the cluster has
 * none for. Costs that are not modelled assume nothing. */
void ps_note_assumed (const PsSetting *setting);

/* The speed of a run of the setting's model. */
typedef struct {
  double n_gpus;
  double tokens_per_s; /* 0: the model is not known, or serves */
  double mfu;          /* FLOPs of F, B and W over those of the GPUs' peak rate; 0: the cluster is not known */
} PsSpeed;

PsSpeed ps_run_speed (const PsSetting *setting, guint n_devices, guint n_microbatches, gint64 iteration_ns);

/* How far modelled steps of the setting's machine, format and kind of layers were from published runs, for people; NULL
 * where costs are not modelled. Free with g_free. */
char *ps_describe_errors (const PsSetting *setting);

/* "driver and libraries", the heading of a part of memory. */
const char *ps_memory_part_title (PsMemoryPart part);

int ps_cmd_run (const PsCmd *command, int argc, char **argv, GError **error);

/* Runs the command that argv[1] names and prints its error. FALSE: pipesim has none of that name. *code: the exit code.
 */
gboolean ps_run_command (int argc, char **argv, int *code);

/* Becomes the program pipesim-NAME of argv[0], first the one in this program's folder: they are built together. Returns
 * on failure alone, which it prints: the exit code. */
int ps_run_program (char **argv);

extern const PsCmd ps_cmd_advise, ps_cmd_best, ps_cmd_clusters, ps_cmd_compare, ps_cmd_models, ps_cmd_pareto,
    ps_cmd_partition, ps_cmd_plan, ps_cmd_predict, ps_cmd_search, ps_cmd_sensitivity;

/* Commands with commands of their own. */
int ps_cmd_schedule (int argc, char **argv, GError **error);
int ps_cmd_sweep (int argc, char **argv, GError **error);

/* A page of pipesim help TOPIC. */
typedef struct {
  const char *name;
  char *(*write) (void); /* free with g_free */
  const char *description;
} PsHelpTopic;

extern const PsHelpTopic ps_help_topics[]; /* the last name is NULL */

/* --microbatch-size N; the base is a PsSetting. */
extern const PsOption ps_microbatch_size_rows[];

/* The figures of a prediction; texts and metrics stay its own. layout is left out. */
PsFigures ps_prediction_figures (const PsPrediction *prediction);

/* The options that say which costs vary. */
typedef struct {
  PsUncertainty uncertainty; /* without what was measured */
  gboolean has_jitter;
  char **stragglers, **slow_links;
  gboolean is_measured; /* --jitter measured */
  PsSlowness *slowness; /* free with g_free */
} PsVariation;

/* Their base is a PsVariation. */
extern const PsOption ps_variation_rows[];

/* Checks the options together and reads slowness. *varies: any was given. Errors: PS_ERROR_USAGE. */
gboolean ps_variation_finish (PsVariation *variation, const PsSetting *setting, gboolean *varies, GError **error);

/* ", jitter 0.05, straggler 1:1.5:0.1". Free with g_free. */
char *ps_variation_describe (const PsVariation *variation);
