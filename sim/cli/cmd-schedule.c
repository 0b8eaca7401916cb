/* cmd-schedule.c - pipesim schedule: lists the families, shows, validates and converts schedules. */
#include "commands.h"
#include "draw.h"

#include <pipesim/report.h>
#include <pipesim/setting.h>

/* Characters of a drawing in true proportions; in units of one op a drawing is as long as it must be. */
#define MAX_WIDTH 160

typedef struct
{
  PsSetting *setting;
  gboolean json;
  char *to;
  char *output;
} Options;

static void
options_clear (Options *options)
{
  ps_setting_free (options->setting);
  g_free (options->to);
  g_free (options->output);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

typedef struct
{
  const char *name;
  const char *arguments; /* NULL: takes no schedule */
  const char *description;
  gboolean (*run) (const Options *options, const char *schedule, GError **error);
} Action;

static const PsColumn family_columns[] = {
  { "name", "name", PS_COLUMN_TEXT },
  { "description", "description", PS_COLUMN_TEXT },
  { "constraints", "constraints", PS_COLUMN_TEXT },
  { "memory", "peak activations of device r", PS_COLUMN_TEXT },
  { "source", "source", PS_COLUMN_TEXT },
};

static gboolean
list (const Options *options, G_GNUC_UNUSED const char *schedule, GError **error)
{
  const char *none[] = { NULL };
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  g_autoptr (PsTable) table = ps_table_new (family_columns, G_N_ELEMENTS (family_columns));
  g_autofree char *text = NULL;

  for (guint i = 0; i < n; i++)
    {
      ps_table_add_row (table);
      ps_table_set_text (table, "name", families[i]->name);
      ps_table_set_text (table, "description", families[i]->description);
      ps_table_set_text (table, "constraints", families[i]->constraints);
      ps_table_set_text (table, "memory", families[i]->memory);
      ps_table_set_text (table, "source", families[i]->source);
    }
  text = options->json ? ps_table_to_json (table, "pipesim-families/1", none) : ps_table_to_text (table);
  return ps_print (text, error);
}

/* A valid schedule, lowered. */
static PsProgram *
load_program (const Options *options, const char *name, GError **error)
{
  PsSchedule *schedule = ps_setting_schedule (options->setting, name, error);
  PsProgram *program = schedule ? ps_program_lower (schedule, error) : NULL;

  if (schedule && !program)
    g_prefix_error (error, "%s: ", name);
  return program;
}

/* Draws a program under these costs, below a line that says what a cell is. */
static gboolean
print_drawing (const PsProgram *program, const PsCosts *costs, guint max_width, const char *unit, GError **error)
{
  const PsSchedule *schedule = program->schedule;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autoptr (PsTimeline) timeline = NULL;
  g_autofree char *drawing = NULL, *cell = NULL, *page = NULL;
  gint64 cell_ns;

  ps_simulate (program, costs, simulation);
  timeline = ps_timeline_from_simulation (program, costs, simulation);
  drawing = ps_draw_timeline (timeline, max_width, &cell_ns);
  cell = ps_format_time (cell_ns);
  page = g_strdup_printf ("%s: %u devices, %u stages (%s), %u microbatches; a cell is %s\n%s", schedule->name,
                          schedule->placement->n_devices, schedule->placement->n_stages,
                          ps_placement_name (schedule->placement->kind), schedule->n_microbatches, unit ? unit : cell,
                          drawing);
  return ps_print (page, error);
}

/* The order alone is drawn as papers do: every op of one length, a full backward of two. */
static gboolean
show_order (const Options *options, const char *name, GError **error)
{
  g_autoptr (PsProgram) program = load_program (options, name, error);
  g_autoptr (PsCosts) costs = NULL;

  if (program == NULL)
    return FALSE;
  costs = ps_costs_new (program->schedule->placement->n_stages);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = kind == PS_OP_BW ? 2 : kind == PS_OP_O ? 0 : 1;
  return print_drawing (program, costs, G_MAXUINT, "one F, B or W, BW are two", error);
}

static gboolean
show (const Options *options, const char *name, GError **error)
{
  const PsSetting *setting = options->setting;
  g_autoptr (PsPrediction) prediction = NULL;

  if (!setting->costs && !setting->db && !setting->cluster)
    return show_order (options, name, error);
  prediction = ps_predict (setting, name, error);
  return prediction && print_drawing (prediction->program, prediction->costs, MAX_WIDTH, NULL, error);
}

static const struct
{
  PsChannel channel;
  const char *name;
} channels[] = {
  { PS_CHANNEL_LATENCY, "latency" },
  { PS_CHANNEL_DIRECTION, "direction" },
  { PS_CHANNEL_PAIR, "pair" },
  { PS_CHANNEL_RANK, "rank" },
};

static gboolean
validate (const Options *options, const char *name, GError **error)
{
  g_autoptr (PsProgram) program = load_program (options, name, error);
  g_autofree char *line = NULL;

  if (program == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (channels); i++)
    if (!ps_program_check (program, channels[i].channel, error))
      {
        g_prefix_error (error, "%s: with %s channels: ", name, channels[i].name);
        return FALSE;
      }
  line = g_strdup_printf ("%s: valid: %u devices, %u stages, %u microbatches, %u ops; "
                          "no deadlock with latency, direction, pair or rank channels\n",
                          name, program->schedule->placement->n_devices, program->schedule->placement->n_stages,
                          program->schedule->n_microbatches, program->n_steps);
  return ps_print (line, error);
}

static gboolean
convert (const Options *options, const char *name, GError **error)
{
  g_autoptr (PsSchedule) schedule = NULL;
  g_autofree char *text = NULL;

  if (g_strcmp0 (options->to, "native") != 0)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--to: '%s' is no format of this build, which has: native",
                   options->to ? options->to : "");
      return FALSE;
    }
  if (options->output == NULL)
    {
      g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE,
                           "-o: missing; give the file to write, or - for standard output");
      return FALSE;
    }
  schedule = ps_setting_schedule (options->setting, name, error);
  if (schedule == NULL)
    return FALSE;
  text = ps_schedule_to_json (schedule);
  return ps_write_file (options->output, text, -1, error);
}

static const Action actions[] = {
  { "list", NULL, "list the schedule families", list },
  { "show", "NAME|FILE", "draw one row per device", show },
  { "validate", "NAME|FILE", "check completeness, order, placement and deadlock", validate },
  { "convert", "NAME|FILE", "write in another format", convert },
};

static const Action *
find_action (const char *name, GError **error)
{
  for (gsize i = 0; name && i < G_N_ELEMENTS (actions); i++)
    if (g_str_equal (actions[i].name, name))
      return &actions[i];
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "'%s': give one of list, show, validate, convert", name ? name : "");
  return NULL;
}

static gboolean
print_help (GError **error)
{
  g_autoptr (GString) text = g_string_new ("Usage: pipesim schedule ACTION [NAME|FILE] [OPTION...]\n\n");

  for (gsize i = 0; i < G_N_ELEMENTS (actions); i++)
    g_string_append_printf (text, "  %-9s %-10s %s\n", actions[i].name,
                            actions[i].arguments ? actions[i].arguments : "", actions[i].description);
  g_string_append (text, "\npipesim schedule ACTION --help lists the options.\n");
  return ps_print (text->str, error);
}

static gboolean
parse_options (Options *options, const Action *action, int *argc, char ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &options->json, "Print the list as JSON (format pipesim-families/1)", NULL },
    { "to", 0, 0, G_OPTION_ARG_STRING, &options->to, "Format to convert to: native", "FORMAT" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output, "File to convert into", "FILE" },
    G_OPTION_ENTRY_NULL,
  };
  g_autofree char *summary = g_strdup_printf ("- %s", action->description);
  g_autofree char *parameters
      = g_strjoin (" ", action->arguments ? action->arguments : summary, action->arguments ? summary : NULL, NULL);
  g_autoptr (GOptionContext) context = g_option_context_new (parameters);
  int wanted = action->arguments ? 2 : 1;

  options->setting = ps_setting_new ();
  g_option_context_add_main_entries (context, entries, NULL);
  ps_setting_add_options (options->setting, context);
  if (!g_option_context_parse (context, argc, argv, error) || !ps_setting_finish (options->setting, error))
    return FALSE;
  if (*argc > wanted)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "'%s': not expected by %s", (*argv)[wanted], action->name);
  else if (*argc < wanted)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: give a family or a schedule file", action->name);
  return *argc == wanted;
}

int
ps_cmd_schedule (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  const char *name = argc > 1 ? argv[1] : NULL;
  g_autofree char *program = g_strdup_printf ("%s %s", g_get_prgname (), name ? name : "");
  const Action *action;

  if (g_strcmp0 (name, "--help") == 0 || g_strcmp0 (name, "-h") == 0)
    {
      print_help (error);
      return 0;
    }
  action = find_action (name, error);
  if (action == NULL)
    return 0;
  g_set_prgname (program);
  argc--;
  argv++;
  if (parse_options (&options, action, &argc, &argv, error))
    action->run (&options, argc > 1 ? argv[1] : NULL, error);
  return 0;
}
