# loss.gp - losses over steps.
# main.c writes before it the series.

set xrange [0:*]
set offsets 0, 0, graph 0.05, graph 0.05
set autoscale yfix
set xlabel 'step'
y_label = 'mean loss'
eval name_y
plot for [i = 1:n_series] $series index i - 1 using 1:2 with lines linewidth 1.6 linecolor rgb series_colour[i] title series_name[i]
