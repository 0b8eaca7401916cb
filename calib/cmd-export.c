/* cmd-export.c - pipesim calib export: a profile as text. */
#include "commands.h"

#include <pipesim/costdb.h>

typedef struct {
  char *db;
  char *profile;
  char *output;
  gboolean samples;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME", "Profile", .otherwise = "the only one"),
  PS_OPTION ("samples", 0, PS_FLAG (Options, samples), NULL, "Write every sample, too", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE", "File to write", .otherwise = "standard output",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Writes a profile as JSON (pipesim-profile/1), one measurement per line.",
  .examples = "pipesim calib export --db costs.db --profile here\n"
              "pipesim calib export --db costs.db --profile here -o here.json\n"
              "pipesim calib export --db costs.db --profile here --samples -o all.json\n",
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

gboolean ps_calib_cmd_export (int argc, char **argv, GError **error)
{
  Options options = { 0 };
  gboolean ok = ps_calib_parse (argc, argv, "export", &help, rows, &options, error)
                && ps_calib_require ("--db", options.db, error) && export(&options, error);

  ps_options_reset (rows, &options);
  return ok;
}
