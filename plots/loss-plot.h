/* loss-plot.h - losses of trainings over their steps. */
#pragma once

#include "gnuplot.h"

#define PS_LOSS_MAX_FILES 8

/* Draws a line for each of n files, as pipesim exec --losses writes them: CSV with the columns step and loss among
 * others. Errors: PS_ERROR_IO, PS_ERROR_INPUT "FILE:LINE: ..." */
gboolean ps_loss_plot (const PsPicture *picture, char *const *paths, guint n, GError **error);
