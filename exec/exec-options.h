/* exec-options.h - what exec's command line says. */
#pragma once

#include "run/runtime.h"
#include "training.h"

#include <pipesim/setting.h>

typedef struct {
  char *schedule;
  char *device;
  char *transport;
  gint64 seed;
  gboolean has_timeout;
  gboolean has_ahead;
  char *trace;
  char *predicted;
  char *losses;
  char *sm_shares;
  gboolean check;
  gboolean json;
  double tolerance; /* a ratio; negative: not given */
  PsTrainingOptions training;
  PsSetting *setting;
  PsRunSetting run; /* owns shares, tokens and choices */
} PsExecOptions;

/* Reads the command line into options, whose setting and run.processes are there, and completes them. Errors:
 * PS_ERROR_USAGE, and PS_ERROR_IO where a file cannot be written later. */
gboolean ps_exec_options_parse (PsExecOptions *options, int *argc, char ***argv, GError **error);

void ps_exec_options_clear (PsExecOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsExecOptions, ps_exec_options_clear)
