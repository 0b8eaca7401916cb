/* launch-private.h - tables of launch.c that launch-read.c reads the other way round. Private to libpipesim. */
#pragma once

#include <pipesim/plan.h>

/* The layers and the width of a model that torchtitan has, by its module and its flavor or the function of its
 * configuration. FALSE: it is not known here. */
gboolean ps_launch_titan_model (const char *module, const char *flavor, guint *layers, guint *hidden);
