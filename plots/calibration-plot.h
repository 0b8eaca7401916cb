/* calibration-plot.h - the content of a profile: messages against their size with the fitted alpha + beta n, and ops.
 */
#pragma once

#include "gnuplot.h"

#include <pipesim/costdb.h>

/* Draws a profile. Above are transfers and self-sends: median, quartiles and least of every measured size, with the
 * line of ps_transfer_fit, its alpha and betas, its R squared and its largest error. Below is one row for each op of a
 * stage shape: median, quartiles and least, by number of busy devices and by state of the caches, and the median
 * deviation as a part of the median. In a terminal the picture is as high as it needs to be. Messages call the profile
 * `where`. Errors: PS_ERROR_INPUT if nothing was measured. */
gboolean ps_calibration_plot (const PsPicture *picture, const char *where, const PsProfileContents *contents,
                              GError **error);
