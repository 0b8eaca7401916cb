/* main.c - pipesim-calib: measures what ops and transfers cost on this machine. */
#include "commands.h"

#include <locale.h>
#include <stdlib.h>

static const PsCalibCommand *const commands[]
    = { &ps_calib_run,  &ps_calib_list,    &ps_calib_show,   &ps_calib_check,
        &ps_calib_diff, &ps_calib_cluster, &ps_calib_export, &ps_calib_import };

static char *usage (void)
{
  GString *text = g_string_new ("Usage: pipesim calib COMMAND [OPTION...]\n\n");

  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    g_string_append_printf (text, "  %-7s %s\n", commands[i]->name, commands[i]->description);
  g_string_append (text, "\npipesim calib COMMAND --help lists the options of a command.\n");
  return g_string_free (text, FALSE);
}

/* PsFailureReport */
static int report_failure (const GError *error, gpointer argv)
{
  return ps_error_report ("pipesim calib", error, argv);
}

static gboolean check_required (const PsOption *rows, gconstpointer base, GError **error)
{
  for (const PsOption *row = rows; row->name != NULL; row++) {
    gconstpointer member = (const char *)base + row->offset;
    g_autofree char *name
        = row->letter != 0 ? g_strdup_printf ("-%c/--%s", row->letter, row->name) : g_strconcat ("--", row->name, NULL);
    gboolean text = row->type == PS_OPTION_TEXT || row->type == PS_OPTION_FILE;

    if (g_strcmp0 (row->otherwise, "") != 0)
      continue;
    if (text && !ps_calib_require (name, *(char *const *)member, error))
      return FALSE;
    if (!text && (row->type == PS_OPTION_COUNT ? *(const guint *)member == 0 : *(const guint *const *)member == NULL))
      return ps_refuse (error, PS_ERROR_USAGE, "%s: missing", name);
  }
  return TRUE;
}

static gboolean parse (const PsCalibCommand *command, gpointer base, int argc, char **argv, GError **error)
{
  g_autofree char *program = g_strdup_printf ("pipesim calib %s", command->name);

  g_set_prgname (program);
  if (!ps_command_parse (command->help, command->rows, base, &argc, &argv, error))
    return FALSE;
  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; calib %s takes options alone, such as --db", argv[1],
                      command->name);
  return check_required (command->rows, base, error);
}

/* Processes meet before options are read: the others hear of an option that this one refuses. */
static gboolean run (const PsCalibCommand *command, int argc, char **argv, GError **error)
{
  PsProcesses *processes = NULL;
  GError *failure = NULL;
  g_autofree gpointer base = g_malloc0 (command->base_size);

  if (command->parallel && !ps_processes_join (&processes, report_failure, argv, error))
    return FALSE;
  gboolean ok = parse (command, base, argc, argv, &failure) && command->run (base, processes, &failure);
  ps_processes_part (processes, failure);
  ps_options_reset (command->rows, base);
  if (failure != NULL)
    g_propagate_error (error, failure);
  return ok;
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
    if (g_str_equal (argv[1], commands[i]->name))
      return run (commands[i], argc - 1, argv + 1, error);
    names[i] = commands[i]->name;
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
  return report_failure (error, argv);
}
