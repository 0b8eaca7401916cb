# growth.gp - draws what bench-growth wrote: gnuplot -e "data='FILE'; output='FILE.svg'" growth.gp
set terminal svg size 1080,620 noenhanced font 'sans-serif,11' background '#ffffff'
set output output
set multiplot layout 2,3
set logscale xy
set format x '%.0f'
set format y '%g'
set grid linecolor rgb '#dddddd'
set border 3
set tics nomirror
set key top left reverse Left samplen 2
set ylabel 'CPU time (s)'
do for [i = 0:5] {
  stats data index i every ::0::0 using (name = strcol(1), title = strcol(2), 0) nooutput
  set xlabel name
  set title title font ',11'
  plot data index i every ::1 using 1:3 with lines linewidth 2 linecolor rgb '#bbbbbb' title 'order, from the first point', \
       data index i every ::1 using 1:2 with linespoints linewidth 1.5 pointtype 7 pointsize 0.6 linecolor rgb '#0072b2' title 'measured'
}
unset multiplot
