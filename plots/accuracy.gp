# accuracy.gp - predicted against measured iteration time.
# accuracy-plot.c writes before it: the terminal, the variables and arrays used here (lengths in pixels from the lower left
# corner), and the blocks $names and $seriesN.

set encoding utf8
set multiplot
unset key

set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0
set tmargin at screen 1
set xrange [0:width]
set yrange [0:height]
unset border
unset tics
set label 1 title at left, height - 20 left font ',13'
plot $names using 6:2:5:4 with points pointtype variable linecolor rgb variable pointsize 0.7, \
     $names using 1:2:3 with labels left font ',9' textcolor rgb '#333333'
unset label 1

set border 3 linewidth 0.7 linecolor rgb '#555555'
set tics nomirror font ',9' textcolor rgb '#333333' scale 0.5
set lmargin at screen left / width
set rmargin at screen right / width
set tmargin at screen top / height
set bmargin at screen bottom / height
if (is_log) { set logscale xy }
set xrange [low:high]
set yrange [low:high]
set xtics nomirror format '%g'
set ytics nomirror format '%g'
if (is_log) {
  set xtics ('' low)
  set ytics ('' low)
  digits = high / low < 20 ? '1 1.5 2 3 4 5 6 8' : '1 2 5'
  do for [k = -9:12] { do for [d in digits] {
    set xtics add (sprintf('%g', d * 10.0 ** k) d * 10.0 ** k)
    set ytics add (sprintf('%g', d * 10.0 ** k) d * 10.0 ** k)
  } }
}
set xlabel x_label font ',10' offset 0, 0.3
set ylabel y_label font ',10' offset 0.5, 0
set samples 100
plot '+' using 1:($1 * 0.95):($1 * 1.05) with filledcurves fillcolor rgb '#e6e6e6' fillstyle solid noborder, \
     x with lines linewidth 1 linecolor rgb '#777777', \
     for [i = 1:n_series] '$series'.i using 1:2 with points pointtype mark[i] pointsize 0.8 linecolor rgb colour[i]
unset multiplot
