/* diagnose-plot.h - a diagnosis as one picture. */
#pragma once

#include "diagnose-report.h"
#include "gnuplot.h"

/* Draws a bar for each device, of the parts of its iteration. Below, a bar shows the run's iteration, and one that of
 * each of the best schedules. Errors: those of ps_gnuplot_draw. */
gboolean ps_diagnose_plot (const PsPicture *picture, const PsDiagnosis *diagnosis, GError **error);
