/* main.c - pipesim-calib: measures what ops and transfers cost on this machine. */
#include "commands.h"

#include <locale.h>
#include <stdlib.h>

typedef struct {
  const char *name;

  gboolean (*run) (int argc, char **argv, GError **error);
  const char *description;
} Command;

static const Command commands[] = {
  { "run", ps_calib_cmd_run,
    "measure a model on this machine into a cost database; run it again to measure what is missing" },
  { "list", ps_calib_cmd_list, "list the profiles of a cost database" },
  { "show", ps_calib_cmd_show, "show the measurements of a profile" },
  { "check", ps_calib_cmd_check, "hold predictions against runs, and say how far they are off, and why" },
  { "diff", ps_calib_cmd_diff, "compare two profiles, median by median" },
  { "export", ps_calib_cmd_export, "write a profile as text" },
  { "import", ps_calib_cmd_import, "read a profile's text, or the runs of any program, into a cost database" },
};

static char *usage (void)
{
  GString *text = g_string_new ("Usage: pipesim calib COMMAND [OPTION...]\n\n");

  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    g_string_append_printf (text, "  %-6s %s\n", commands[i].name, commands[i].description);
  g_string_append (text, "\npipesim calib COMMAND --help lists the options of a command.\n");
  return g_string_free (text, FALSE);
}

static gboolean dispatch (int argc, char **argv, GError **error)
{
  const char *names[G_N_ELEMENTS (commands)];

  if (argc >= 2 && (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h"))) {
    g_autofree char *text = usage ();

    return ps_print (text, error);
  }
  if (argc >= 2 && g_str_equal (argv[1], "--version"))
    return ps_print ("pipesim-calib " PS_VERSION "\n", error);
  if (argc < 2)
    return ps_refuse (error, PS_ERROR_USAGE, "no command given; try pipesim calib --help");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++) {
    if (g_str_equal (argv[1], commands[i].name))
      return commands[i].run (argc - 1, argv + 1, error);
    names[i] = commands[i].name;
  }
  g_autofree char *problem = g_strdup_printf ("'%s': no such command; there are", argv[1]);
  return ps_refuse_name (error, problem, argv[1], names, G_N_ELEMENTS (commands));
}

int main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  ps_log_to_stderr ();
  ps_catch_signals ();
  /* hwloc complains on stderr if /sys is missing. pipesim reports unknown facts itself, or does without them. */
  g_setenv ("HWLOC_HIDE_ERRORS", "2", FALSE);
  setlocale (LC_CTYPE, "");
  if (dispatch (argc, argv, &error))
    return EXIT_SUCCESS;
  return ps_calib_report_failure (error, argv);
}
