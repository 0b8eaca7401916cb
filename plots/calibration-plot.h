/* calibration-plot.h - what a profile holds: messages against their size with the fitted alpha + beta n, and ops. */
#ifndef PS_CALIBRATION_PLOT_H
#define PS_CALIBRATION_PLOT_H

#include "gnuplot.h"

#include <pipesim/profile.h>

G_BEGIN_DECLS

/* Above, transfers and self-sends: median, quartiles and least of every measured size, with the line of fit.h, its
 * alpha and betas, its R squared and its largest error. Below, one row for each op of a stage shape: median, quartiles
 * and least, by how many devices were busy and by what the caches held, and the median deviation as a part of the
 * median. In a terminal it is as long as it needs to be. `where` is what messages call the profile. Errors:
 * PS_ERROR_INPUT where nothing was measured. */
gboolean ps_calibration_plot (const PsPicture *picture, const char *where, const PsProfileContents *contents,
                              GError **error);

G_END_DECLS

#endif
