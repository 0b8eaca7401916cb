/* launch-private.h - tables of launch.c that launch-read.c reads the other way round. Private to libpipesim. */
#pragma once

#include "model/launch-text.h"

#include <pipesim/plan.h>

/* The layers and the width of a model that torchtitan has, by its module and its flavor or the function of its
 * configuration. FALSE: it is not known here. */
gboolean ps_launch_titan_model (const char *module, const char *flavor, guint *layers, guint *hidden);

/* The launch of a prediction; model stays the caller's. */
PsLaunch ps_launch_of (const PsSetting *setting, const PsModel *model, const char *schedule,
                       const PsPrediction *prediction);

/* The text of ps_launch_write, also where a precondition is broken. Free with g_free. */
char *ps_launch_text (const char *framework, const PsLaunch *launch);

/* Turns the text of a launch into options as ps_launch_expand does; where names it in messages, and is the file that
 * --model takes it from. */
gboolean ps_launch_read (const PsOption *rows, char *const *argv, const char *where, const char *text,
                         PsLaunchCommand *command, GError **error);

/* A change of a launch. */
typedef struct {
  const char *where; /* the user's file */
  const char *text;
  PsLaunchForm form;
  const char *before; /* ps_launch_text of the run as it stands, and of the other one */
  const char *after;
  guint n_chunks;  /* of the other one */
  gboolean bridge; /* the file is Megatron-Bridge's */
} PsLaunchEdit;

/* The user's text with what differs between before and after; NULL where it has no place for that, as a log has none.
 * flags: what differs, in words of the framework. Whether the text says the other run, its reader knows. Free with
 * g_free. */
char *ps_launch_edit (const PsLaunchEdit *change, GString *flags);

/* Lines that differ between two texts, as a unified diff without context. Free with g_free. */
char *ps_launch_diff (const char *where, const char *from, const char *to);
