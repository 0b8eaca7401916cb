# lines.gp - results of a sweep: a line for each series over a column.
# sweep-plot.c writes before it: about, x_label, y_label, x_is_ratio, y_is_ratio, log_axes ("x", "xy", "none"; "auto": as reads
# better) and the series.

stats $series using 1 name 'X' nooutput
stats $series using 2 name 'Y' nooutput
x_log = X_min > 0 && (log_axes eq 'auto' ? crowds(X_min, X_median, X_max, x_is_ratio) : strstrt(log_axes, 'x') > 0)
y_log = Y_min > 0 && (log_axes eq 'auto' ? crowds(Y_min, Y_median, Y_max, y_is_ratio) : strstrt(log_axes, 'y') > 0)
if (x_log) { eval log_axis('x', X_min, X_max, 'number') }
if (y_log) { eval log_axis('y', Y_min, Y_max, 'number') } else { set yrange [Y_min < 0 ? Y_min : 0:*] }

# Few places along the horizontal axis are named one by one.
places = ''
do for [i = 1:|$series|] {
  place = word($series[i], 1)
  if (strlen(place) > 0 && !strstrt(places.' ', ' '.place.' ')) { places = places.' '.place }
}
if (words(places) <= 14) {
  set xtics () nomirror
  do for [place in places] { set xtics add (place real(place)) }
}

eval grid
set offsets graph 0.01, graph 0.01, graph 0.04, graph (y_log ? 0.04 : 0)
set autoscale xfix
set autoscale yfix
set xlabel x_label
eval name_y
plot for [i = 1:n_series] $series index i - 1 using 1:2 with linespoints linecolor rgb series_colour[i] dashtype series_dash[i] \
         pointtype series_mark[i] pointsize 0.9 linewidth 1.6 title series_name[i]
