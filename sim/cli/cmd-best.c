/* cmd-best.c - pipesim best: the fastest settings of a sweep, for each of anything. */
#include "commands.h"
#include "question-options.h"

static gboolean
read_limits (const char *text, PsQuestion *question, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);

  question->n_limits = g_strv_length (parts);
  question->limits = g_new0 (gint64, question->n_limits + 1);
  for (guint i = 0; parts[i]; i++)
    if (!ps_parse_size ("--memory-limit", g_strstrip (parts[i]), &question->limits[i], error))
      return FALSE;
  return TRUE;
}

int
ps_cmd_best (int argc, char **argv, GError **error)
{
  g_auto (PsQuestionOptions) options = { .db = NULL };
  g_autofree char *limits = NULL, *top = NULL;
  const GOptionEntry entries[] = {
    { "memory-limit", 0, 0, G_OPTION_ARG_STRING, &limits, "The best within each of these", "SIZE[,SIZE...]" },
    { "top", 0, 0, G_OPTION_ARG_STRING, &top, "So many of each group (default: 1)", "N" },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("RESULTS.db - the fastest settings, simulated");
  g_autoptr (PsResults) results = NULL;
  g_autoptr (PsAnswer) answer = NULL;
  gint64 n = 1;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!ps_question_options_parse (&options, context, "devices", argc, argv, error)
      || (limits && !read_limits (limits, &options.question, error))
      || (top && !ps_parse_integer ("--top", top, 1, G_MAXINT32, &n, error)))
    return 0;
  options.question.top = (guint)n;
  if ((results = ps_results_open (options.db, PS_RESULTS_READ, error)) != NULL
      && (answer = ps_results_best (results, &options.question, error)) != NULL)
    ps_question_options_print (&options, results, answer, "pipesim-best/1", error);
  return 0;
}
