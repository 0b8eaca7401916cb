/* cmd-sensitivity.c - pipesim sensitivity: where one schedule overtakes another. */
#include "commands.h"
#include "question-options.h"

static const PsCommandHelp help = {
  .arguments = "RESULTS.db",
  .summary = "Shows the fastest schedule along a column of a sweep, and where schedules break even. All simulated.",
  .text = "All other columns of the sweep stay fixed. With --per only its columns stay fixed, and the best of the "
          "others counts.\n"
          "ahead = time that the winner saves over the second at `from`, as a part of the second's time\n",
  .examples = "pipesim sensitivity results.db\n"
              "pipesim sensitivity results.db --over bandwidth_factor --per devices\n"
              "pipesim sensitivity results.db --where microbatches=16 --json\n",
};

int
ps_cmd_sensitivity (int argc, char **argv, GError **error)
{
  g_auto (PsQuestionOptions) options = { .db = NULL };
  g_autoptr (PsAnswer) answer = NULL;

  if (!ps_question_options_parse (&options, ps_sensitivity_rows, &help, NULL, argc, argv, error))
    return 0;
  g_autoptr (PsResults) results = ps_results_open (options.db, PS_RESULTS_READ, error);
  if (results != NULL)
    answer = ps_results_sensitivity (results, &options.question, options.over != NULL ? options.over : "microbatches",
                                     error);
  if (answer != NULL)
    ps_question_options_print (&options, results, answer, "pipesim-sensitivity/1", error);
  return 0;
}
