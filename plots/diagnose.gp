# diagnose.gp - a diagnosis: the parts of each device's iteration, and the iterations of other schedules.
# diagnose-main.c writes before it: the terminal, width, height, title, and the blocks used here, all in pixels from the lower left
# corner.

set encoding utf8
unset key
set style fill solid 1.0 noborder
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0
set tmargin at screen 1
set xrange [0:width]
set yrange [0:height]
unset border
unset tics
set label 1 title at 20, height - 20 left font ',13'
plot $boxes using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable, \
     $lines using 1:2 with lines linewidth 0.9 linecolor rgb '#555555', \
     $dashes using 1:2 with lines linewidth 1.2 dashtype 2 linecolor rgb '#222222', \
     $lefts using 1:2:3:4 with labels left font ',9' textcolor rgb variable, \
     $centres using 1:2:3:4 with labels center font ',9' textcolor rgb variable, \
     $rights using 1:2:3:4 with labels right font ',9' textcolor rgb variable
