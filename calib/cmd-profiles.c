/* cmd-profiles.c - pipesim calib list, export and import: the profiles of a cost database, profiles as text, and
 * profiles of the samples that runs of any program show. */
#include "commands.h"

#include "clock.h"
#include "provenance.h"
#include "statistics.h"

#include <pipesim/observe.h>

#include <stdio.h>

/* list */

static const PsCellColumn columns[] = {
  PS_CELL (PsProfile, name, "profile", "profile", TEXT),
  PS_CELL (PsProfile, model_name, "model", "model", TEXT),
  PS_CELL (PsProfile, device, "device", "device", TEXT),
  PS_CELL (PsProfile, transport, "transport", "transport", TEXT),
  PS_CELL_SET ("shares", "shares", TEXT),
  PS_CELL (PsProfile, number, "calibration", "calibration", INTEGER),
  PS_CELL_SET ("source", "source", TEXT),
  PS_CELL_SET ("measurements", "measurements", INTEGER),
  PS_CELL (PsProfile, host, "host", "host", TEXT),
  PS_CELL (PsProfile, processor, "processor", "processor", TEXT),
  PS_CELL (PsProfile, kernel, "kernel", NULL, TEXT),
  PS_CELL (PsProfile, libraries, "libraries", NULL, TEXT),
  PS_CELL (PsProfile, version, "version", NULL, TEXT),
  PS_CELL (PsProfile, model_digest, "model_digest", NULL, TEXT),
  PS_CELL (PsProfile, created, "created", "created", TEXT),
};

static gboolean add_row (PsTable *table, PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autoptr (GPtrArray) measurements = ps_costdb_measurements (db, profile->name, FALSE, error);

  if (measurements == NULL)
    return FALSE;
  ps_table_add (table, profile);
  ps_table_set_text (table, "shares", ps_shares_describe (profile->shares));
  ps_table_set_text (table, "source", *profile->source != '\0' ? profile->source : "measured here");
  ps_table_set_integer (table, "measurements", measurements->len);
  return TRUE;
}

typedef struct {
  char *db;
  PsColumnChoice columns;
} ListOptions;

static const char *const wide[] = { "shares", "source", "host", "processor", "created", NULL };

static gboolean list (gpointer base, PsProcesses *processes, GError **error)
{
  const ListOptions *options = base;
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_READ, error);
  g_autoptr (GPtrArray) profiles = db != NULL ? ps_costdb_profiles (db, error) : NULL;
  g_autoptr (PsTable) table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  if (profiles == NULL || !ps_table_choose (table, &options->columns, wide, error))
    return FALSE;
  for (guint i = 0; i < profiles->len; i++)
    if (!add_row (table, db, profiles->pdata[i], error))
      return FALSE;
  const char *const extra[] = { "db", options->db, NULL };
  return ps_table_print (table, "pipesim-profiles/1", extra, error);
}

static const PsOption list_rows[] = {
  PS_OPTION ("db", 0, PS_FILE (ListOptions, db), "FILE", "Cost database", .otherwise = ""),
  PS_OPTION_TABLE (ListOptions, columns, "pipesim-profiles/1"),
  PS_OPTION_END,
};

static const PsCommandHelp list_help = {
  .summary = "Lists the profiles of a cost database.",
  .examples = "pipesim calib list --db costs.db\n"
              "pipesim calib list --db costs.db --json\n"
              "COLUMNS=80 pipesim calib list --db costs.db\n",
};

const PsCalibCommand ps_calib_list
    = { "list", "list the profiles of a cost database", &list_help, list_rows, sizeof (ListOptions), list, FALSE };

/* export */

typedef struct {
  char *db;
  char *profile;
  char *output;
  gboolean samples;
} ExportOptions;

static const PsOption export_rows[] = {
  PS_OPTION ("db", 0, PS_FILE (ExportOptions, db), "FILE", "Cost database", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (ExportOptions, profile), "NAME", "Profile", .otherwise = "the only one"),
  PS_OPTION ("samples", 0, PS_FLAG (ExportOptions, samples), NULL, "Write every sample, too", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("output", 'o', PS_FILE (ExportOptions, output), "FILE", "File to write", .otherwise = "standard output",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

static const PsCommandHelp export_help = {
  .summary = "Writes a profile as JSON (pipesim-profile/1), one measurement per line.",
  .examples = "pipesim calib export --db costs.db --profile here\n"
              "pipesim calib export --db costs.db --profile here -o here.json\n"
              "pipesim calib export --db costs.db --profile here --samples -o all.json\n",
};

static gboolean export_profile (gpointer base, PsProcesses *processes, GError **error)
{
  const ExportOptions *options = base;
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_READ, error);
  g_autoptr (PsProfileContents) contents
      = db != NULL ? ps_profile_contents_load (db, options->profile, options->samples, error) : NULL;

  if (contents == NULL)
    return FALSE;
  g_autofree char *text = ps_profile_contents_to_text (contents);
  return options->output != NULL ? ps_write_file (options->output, text, -1, error) : ps_print (text, error);
}

const PsCalibCommand ps_calib_export
    = { "export", "write a profile as text", &export_help, export_rows, sizeof (ExportOptions), export_profile, FALSE };

/* Profiles of runs */

typedef struct {
  const PsObserved *observed;
  const PsModel *model;
  PsProfileContents *contents;
} Import;

static PsProfile *new_profile (const char *name, const PsObserved *observed, const PsModel *model)
{
  PsProfile *profile = g_new0 (PsProfile, 1);

  profile->name = g_strdup (name);
  profile->device = g_strdup ("imported");
  profile->transport = g_strdup ("imported");
  profile->version = g_strdup (PS_VERSION);
  profile->created = ps_moment_now ();
  profile->source = ps_observed_describe (observed);
  if (model != NULL) {
    profile->model_name = g_strdup (model->name);
    profile->model_digest = ps_model_digest (model);
    profile->model_text = ps_model_to_text (model);
  }
  ps_profile_complete (profile);
  return profile;
}

/* The measurement of that key, or a new one. */
static PsMeasurement *find_measurement (const Import *import, PsSubject subject, const char *shape, PsOpKind kind,
                                        gint64 bytes)
{
  GPtrArray *all = import->contents->measurements;
  const PsMeasurement key = { .subject = subject,
                              .kind = kind,
                              .shape = (char *)shape,
                              .bytes = bytes,
                              .devices = import->observed->n_devices,
                              .sharing = 1 };
  PsMeasurement *m = (PsMeasurement *)ps_measurement_find (all, &key);

  if (m == NULL) {
    m = g_memdup2 (&key, sizeof key);
    m->shape = g_strdup (shape);
    m->stop = g_strdup ("imported");
    m->taken = g_strdup (import->contents->profile->created);
    g_ptr_array_add (all, m);
  }
  return m;
}

static void add_samples (PsMeasurement *m, const GArray *samples, gboolean estimated)
{
  m->samples_ns = g_renew (gint64, m->samples_ns, m->n_samples + samples->len);
  for (guint i = 0; i < samples->len; i++)
    m->samples_ns[m->n_samples++] = g_array_index (samples, gint64, i);
  ps_statistics_compute (m->samples_ns, m->n_samples, &m->time);
  if (estimated) {
    g_free (m->stop);
    m->stop = g_strdup ("estimated");
  }
}

static void add_stage (const Import *import, const char *shape, guint stage)
{
  const PsObserved *observed = import->observed;
  g_autofree char *warm_shape = g_strconcat (shape, PS_WARM_SUFFIX, NULL);

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
    guint cell = kind * observed->n_stages + stage;
    gboolean tells_warm = ps_observed_tells_warm (observed, cell);
    const GArray *samples = tells_warm ? observed->cold[cell] : observed->op[cell];

    if (samples->len > 0)
      add_samples (find_measurement (import, PS_SUBJECT_OP, shape, (PsOpKind)kind, 0), samples,
                   (observed->estimated[stage] & 1U << kind) != 0);
    if (tells_warm)
      add_samples (find_measurement (import, PS_SUBJECT_OP, warm_shape, (PsOpKind)kind, 0), observed->warm[cell],
                   FALSE);
  }
  if (observed->pair[stage]->len > 0)
    add_samples (find_measurement (import, PS_SUBJECT_PAIR, shape, PS_OP_F, 0), observed->pair[stage], FALSE);
}

/* With a model all boundaries have messages of one size. */
static void add_transfers (const Import *import)
{
  const PsObserved *observed = import->observed;
  guint n = observed->n_stages;

  for (guint back = 0; back < 2; back++)
    for (guint stage = 0; stage < n; stage++) {
      const GArray *samples = observed->transfer[1 + back * n + stage];
      g_autofree char *shape = import->model != NULL ? g_strdup ("") : ps_stage_key (stage, n, back == 1);
      gint64 bytes = import->model != NULL ? ps_model_boundary_bytes (import->model) : 0;

      if (samples->len > 0)
        add_samples (find_measurement (import, PS_SUBJECT_TRANSFER, shape, PS_OP_F, bytes), samples, FALSE);
    }
}

static void add_host (const Import *import, const char *part, const GArray *samples)
{
  if (samples->len > 0)
    add_samples (find_measurement (import, PS_SUBJECT_HOST, part, PS_OP_F, 0), samples, FALSE);
}

/* A profile of every sample, under the shapes of the model's stages, or without a model (NULL) those of ps_stage_key.
 * Stages of one shape have their samples together. Nothing is known of the machine and of sizes. Errors: PS_ERROR_USAGE
 * when the model has too few layers. */
static PsProfileContents *profile_of_runs (const char *name, const PsObserved *observed, const PsModel *model,
                                           GError **error)
{
  guint n = observed->n_stages;
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n);
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);
  g_autoptr (GArray) send = ps_observed_posts (observed, PS_INSTRUCTION_SEND);
  g_autoptr (GArray) receive = ps_observed_posts (observed, PS_INSTRUCTION_RECEIVE);
  Import import = { observed, model, contents };

  contents->measurements = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  contents->sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);
  contents->profile = new_profile (name, observed, model);
  if (model != NULL && !ps_model_split (model, n, shapes, error))
    return NULL;
  for (guint stage = 0; stage < n; stage++) {
    g_autofree char *shape = model != NULL ? ps_stage_shape_key (&shapes[stage]) : ps_stage_key (stage, n, FALSE);

    add_stage (&import, shape, stage);
  }
  add_transfers (&import);
  add_host (&import, "op", observed->host);
  add_host (&import, "send", send);
  add_host (&import, "receive", receive);
  return g_steal_pointer (&contents);
}

/* import */

typedef struct {
  char *db;
  char *profile;
  char *model;
  char **files;
} ImportOptions;

static const PsOption import_rows[] = {
  PS_OPTION ("db", 0, PS_FILE (ImportOptions, db), "FILE", "Cost database, created when missing", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (ImportOptions, profile), "NAME", "Name of the profile in the database",
             .otherwise = "the one in the file; runs need one"),
  PS_OPTION ("model", 0, PS_FILE (ImportOptions, model), "FILE",
             "Model that the runs trained, a description or name: its stages give the shapes, and its operations "
             "divide backwards that no run has apart",
             .otherwise = "stages without a model"),
  PS_OPTION ("", 0, PS_FILES (ImportOptions, files), "PATH...", NULL),
  PS_OPTION_END,
};

static const PsCommandHelp import_help = {
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

static PsProfileContents *read_profile (const ImportOptions *options, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (options->model != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--model: %s is a profile and has its own", options->files[0]);
  if (!ps_read_file (options->files[0], &text, &length, error))
    return NULL;
  return ps_profile_contents_parse (options->files[0], text, length, error);
}

static PsProfileContents *read_runs (const ImportOptions *options, GError **error)
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
  return profile_of_runs (options->profile, observed, model, error);
}

/* A profile is imported alone; runs are read together. */
static PsProfileContents *read_files (const ImportOptions *options, GError **error)
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

static gboolean import_files (gpointer base, PsProcesses *processes, GError **error)
{
  const ImportOptions *options = base;
  g_autoptr (PsProfileContents) contents
      = options->profile == NULL || ps_calib_require ("--profile", options->profile, error)
            ? read_files (options, error)
            : NULL;

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

const PsCalibCommand ps_calib_import = { "import",
                                         "read a profile's text, or the runs of any program, into a cost database",
                                         &import_help,
                                         import_rows,
                                         sizeof (ImportOptions),
                                         import_files,
                                         FALSE };
