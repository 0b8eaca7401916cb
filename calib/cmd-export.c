/* cmd-export.c - pipesim calib export: a profile as text. */
#include "commands.h"

#include <pipesim/profile.h>

typedef struct
{
  char *db;
  char *profile;
  char *output;
  gboolean samples;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database"),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME", "Profile (the only one)"),
  PS_OPTION ("samples", 0, PS_FLAG (Options, samples), NULL, "Write every sample, too"),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE", "File to write (standard output)"),
  PS_OPTION_END,
};

static gboolean export(const Options *options, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_READ, error);
  g_autoptr (PsProfileContents) contents
      = db != NULL ? ps_profile_contents_load (db, options->profile, options->samples, error) : NULL;

  if (contents == NULL)
    return FALSE;
  g_autofree char *text = ps_profile_contents_to_text (contents);
  return options->output != NULL ? ps_write_file (options->output, text, -1, error) : ps_print (text, error);
}

gboolean
ps_calib_cmd_export (int argc, char **argv, GError **error)
{
  Options options = { 0 };
  gboolean ok
      = ps_calib_parse (argc, argv, "export", "Writes a profile as JSON (pipesim-profile/1), one measurement per line.",
                        rows, &options, error)
        && ps_calib_require ("--db", options.db, error) && export(&options, error);

  ps_options_reset (rows, &options);
  return ok;
}
