/* cmd-schedule.h - the actions of pipesim schedule that have files of their own. */
#pragma once

#include <pipesim/formats.h>
#include <pipesim/plan.h>
#include <pipesim/setting.h>
#include <pipesim/option.h>

typedef struct
{
  PsSetting *setting;
  PsPredictor *predictor; /* of setting */
  gboolean json;
  PsColumnChoice columns; /* of list */
  PsLaunchChoice launch;  /* of convert; to may be a format */
  guint microbatch_size;  /* 0: not given */
  char *output;
  int *code; /* exit code where nothing fails */
} PsScheduleOptions;

/* Writes a schedule in another format, and what PyTorch would do wrong with it to stderr. */
gboolean ps_cmd_schedule_convert (const PsScheduleOptions *options, const char *name, GError **error);

/* Says what PyTorch would do wrong; the exit code is 3 if there is anything. */
gboolean ps_cmd_schedule_lint (const PsScheduleOptions *options, const char *name, GError **error);

/* Draws one row per device. */
gboolean ps_cmd_schedule_show (const PsScheduleOptions *options, const char *name, GError **error);
