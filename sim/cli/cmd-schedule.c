/* cmd-schedule.c - pipesim schedule: lists the families and validates schedules; drawing and converting have files of
 * their own. */
#include "cmd-schedule.h"
#include "commands.h"

#include <pipesim/option.h>

#define LIST_ONLY 1 /* the other actions refuse it */

static const PsOption json_rows[] = {
  PS_OPTION ("json", 0, PS_FLAG (PsScheduleOptions, json), NULL, "Print JSON (format pipesim-families/1)",
             .group = PS_GROUP_OUTPUT, .flags = LIST_ONLY),
  PS_OPTION_END,
};

static const PsOption list_rows[] = {
  { .name = "", .type = PS_OPTION_ROWS, .rows = json_rows }, /* of the same base */
  PS_OPTION_INCLUDE (PsScheduleOptions, columns, ps_column_rows),
  PS_OPTION_END,
};

static const PsOption order_rows[] = {
  PS_OPTION_INCLUDE_AT (PsScheduleOptions, setting, ps_setting_options, 0),
  PS_OPTION ("microbatch-size", 0, PS_COUNT (PsScheduleOptions, microbatch_size, 1, PS_MAX_MICROBATCHES), "N",
             "Sequences per microbatch in place of the model's, for modelled costs", .group = PS_GROUP_COSTS,
             .otherwise = "the model's"),
  { .name = "", .type = PS_OPTION_ROWS, .rows = json_rows, .flags = LIST_ONLY }, /* of the same base */
  PS_OPTION_END,
};

static const PsOption convert_rows[] = {
  PS_OPTION ("to", 0, PS_TEXT (PsScheduleOptions, launch.to), "FORMAT", "Format to convert to (see below)",
             .otherwise = "", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("force", 0, PS_FLAG (PsScheduleOptions, launch.force), NULL,
             "With --to FRAMEWORK: also where memory does not suffice", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("output", 'o', PS_FILE (PsScheduleOptions, output), "FILE", "File to convert into; -: standard output",
             .otherwise = "", .group = PS_GROUP_OUTPUT),
  { .name = "", .type = PS_OPTION_ROWS, .rows = order_rows }, /* of the same base */
  PS_OPTION_END,
};

static void
options_clear (PsScheduleOptions *options)
{
  ps_options_reset (convert_rows, options);
  ps_options_reset (list_rows, options);
  ps_predictor_free (options->predictor);
  ps_setting_free (options->setting);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsScheduleOptions, options_clear)

typedef struct
{
  const char *name;
  const char *arguments; /* NULL: takes no schedule */
  const char *description;
  gboolean (*run) (const PsScheduleOptions *options, const char *schedule, GError **error);
  const PsOption *rows;
  const char *examples;
} Action;

static const PsColumn family_columns[] = {
  { "name", "name", PS_COLUMN_TEXT },
  { "description", "description", PS_COLUMN_TEXT },
  { "constraints", "constraints", PS_COLUMN_TEXT },
  { "memory", "peak activations of device r", PS_COLUMN_TEXT },
  { "source", "source", PS_COLUMN_TEXT },
};

static const char *const usual[] = { "name", "description", NULL };

static gboolean
list (const PsScheduleOptions *options, G_GNUC_UNUSED const char *schedule, GError **error)
{
  const char *none[] = { NULL };
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  g_autoptr (PsTable) table = ps_table_new (family_columns, G_N_ELEMENTS (family_columns));

  if (!ps_column_choice_check (&options->columns, family_columns, G_N_ELEMENTS (family_columns), options->json, error))
    return FALSE;
  ps_table_choose (table, &options->columns, usual);
  for (guint i = 0; i < n; i++)
    {
      ps_table_add_row (table);
      ps_table_set_text (table, "name", families[i]->name);
      ps_table_set_text (table, "description", families[i]->description);
      ps_table_set_text (table, "constraints", families[i]->constraints);
      ps_table_set_text (table, "memory", families[i]->memory);
      ps_table_set_text (table, "source", families[i]->source);
    }
  g_autofree char *text
      = options->json ? ps_table_to_json (table, "pipesim-families/1", none) : ps_table_to_text (table);
  return ps_print (text, error);
}

static gboolean
validate (const PsScheduleOptions *options, const char *name, GError **error)
{
  g_autoptr (PsProgram) program = ps_predictor_program (options->predictor, name, error);
  g_autoptr (GString) channels = g_string_new (NULL);
  guint n_models;
  const PsChannelModel *models = ps_channel_table (&n_models);

  if (program == NULL)
    return FALSE;
  for (guint i = 0; i < n_models; i++)
    {
      if (!ps_program_check (program, (PsChannel)i, error))
        {
          g_prefix_error (error, "%s: with %s channels: ", name, models[i].name);
          return FALSE;
        }
      g_string_append_printf (channels, "%s%s", i == 0 ? "" : i + 1 < n_models ? ", " : " or ", models[i].name);
    }
  g_autofree char *line
      = g_strdup_printf ("%s: valid: %u devices, %u stages, %u microbatches, %u ops; no deadlock with %s channels\n",
                         name, program->schedule->placement->n_devices, program->schedule->placement->n_stages,
                         program->schedule->n_microbatches, program->n_steps, channels->str);
  return ps_print (line, error);
}

static const Action actions[] = {
  { "list", NULL, "list the schedule families", list, list_rows,
    "pipesim schedule list\npipesim schedule list --json\nCOLUMNS=80 pipesim schedule list\n" },
  { "show", "NAME|FILE", "draw one row per device", ps_cmd_schedule_show, order_rows,
    "pipesim schedule show zb-h1 -p 4 -m 8\n"
    "pipesim schedule show interleaved -p 4 -m 8 -v 2\n"
    "pipesim schedule show 1f1b -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=500us\n" },
  { "validate", "NAME|FILE", "check completeness, order, placement and deadlock", validate, order_rows,
    "pipesim schedule validate dualpipe -p 4 -m 8\n"
    "pipesim schedule validate schedule.json\n"
    "pipesim schedule validate zb-v -p 4 -m 8\n" },
  { "convert", "NAME|FILE", "write in another format", ps_cmd_schedule_convert, convert_rows,
    "pipesim schedule convert interleaved -p 4 -m 8 -v 2 --to torch-compute -o schedule.csv\n"
    "pipesim schedule convert schedule.csv --to native -o schedule.json\n"
    "pipesim schedule convert zb-v -p 4 -m 8 --to torch-comms -o lowered.csv --comm-order planned\n" },
  { "lint", "NAME|FILE", "say what frameworks would refuse or do wrong; exit code 3 if anything", ps_cmd_schedule_lint,
    order_rows,
    "pipesim schedule lint lowered.csv\n"
    "pipesim schedule lint zb-v -p 4 -m 8\n"
    "pipesim schedule lint interleaved -p 4 -m 8 -v 2 --comm-order planned\n" },
};

static const Action *
find_action (const char *name, GError **error)
{
  const char *given = name != NULL ? name : "", *names[G_N_ELEMENTS (actions)];
  g_autofree char *problem = g_strdup_printf ("'%s': give one of", given);

  for (gsize i = 0; i < G_N_ELEMENTS (actions); i++)
    {
      if (g_str_equal (actions[i].name, given))
        return &actions[i];
      names[i] = actions[i].name;
    }
  ps_refuse_name (error, problem, given, names, G_N_ELEMENTS (actions));
  return NULL;
}

static gboolean
print_help (GError **error)
{
  g_autoptr (GString) text = g_string_new ("Usage: pipesim schedule ACTION [NAME|FILE] [OPTION...]\n\n");

  for (gsize i = 0; i < G_N_ELEMENTS (actions); i++)
    g_string_append_printf (text, "  %-9s %-10s %s\n", actions[i].name,
                            actions[i].arguments != NULL ? actions[i].arguments : "", actions[i].description);
  g_string_append (text, "\npipesim schedule ACTION --help lists the options.\n");
  return ps_print (text->str, error);
}

/* The formats, below the options. */
static char *
help_on_formats (void)
{
  guint n;
  const PsFormat *const *formats = ps_format_table (&n);
  GString *text = g_string_new ("Formats:\n");

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "  %-16s %s\n", formats[i]->name, formats[i]->description);
  g_string_append (
      text,
      "\nWith --model and --cluster or --db also megatron, torchtitan, torchtitan-0.2 and deepspeed: the flags or\n"
      "keys that run it there, with the layout of its stages.\n"
      "\nA schedule FILE may be in any of them that can be read; its contents say which one it is.\n");
  return g_string_free (text, FALSE);
}

static gboolean
parse_options (PsScheduleOptions *options, const Action *action, int *argc, char ***argv, GError **error)
{
  g_autofree char *formats = action->arguments != NULL ? help_on_formats () : NULL;
  g_autofree char *summary = g_strdup_printf ("%c%s.", g_ascii_toupper (*action->description), action->description + 1);
  const PsCommandHelp help = { action->arguments, summary, formats, action->examples };
  int wanted = action->arguments != NULL ? 2 : 1;

  options->setting = ps_setting_new ();
  options->predictor = ps_predictor_new (options->setting, NULL);
  if (!ps_command_parse (&help, action->rows, options, argc, argv, error))
    return FALSE;
  options->setting->microbatch_size = options->microbatch_size;
  if (!ps_launch_imply (options->launch.to, &options->setting->framework, error)
      || !ps_setting_check (options->setting, error))
    return FALSE;
  if (options->json && action->rows != list_rows)
    return ps_refuse (error, PS_ERROR_USAGE, "--json: schedule %s prints text only; schedule list and predict know it",
                      action->name);
  if (*argc > wanted)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "'%s': not expected by %s", (*argv)[wanted], action->name);
  else if (*argc < wanted)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: give a family or a schedule file", action->name);
  return *argc == wanted;
}

int
ps_cmd_schedule (int argc, char **argv, GError **error)
{
  int code = 0;
  g_auto (PsScheduleOptions) options = { .code = &code };
  const char *name = argc > 1 ? argv[1] : NULL;
  g_autofree char *program = g_strdup_printf ("%s %s", g_get_prgname (), name != NULL ? name : "");

  if (g_strcmp0 (name, "--help") == 0 || g_strcmp0 (name, "-h") == 0)
    {
      print_help (error);
      return 0;
    }
  const Action *action = find_action (name, error);
  if (action == NULL)
    return 0;
  g_set_prgname (program);
  argc--;
  argv++;
  if (parse_options (&options, action, &argc, &argv, error))
    action->run (&options, argc > 1 ? argv[1] : NULL, error);
  return code;
}
