/* cmd-import.c - pipesim calib import: profiles as text, and runs of any program, into a cost database. */
#include "commands.h"

#include "imported.h"

#include <stdio.h>

typedef struct {
  char *db;
  char *profile;
  char *model;
  char **files;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database, created when missing", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME", "Name of the profile in the database",
             .otherwise = "the one in the file; runs need one"),
  PS_OPTION ("model", 0, PS_FILE (Options, model), "FILE",
             "Model that the runs trained, a description or name: its stages give the shapes, and its operations "
             "divide backwards that no run has apart",
             .otherwise = "stages without a model"),
  PS_OPTION ("", 0, PS_FILES (Options, files), "PATH...", NULL),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .arguments = "PATH...",
  .summary = "Reads a profile that calib export wrote, or runs: timelines, traces, folders with one trace per rank, "
             "logs of Megatron-LM's timers (--timing-log-level 2 --timing-log-option all). Every sample of a run is "
             "kept: ops, transfers, and the time that the host spends on each. Where the database has a profile of "
             "that name, this becomes another calibration of it.",
  .examples = "pipesim calib import --db new.db here.json\n"
              "pipesim calib import --db costs.db --profile run measured.json\n"
              "pipesim calib import --db costs.db --profile traced --model tiny-gpt traces/\n",
};

/* TRUE: the file begins as a profile does, with its format. A trace may be large, so no more of it is read. */
static gboolean is_profile (const char *path)
{
  char head[100];
  FILE *file = fopen (path, "rb");
  gsize length = file != NULL ? fread (head, 1, sizeof head, file) : 0;

  if (file != NULL)
    fclose (file);
  return g_strstr_len (head, (gssize)length, "\"pipesim-profile/") != NULL;
}

static PsProfileContents *read_profile (const Options *options, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (options->model != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--model: %s is a profile and has its own", options->files[0]);
  if (!ps_read_file (options->files[0], &text, &length, error))
    return NULL;
  return ps_profile_contents_parse (options->files[0], text, length, error);
}

static PsProfileContents *read_runs (const Options *options, GError **error)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (PsModel) model = NULL;

  if (options->model != NULL) {
    model = ps_model_load (options->model, error);
    if (model == NULL)
      return NULL;
  }
  if (!ps_observed_load (observed, (const char *const *)options->files, g_strv_length (options->files), error)
      || (model != NULL && !ps_observed_estimate (observed, model, error))
      || !ps_calib_require ("--profile", options->profile, error))
    return NULL;
  if (observed->origin == PS_ORIGIN_SIMULATED)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: is simulated; a database keeps measured runs",
                           observed->source->str);
  return ps_profile_of_runs (options->profile, observed, model, error);
}

/* A profile is imported alone; runs are read together. */
static PsProfileContents *read_files (const Options *options, GError **error)
{
  guint n = options->files != NULL ? g_strv_length (options->files) : 0;

  for (guint i = 0; n != 1 && i < n; i++)
    if (is_profile (options->files[i]))
      return ps_refuse_null (error, PS_ERROR_USAGE, "%s: is a profile; it is imported alone, and %u paths are given",
                             options->files[i], n);
  if (n == 0)
    return ps_refuse_null (error, PS_ERROR_USAGE, "no path given; a profile, or one or several runs would be right");
  return is_profile (options->files[0]) ? read_profile (options, error) : read_runs (options, error);
}

static gboolean import (const Options *options, GError **error)
{
  g_autoptr (PsProfileContents) contents = read_files (options, error);

  if (contents == NULL)
    return FALSE;
  if (options->profile != NULL) {
    g_free (contents->profile->name);
    contents->profile->name = g_strdup (options->profile);
  }
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_WRITE, error);
  if (db == NULL || !ps_costdb_add_profile (db, contents, error))
    return FALSE;
  g_autofree char *name = ps_format_line (contents->profile->name);
  g_printerr ("profile '%s' of %s: %u measurements\n", name, options->db, contents->measurements->len);
  return TRUE;
}

gboolean ps_calib_cmd_import (int argc, char **argv, GError **error)
{
  Options options = { 0 };
  gboolean ok = ps_calib_parse (argc, argv, "import", &help, rows, &options, error)
                && ps_calib_require ("--db", options.db, error)
                && (options.profile == NULL || ps_calib_require ("--profile", options.profile, error))
                && import (&options, error);

  ps_options_reset (rows, &options);
  return ok;
}
