/* question-options.c - the options that pareto, best and sensitivity share. */
#include "question-options.h"

const PsOption ps_question_rows[] = {
  PS_OPTION (
      "per", 0, PS_TEXT (PsQuestionOptions, per_text), "COLUMN[,COLUMN...]",
      "One answer for each value of these columns, and of bandwidth, memory limit, batch and other circumstances "
      "that vary; none: one for all"),
  PS_OPTION ("by", 0, PS_TEXT (PsQuestionOptions, question.by), "COLUMN", "Column that is to be small",
             .otherwise = "sequence_ns, the time of an iteration per sequence in it"),
  PS_OPTION ("where", 0, PS_TEXTS (PsQuestionOptions, where), "COLUMN=VALUE",
             "Only settings for which this holds, with = != <= >= < or >; several must all hold. Asynchronous "
             "schedules count with asynchronous=any or schedule=NAME"),
  PS_OPTION ("json", 0, PS_FLAG (PsQuestionOptions, json), NULL, "Print JSON", .group = PS_GROUP_OUTPUT),
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
  g_strfreev (options->question.per);
  g_free (options->question.limits);
  g_free (options->limits);
  g_free (options->over);
}

/* "devices, comm" or "none". */
static char **
split (const char *text)
{
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    g_strstrip (parts[i]);
  return g_str_equal (text, "none") ? g_new0 (char *, 1) : g_steal_pointer (&parts);
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
      if (options->per_text != NULL || per != NULL)
        question->per = split (options->per_text != NULL ? options->per_text : per);
      return TRUE;
    }
  return FALSE;
}

gboolean
ps_question_options_parse (PsQuestionOptions *options, const PsOption *rows, const PsCommandHelp *help, const char *per,
                           int argc, char **argv, GError **error)
{
  return ps_command_parse (help, rows, options, &argc, &argv, error) && finish (options, per, argc, argv, error);
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
  g_autofree char *table = NULL;

  if (left_out == NULL)
    return FALSE;
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
      text = g_strdup_printf ("%s\n%s", answer->about, table);
    }
  return ps_print (text, error);
}
