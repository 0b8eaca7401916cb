# memory.gp - the memory of every device over time, one panel per timeline.
# memory-plot.c writes before it: the terminal, the variables and arrays used here (lengths in pixels from the lower left corner),
# and the blocks $names and, per panel, $memoryN.

set encoding utf8
set multiplot
unset key

# Title and the devices' names, on a plane that counts in pixels.
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0
set tmargin at screen 1
set xrange [0:width]
set yrange [0:height]
unset border
unset tics
set label 1 title at left, height - 20 left font ',13'
plot $names using ($1 - 12):2:4 with points pointtype 5 pointsize 0.9 linecolor rgb variable, \
     $names using 1:2:3 with labels left font ',9' textcolor rgb '#333333'
unset label 1

set border 3 linewidth 0.7 linecolor rgb '#555555'
set tics nomirror font ',9' textcolor rgb '#333333' scale 0.5
set lmargin at screen left / width
set rmargin at screen right / width
set xrange [0:time_end]
set yrange [0:size_top]
set ytics 0, size_tick nomirror
set ylabel size_label font ',10'

do for [i = 1:panels] {
  set tmargin at screen panel_top[i] / height
  set bmargin at screen panel_bottom[i] / height
  set label 2 caption[i] at screen left / width, screen (panel_top[i] + 10) / height left font ',10'
  if (i == panels) {
    set xtics 0, time_tick nomirror format '%g'
    set xlabel time_label font ',10' offset 0, 0.3
  } else {
    set xtics 0, time_tick nomirror format ''
    unset xlabel
  }

  # What is held throughout lies under the curves as a band, darker up to the least device.
  unset object
  unset arrow
  unset label 3
  unset label 4
  if (weights_high[i] > 0) {
    set object 1 rectangle from graph 0, first 0 to graph 1, first weights_high[i] fillcolor rgb '#f1f1f1' fillstyle solid noborder behind
    set object 2 rectangle from graph 0, first 0 to graph 1, first weights_low[i] fillcolor rgb '#e4e4e4' fillstyle solid noborder behind
    set label 3 'weights' at graph 0.02, first weights_low[i] / 2 left font ',9' textcolor rgb '#777777'
  }
  if (limit > 0) {
    set arrow 1 from graph 0, first limit to graph 1, first limit nohead dashtype 2 linewidth 1 linecolor rgb '#d55e00' front
    set label 4 limit_label at graph 0.02, first limit left offset 0, 0.5 font ',9' textcolor rgb '#d55e00' front
  }
  plot '$memory'.i using 1:2:3 with lines linewidth 1.4 linecolor rgb variable
}
unset multiplot
