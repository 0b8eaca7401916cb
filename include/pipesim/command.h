/* command.h - the command lines of all programs: reading their options, and the text of --help. */
#ifndef PIPESIM_COMMAND_H
#define PIPESIM_COMMAND_H

#include <pipesim/option.h>

G_BEGIN_DECLS

/* The text of --help beside the options. Lines of text and examples end with "\n". */
typedef struct
{
  const char *arguments; /* after the name of the program: "RESULTS.db"; NULL: nothing */
  const char *summary;   /* before the options, in sentences */
  const char *text;      /* after the options; NULL: nothing */
  const char *examples;  /* command lines, each on a line of its own */
} PsCommandHelp;

/* Reads the command line into base by the rows and removes their options from it, as g_option_context_parse does.
 * --help prints the options in groups, as wide as the window, and ends the program. Errors: those of GOption and of
 * ps_option_read; an unknown option is PS_ERROR_USAGE and names the one that may be meant. */
gboolean ps_command_parse (const PsCommandHelp *help, const PsOption *rows, gpointer base, int *argc, char ***argv,
                           GError **error);

/* The options in groups, a line each. Free with g_free. */
char *ps_command_options (const PsOption *rows);

/* A page of help as wide as the window. The rest of a line that is cut begins below its first letter, or below the one
 * after its first gap of two blanks or more. Free with g_free. */
char *ps_command_page (const char *text);

G_END_DECLS

#endif
