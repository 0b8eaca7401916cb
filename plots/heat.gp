# heat.gp - a map of a sweep: one box for each pair of values.
# heat-plot.c writes before it: the terminal, the variables used here (lengths in pixels from the lower left corner), and the
# blocks $about, $cells, $texts, $x_ticks, $y_ticks, $scale and $scale_texts, all in pixels.

set encoding utf8
unset key
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0
set tmargin at screen 1
set xrange [0:width]
set yrange [0:height]
unset border
unset tics
set style fill solid 1.0 noborder
set label 1 title at left, height - 20 left font ',13'
set label 2 x_label at (left + right) / 2, 16 center font ',10'
set label 3 y_label at 18, (bottom + top) / 2 center rotate font ',10'
set label 4 heat_label at right + 24, top + 14 left font ',10'
plot $cells using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable, \
     $scale using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable, \
     $texts using 1:2:3:4 with labels center font ',8' textcolor rgb variable, \
     $x_ticks using 1:2:3:4 with labels center font ',9' textcolor rgb variable, \
     $y_ticks using 1:2:3:4 with labels right font ',9' textcolor rgb variable, \
     $scale_texts using 1:2:3 with labels left font ',9' textcolor rgb '#333333', \
     $about using 1:2:3 with labels left font ',9' textcolor rgb '#555555'
