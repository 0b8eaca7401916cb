# front.gp - results of a sweep: time against peak memory, with a front for each number of devices.
# sweep-plot.c writes before it: about, x_label, y_label, y_is_ratio, log_axes (as in lines.gp), the series, and the fronts as series
# `front`.

stats $series using 1 name 'X' nooutput
stats $series using 2 name 'Y' nooutput
x_log = X_min > 0 && (log_axes eq 'auto' ? crowds(X_min, X_median, X_max, 0) : strstrt(log_axes, 'x') > 0)
y_log = Y_min > 0 && (log_axes eq 'auto' ? crowds(Y_min, Y_median, Y_max, y_is_ratio) : strstrt(log_axes, 'y') > 0)
if (x_log) { eval log_axis('x', X_min, X_max, 'number') }
if (y_log) { eval log_axis('y', Y_min, Y_max, 'number') }

eval grid
set offsets graph 0.06, graph 0.06, graph 0.06, graph 0.06
set autoscale xfix
set autoscale yfix
set xlabel x_label
eval name_y
plot for [i = 1:n_front] $front index i - 1 using 1:2 with steps linewidth 1.6 dashtype i linecolor rgb '#888888' title front_name[i], \
     for [i = 1:n_series] $series index i - 1 using 1:2:3 with labels hypertext point pointtype series_mark[i] pointsize 0.9 linecolor rgb series_colour[i] title series_name[i]
