# memory.gp - the memory of every device over time, one panel for each timeline.
# timeline-plot.c writes before it: time_end, time_label, size_top, size_label, limit, limit_label, panels; the arrays caption,
# devices, weights_low and weights_high; and for each panel the block $memoryN ("time memory", two blank lines after each device).

panel = (height - 88) / panels
set multiplot
set lmargin at screen 80 / width
set rmargin at screen 1 - (130 > 14 * letter ? 130 : 16 * letter) / width
set xrange [0:time_end]
set yrange [0:1.08 * size_top]
set ylabel size_label
set label 1 at screen 80 / width, screen 1 - 20 / height left offset 0, 0
do for [i = 1:panels] {
  top = 40 + 24 + (i - 1) * panel
  n = devices[i]
  set tmargin at screen 1 - top / height
  set bmargin at screen 1 - (top + panel - 38) / height
  set label 2 caption[i] at graph 0, graph 1 left offset 0, above font ',10' textcolor rgb '#000000'
  if (i == panels) {
    set xtics format '%g'
    set xlabel time_label offset 0, 0.3
  } else {
    set xtics format ''
  }

  # What is held throughout lies under the curves as a band, darker up to the least device.
  if (weights_high[i] > 0) {
    set object 1 rectangle from graph 0, first 0 to graph 1, first weights_high[i] fillcolor rgb '#f1f1f1' fillstyle solid noborder behind
    set object 2 rectangle from graph 0, first 0 to graph 1, first weights_low[i] fillcolor rgb '#e4e4e4' fillstyle solid noborder behind
    set label 3 'held throughout: weights, gradients, optimizer' at graph 0.02, first weights_low[i] / 2 left font ',9' textcolor rgb '#777777'
  }
  if (limit > 0) {
    set arrow 1 from graph 0, first limit to graph 1, first limit nohead dashtype 2 linewidth 1 linecolor rgb '#d55e00' front
    set label 4 limit_label at graph 0.02, first limit left offset 0, 0.5 font ',9' textcolor rgb '#d55e00' front
  }

  # Devices are named one by one; of many only the first and the last.
  plot for [d = 0:n - 1] '$memory'.i index d using 1:2 with steps linewidth 1.4 linecolor palette frac place(d, n) \
           title n <= 16 || d == 0 ? sprintf('device %d', d) : d == n - 1 ? sprintf('to device %d', d) : ''
  unset label
  unset object
}
unset multiplot
