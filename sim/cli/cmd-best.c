/* cmd-best.c - pipesim best: the fastest settings of a sweep, for each of anything. */
#include "commands.h"
#include "question-options.h"

static gboolean
read_limits (const char *text, PsQuestion *question, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);

  question->n_limits = g_strv_length (parts);
  question->limits = g_new0 (gint64, question->n_limits + 1);
  for (guint i = 0; parts[i] != NULL; i++)
    if (!ps_parse_size ("--memory-limit", g_strstrip (parts[i]), &question->limits[i], error))
      return FALSE;
  return TRUE;
}

static const PsCommandHelp help = {
  .arguments = "RESULTS.db",
  .summary
  = "Lists the fastest settings of a sweep, one for each number of devices unless --per says otherwise. All simulated.",
  .examples = "pipesim best results.db\n"
              "pipesim best results.db --per devices,microbatches --top 2\n"
              "pipesim best results.db --where schedule=1f1b --by peak_memory_bytes --csv\n",
};

int
ps_cmd_best (int argc, char **argv, GError **error)
{
  g_auto (PsQuestionOptions) options = { .db = NULL };
  g_autoptr (PsAnswer) answer = NULL;

  if (!ps_question_options_parse (&options, ps_best_rows, &help, "devices", argc, argv, error)
      || (options.limits != NULL && !read_limits (options.limits, &options.question, error)))
    return 0;
  g_autoptr (PsResults) results = ps_results_open (options.db, PS_RESULTS_READ, error);
  if (results != NULL)
    answer = ps_results_best (results, &options.question, error);
  if (answer != NULL)
    ps_question_options_print (&options, results, answer, "pipesim-best/1", error);
  return 0;
}
