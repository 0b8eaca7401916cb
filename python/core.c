/* core.c - the commands of the program pipesim as one function of a shared library, for pipesim/__init__.py. */
#include "cli.h"

#include <locale.h>

/* Runs a command as the program does: argv is {"pipesim", "predict", "-p", "4", ..., NULL}. *output and *errors become
 * what it prints; free them with pipesim_free. Returns the exit code, or -1 where only a process can answer: for
 * programs of their own, unknown commands, --help, which ends the program that prints it, and search, whose handlers of
 * signals would stay in this process. Threads may call it side by side. */
int pipesim_run (int argc, char **argv, char **output, char **errors);
void pipesim_free (char *text);

static gboolean needs_process (int argc, char **argv)
{
  const char *const *words = (const char *const *)argv;

  return (argc > 1 && g_str_equal (argv[1], "search")) || g_strv_contains (words, "--help")
         || g_strv_contains (words, "-h");
}

static void set_up (void)
{
  static gsize done;

  if (!g_once_init_enter (&done))
    return;
  ps_log_to_stderr ();
  setlocale (LC_CTYPE, "");
  g_once_init_leave (&done, 1);
}

int pipesim_run (int argc, char **argv, char **output, char **errors)
{
  GString *printed = g_string_new (NULL), *said = g_string_new (NULL);
  g_autofree char **words = g_memdup2 (argv, ((gsize)argc + 1) * sizeof *argv); /* commands remove what they read */
  int code = -1;

  set_up ();
  ps_capture (printed, said);
  if (!needs_process (argc, argv))
    ps_run_command (argc, words, &code);
  ps_capture (NULL, NULL);
  *output = g_string_free (printed, FALSE);
  *errors = g_string_free (said, FALSE);
  return code;
}

void pipesim_free (char *text)
{
  g_free (text);
}
