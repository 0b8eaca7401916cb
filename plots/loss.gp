# loss.gp - losses over steps.
# loss-plot.c writes before it: the terminal, the variables and arrays used here (lengths in pixels from the lower left corner),
# and the blocks $names, $samples, $leaders and $seriesN.

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
plot for [i = 1:n_series] $samples using 1:2 every :::i - 1::i - 1 with lines linecolor rgb colour[i] linewidth 1.6, \
     $names using 1:2:3 with labels left font ',9' textcolor rgb '#333333'
unset label 1

set border 3 linewidth 0.7 linecolor rgb '#555555'
set tics nomirror font ',9' textcolor rgb '#333333' scale 0.5
set grid xtics ytics linetype 1 linewidth 0.5 linecolor rgb '#e2e2e2'
set lmargin at screen left / width
set rmargin at screen right / width
set tmargin at screen top / height
set bmargin at screen bottom / height
set xrange [0:last]
set yrange [low:high]
set xtics autofreq nomirror format '%g'
set ytics autofreq nomirror format '%g'
set xlabel 'step' font ',10' offset 0, 0.3
set ylabel 'mean loss' font ',10' offset 0.5, 0
plot for [i = 1:n_series] '$series'.i using 1:2 with lines linecolor rgb colour[i] linewidth 1.6
unset multiplot
