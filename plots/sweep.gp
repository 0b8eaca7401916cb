# sweep.gp - results of a sweep: lines over a column, or points of time against memory with their front.
# sweep-plot.c writes before it: the terminal, the variables and arrays used here (lengths in pixels from the lower left corner),
# and the blocks $about, $names, $samples, $leaders, $seriesN and $frontN.

set encoding utf8
set multiplot
unset key

# Title and the names of the series, on a plane that counts in pixels.
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0
set tmargin at screen 1
set xrange [0:width]
set yrange [0:height]
unset border
unset tics
set label 1 title at left, height - 20 left font ',13'
if (with_lines) {
  plot for [i = 1:n_series] $samples using 1:2 every :::i - 1::i - 1 with lines linecolor rgb colour[i] dashtype dash[i] linewidth 1.6
  unset label 1
  if (with_leaders) {
    plot $leaders using 1:2:3:4:5 with vectors nohead linewidth 0.6 linecolor rgb variable
  }
}
plot $names using 6:2:5:4 with points pointtype variable linecolor rgb variable pointsize 0.9, \
     $names using 1:2:3 with labels left font ',9' textcolor rgb '#333333', \
     for [text in with_lines ? '$about' : '$about $front_names'] text using 1:2:3 with labels left font ',9' textcolor rgb '#555555'
unset label 1

set border 3 linewidth 0.7 linecolor rgb '#555555'
set tics nomirror font ',9' textcolor rgb '#333333' scale 0.5
set grid xtics ytics linetype 1 linewidth 0.5 linecolor rgb '#e2e2e2'
set lmargin at screen left / width
set rmargin at screen right / width
set tmargin at screen top / height
set bmargin at screen bottom / height
few_decades = '1 1.5 2 3 4 5 6 8'
many_decades = '1 2 5'
if (x_log) { set logscale x }
if (y_log) { set logscale y }
set xrange [x_low:x_high]
set yrange [y_low:y_high]
if (n_ticks > 0) {
  set xtics (sprintf('%g', tick[1]) tick[1]) nomirror
  do for [i = 2:n_ticks] { set xtics add (sprintf('%g', tick[i]) tick[i]) }
} else {
  set xtics autofreq nomirror format '%g'
  if (x_log) {
    set xtics ('' x_low)
    digits = x_high / x_low < 20 ? few_decades : many_decades
    do for [k = -9:12] { do for [d in digits] { set xtics add (sprintf('%g', d * 10.0 ** k) d * 10.0 ** k) } }
  }
}
set ytics nomirror format '%g'
if (y_log) {
  set ytics ('' y_low)
  digits = y_high / y_low < 20 ? few_decades : many_decades
  do for [k = -9:12] { do for [d in digits] { set ytics add (sprintf('%g', d * 10.0 ** k) d * 10.0 ** k) } }
}
set xlabel x_label font ',10' offset 0, 0.3
set ylabel y_label font ',10' offset 0.5, 0

if (with_lines) {
  plot for [i = 1:n_series] '$series'.i using 1:2 with linespoints linecolor rgb colour[i] dashtype dash[i] pointtype mark[i] pointsize 0.9 linewidth 1.6
} else {
  plot for [i = 1:n_fronts] '$front'.i using 1:2 with steps linewidth 1.6 linecolor rgb '#888888', \
       for [i = 1:n_series] '$series'.i using 1:2 with points pointtype mark[i] pointsize 0.9 linecolor rgb colour[i]
}
unset multiplot
