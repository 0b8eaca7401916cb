/* cmd-pareto.c - pipesim pareto: the settings of a sweep that are worth having. */
#include "commands.h"
#include "question-options.h"

static const PsCommandHelp help = {
  .arguments = "RESULTS.db",
  .summary = "Lists the settings of a sweep that nothing beats in both time and peak memory. All simulated.",
  .text = "No setting of the same devices (--per) is faster than one shown without needing more memory.\n",
  .examples = "pipesim pareto results.db\n"
              "pipesim pareto results.db --per devices,microbatches --markdown\n"
              "pipesim pareto results.db --where microbatches=16 --json\n",
};

int
ps_cmd_pareto (int argc, char **argv, GError **error)
{
  g_auto (PsQuestionOptions) options = { .db = NULL };
  g_autoptr (PsAnswer) answer = NULL;

  if (!ps_question_options_parse (&options, ps_question_rows, &help, "devices", argc, argv, error))
    return 0;
  g_autoptr (PsResults) results = ps_results_open (options.db, PS_RESULTS_READ, error);
  if (results != NULL)
    answer = ps_results_pareto (results, &options.question, error);
  if (answer != NULL)
    ps_question_options_print (&options, results, answer, "pipesim-pareto/1", error);
  return 0;
}
