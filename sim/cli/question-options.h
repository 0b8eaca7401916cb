/* question-options.h - the options that pareto, best and sensitivity share, and how they print. */
#ifndef PS_QUESTION_OPTIONS_H
#define PS_QUESTION_OPTIONS_H

#include <pipesim/questions.h>

typedef struct
{
  PsQuestion question;
  const char *db;
  char *per_text;
  char **where;
  gboolean json;
  gboolean csv;
  gboolean markdown;
} PsQuestionOptions;

void ps_question_options_clear (PsQuestionOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsQuestionOptions, ps_question_options_clear)

/* Adds the options and parses: what is left must be the database. `per` stands where none is given. */
gboolean ps_question_options_parse (PsQuestionOptions *options, GOptionContext *context, const char *per, int argc,
                                    char **argv, GError **error);

/* As a table, or in the form that was asked for; format is that of --json. Says what asynchronous schedules are left
 * out. */
gboolean ps_question_options_print (const PsQuestionOptions *options, PsResults *results, const PsAnswer *answer,
                                    const char *format, GError **error);

#endif
