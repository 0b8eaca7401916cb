/* cmd-pareto.c - pipesim pareto: the settings of a sweep that are worth having. */
#include "commands.h"
#include "question-options.h"

int
ps_cmd_pareto (int argc, char **argv, GError **error)
{
  g_auto (PsQuestionOptions) options = { .db = NULL };
  g_autoptr (GOptionContext) context
      = g_option_context_new ("RESULTS.db - the front of simulated time against peak memory");
  g_autoptr (PsResults) results = NULL;
  g_autoptr (PsAnswer) answer = NULL;

  g_option_context_set_description (
      context, "No setting of the same devices (--per) is faster than one shown without needing more memory.\n");
  if (!ps_question_options_parse (&options, ps_question_rows, context, "devices", argc, argv, error))
    return 0;
  results = ps_results_open (options.db, PS_RESULTS_READ, error);
  if (results != NULL)
    answer = ps_results_pareto (results, &options.question, error);
  if (answer != NULL)
    ps_question_options_print (&options, results, answer, "pipesim-pareto/1", error);
  return 0;
}
