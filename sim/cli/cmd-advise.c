/* cmd-advise.c - pipesim advise: what to change in a launch so that it is faster, or fits, as a diff of its file. */
#include "cli.h"
#include "plan/launch-private.h"

#include <math.h>
#include <string.h>

typedef struct {
  PsFromChoice from;
  PsSetting *setting;
  const PsLaunchCommand *launch;
  char *schedule;
  guint n_gpus;
  guint top;
  guint n_jobs;
  gboolean every;
  guint change;
  char *write;
  PsColumnChoice columns;
} Options;

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION ("gpus", 'g', PS_COUNT (Options, n_gpus, 1, PS_MAX_GPUS), "N",
             "GPUs, where the file does not say their number", .otherwise = "the file's", .group = PS_GROUP_WHAT),
  PS_OPTION ("schedule", 's', PS_TEXT (Options, schedule), "NAME", "Family that the launch runs",
             .group = PS_GROUP_WHAT, .otherwise = "the launch's"),
  PS_OPTION ("top", 0, PS_COUNT (Options, top, 1, 1000), "N", "Changes listed", .initial = 6, .group = PS_GROUP_OUTPUT),
  PS_OPTION ("every", 0, PS_FLAG (Options, every), NULL, "List all values of a change, not only the best one",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("change", 0, PS_COUNT (Options, change, 1, 1000), "RANK",
             "Print the diff of this row alone, and write that", .otherwise = "the best few together",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("write", 0, PS_FILE (Options, write), "FILE", "Write the changed launch there", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("jobs", 0, PS_COUNT (Options, n_jobs, 1, 1024), "N", "Threads; their number changes no figure",
             .otherwise = "one per processor"),
  PS_OPTION_TABLE (Options, columns, "pipesim-advise/1"),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_microbatch_size_rows, 0),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, 0),
  PS_OPTION_END,
};

/* The run as it stands */

static void append_size (GString *text, const char *name, gint64 bytes)
{
  g_autofree char *size = ps_format_size (bytes);

  if (bytes > 0)
    g_string_append_printf (text, "%s%s %s", text->len > 0 ? ", " : "", name, size);
}

/* "peak memory 71.2 GiB of 79.2 GiB on device 0, which fits: weights 20 GiB, ..."; NULL: it is not known. */
static char *describe_memory (const PsSetting *setting, const PsAdvice *advice)
{
  const PsPrediction *prediction = advice->prediction;
  g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);
  g_autoptr (GString) parts = g_string_new (NULL);
  g_autofree gint64 *limit = NULL;
  gint64 reserve = 0;
  guint most = 0;

  for (guint d = 1; d < memory->n_devices; d++)
    if (memory->device[d].peak_bytes > memory->device[most].peak_bytes)
      most = d;
  const PsMemoryMoment *peak = &memory->device[most].peak;
  for (guint part = 0; part < PS_N_MEMORY_PARTS; part++)
    append_size (parts, ps_memory_part_title ((PsMemoryPart)part), peak->bytes[part]);
  if (memory->device[most].peak_bytes == 0)
    return NULL;
  g_autofree char *size = ps_format_size (memory->device[most].peak_bytes);
  if (!ps_setting_memory_limit (setting, memory->n_devices, &limit, &reserve, NULL) || limit == NULL)
    return g_strdup_printf ("peak memory %s on device %u: %s", size, most, parts->str);
  gint64 missing = advice->run.excess_bytes - reserve;
  g_autofree char *all = ps_format_size (limit[most] + reserve), *lacks = ps_format_size (MAX (missing, 0));
  g_autofree char *verdict = *prediction->fits == 'n'   ? g_strdup_printf ("%s are missing", lacks)
                             : *prediction->fits == 't' ? g_strdup ("which is tight")
                                                        : g_strdup ("which fits");
  return g_strdup_printf ("peak memory %s of %s on device %u, %s: %s", size, all, most, verdict, parts->str);
}

/* "idle 18.2 %: forward 9.1 %, ...", the causes of waiting; NULL: it is not explained. */
static char *describe_idle (const PsSetting *setting, const PsPrediction *prediction)
{
  const PsMetrics *metrics = &prediction->metrics;
  gint64 sum[PS_N_IDLE] = { 0 }, all_ns = 0;
  g_autoptr (GString) text = g_string_new (NULL);

  if (setting->sync == PS_SYNC_BYPASS || prediction->program->schedule->asynchronous || ps_setting_zero (setting) == 3)
    return NULL;
  g_autoptr (PsExplanation) explanation
      = ps_explain (prediction->program, prediction->costs, prediction->simulation, metrics->iteration_ns);
  for (guint i = 0; i < explanation->n_devices * PS_N_IDLE; i++) {
    sum[i % PS_N_IDLE] += explanation->idle_ns[i];
    all_ns += explanation->idle_ns[i];
  }
  const double whole = (double)metrics->iteration_ns * explanation->n_devices / 100;
  for (guint i = 0; i < PS_N_IDLE; i++) {
    g_autofree char *name = g_strdelimit (g_strdup (ps_idle_name ((PsIdle)i)), "_", ' ');

    if ((double)sum[i] > 0.0005 * 100 * whole)
      g_string_append_printf (text, "%s%s %.1f %%", text->len > 0 ? ", " : "", name, (double)sum[i] / whole);
  }
  return g_strdup_printf ("idle %.1f %% of the step, by what devices wait for: %s", (double)all_ns / whole,
                          text->len > 0 ? text->str : "nothing");
}

/* "a step of 12.3 s, bubble 0.08, 210,000 tokens/s, MFU 0.41" */
static char *describe_speed (const PsAdvice *advice)
{
  const PsSetting *said = &advice->run.setting;
  const PsMetrics *metrics = &advice->prediction->metrics;
  const PsSpeed speed = ps_run_speed (said, said->n_devices, said->n_microbatches, metrics->iteration_ns);
  g_autofree char *step = ps_format_time (metrics->iteration_ns);
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "a step of %s, bubble %.4f", step, metrics->bubble_ratio);
  if (speed.tokens_per_s > 0)
    g_string_append_printf (text, ", %.0f tokens/s on %.0f GPUs", speed.tokens_per_s, speed.n_gpus);
  if (speed.mfu > 0)
    g_string_append_printf (text, ", MFU %.4f", speed.mfu);
  return g_string_free (text, FALSE);
}

static char *describe_certainty (const PsAdvice *advice)
{
  if (advice->error > 0)
    return g_strdup_printf (
        "probability that the change is faster. Modelled steps of the class deviate by "
        "%.1f %%; two settings of it are taken to share 7/8 of that variance, so a gain deviates by "
        "%.1f %%. Below %.1f it is noise",
        100 * advice->error, 50 * advice->error, PS_ADVICE_CERTAIN);
  return g_strdup_printf ("probability that the change is faster, by the measured intervals of both steps. "
                          "Below %.1f it is noise",
                          PS_ADVICE_CERTAIN);
}

/* Rows */

typedef struct {
  PsAdvised run;
  char *diff, *flags;
  const char *label;
  char *likely;
} Row;

static const struct {
  PsCellColumn cell;
  gboolean text; /* for people, where JSON has other columns */
} columns[] = {
  { PS_CELL_SET ("rank", "rank", INTEGER), FALSE },
  { PS_CELL (Row, label, "label", "change", TEXT), TRUE },
  { PS_CELL (Row, run.change, "change", NULL, TEXT), FALSE },
  { PS_CELL (Row, run.options, "options", NULL, TEXT), FALSE },
  { PS_CELL (Row, run.step_ns, "step_ns", "step", TIME), FALSE },
  { PS_CELL_SET ("gain", "gain", PERCENT), FALSE },
  { PS_CELL_KNOWN (Row, run.peak_memory_bytes, "peak_memory_bytes", "peak memory", SIZE), FALSE },
  { PS_CELL (Row, run.fits, "fits", "fits", TEXT), FALSE },
  { PS_CELL (Row, likely, "likely", "certainty", TEXT), TRUE },
  { PS_CELL_SET ("certainty", NULL, RATIO), FALSE },
  { PS_CELL_SET ("noise", NULL, BOOLEAN), FALSE },
  { PS_CELL (Row, diff, "diff", NULL, TEXT), FALSE },
  { PS_CELL (Row, flags, "flags", NULL, TEXT), FALSE },
};

static void add_row (PsTable *table, guint rank, const PsAdvised *run, const PsAdvisedFile *file)
{
  const gboolean stands = isnan (run->certainty), noise = MAX (run->certainty, 1 - run->certainty) < PS_ADVICE_CERTAIN;
  g_autofree char *likely
      = stands ? NULL : g_strdup_printf ("%.2f%s", floor (100 * run->certainty) / 100, noise ? " noise" : "");
  const Row row = { .run = *run,
                    .diff = file != NULL ? file->diff : NULL,
                    .flags = file != NULL ? file->flags : NULL,
                    .label = rank > 0 ? run->options : run->change,
                    .likely = likely };

  ps_table_add (table, &row);
  if (rank > 0)
    ps_table_set_integer (table, "rank", rank);
  if (stands)
    return;
  ps_table_set_ratio (table, "gain", run->gain);
  ps_table_set_ratio (table, "certainty", run->certainty);
  ps_table_set_boolean (table, "noise", noise);
}

/* Files */

/* The line that was given, with the replicas that the run makes of the same GPUs where the line says them and not the
 * file. Free with g_strfreev. */
static char **line_of (const PsLaunchCommand *launch, const PsAdvised *run)
{
  char **words = g_strdupv ((char **)launch->argv);

  for (char **word = words; launch->counted && *word != NULL; word++)
    if (g_str_has_prefix (*word, "--replicas=") || (word > words && g_str_equal (word[-1], "--replicas"))) {
      const char *name = **word == '-' ? "--replicas=" : "";

      g_free (*word);
      *word = g_strdup_printf ("%s%u", name, run->setting.n_replicas);
    }
  return words;
}

/* Whether the text, with the options of the line, is the run that was predicted. */
static gboolean reads_as (const PsCmd *command, const Options *options, const PsAdvised *run, const char *text)
{
  const PsLaunchCommand *launch = options->launch;
  Options again = { .setting = ps_setting_new () };
  g_autoptr (PsSetting) setting = again.setting;
  g_auto (PsLaunchCommand) read = { 0 };
  g_auto (GStrv) line = line_of (launch, run);
  gboolean same = FALSE;

  if (ps_launch_read (rows, line, launch->file, text, &read, NULL)) {
    g_autofree char **argv = g_memdup2 (read.words, ((gsize)g_strv_length (read.words) + 1) * sizeof *argv);
    char **words = argv;
    int argc = (int)g_strv_length (read.words);

    if (ps_command_parse (&command->help, rows, &again, &argc, &words, NULL) && again.schedule != NULL) {
      setting->sequence_parallel = run->setting.sequence_parallel; /* the model is that of the file as it stands */
      g_autoptr (PsPrediction) prediction = ps_predict (setting, again.schedule, NULL);

      same = prediction != NULL && prediction->metrics.iteration_ns == run->step_ns
             && prediction->metrics.peak_memory_bytes == run->peak_memory_bytes;
    }
  }
  ps_options_reset (rows, &again);
  return same;
}

/* The diff of a run; nothing where its file cannot say it, or is a command with arguments. */
static void edit (const PsCmd *command, const Options *options, const PsAdvice *advice, const PsAdvised *run,
                  const char *text, PsAdvisedFile *file)
{
  ps_advice_edit (advice, run, options->launch->file, text, file);
  if (file->text == NULL
      || (g_file_test (options->launch->file, G_FILE_TEST_EXISTS) && reads_as (command, options, run, file->text)))
    return;
  g_clear_pointer (&file->text, g_free);
  g_clear_pointer (&file->diff, g_free);
}

static void append_diff (GString *page, const char *rank, const PsAdvised *run, const PsAdvisedFile *file)
{
  g_string_append_printf (page, "\n%s%s: %s\n", rank, run->change, run->options);
  if (file->diff != NULL)
    g_string_append (page, file->diff);
  else if (*file->flags != '\0')
    g_string_append_printf (page, "by hand: %s\n", file->flags);
}

static void append_diffs (GString *page, const PsAdvice *advice, const PsAdvisedFile *files, guint n, guint chosen)
{
  for (guint i = 0; i <= n; i++) {
    const PsAdvised *run = i < n ? &g_array_index (advice->changes, PsAdvised, i) : &advice->together;
    g_autofree char *rank = i < n ? g_strdup_printf ("%u ", i + 1) : g_strdup ("");

    if (run->options != NULL && (chosen == 0 || chosen == i + 1))
      append_diff (page, rank, run, &files[i]);
  }
}

/* The command */

/* Everything in a row: the run as it stands, its changes, and the best few together. */
static PsTable *make_table (const Options *options, const PsAdvice *advice, const PsAdvisedFile *files, guint n)
{
  PsCellColumn shown[G_N_ELEMENTS (columns)];
  guint n_shown = 0;

  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (!columns[i].text || !options->columns.json)
      shown[n_shown++] = columns[i].cell;
  PsTable *table = ps_table_of (shown, n_shown, NULL, 0, 0);
  add_row (table, 0, &advice->run, NULL);
  for (guint i = 0; i < n; i++)
    add_row (table, i + 1, &g_array_index (advice->changes, PsAdvised, i), &files[i]);
  if (advice->together.options != NULL)
    add_row (table, 0, &advice->together, &files[n]);
  return table;
}

static gboolean print_advice (const Options *options, const PsAdvice *advice, const PsAdvisedFile *files, guint n,
                              GError **error)
{
  const PsSetting *setting = options->setting;
  const char *framework = options->launch->framework, *runner = framework != NULL ? framework : "their schedule";
  const struct {
    const char *key, *before;
    char *text; /* NULL: not known */
  } said[] = {
    { "costs", "simulated from ", ps_costs_describe (advice->prediction->costs) },
    { "interval", "interval: ", ps_describe_errors (setting) },
    { "speed", "as it stands: ", describe_speed (advice) },
    { "memory", "", describe_memory (setting, advice) },
    { "idle", "", describe_idle (setting, advice->prediction) },
    { "broken", "",
      advice->broken != NULL ? g_strdup_printf ("%s does not run that: %s", framework, advice->broken) : NULL },
    { "certainty", "certainty: ", describe_certainty (advice) },
    { "search", "",
      g_strdup_printf ("%u runs predicted, %u of them impossible or refused by %s", advice->n_predicted,
                       advice->n_refused, runner) },
  };
  const char *extra[3 + 2 * G_N_ELEMENTS (said)] = { "origin", ps_origin_name (PS_ORIGIN_SIMULATED) };
  g_autoptr (PsTable) table = make_table (options, advice, files, n);
  g_autoptr (GString) page = g_string_new (NULL);

  for (guint i = 0, k = 2; i < G_N_ELEMENTS (said); i++)
    if (said[i].text != NULL) {
      extra[k++] = said[i].key;
      extra[k++] = said[i].text;
      g_string_append_printf (page, "%s%s%s", i > 0 ? "\n" : "", said[i].before, said[i].text);
    }
  gboolean done = ps_table_choose (table, &options->columns, NULL, error);
  if (done && options->columns.json)
    done = ps_table_print (table, "pipesim-advise/1", extra, error);
  else if (done) {
    g_autofree char *head = ps_fit_sentence (page->str, 0), *rows_text = ps_table_to_text (table);

    g_string_printf (page, "%s%s", head, rows_text);
    if (advice->changes->len == 0)
      g_string_append (page, *advice->run.fits == 'n' ? "no change makes it need less memory\n"
                                                      : "no change makes it faster and fits\n");
    if (framework != NULL)
      append_diffs (page, advice, files, n, options->change);
    done = ps_print (page->str, error);
  }
  for (guint i = 0; i < G_N_ELEMENTS (said); i++)
    g_free (said[i].text);
  return done;
}

static gboolean write_file (const Options *options, const PsAdvice *advice, const PsAdvisedFile *files, guint n,
                            GError **error)
{
  guint index = options->change > 0 ? options->change - 1 : advice->together.options != NULL ? n : 0;

  if (options->write == NULL)
    return TRUE;
  if (n == 0 && index == 0)
    return ps_refuse (error, PS_ERROR_SCHEDULE, "--write %s: no change is better", options->write);
  if (files[index].text == NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "--write %s: %s has no place for it; give %s", options->write,
                      options->launch->file, files[index].flags);
  const PsAdvised *advised = index < n ? &g_array_index (advice->changes, PsAdvised, index) : &advice->together;
  if (options->launch->counted && advised->setting.n_replicas != options->setting->n_replicas)
    g_printerr ("%s: says no number of GPUs; on as many as before, give --replicas %u\n", options->write,
                advised->setting.n_replicas);
  return ps_write_file (options->write, files[index].text, strlen (files[index].text), error);
}

static int run (const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  Options *options = base;
  const PsLaunchCommand *launch = options->launch;
  g_autofree char *text = NULL;
  gsize length;

  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the launch goes first", argv[1]);
  if (launch->file == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "no launch; give its file first: pipesim advise FILE");
  if (options->setting->costs_from != NULL && options->setting->cluster != NULL)
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "--costs-from and --cluster: give one of them; ops of a run do not tell what changes on a cluster "
        "would take");
  if (options->schedule == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--schedule: missing; %s says none", launch->file);
  if (!ps_setting_check (options->setting, error) || !ps_launch_open (launch->file, &text, &length, error))
    return 0;
  g_autoptr (PsAdvice) advice = ps_advice_new (
      &(const PsAdviceQuestion){ .setting = options->setting,
                                 .schedule = options->schedule,
                                 .framework = launch->framework,
                                 .every = options->every,
                                 .n_jobs = options->n_jobs > 0 ? options->n_jobs : g_get_num_processors () },
      error);
  if (advice == NULL)
    return 0;
  const guint n = MIN (options->top, advice->changes->len);
  g_autofree PsAdvisedFile *files = g_new0 (PsAdvisedFile, n + 1);
  if (options->change > n) {
    ps_refuse (error, PS_ERROR_USAGE, "--change: '%u' is after the last, %u", options->change, n);
    return 0;
  }
  for (guint i = 0; i <= n; i++) {
    const PsAdvised *advised = i < n ? &g_array_index (advice->changes, PsAdvised, i) : &advice->together;

    if (advised->options != NULL)
      edit (command, options, advice, advised, text, &files[i]);
  }
  if (print_advice (options, advice, files, n, error))
    write_file (options, advice, files, n, error);
  for (guint i = 0; i <= n; i++)
    ps_advised_file_clear (&files[i]);
  return 0;
}

const PsCmd ps_cmd_advise = {
  .help = {
    .arguments = "FILE",
    .summary = "Says what to change in a launch so that it is faster, or fits memory. All simulated.",
    .text = "FILE is a launch as --from reads it (docs/launches.md). One thing changes at a time, on the same GPUs and with "
            "the same sequences per step: schedule and v, layout, microbatch size, recomputation, offload, ZeRO, degrees of "
            "parallelism, formats of gradients, overlap. Only what the framework runs counts. A row is the best value of "
            "its change; the last one is the best few together. A launch that does not fit gets what frees memory, "
            "first what makes it fit, by the time that it costs, and the fewest changes that make it fit. Each is a diff of FILE.\n\n"
            "gain = part of the step that is saved\n"
            "certainty = probability that the change is faster; below 0.9 the difference is noise\n",
    .examples = "pipesim predict -s 1f1b -p 4 -m 32 --model llama-3-8b --cluster h100-80gb --to megatron-gpt >run.sh\n"
                "pipesim advise run.sh --cluster h100-80gb --write better.sh\n"
                "pipesim advise run.sh --cluster h100-80gb --change 1\n"
                "pipesim advise run.sh --cluster h100-80gb --every --top 20 --json\n",
  },
  .rows = rows,
  .size = sizeof (Options),
  .setting = offsetof (Options, setting),
  .launch = offsetof (Options, launch),
  .run = run,
};
