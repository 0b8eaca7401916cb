/* question-options.h - the options that pareto, best and sensitivity share, and how they print. */
#pragma once

#include <pipesim/command.h>
#include <pipesim/questions.h>

typedef struct
{
  PsQuestion question;
  const char *db;
  char *limits; /* of best */
  char *over;   /* of sensitivity */
  char **where;
  PsColumnChoice columns;
  char **figures; /* keys of all figures, for --wide */
  gboolean json;
  gboolean csv;
  gboolean markdown;
} PsQuestionOptions;

void ps_question_options_clear (PsQuestionOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsQuestionOptions, ps_question_options_clear)

/* The options that all have, and those of best and sensitivity before them; their base is a PsQuestionOptions. */
extern const PsOption ps_question_rows[], ps_best_rows[], ps_sensitivity_rows[];

/* Parses the rows: what is left must be the database. `per` stands where none is given. */
gboolean ps_question_options_parse (PsQuestionOptions *options, const PsOption *rows, const PsCommandHelp *help,
                                    const char *per, int argc, char **argv, GError **error);

/* As a table, or in the form that was asked for; format is that of --json. Says what asynchronous schedules are left
 * out. */
gboolean ps_question_options_print (const PsQuestionOptions *options, PsResults *results, const PsAnswer *answer,
                                    const char *format, GError **error);
