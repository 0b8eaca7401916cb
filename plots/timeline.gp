# timeline.gp - timelines as rows of boxes, one panel each, memory strips below.
# timeline-plot.c writes before it: the terminal, the variables and arrays used here (lengths in pixels from the lower left corner),
# the blocks $strokesK, and per panel the blocks $boxesN, $outlinesN, $numbersN, $activationsN, $gradientsN and $memoryN.

set encoding utf8
set multiplot
unset key
set style fill solid 1.0 noborder
set border linewidth 0.7 linecolor rgb '#555555'
set tics nomirror font ',9' textcolor rgb '#333333' scale 0.5

# Title and legend, on a plane that counts in pixels.
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0
set tmargin at screen 1
set xrange [0:width]
set yrange [0:height]
unset border
unset tics
set label 1 title at left, height - 20 left font ',13'
plot $legend using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable, \
     $legend_labels using 1:2:3 with labels left font ',9' textcolor rgb '#333333'
unset label 1

set border 15 linewidth 0.7 linecolor rgb '#555555'
set lmargin at screen left / width
set rmargin at screen right / width
set xrange [0:time_end]

do for [i = 1:panels] {
  last = i == panels

  # The rows of the devices, the first on top.
  set tmargin at screen rows_top[i] / height
  set bmargin at screen rows_bottom[i] / height
  set yrange [devices[i] - 0.5:-0.5]
  set ytics 0, device_tick[i], devices[i] - 1 nomirror font ',9' scale 0 offset -0.6, 0
  set label 2 'device' at screen 20 / width, screen (rows_top[i] + rows_bottom[i]) / 2 / height center rotate font ',10'
  if (last && has_memory[i] == 0) {
    set xtics 0, time_tick nomirror font ',9' format '%g' scale 0.5
    set xlabel time_label font ',10' offset 0, 0.6
  } else {
    set xtics 0, time_tick nomirror format '' scale 0.5
    unset xlabel
  }
  set label 1 caption[i] at screen left / width, screen (rows_top[i] + 10) / height left font ',10'
  if (last_stroke[i] >= first_stroke[i]) {
    plot for [k = first_stroke[i]:last_stroke[i]] '$strokes'.k using 1:2 with lines linecolor rgb stroke_colour[k] linewidth stroke_width[k], \
         '$boxes'.i using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable
  } else {
    plot '$boxes'.i using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable
  }
  unset label 1
  unset label 2
  unset xlabel
  set xtics format ''
  set ytics format ''

  # Over them, where boxes are wide enough: outlines and numbers.
  if (n_outlined[i] > 0) {
    plot '$outlines'.i using 1:2:3:4:5:6 with boxxyerror fillstyle empty linecolor rgb '#ffffff' linewidth 0.7
  }
  if (n_transfers[i] > 0) {
    plot '$activations'.i using 1:2 with lines linewidth 0.9 linecolor rgb '#222222', \
         '$gradients'.i using 1:2 with lines linewidth 0.9 linecolor rgb '#cc3311'
  }
  if (n_numbers[i] > 0) {
    plot '$numbers'.i using 1:2:3:4 with labels font ',8' textcolor rgb variable
  }

  if (has_memory[i] > 0) {
    set tmargin at screen (rows_bottom[i] - strip_gap) / height
    set bmargin at screen (rows_bottom[i] - strip_gap - strip) / height
    set yrange [memory_bottom:memory_top]
    set ytics memory_tick nomirror format '%g' font ',9' scale 0.5 offset 0, 0
    set label 2 memory_unit at screen 20 / width, screen (rows_bottom[i] - strip_gap - strip / 2) / height center rotate font ',10'
    if (last) {
      set xtics 0, time_tick nomirror font ',9' format '%g' scale 0.5
      set xlabel time_label font ',10' offset 0, 0.6
    }
    plot '$memory'.i using 1:2:3 with lines linewidth 1.2 linecolor rgb variable
    unset label 2
    unset xlabel
  }
}
unset multiplot
