/* cmd-export.c - pipesim calib export and import: a profile as text and back. */
#include "commands.h"

#include <pipesim/profile.h>

typedef struct
{
  char *db;
  char *profile;
  char *output;
  gboolean samples;
  char **files;
} Options;

static const PsOption export_rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database"),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME", "Profile (the only one)"),
  PS_OPTION ("samples", 0, PS_FLAG (Options, samples), NULL, "Write every sample, too"),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE", "File to write (standard output)"),
  PS_OPTION_END,
};

static const PsOption import_rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database, created when missing"),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME",
             "Name of the profile in the database (the one in the file)"),
  PS_OPTION ("", 0, PS_FILES (Options, files), "FILE", NULL),
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
                        export_rows, &options, error)
        && ps_calib_require ("--db", options.db, error) && export(&options, error);

  ps_options_reset (export_rows, &options);
  return ok;
}

static gboolean
import (const Options *options, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;
  const char *file = options->files[0];

  if (!ps_read_file (file, &text, &length, error))
    return FALSE;
  g_autoptr (PsProfileContents) contents = ps_profile_contents_parse (file, text, length, error);
  if (contents == NULL)
    return FALSE;
  if (options->profile != NULL)
    {
      g_free (contents->profile->name);
      contents->profile->name = g_strdup (options->profile);
    }
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_WRITE, error);
  if (db == NULL || !ps_costdb_add_profile (db, contents->profile, contents->measurements, contents->sentinels, error))
    return FALSE;
  g_autofree char *name = ps_format_line (contents->profile->name);
  g_printerr ("profile '%s' of %s: %u measurements\n", name, options->db, contents->measurements->len);
  return TRUE;
}

static gboolean
check_files (const Options *options, GError **error)
{
  guint n = options->files != NULL ? g_strv_length (options->files) : 0;

  if (n == 1)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "one file is imported, %u given", n);
}

gboolean
ps_calib_cmd_import (int argc, char **argv, GError **error)
{
  Options options = { 0 };
  gboolean ok
      = ps_calib_parse (argc, argv, "import",
                        "Reads a profile that calib export wrote into a cost database that has no profile of its name.",
                        import_rows, &options, error)
        && ps_calib_require ("--db", options.db, error)
        && (options.profile == NULL || ps_calib_require ("--profile", options.profile, error))
        && check_files (&options, error) && import (&options, error);

  ps_options_reset (import_rows, &options);
  return ok;
}
