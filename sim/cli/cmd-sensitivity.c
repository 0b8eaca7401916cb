/* cmd-sensitivity.c - pipesim sensitivity: where one schedule overtakes another. */
#include "commands.h"
#include "question-options.h"

int
ps_cmd_sensitivity (int argc, char **argv, GError **error)
{
  g_auto (PsQuestionOptions) options = { .db = NULL };
  g_autoptr (GOptionContext) context
      = g_option_context_new ("RESULTS.db - the fastest schedule along a column, and where schedules break even");
  g_autoptr (PsResults) results = NULL;
  g_autoptr (PsAnswer) answer = NULL;

  g_option_context_set_description (
      context, "All other columns that were swept are held fixed. With --per only its columns are, and the best of the "
               "rest counts.\n"
               "ahead = how much less time the winner takes than the second at `from`, part of the second's time\n");
  if (!ps_question_options_parse (&options, ps_sensitivity_rows, context, NULL, argc, argv, error))
    return 0;
  results = ps_results_open (options.db, PS_RESULTS_READ, error);
  if (results != NULL)
    answer = ps_results_sensitivity (results, &options.question, options.over != NULL ? options.over : "microbatches",
                                     error);
  if (answer != NULL)
    ps_question_options_print (&options, results, answer, "pipesim-sensitivity/1", error);
  return 0;
}
