# accuracy.gp - predicted against measured iteration time, with a band of 5 % around the diagonal.
# main.c writes before it: x_label, y_label and the series.

stats $series using 1 name 'X' nooutput
stats $series using 2 name 'Y' nooutput
low = X_min < Y_min ? X_min : Y_min
high = X_max > Y_max ? X_max : Y_max
is_log = high > 8 * low
if (is_log) {
  eval log_axis('x', low, high, 'number')
  eval log_axis('y', low, high, 'number')
  low = low / 1.3
  high = high * 1.3
} else {
  air = 0.08 * (high - low > 0.1 * high ? high - low : 0.1 * high)
  low = low - air
  high = high + air
}
set xrange [low:high]
set yrange [low:high]
set size square
set xlabel x_label
eval name_y
plot '+' using 1:($1 * 0.95):($1 * 1.05) with filledcurves fillcolor rgb '#e6e6e6' fillstyle solid noborder notitle, \
     x with lines linewidth 1 linecolor rgb '#777777' notitle, \
     for [i = 1:n_series] $series index i - 1 using 1:2 with points pointtype series_mark[i] pointsize 0.8 linecolor rgb series_colour[i] title series_name[i]
