# calibration.gp - the content of a profile: messages against their size, and ops.
# calibration-plot.c writes before it: the terminal, the variables and arrays used here (lengths in pixels from the lower left
# corner), and the blocks $texts, $right_texts, $marks, $fitN and, per panel, $NAME_points, $NAME_bars and $NAME_least.

set encoding utf8
set multiplot
unset key

# Title, names and figures, on a plane that counts in pixels.
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0
set tmargin at screen 1
set xrange [0:width]
set yrange [0:height]
unset border
unset tics
set label 1 title at left, height - 20 left font ',13'
plot $marks using 1:2:3:4 with points pointtype variable linecolor rgb variable pointsize 0.8, \
     $texts using 1:2:3:4 with labels left font ',9' textcolor rgb variable, \
     $right_texts using 1:2:3:4 with labels right font ',9' textcolor rgb variable
unset label 1

set border 3 linewidth 0.7 linecolor rgb '#555555'
set tics nomirror font ',9' textcolor rgb '#333333' scale 0.5
set grid xtics ytics linetype 1 linewidth 0.5 linecolor rgb '#e2e2e2'
set lmargin at screen left / width
set rmargin at screen right / width

if (has_transfers) {
  set tmargin at screen transfers_top / height
  set bmargin at screen transfers_bottom / height
  set logscale x
  if (log_time) { set logscale y }
  set xrange [low_size:high_size]
  set yrange [low_time:high_time]
  set xtics nomirror ('' low_size)
  do for [i = 1:n_size] { set xtics add (text_size[i] tick_size[i]) }
  set ytics nomirror ('' low_time)
  do for [i = 1:n_time] { set ytics add (text_time[i] tick_time[i]) }
  set xlabel 'size of the message' font ',10' offset 0, 0.3
  plot for [i = 1:n_fits] '$fit'.i using 1:2 with lines linewidth 1.2 linecolor rgb fit_colour[i], \
       $transfers_bars using 1:2:3:4:5 with vectors nohead linewidth 2.5 linecolor rgb variable, \
       $transfers_least using 1:2:3 with points pointtype 2 pointsize 0.4 linecolor rgb variable, \
       $transfers_points using 1:2:3:4 with points pointtype variable linecolor rgb variable pointsize 0.8
  unset logscale
  unset xlabel
}

if (has_ops) {
  set tmargin at screen ops_top / height
  set bmargin at screen ops_bottom / height
  if (log_op) { set logscale x }
  set xrange [low_op:high_op]
  set yrange [n_rows:0]
  set xtics nomirror ('' low_op)
  do for [i = 1:n_op] { set xtics add (text_op[i] tick_op[i]) }
  unset ytics
  set xlabel 'time of the op' font ',10' offset 0, 0.3
  plot $ops_bars using 1:2:3:4:5 with vectors nohead linewidth 2.5 linecolor rgb variable, \
       $ops_least using 1:2:3 with points pointtype 2 pointsize 0.4 linecolor rgb variable, \
       $ops_points using 1:2:3:4 with points pointtype variable linecolor rgb variable pointsize 0.8
}
unset multiplot
