/* program.c - parts shared by the main functions of pipesim-plot and pipesim-report. */
#include "program.h"

#include <locale.h>

int
ps_plot_program (const char *name, gboolean (*run) (int argc, char **argv, GError **error), int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  ps_log_to_stderr ();
  ps_catch_signals ();
  /* Names may hold any character; numbers keep their decimal point. */
  setlocale (LC_CTYPE, "");
  g_set_prgname (name);
  if (run (argc, argv, &error))
    return 0;
  g_autofree char *line = ps_error_line (error, argv);
  g_printerr ("%s: %s\n", name, line);
  return ps_error_exit_code (error);
}

PsTimeline *
ps_plot_load (const char *path, GError **error)
{
  PsTimeline *timeline = ps_timeline_load (path, error);

  if (timeline != NULL && timeline->remark != NULL)
    g_printerr ("%s: %s\n", g_get_prgname (), timeline->remark);
  return timeline;
}
