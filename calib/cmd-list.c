/* cmd-list.c - pipesim calib list: lists the profiles of a cost database. */
#include "commands.h"

static const PsColumn columns[] = {
  { "profile", "profile", PS_COLUMN_TEXT }, { "model", "model", PS_COLUMN_TEXT },
  { "device", "device", PS_COLUMN_TEXT },   { "transport", "transport", PS_COLUMN_TEXT },
  { "shares", "shares", PS_COLUMN_TEXT },   { "calibration", "calibration", PS_COLUMN_INTEGER },
  { "source", "source", PS_COLUMN_TEXT },   { "measurements", "measurements", PS_COLUMN_INTEGER },
  { "host", "host", PS_COLUMN_TEXT },       { "processor", "processor", PS_COLUMN_TEXT },
  { "kernel", NULL, PS_COLUMN_TEXT },       { "libraries", NULL, PS_COLUMN_TEXT },
  { "version", NULL, PS_COLUMN_TEXT },      { "model_digest", NULL, PS_COLUMN_TEXT },
  { "created", "created", PS_COLUMN_TEXT },
};

static gboolean add_row (PsTable *table, PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autoptr (GPtrArray) measurements = ps_costdb_measurements (db, profile->name, FALSE, error);

  if (measurements == NULL)
    return FALSE;
  ps_table_add_row (table);
  ps_table_set_text (table, "profile", profile->name);
  ps_table_set_text (table, "model", profile->model_name);
  ps_table_set_text (table, "device", profile->device);
  ps_table_set_text (table, "transport", profile->transport);
  ps_table_set_integer (table, "calibration", profile->number);
  ps_table_set_text (table, "source", *profile->source != '\0' ? profile->source : "measured here");
  ps_table_set_integer (table, "measurements", measurements->len);
  ps_table_set_text (table, "shares", ps_shares_describe (profile->shares));
  ps_table_set_text (table, "host", profile->host);
  ps_table_set_text (table, "processor", profile->processor);
  ps_table_set_text (table, "kernel", profile->kernel);
  ps_table_set_text (table, "libraries", profile->libraries);
  ps_table_set_text (table, "version", profile->version);
  ps_table_set_text (table, "model_digest", profile->model_digest);
  ps_table_set_text (table, "created", profile->created);
  return TRUE;
}

typedef struct {
  char *db;
  PsColumnChoice columns;
} Options;

static const char *const usual[] = { "profile", "model", "device", "transport", "calibration", "measurements", NULL };

static gboolean print_profiles (const Options *options, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_READ, error);
  g_autoptr (GPtrArray) profiles = db != NULL ? ps_costdb_profiles (db, error) : NULL;
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));

  if (profiles == NULL || !ps_table_choose (table, &options->columns, usual, error))
    return FALSE;
  for (guint i = 0; i < profiles->len; i++)
    if (!add_row (table, db, profiles->pdata[i], error))
      return FALSE;
  const char *const extra[] = { "db", options->db, NULL };
  return ps_table_print (table, "pipesim-profiles/1", extra, error);
}

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database", .otherwise = ""),
  PS_OPTION ("json", 0, PS_FLAG (Options, columns.json), NULL, "Print JSON (pipesim-profiles/1)",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Lists the profiles of a cost database.",
  .examples = "pipesim calib list --db costs.db\n"
              "pipesim calib list --db costs.db --json\n"
              "COLUMNS=80 pipesim calib list --db costs.db\n",
};

gboolean ps_calib_cmd_list (int argc, char **argv, GError **error)
{
  Options options = { 0 };
  gboolean ok = ps_calib_parse (argc, argv, "list", &help, rows, &options, error)
                && ps_calib_require ("--db", options.db, error) && print_profiles (&options, error);

  ps_options_reset (rows, &options);
  return ok;
}
