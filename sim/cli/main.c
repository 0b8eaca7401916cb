/* main.c - the program pipesim. */
#include "cli.h"

#include <locale.h>

int main (int argc, char **argv)
{
  int code = 0;

  ps_keep_memory ();
  ps_log_to_stderr ();
  ps_catch_signals ();
  /* Names may hold any character of the user's; numbers keep their point. */
  setlocale (LC_CTYPE, "");
  return ps_run_command (argc, argv, &code) ? code : ps_run_program (argv + 1);
}
