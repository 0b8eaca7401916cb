/* cmd-schedule.c - pipesim schedule: lists, draws, validates and converts schedules, and says what other programs would
 * refuse or do wrong with them. */
#include "cli.h"

#include <pipesim/formats.h>
#include <pipesim/plan.h>

#include <unistd.h>

#define LIST_ONLY 1     /* the other actions refuse it */
#define MAX_COLUMNS 160 /* of a drawing in true proportions; in units of one op it is as long as it must be */
#define MIN_FOLD 40     /* of a drawing's lines in a narrow window */

typedef struct {
  PsPredictor *predictor; /* of setting */
  PsSetting *setting;
  PsColumnChoice columns; /* of list */
  PsLaunchChoice launch;  /* of convert; to may be a format */
  char *output;
  gboolean strict; /* of lint */
} Options;

static const PsOption json_rows[] = {
  PS_OPTION ("json", 0, PS_FLAG (Options, columns.json), NULL, "Print JSON (format pipesim-families/1)",
             .group = PS_GROUP_OUTPUT, .flags = LIST_ONLY),
  PS_OPTION_END,
};

static const PsOption list_rows[] = {
  { .name = "", .type = PS_OPTION_ROWS, .rows = json_rows }, /* of the same base */
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION_END,
};

static const PsOption order_rows[] = {
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, 0),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_microbatch_size_rows, 0),
  { .name = "", .type = PS_OPTION_ROWS, .rows = json_rows, .flags = LIST_ONLY }, /* of the same base */
  PS_OPTION_END,
};

static const PsOption lint_rows[] = {
  PS_OPTION ("strict", 0, PS_FLAG (Options, strict), NULL, "Exit code 3 for warnings, too", .group = PS_GROUP_OUTPUT),
  { .name = "", .type = PS_OPTION_ROWS, .rows = order_rows }, /* of the same base */
  PS_OPTION_END,
};

static const PsOption convert_rows[] = {
  PS_OPTION (
      "to", 0, PS_TEXT (Options, launch.to), "FORMAT",
      "Format to convert to, of pipesim help formats; with --model and --cluster or --db also megatron, torchtitan, "
      "torchtitan-0.2 or deepspeed: the flags or keys that run it there, with the layout of its stages",
      .otherwise = "", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("force", 0, PS_FLAG (Options, launch.force), NULL,
             "With --to FRAMEWORK: also where memory does not suffice", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE", "File to convert into; -: standard output",
             .otherwise = "", .group = PS_GROUP_OUTPUT),
  { .name = "", .type = PS_OPTION_ROWS, .rows = order_rows }, /* of the same base */
  PS_OPTION_END,
};

static void print_families (const PsFamily *const *families, guint n, GError **error)
{
  g_autoptr (GString) text = g_string_new (
      "The families that --schedule knows. Memory counts activations at the peak of device r, in units of a device's "
      "whole share of a microbatch. There are p devices, m microbatches and v chunks. Names of PyTorch and elsewhere "
      "are taken, too; PyTorch's also without Schedule, and case does not count.\n");

  for (guint i = 0; i < n; i++) {
    const PsFamily *family = families[i];

    g_string_append_printf (text, "\n%s: %s\n  constraints  %s\n  memory       %s\n  chunks       %u by default\n",
                            family->name, family->description, family->constraints, family->memory,
                            family->default_chunks);
    g_string_append_printf (text, "  looks at     %s\n  source       %s\n",
                            family->uses_costs ? "costs and --memory-limit" : "nothing else", family->source);
    if (family->torch != NULL)
      g_string_append_printf (text, "  PyTorch      Schedule%s\n", family->torch);
    if (family->also != NULL)
      g_string_append_printf (text, "  elsewhere    %s\n", family->also);
  }
  g_string_append (text, "\nA schedule may also be a file, see pipesim help formats; pipesim search finds new ones.\n");
  ps_print (text->str, error);
}

static int list (const Options *options, G_GNUC_UNUSED const char *schedule, GError **error)
{
  static const PsCellColumn columns[] = {
    PS_CELL (PsFamily, name, "name", "name", TEXT),
    PS_CELL (PsFamily, description, "description", "description", TEXT),
    PS_CELL (PsFamily, constraints, "constraints", "constraints", TEXT),
    PS_CELL (PsFamily, memory, "memory", "peak activations of device r", TEXT),
    PS_CELL (PsFamily, source, "source", "source", TEXT),
    PS_CELL (PsFamily, torch, "torch", "PyTorch", TEXT),
    PS_CELL (PsFamily, also, "also", "elsewhere", TEXT),
  };
  static const char *const hidden[] = { "constraints", "memory", "source", "torch", "also", NULL };
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  g_autoptr (PsTable) table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  for (guint i = 0; i < n; i++)
    ps_table_add (table, families[i]);
  if (!ps_table_choose (table, &options->columns, hidden, error))
    return 0;
  if (options->columns.wide)
    print_families (families, n, error);
  else
    ps_table_print (table, "pipesim-families/1", NULL, error);
  return 0;
}

static int validate (const Options *options, const char *name, GError **error)
{
  g_autoptr (PsProgram) program = ps_predictor_program (options->predictor, name, error);
  g_autoptr (GString) channels = g_string_new (NULL);
  guint n_models;
  const PsChannelModel *models = ps_channel_table (&n_models);

  if (program == NULL)
    return 0;
  for (guint i = 0; i < n_models; i++) {
    if (!ps_program_check (program, (PsChannel)i, error)) {
      g_prefix_error (error, "%s: with %s channels: ", name, models[i].name);
      return 0;
    }
    g_string_append_printf (channels, "%s%s", i == 0 ? "" : i + 1 < n_models ? ", " : " or ", models[i].name);
  }
  g_autofree char *sentence
      = g_strdup_printf ("%s: valid: %u devices, %u stages, %u microbatches, %u ops; no deadlock with %s channels",
                         name, program->schedule->placement->n_devices, program->schedule->placement->n_stages,
                         program->schedule->n_microbatches, program->n_steps, channels->str);
  g_autofree char *lines = ps_fit_sentence (sentence, 0);
  ps_print (lines, error);
  return 0;
}

/* Below a line that says what a cell is. */
static gboolean print_drawing (const PsSchedule *schedule, PsTimeline *timeline, guint max_columns, const char *unit,
                               GError **error)
{
  const char *no_colour = g_getenv ("NO_COLOR");
  guint window = ps_window_columns ();
  PsTimelineText style = { .max_columns = max_columns, .fold = window > 0 ? MAX (window, MIN_FOLD) : 0 };
  gint64 cell_ns;

  style.colour = isatty (STDOUT_FILENO) && (no_colour == NULL || *no_colour == '\0');
  g_autofree char *drawing = ps_timelines_to_text ((PsTimeline *[]){ timeline }, 1, &style, &cell_ns);
  g_autofree char *cell = ps_format_time (cell_ns);
  g_autofree char *sentence = g_strdup_printf (
      "%s: %u devices, %u stages (%s), %u microbatches; a cell is %s", schedule->name, schedule->placement->n_devices,
      schedule->placement->n_stages, ps_placement_name (schedule->placement->kind), schedule->n_microbatches,
      unit != NULL ? unit : cell);
  g_autofree char *head = ps_fit_sentence (sentence, 0);
  g_autofree char *page = g_strconcat (head, drawing, NULL);
  return ps_print_coloured (page, error);
}

static gboolean show_order (const Options *options, const char *name, GError **error)
{
  g_autoptr (PsProgram) program = ps_predictor_program (options->predictor, name, error);

  if (program == NULL)
    return FALSE;
  g_autoptr (PsTimeline) timeline = ps_timeline_of_order (program, 1);
  return print_drawing (program->schedule, timeline, G_MAXUINT, "one F, B or W, BW are two", error);
}

static int show (const Options *options, const char *name, GError **error)
{
  if (ps_setting_source (options->setting) == NULL) {
    show_order (options, name, error);
    return 0;
  }
  g_autoptr (PsPrediction) prediction = ps_predictor_predict (options->predictor, name, error);
  if (prediction == NULL)
    return 0;
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (prediction);
  print_drawing (prediction->program->schedule, timeline, MAX_COLUMNS, NULL, error);
  return 0;
}

/* Returns the number of errors. */
static guint print_findings (const char *name, GPtrArray *findings)
{
  guint n_errors = 0;

  for (guint i = 0; i < findings->len; i++) {
    const PsFinding *finding = findings->pdata[i];
    const char *advice = finding->advice;
    g_autofree char *text = g_strconcat (name, finding->refused ? ": error: " : ": warning: ", finding->what,
                                         advice != NULL ? "; " : "", advice != NULL ? advice : "", NULL);
    g_autofree char *lines = ps_fit_sentence (text, PS_TALK_COLUMNS);

    n_errors += finding->refused;
    g_printerr ("%s", lines);
  }
  return n_errors;
}

/* For the formats that show times: the timeline that predict -o writes. */
static char *write_predicted (const Options *options, const PsSchedule *schedule, const PsFormat *format,
                              GError **error)
{
  g_autoptr (PsPrediction) prediction
      = ps_predictor_predict_schedule (options->predictor, ps_schedule_copy (schedule), error);
  g_autoptr (PsTimeline) timeline = prediction != NULL ? ps_prediction_timeline (prediction) : NULL;

  return timeline != NULL ? format->write_timeline (timeline) : NULL;
}

/* With sends and receives in the order of --comm-order, planned for the setting's costs if it has any. The frameworks'
 * messages carry no tags. */
static char *write_ordered (const Options *options, const PsSchedule *schedule, const PsFormat *format, GError **error)
{
  PsCommOrder order = options->setting->comm_order;
  g_autoptr (PsPrediction) prediction = NULL;

  if (format->write_program == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "--comm-order %s: %s holds no sends and receives; torch-comms and colossalai do",
                           ps_comm_order_name (order), format->name);
  if (order == PS_COMM_PLANNED && ps_setting_source (options->setting) != NULL) {
    prediction = ps_predictor_predict_schedule (options->predictor, ps_schedule_copy (schedule), error);
    return prediction != NULL ? format->write_program (prediction->program, error) : NULL;
  }
  g_autoptr (PsProgram) lowered = order == PS_COMM_DEFERRED
                                      ? ps_program_lower_untagged (ps_schedule_copy (schedule), error)
                                      : ps_program_lower (ps_schedule_copy (schedule), order, error);
  return lowered != NULL ? format->write_program (lowered, error) : NULL;
}

static char *write_text (const Options *options, const PsSchedule *schedule, const char *name, const PsFormat *format,
                         GError **error)
{
  char *text;

  if (format->write_timeline != NULL && ps_setting_source (options->setting) != NULL)
    text = write_predicted (options, schedule, format, error);
  else if (options->setting->comm_order != PS_COMM_ASAP)
    text = write_ordered (options, schedule, format, error);
  else
    text = format->write (schedule, error);
  if (text == NULL)
    g_prefix_error (error, "%s: ", name);
  return text;
}

/* Whether --to names a format or a framework. */
static gboolean check_target (const char *to, GError **error)
{
  guint n_formats, n;
  const PsFormat *const *formats = ps_format_table (&n_formats);
  const char *const *frameworks = ps_launch_frameworks (&n);
  g_autofree gconstpointer *rows = g_new (gconstpointer, n_formats + n);

  for (guint i = 0; i < n_formats + n; i++)
    rows[i] = i < n_formats ? (gconstpointer)formats[i] : &frameworks[i - n_formats];
  return ps_table_find ("--to", "target", to, rows, n_formats + n, error) != NULL;
}

static int convert (const Options *options, const char *name, GError **error)
{
  const char *to = options->launch.to != NULL ? options->launch.to : "";
  const PsFormat *format = ps_format_find (to, NULL);
  g_autoptr (PsSchedule) schedule = NULL;
  g_autofree char *text = NULL;

  if (!check_target (to, error))
    return 0;
  if (format != NULL && options->output == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "-o: missing; give the file to write, or - for standard output");
  if (format == NULL) /* a framework, which takes the stages' layout as well: flags or keys of the whole run */
  {
    g_autoptr (PsPrediction) prediction = ps_predictor_predict (options->predictor, name, error);

    if (prediction != NULL)
      text = ps_launch_prediction (&options->launch, options->setting, name, prediction, error);
  } else {
    schedule = ps_predictor_schedule (options->predictor, name, error);
    if (schedule != NULL)
      text = write_text (options, schedule, name, format, error);
  }
  if (text == NULL)
    return 0;
  if (format != NULL && g_str_has_prefix (format->name, "torch-")) {
    g_autoptr (GPtrArray) findings = ps_torch_lint (schedule, format->write_program != NULL ? text : NULL);

    print_findings (name, findings);
  }
  ps_write_file (options->output != NULL ? options->output : "-", text, -1, error);
  return 0;
}

/* A torch-comms file is checked as it stands, anything else as it would be exported; with --comm-order both. */
static GPtrArray *lint_file (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!ps_read_file (path, &text, &length, error))
    return NULL;
  const PsFormat *format = ps_format_recognise (path, text, length, error);
  if (format == NULL)
    return NULL;
  return g_str_has_prefix (format->name, "torch-comms") ? ps_torch_lint_comms (path, text, length, error) : NULL;
}

static int lint (const Options *options, const char *name, GError **error)
{
  gboolean reorder = options->setting->reorder;
  const PsFamily *family = ps_family_find (ps_family_own_name (name, options->setting->n_chunks));
  g_autoptr (GPtrArray) findings = NULL;
  g_autoptr (GError) cause = NULL;

  if (!reorder && family == NULL && g_file_test (name, G_FILE_TEST_IS_REGULAR))
    findings = lint_file (name, &cause);
  if (cause != NULL) {
    g_propagate_error (error, g_steal_pointer (&cause));
    return 0;
  }
  if (findings == NULL) {
    g_autoptr (PsSchedule) schedule = ps_predictor_schedule (options->predictor, name, error);
    g_autofree char *text = NULL;

    if (schedule != NULL && reorder)
      text = write_text (options, schedule, name, ps_format_find ("torch-comms", NULL), error);
    if (schedule == NULL || (reorder && text == NULL))
      return 0;
    findings = ps_torch_lint (schedule, text);
    if (family != NULL)
      ps_launch_lint (options->setting, family->name, findings);
  }
  guint n_errors = print_findings (name, findings), n_warnings = findings->len - n_errors;
  g_autofree char *line
      = g_strdup_printf ("%s: %u error%s, %u warning%s for PyTorch's runtime and frameworks that have it\n", name,
                         n_errors, n_errors == 1 ? "" : "s", n_warnings, n_warnings == 1 ? "" : "s");
  ps_print (line, error);
  return n_errors > 0 || (options->strict && n_warnings > 0) ? 3 : 0;
}

/* The command */

typedef struct {
  const char *name;
  const char *arguments; /* NULL: takes no schedule */
  const char *description;
  int (*run) (const Options *options, const char *schedule, GError **error); /* returns the exit code */
  const PsOption *rows;
  const char *examples;
} Action;

static const Action actions[] = {
  { "list", NULL, "list the schedule families", list, list_rows,
    "pipesim schedule list\npipesim schedule list --json\nCOLUMNS=80 pipesim schedule list\n" },
  { "show", "NAME|FILE", "draw one row per device", show, order_rows,
    "pipesim schedule show zb-h1 -p 4 -m 8\n"
    "pipesim schedule show interleaved -p 4 -m 8 -v 2\n"
    "pipesim schedule show 1f1b -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=500us\n" },
  { "validate", "NAME|FILE", "check completeness, order, placement and deadlock", validate, order_rows,
    "pipesim schedule validate dualpipe -p 4 -m 8\n"
    "pipesim schedule validate schedule.json\n"
    "pipesim schedule validate zb-v -p 4 -m 8\n" },
  { "convert", "NAME|FILE", "write in another format", convert, convert_rows,
    "pipesim schedule convert interleaved -p 4 -m 8 -v 2 --to torch-compute -o schedule.csv\n"
    "pipesim schedule convert schedule.csv --to native -o schedule.json\n"
    "pipesim schedule convert zb-v -p 4 -m 8 --to torch-comms -o lowered.csv --comm-order planned\n" },
  { "lint", "NAME|FILE", "say what frameworks would refuse or do wrong; exit code 3 on errors", lint, lint_rows,
    "pipesim schedule lint lowered.csv\n"
    "pipesim schedule lint zb-v -p 4 -m 8\n"
    "pipesim schedule lint interleaved -p 4 -m 8 -v 2 --comm-order planned --strict\n" },
};

/* data of the command: its Action. */
static int run (const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  const Action *action = command->data;
  Options *options = base;
  int wanted = action->arguments != NULL ? 2 : 1;

  if (!ps_launch_imply (options->launch.to, options->setting, error) || !ps_setting_check (options->setting, error))
    return 0;
  if (options->columns.json && action->rows != list_rows)
    return ps_refuse (error, PS_ERROR_USAGE, "--json: schedule %s prints text only; schedule list and predict know it",
                      action->name);
  if (argc > wanted)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected by %s", argv[wanted], action->name);
  if (argc < wanted)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: give a family or a schedule file", action->name);
  options->predictor = ps_predictor_new (options->setting, NULL);
  return action->run (options, argc > 1 ? argv[1] : NULL, error);
}

static void clear (gpointer options)
{
  ps_predictor_free (((Options *)options)->predictor);
}

static int print_help (GError **error)
{
  g_autoptr (GString) text = g_string_new ("Usage: pipesim schedule ACTION [NAME|FILE] [OPTION...]\n\n");

  for (gsize i = 0; i < G_N_ELEMENTS (actions); i++)
    g_string_append_printf (text, "  %-9s %-10s %s\n", actions[i].name,
                            actions[i].arguments != NULL ? actions[i].arguments : "", actions[i].description);
  g_string_append (text, "\npipesim schedule ACTION --help lists the options.\n");
  ps_print (text->str, error);
  return 0;
}

int ps_cmd_schedule (int argc, char **argv, GError **error)
{
  const char *name = argc > 1 ? argv[1] : "", *names[G_N_ELEMENTS (actions)];
  g_autofree char *program = g_strdup_printf ("%s %s", g_get_prgname (), name);
  g_autofree char *problem = g_strdup_printf ("'%s': give one of", name);

  if (g_str_equal (name, "--help") || g_str_equal (name, "-h"))
    return print_help (error);
  for (gsize i = 0; i < G_N_ELEMENTS (actions); i++) {
    const Action *action = &actions[i];
    g_autofree char *summary
        = g_strdup_printf ("%c%s.", g_ascii_toupper (*action->description), action->description + 1);
    const PsCmd command = { .help = { action->arguments, summary, NULL, action->examples },
                            .rows = action->rows,
                            .size = sizeof (Options),
                            .setting = offsetof (Options, setting),
                            .run = run,
                            .data = action,
                            .clear = clear };

    names[i] = action->name;
    if (!g_str_equal (action->name, name))
      continue;
    g_set_prgname (program);
    return ps_cmd_run (&command, argc - 1, argv + 1, error);
  }
  return ps_refuse_name (error, problem, name, names, G_N_ELEMENTS (actions));
}
