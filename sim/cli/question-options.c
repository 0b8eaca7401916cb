/* question-options.c - the options that pareto, best and sensitivity share. */
#include "question-options.h"

const PsOption ps_question_rows[] = {
  PS_OPTION (
      "per", 0, PS_LIST (PsQuestionOptions, question.per), "COLUMN,...",
      "One answer for each value of these columns, and of bandwidth, memory limit, batch and other circumstances "
      "that vary; none: one for all",
      .otherwise = "devices and these circumstances"),
  PS_OPTION ("by", 0, PS_TEXT (PsQuestionOptions, question.by), "COLUMN", "Column that is to be small",
             .otherwise = "sequence_ns, the time of an iteration per sequence in it"),
  PS_OPTION ("where", 0, PS_TEXTS (PsQuestionOptions, where), "COLUMN=VALUE",
             "Only settings for which this holds, with = != <= >= < or >; several must all hold. Asynchronous "
             "schedules count with asynchronous=any or schedule=NAME"),
  PS_OPTION ("json", 0, PS_FLAG (PsQuestionOptions, json), NULL, "Print JSON", .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (PsQuestionOptions, columns, ps_column_rows),
  PS_OPTION ("csv", 0, PS_FLAG (PsQuestionOptions, csv), NULL,
             "Print comma-separated values, times in ns and sizes in bytes", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("markdown", 0, PS_FLAG (PsQuestionOptions, markdown), NULL, "Print a Markdown table",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

const PsOption ps_best_rows[] = {
  PS_OPTION ("memory-limit", 0, PS_TEXT (PsQuestionOptions, limits), "SIZE[,SIZE...]", "The best within each of these"),
  PS_OPTION ("top", 0, PS_COUNT (PsQuestionOptions, question.top, 1, G_MAXINT32), "N",
             "Number of settings in each group", .initial = 1),
  { .name = "", .type = PS_OPTION_ROWS, .rows = ps_question_rows }, /* of the same base */
  PS_OPTION_END,
};

const PsOption ps_sensitivity_rows[] = {
  PS_OPTION ("over", 0, PS_TEXT (PsQuestionOptions, over), "COLUMN", "Column that changes",
             .otherwise = "microbatches"),
  { .name = "", .type = PS_OPTION_ROWS, .rows = ps_question_rows }, /* of the same base */
  PS_OPTION_END,
};

void
ps_question_options_clear (PsQuestionOptions *options)
{
  ps_options_reset (ps_question_rows, options);
  g_strfreev (options->figures);
  g_free (options->question.limits);
  g_free (options->limits);
  g_free (options->over);
}

static char **
list_figures (void)
{
  g_autoptr (GStrvBuilder) keys = g_strv_builder_new ();
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; i < n; i++)
    if (columns[i].role != PS_ROLE_SETTING && columns[i].column.title != NULL)
      g_strv_builder_add (keys, columns[i].column.key);
  return g_strv_builder_end (keys);
}

/* Rows of pareto and best may hold any column of the results; those of sensitivity are what they are. */
static gboolean
choose_columns (PsQuestionOptions *options, GError **error)
{
  char **columns = options->columns.columns;

  for (guint i = 0; columns != NULL && columns[i] != NULL; i++)
    if (!ps_result_column_resolve ("--columns", &columns[i], FALSE, error))
      return FALSE;
  options->figures = columns == NULL && options->columns.wide ? list_figures () : NULL;
  options->question.columns = columns != NULL ? columns : options->figures;
  return TRUE;
}

/* Gives columns their keys. "none" alone is no column. */
static gboolean
resolve_columns (PsQuestionOptions *options, const char *per, GError **error)
{
  PsQuestion *question = &options->question;

  if (question->per == NULL && per != NULL)
    question->per = g_strsplit (per, ",", -1);
  if (question->per != NULL && g_str_equal (question->per[0], "none") && question->per[1] == NULL)
    g_clear_pointer (&question->per[0], g_free);
  for (guint i = 0; question->per != NULL && question->per[i] != NULL; i++)
    if (!ps_result_column_resolve ("--per", &question->per[i], FALSE, error))
      return FALSE;
  return ps_result_column_resolve ("--by", &question->by, TRUE, error)
         && (options->over == NULL || ps_result_column_resolve ("--over", &options->over, FALSE, error));
}

static gboolean
finish (PsQuestionOptions *options, const char *per, int argc, char **argv, GError **error)
{
  PsQuestion *question = &options->question;

  if (argc != 2)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                 argc < 2 ? "no database; give the RESULTS.db of pipesim sweep%s"
                          : "'%s': not expected after the database",
                 argc < 2 ? "" : argv[2]);
  else if (options->json + options->csv + options->markdown > 1)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, "--json, --csv and --markdown: only one of them");
  else
    {
      options->db = argv[1];
      question->where = options->where;
      if (question->by == NULL)
        question->by = g_strdup ("sequence_ns");
      return resolve_columns (options, per, error);
    }
  return FALSE;
}

gboolean
ps_question_options_parse (PsQuestionOptions *options, const PsOption *rows, const PsCommandHelp *help, const char *per,
                           int argc, char **argv, GError **error)
{
  return ps_command_parse (help, rows, options, &argc, &argv, error) && finish (options, per, argc, argv, error)
         && (rows == ps_sensitivity_rows || choose_columns (options, error));
}

/* All columns but the placement, which comes with the schedule. */
static char **
list_usual (const PsQuestionOptions *options, const PsAnswer *answer)
{
  const char *const *per = (const char *const *)options->question.per;
  g_autoptr (GStrvBuilder) usual = g_strv_builder_new ();

  for (guint i = 0; i < answer->n_columns; i++)
    if (!g_str_equal (answer->columns[i].key, "placement") || (per != NULL && g_strv_contains (per, "placement")))
      g_strv_builder_add (usual, answer->columns[i].key);
  return g_strv_builder_end (usual);
}

gboolean
ps_question_options_print (const PsQuestionOptions *options, PsResults *results, const PsAnswer *answer,
                           const char *format, GError **error)
{
  g_autofree char *left_out = ps_question_left_out (results, &options->question, error), *text = NULL;
  const char *extra[] = { "origin",   ps_origin_name (PS_ORIGIN_SIMULATED),
                          "database", options->db,
                          "about",    answer->about,
                          "left_out", left_out,
                          NULL };
  g_autofree char *table = NULL, *about = NULL;

  if (left_out == NULL
      || !ps_column_choice_check (&options->columns, answer->columns, answer->n_columns, options->json, error))
    return FALSE;
  g_auto (GStrv) usual = list_usual (options, answer);
  ps_table_choose (answer->table, &options->columns, (const char *const *)usual);
  if (*left_out && !options->json)
    g_printerr ("left out: %s\n", left_out);
  if (ps_table_n_rows (answer->table) == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no setting that fits its memory limit%s", options->db,
                      options->where != NULL || options->question.n_limits > 0 ? " and what else is asked for" : "");
  if (options->json)
    text = ps_table_to_json (answer->table, format, extra);
  else if (options->csv)
    text = ps_table_to_csv (answer->table);
  else if (options->markdown)
    {
      table = ps_table_to_markdown (answer->table);
      text = g_strdup_printf ("%s\n\n%s", answer->about, table);
    }
  else
    {
      table = ps_table_to_text (answer->table);
      about = ps_fit_sentence (answer->about, 0);
      text = g_strconcat (about, table, NULL);
    }
  return ps_print (text, error);
}
