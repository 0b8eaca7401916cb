/* commands.c - finds a command, here or as a program pipesim-NAME, and turns its error into one line and an exit code.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  const char *name;
  const PsCmd *command;
  int (*run) (int argc, char **argv, GError **error); /* NULL too: a program of its own, pipesim-NAME */
  const char *description;
} Command;

static int help (int argc, char **argv, GError **error);

static const Command commands[] = {
  { "predict", &ps_cmd_predict, NULL, "simulate schedules: time, bubble, memory" },
  { "search", &ps_cmd_search, NULL, "find the best schedule for given costs and memory" },
  { "schedule", NULL, ps_cmd_schedule, "list, show, validate and convert schedules" },
  { "partition", &ps_cmd_partition, NULL, "cut the layers of a model into stages" },
  { "plan", &ps_cmd_plan, NULL, "find the fastest settings to train a model on a number of GPUs" },
  { "advise", &ps_cmd_advise, NULL, "say what to change in a launch so that it is faster, or fits" },
  { "sweep", NULL, ps_cmd_sweep, "predict many settings into a database" },
  { "pareto", &ps_cmd_pareto, NULL, "list the best trades of time against memory in a sweep" },
  { "best", &ps_cmd_best, NULL, "list the fastest setting of each group in a sweep" },
  { "sensitivity", &ps_cmd_sensitivity, NULL, "show where one schedule overtakes another in a sweep" },
  { "compare", &ps_cmd_compare, NULL, "compare a predicted timeline with a measured one" },
  { "diagnose", NULL, NULL, "say where the time of a run goes and which schedule would be faster" },
  { "calib", NULL, NULL, "measure the cost of ops and transfers on this machine" },
  { "exec", NULL, NULL, "run a schedule for real" },
  { "plot", NULL, NULL, "draw timelines, memory, sweeps, measured costs and accuracy" },
  { "report", NULL, NULL, "write one HTML page about a sweep and its timelines" },
  { "models", &ps_cmd_models, NULL, "list the models that ship with pipesim, and their sources" },
  { "clusters", &ps_cmd_clusters, NULL, "list the clusters that ship with pipesim, and their sources" },
  { "help", NULL, help, "print this text" },
};

static gboolean help_on (const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *problem = g_strdup_printf ("'%s' is neither a command nor a topic; topics are:", name);

  for (const PsHelpTopic *topic = ps_help_topics; topic->name != NULL; topic++) {
    g_autofree char *text = NULL, *page = NULL;

    g_ptr_array_add (names, (gpointer)topic->name);
    if (!g_str_equal (topic->name, name))
      continue;
    text = topic->write ();
    page = ps_command_page (text);
    return ps_print (page, error);
  }
  return ps_refuse_name (error, problem, name, (const char *const *)names->pdata, names->len);
}

static int help (int argc, char **argv, GError **error)
{
  g_autoptr (GString) text = g_string_new ("Usage: pipesim COMMAND [OPTION...]\n\n"
                                           "Predicts, runs and compares pipeline-parallel schedules.\n\n");

  if (argc > 1 && argv[1][0] != '-') {
    help_on (argv[1], error);
    return 0;
  }
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    g_string_append_printf (text, "  %-12s %s\n", commands[i].name, commands[i].description);
  g_string_append (text, "\npipesim help TOPIC prints a page about\n\n");
  for (const PsHelpTopic *topic = ps_help_topics; topic->name != NULL; topic++)
    g_string_append_printf (text, "  %-12s %s\n", topic->name, topic->description);
  g_string_append (
      text, "\npipesim COMMAND --help says more. pipesim NAME also runs a program pipesim-NAME in pipesim's folder "
            "or on PATH.\n\n"
            "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but outside the tolerance asked for.\n\n"
            "Examples:\n"
            "  pipesim predict -s all -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=100us\n"
            "  pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64\n"
            "  pipesim help units\n\n"
            "Files:\n"
            "  costs.db        measured costs and runs, an SQLite database of pipesim calib and exec\n"
            "  results.db      predictions of pipesim sweep, an SQLite database with views to query\n"
            "  spec.ini        settings for pipesim sweep to combine\n"
            "  model.ini       a model; pipesim models lists those that ship with pipesim\n"
            "  cluster.ini     a cluster; pipesim clusters lists those that ship with pipesim\n"
            "  schedule.json   an order of ops for each device; pipesim help formats\n"
            "  timeline.json   start and end of each op, predicted or measured; FILE.trace.json for Perfetto\n\n"
            "Environment:\n"
            "  COLUMNS, LINES                size of the window that tables, help and text pictures fit\n"
            "  NO_COLOR                      if not empty, text pictures have no colours\n"
            "  PATH                          folders with further commands, as programs pipesim-NAME\n"
            "  PIPESIM_CUDA_GRAPHS=1         exec launches each op as one CUDA graph\n"
            "  PIPESIM_CUDA_WAIT=spin        exec waits for a GPU without sleeping\n"
            "  PIPESIM_CUDA_HOPPER=0         attention uses only instructions that older GPUs have, too\n"
            "  NCCL_MAX_P2P_NCHANNELS        4 unless set, with --transport nccl\n");
  g_autofree char *page = ps_command_page (text->str);
  ps_print (page, error);
  return 0;
}

static const Command *find_command (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    if (g_str_equal (commands[i].name, name))
      return &commands[i];
  return NULL;
}

int ps_run_program (char **argv)
{
  g_autofree char *program = g_strconcat ("pipesim-", argv[0], NULL);
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *folder = g_path_get_dirname (self != NULL ? self : ".");
  g_autofree char *neighbour = g_build_filename (folder, program, NULL);

  argv[0] = program;
  execv (neighbour, argv);
  if (errno == ENOENT && strchr (program, '/') == NULL)
    execvp (program, argv);
  gboolean known = find_command (program + strlen ("pipesim-")) != NULL;
  if (known && errno == ENOENT) {
    g_printerr ("pipesim: %s: no such program, neither in pipesim's folder nor on PATH; it is built from pipesim's "
                "sources by ./run build\n",
                program);
    return 1;
  }
  if (!known && (errno == ENOENT || errno == EACCES)) {
    g_autofree char *name = ps_format_line (program + strlen ("pipesim-"));
    const char *names[G_N_ELEMENTS (commands)];

    for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
      names[i] = commands[i].name;
    g_autofree char *meant = ps_did_you_mean (name, names, G_N_ELEMENTS (commands), "");
    g_printerr ("pipesim: no command '%s'; see pipesim help%s\n", name, meant);
    return 2;
  }
  g_printerr ("pipesim: %s: %s\n", program, g_strerror (errno));
  return 1;
}

gboolean ps_run_command (int argc, char **argv, int *code)
{
  g_autoptr (GError) error = NULL;
  const Command *command;
  char *name = argc > 1 ? argv[1] : NULL;
  char option[] = "--help"; /* what pipesim help COMMAND stands for */
  char help_name[] = "help";

  if (name == NULL) {
    g_printerr ("pipesim: no command given; see pipesim help\n");
    *code = 2;
    return TRUE;
  }
  if (g_str_equal (name, "--version")) {
    *code = ps_print ("pipesim " PS_VERSION "\n", &error) ? 0 : ps_error_report ("pipesim", error, argv);
    return TRUE;
  }
  if (g_str_equal (name, "--help") || g_str_equal (name, "-h"))
    name = help_name;
  if (argc == 3 && g_str_equal (name, "help") && find_command (argv[2]) != NULL) {
    name = argv[1] = argv[2];
    argv[2] = option;
  }
  command = find_command (name);
  if (command == NULL || (command->command == NULL && command->run == NULL))
    return FALSE;
  g_autofree char *where = g_strconcat ("pipesim ", command->name, NULL);
  g_set_prgname (where);
  *code = command->command != NULL ? ps_cmd_run (command->command, argc - 1, argv + 1, &error)
                                   : command->run (argc - 1, argv + 1, &error);
  if (error != NULL)
    *code = ps_error_report (where, error, argv + 1);
  return TRUE;
}
