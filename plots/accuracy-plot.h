/* accuracy-plot.h - predicted against measured iteration times. */
#ifndef PS_ACCURACY_PLOT_H
#define PS_ACCURACY_PLOT_H

#include "gnuplot.h"

#include <pipesim/costdb.h>

G_BEGIN_DECLS

/* Draws predicted against measured iteration time of all stored runs that have both, with the diagonal and a band of 5
 * % around it. Fails with PS_ERROR_INPUT if there is no such run. */
gboolean ps_accuracy_plot (const PsPicture *picture, const char *path, PsCostDb *db, GError **error);

G_END_DECLS

#endif
