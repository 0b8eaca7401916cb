/* cmd-questions.c - pipesim pareto, best and sensitivity: which settings of a sweep are worth having, which are the
 * fastest, and where one schedule overtakes another. */
#include "cli.h"

#include <pipesim/sweep.h>

typedef struct {
  PsQuestion question;
  const char *db;
  char *limits; /* of best */
  PsColumnChoice columns;
  char **figures; /* keys of all figures, for --wide */
  gboolean csv;
  gboolean markdown;
} Options;

static const PsOption common_rows[] = {
  PS_OPTION (
      "per", 0, PS_LIST (Options, question.per), "COLUMN,...",
      "One answer for each value of these columns, and of bandwidth, memory limit, batch and other circumstances "
      "that vary; none: one for all",
      .otherwise = "devices and these circumstances"),
  PS_OPTION ("by", 0, PS_TEXT (Options, question.by), "COLUMN", "Column that is to be small",
             .otherwise = "sequence_ns, the time of an iteration per sequence in it"),
  PS_OPTION ("where", 0, PS_TEXTS (Options, question.where), "COLUMN=VALUE",
             "Only settings for which this holds, with = != <= >= < or >; several must all hold. Asynchronous "
             "schedules count with asynchronous=any or schedule=NAME"),
  PS_OPTION ("json", 0, PS_FLAG (Options, columns.json), NULL, "Print JSON", .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION ("csv", 0, PS_FLAG (Options, csv), NULL, "Print comma-separated values, times in ns and sizes in bytes",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("markdown", 0, PS_FLAG (Options, markdown), NULL, "Print a Markdown table", .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

static const PsOption best_rows[] = {
  PS_OPTION ("memory-limit", 0, PS_TEXT (Options, limits), "SIZE[,SIZE...]", "The best within each of these"),
  PS_OPTION ("top", 0, PS_COUNT (Options, question.top, 1, G_MAXINT32), "N", "Number of settings in each group",
             .initial = 1),
  { .name = "", .type = PS_OPTION_ROWS, .rows = common_rows }, /* of the same base */
  PS_OPTION_END,
};

static const PsOption sensitivity_rows[] = {
  PS_OPTION ("over", 0, PS_TEXT (Options, question.over), "COLUMN", "Column that changes", .otherwise = "microbatches"),
  { .name = "", .type = PS_OPTION_ROWS, .rows = common_rows }, /* of the same base */
  PS_OPTION_END,
};

/* What a command asks. */
typedef struct {
  const char *per;      /* where none is given; NULL: nothing */
  gboolean has_figures; /* its rows may hold any column of the results */
  const char *format;   /* of --json */
  PsAnswer *(*ask) (PsResults *results, const PsQuestion *question, GError **error);
} Asked;

/* Gives columns their keys. "none" alone is no column. */
static gboolean resolve_columns (Options *options, const Asked *asked, GError **error)
{
  PsQuestion *question = &options->question;
  char **columns = options->columns.columns;

  if (question->by == NULL)
    question->by = g_strdup ("sequence_ns");
  if (question->per == NULL && asked->per != NULL)
    question->per = g_strsplit (asked->per, ",", -1);
  if (question->per != NULL && g_str_equal (question->per[0], "none") && question->per[1] == NULL)
    g_clear_pointer (&question->per[0], g_free);
  for (guint i = 0; question->per != NULL && question->per[i] != NULL; i++)
    if (!ps_result_column_resolve ("--per", &question->per[i], FALSE, error))
      return FALSE;
  if (!ps_result_column_resolve ("--by", &question->by, TRUE, error)
      || (question->over != NULL && !ps_result_column_resolve ("--over", &question->over, FALSE, error)))
    return FALSE;
  for (guint i = 0; asked->has_figures && columns != NULL && columns[i] != NULL; i++)
    if (!ps_result_column_resolve ("--columns", &columns[i], FALSE, error))
      return FALSE;
  if (asked->has_figures && columns == NULL && options->columns.wide) {
    g_autoptr (GStrvBuilder) keys = g_strv_builder_new ();
    guint n;
    const PsResultColumn *all = ps_result_columns (&n);

    for (guint i = 0; i < n; i++)
      if (all[i].role != PS_ROLE_SETTING && all[i].column.title != NULL)
        g_strv_builder_add (keys, all[i].column.key);
    columns = options->figures = g_strv_builder_end (keys);
  }
  question->columns = asked->has_figures ? columns : NULL;
  return TRUE;
}

static gboolean read_limits (const char *text, PsQuestion *question, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);

  question->n_limits = g_strv_length (parts);
  question->limits = g_new0 (gint64, question->n_limits + 1);
  for (guint i = 0; parts[i] != NULL; i++)
    if (!ps_parse_size ("--memory-limit", g_strstrip (parts[i]), &question->limits[i], error))
      return FALSE;
  return TRUE;
}

/* As a table, or in the form that was asked for. Says what asynchronous schedules are left out. */
static gboolean print_answer (const Options *options, PsResults *results, const PsAnswer *answer, const char *format,
                              GError **error)
{
  g_autofree char *left_out = ps_question_left_out (results, &options->question, error);
  const char *const *per = (const char *const *)options->question.per;
  /* The placement comes with the schedule. */
  const char *const wide[] = { per == NULL || !g_strv_contains (per, "placement") ? "placement" : NULL, NULL };
  const char *extra[] = { "origin",   ps_origin_name (PS_ORIGIN_SIMULATED),
                          "database", options->db,
                          "about",    answer->about,
                          "left_out", left_out,
                          NULL };

  if (left_out == NULL || !ps_table_choose (answer->table, &options->columns, wide, error))
    return FALSE;
  if (*left_out && !options->columns.json)
    g_printerr ("left out: %s\n", left_out);
  if (ps_table_n_rows (answer->table) == 0)
    return ps_question_refuse_none (results, &options->question, options->db, error);
  if (options->columns.json)
    return ps_table_print (answer->table, format, extra, error);
  g_autofree char *table = options->csv        ? ps_table_to_csv (answer->table)
                           : options->markdown ? ps_table_to_markdown (answer->table)
                                               : ps_table_to_text (answer->table);
  g_autofree char *about = options->csv        ? g_strdup ("")
                           : options->markdown ? g_strdup_printf ("%s\n\n", answer->about)
                                               : ps_fit_sentence (answer->about, 0);
  g_autofree char *text = g_strconcat (about, table, NULL);
  return ps_print (text, error);
}

static int run (const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  const Asked *asked = command->data;
  Options *options = base;
  g_autoptr (PsAnswer) answer = NULL;

  if (argc < 2)
    return ps_refuse (error, PS_ERROR_USAGE, "no database; give the RESULTS.db of pipesim sweep");
  if (argc > 2)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected after the database", argv[2]);
  if (options->columns.json + options->csv + options->markdown > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "--json, --csv and --markdown: only one of them");
  options->db = argv[1];
  if (!resolve_columns (options, asked, error)
      || (options->limits != NULL && !read_limits (options->limits, &options->question, error)))
    return 0;
  g_autoptr (PsResults) results = ps_results_open (options->db, PS_RESULTS_READ, error);
  if (results != NULL)
    answer = asked->ask (results, &options->question, error);
  if (answer != NULL)
    print_answer (options, results, answer, asked->format, error);
  return 0;
}

static void clear (gpointer base)
{
  Options *options = base;

  g_strfreev (options->figures);
  g_free (options->question.limits);
}

const PsCmd ps_cmd_pareto = {
  .help = { .arguments = "RESULTS.db",
            .summary = "Lists the settings of a sweep that nothing beats in both time and peak memory. All simulated.",
            .text = "No setting of the same devices (--per) is faster than one shown without needing more memory.\n",
            .examples = "pipesim pareto results.db\n"
                        "pipesim pareto results.db --per devices,microbatches --markdown\n"
                        "pipesim pareto results.db --where microbatches=16 --json\n" },
  .rows = common_rows,
  .size = sizeof (Options),
  .run = run,
  .data = &(const Asked){ "devices", TRUE, "pipesim-pareto/1", ps_results_pareto },
  .clear = clear,
};

const PsCmd ps_cmd_best = {
  .help = { .arguments = "RESULTS.db",
            .summary = "Lists the fastest settings of a sweep, one for each number of devices unless --per says "
                       "otherwise. All simulated.",
            .examples = "pipesim best results.db\n"
                        "pipesim best results.db --per devices,microbatches --top 2\n"
                        "pipesim best results.db --where schedule=1f1b --by peak_memory_bytes --csv\n" },
  .rows = best_rows,
  .size = sizeof (Options),
  .run = run,
  .data = &(const Asked){ "devices", TRUE, "pipesim-best/1", ps_results_best },
  .clear = clear,
};

const PsCmd ps_cmd_sensitivity = {
  .help
  = { .arguments = "RESULTS.db",
      .summary = "Shows the fastest schedule along a column of a sweep, and where schedules break even. All simulated.",
      .text = "All other columns of the sweep stay fixed. With --per only its columns stay fixed, and the best of the "
              "others counts.\n"
              "ahead = time that the winner saves over the second at `from`, as a part of the second's time\n",
      .examples = "pipesim sensitivity results.db\n"
                  "pipesim sensitivity results.db --over bandwidth_factor --per devices\n"
                  "pipesim sensitivity results.db --where microbatches=16 --json\n" },
  .rows = sensitivity_rows,
  .size = sizeof (Options),
  .run = run,
  .data = &(const Asked){ NULL, FALSE, "pipesim-sensitivity/1", ps_results_sensitivity },
  .clear = clear,
};
