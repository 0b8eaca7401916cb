/* accuracy-plot.h - predicted against measured iteration times. */
#pragma once

#include "gnuplot.h"

#include <pipesim/costdb.h>

/* Draws predicted against measured iteration time of all stored runs that have both, with the diagonal and a band of 5
 * % around it. Fails with PS_ERROR_INPUT if there is no such run. */
gboolean ps_accuracy_plot (const PsPicture *picture, const char *path, PsCostDb *db, GError **error);
