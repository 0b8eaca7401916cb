/* cmd-sweep.c - pipesim sweep: predicts all settings of a spec into a database; pipesim sweep merge. */
#include "cli.h"

#include <pipesim/sweep.h>

#include <string.h>

#define REASONS 5 /* of skipping that are printed */

typedef struct {
  char *db;
  guint jobs; /* 0: not given */
  char *shard;
  gboolean resume;
  PsSweepRun run;
} Options;

static const PsOption sweep_rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "RESULTS.db", "Database of the results, created when missing",
             .otherwise = ""),
  PS_OPTION ("jobs", 'j', PS_COUNT (Options, jobs, 1, 1024), "N", "Threads", .otherwise = "one per processor"),
  PS_OPTION ("resume", 0, PS_FLAG (Options, resume), NULL, "Predict only settings that the database lacks"),
  PS_OPTION ("shard", 0, PS_TEXT (Options, shard), "I/N", "Only part I, from 0 on, of N", .otherwise = "all of them"),
  PS_OPTION_END,
};

static gboolean read_options (Options *options, GError **error)
{
  options->run.n_jobs = g_get_num_processors ();
  options->run.shard = (PsShard){ 0, 1 };
  if (options->db == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--db: missing; give the database to store results in");
  if (options->jobs > 0)
    options->run.n_jobs = options->jobs;
  return options->shard == NULL || ps_shard_parse ("--shard", options->shard, &options->run.shard, error);
}

/* "part 1 of 4: " where there are several. Free with g_free. */
static char *name_part (PsShard shard)
{
  return shard.n > 1 ? g_strdup_printf ("part %u of %u: ", shard.index + 1, shard.n) : g_strdup ("");
}

static gboolean check_resume (const Options *options, const PsSweep *sweep, PsResults *results, GError **error)
{
  g_autofree char *part = name_part (options->run.shard);
  guint64 present;

  if (options->resume)
    return TRUE;
  if (!ps_sweep_present (sweep, results, options->run.shard, &present, error))
    return FALSE;
  if (present > 0)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                 "%s: %sholds %" G_GUINT64_FORMAT " settings already; --resume goes on with the others", options->db,
                 part, present);
  return present == 0;
}

static gboolean run_sweep (Options *options, const PsSweep *sweep, PsResults *results, GError **error)
{
  g_autofree char *part = name_part (options->run.shard);
  PsSweepProgress progress;

  if (!ps_sweep_run (sweep, results, &options->run, &progress, error))
    return FALSE;
  g_printerr ("%s%" G_GUINT64_FORMAT " settings: %" G_GUINT64_FORMAT " predicted, %" G_GUINT64_FORMAT
              " impossible, %" G_GUINT64_FORMAT " there before\n",
              part, progress.n_points, progress.predicted, progress.skipped, progress.present);
  if (progress.skipped == 0)
    return TRUE;
  g_autoptr (PsTable) reasons = ps_results_reasons (results, REASONS, error);
  g_autofree char *text = reasons != NULL ? ps_table_to_text (reasons) : NULL;
  if (text != NULL)
    g_printerr ("most frequent of them all (SELECT * FROM skipped_reason):\n%s", text);
  return text != NULL;
}

static int sweep (G_GNUC_UNUSED const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  Options *options = base;

  if (argc < 2)
    return ps_refuse (error, PS_ERROR_USAGE, "no spec; pipesim sweep SPEC.ini --db RESULTS.db is right");
  if (argc > 2)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected after the spec", argv[2]);
  g_autoptr (PsSweep) spec = read_options (options, error) ? ps_sweep_load (argv[1], error) : NULL;
  if (spec == NULL)
    return 0;
  g_autoptr (PsResults) results = ps_results_open (options->db, PS_RESULTS_WRITE, error);
  if (results != NULL && check_resume (options, spec, results, error))
    run_sweep (options, spec, results, error);
  return 0;
}

/* Merging */

static gboolean merge_files (char *const *paths, guint n, PsResults *results, GError **error)
{
  guint64 predicted, skipped, missing;

  for (guint i = 0; i < n; i++)
    if (!ps_results_merge (results, paths[i], error))
      return FALSE;
  if (!ps_results_count (results, &predicted, &skipped, &missing, error))
    return FALSE;
  g_printerr ("%" G_GUINT64_FORMAT " settings: %" G_GUINT64_FORMAT " predicted, %" G_GUINT64_FORMAT
              " impossible, %" G_GUINT64_FORMAT " missing%s\n",
              predicted + skipped + missing, predicted, skipped, missing,
              missing > 0 ? "; pipesim sweep with --resume predicts them" : "");
  return TRUE;
}

static int merge (G_GNUC_UNUSED const PsCmd *command, G_GNUC_UNUSED gpointer options, int argc, char **argv,
                  GError **error)
{
  if (argc < 3)
    return ps_refuse (error, PS_ERROR_USAGE, "merge: give the database to fill and those to take from");
  /* The first input is opened before the output is created: where it is wrong, no file appears. */
  g_autoptr (PsResults) results = ps_results_open (argv[2], PS_RESULTS_READ, error);
  if (results == NULL)
    return 0;
  g_clear_pointer (&results, ps_results_close);
  results = ps_results_open (argv[1], PS_RESULTS_WRITE, error);
  if (results != NULL)
    merge_files (argv + 2, (guint)argc - 2, results, error);
  return 0;
}

int ps_cmd_sweep (int argc, char **argv, GError **error)
{
  static const PsOption merge_rows[] = { PS_OPTION_END };
  static const PsCmd commands[] = {
    {
      .help = {
  .arguments = "SPEC.ini",
  .summary = "Predicts all combinations of the values in a spec into a database.\n"
             "pipesim sweep merge OUT.db IN.db... puts the shards of a sweep together.",
  .text = "A spec, a whole one:\n"
          "  [sweep]\n"
          "  schedule = 1f1b, zb-h1, zb-v          # families, files, or all\n"
          "  devices = 4..16 x2                    # 4, 8, 16\n"
          "  microbatches = 8..64 step 8\n"
          "  model = llama-3-8b\n"
          "  cluster = a100-80gb\n"
          "  bandwidth-factor = 0.1, 1\n"
          "  [zip memory]                          # fields that go together\n"
          "  recompute = none, full\n"
          "  memory-limit = 80GiB, 40GiB\n"
          "Fields are the options of `pipesim predict` by their long names, and global-batch and microbatch-size.\n"
          "Lists of costs are separated by semicolons; a key of costs can be a field by itself:\n"
          "  costs = f=1ms,b=1ms,w=1ms\n"
          "  costs.c = 0, 50us, 100us..400us x2\n",
  .examples = "pipesim sweep spec.ini --db results.db\n"
              "pipesim sweep spec.ini --db results.db --resume --jobs 2\n"
              "pipesim sweep spec.ini --db part-0.db --shard 0/2\n",
},
      .rows = sweep_rows,
      .size = sizeof (Options),
      .run = sweep,
    },
    {
      .help = {
  .arguments = "OUT.db IN.db...",
  .summary = "Puts the shards of a sweep together.",
  .examples = "pipesim sweep merge results.db part-0.db part-1.db\n",
},
      .rows = merge_rows,
      .run = merge,
    },
  };
  gboolean merges = argc > 1 && g_str_equal (argv[1], "merge");

  if (merges)
    g_set_prgname ("pipesim sweep merge");
  return ps_cmd_run (&commands[merges], argc - merges, argv + merges, error);
}
