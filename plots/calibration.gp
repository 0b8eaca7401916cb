# calibration.gp - the content of a profile: messages against their size, and ops.
# calibration-plot.c writes before it: ops_height (pixels that the ops need; 0: there are none), has_messages, n_key, n_fits, n_rows,
# n_groups; the arrays key_text, key_mark and key_colour (white: a line about the fit of the group above) of the groups of messages,
# fit_colour, group, group_mark (of ops), op_name and op_spread; and the blocks $messages and $ops ("size median first-quartile
# third-quartile least mark colour"; ops have their row, from the top, in place of the size) and $fits ("size time", two blank lines
# after each fit). Times are in seconds.

time_text(s) = s < 0.99e-6 ? sprintf('%g ns', s * 1e9) : s < 0.99e-3 ? sprintf('%g us', s * 1e6) : s < 0.99 ? sprintf('%g ms', s * 1e3) : sprintf('%g s', s)
size_text(n) = n < 2.0**10 ? sprintf('%g B', n) : n < 2.0**20 ? sprintf('%g KiB', n / 2.0**10) : n < 2.0**30 ? sprintf('%g MiB', n / 2.0**20) : sprintf('%g GiB', n / 2.0**30)
left = 84
do for [i = 1:n_rows] { left = left > letter * strlen(op_name[i]) + 16 ? left : letter * strlen(op_name[i]) + 16 }
share = (height - 62 - 74 * (has_messages + (ops_height > 0))) / (330 * has_messages + ops_height)

set multiplot
set label 1 at screen left / width, screen 1 - 20 / height left offset 0, 0
set label 2 at screen left / width, screen 1 - 40 / height left offset 0, 0
eval grid
set lmargin at screen left / width
set rmargin at screen 1 - 216 / width
y = 90
if (has_messages) {
  set tmargin at screen 1 - y / height
  y = y + 330 * share
  set bmargin at screen 1 - y / height
  stats $messages using 5 name 'LEAST' nooutput
  stats $messages using 4 name 'MOST' nooutput
  eval log_axis('y', LEAST_min, MOST_max, 'time_text')
  stats $messages using 1 name 'SIZE' nooutput
  set logscale x
  set xtics ()
  do for [k = 0:14:log(SIZE_max / SIZE_min) / log(8) > (width - left - 216) / (8 * letter) ? 2 : 1] { set xtics add (size_text(8.0**k) 8.0**k) }
  set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05
  set autoscale xfix
  set autoscale yfix
  set xlabel 'size of the message' offset 0, 0.3
  set label 3 'messages: median, quartiles and least; a fitted line (predictions interpolate)' at graph 0, graph 1 left offset 0, above font ',9'
  set key at graph 1, graph 1 left top samplen 1
  plot $messages using 1:3:(0):($4 - $3):(pale($7)) with vectors nohead linewidth 2.5 linecolor rgb variable notitle, \
       for [i = 1:n_fits] $fits index i - 1 using 1:2 with lines linewidth 1.2 linecolor rgb fit_colour[i] notitle, \
       $messages using 1:5:7 with points pointtype 2 pointsize 0.4 linecolor rgb variable notitle, \
       $messages using 1:2:6:7 with points pointtype variable pointsize 0.8 linecolor rgb variable notitle, \
       for [i = 1:n_key] keyentry with points pointtype key_mark[i] pointsize 0.8 linecolor rgb key_colour[i] title key_text[i]
  unset label
  unset logscale
  set offsets 0, 0, 0, 0
  y = y + 74
}
if (ops_height > 0) {
  n = n_rows
  set tmargin at screen 1 - y / height
  set bmargin at screen 1 - (y + ops_height * share) / height
  stats $ops using 5 name 'LEAST' nooutput
  stats $ops using 4 name 'MOST' nooutput
  eval log_axis('x', LEAST_min, MOST_max, 'time_text')
  set xrange [LEAST_min / 1.1:MOST_max * 1.1]
  set yrange [n:0]
  set y2range [n:0]
  set ytics () scale 0
  set y2tics () scale 0 font ',9' textcolor rgb '#333333'
  do for [i = 1:n] {
    set ytics add (op_name[i] i - 0.5)
    set y2tics add (op_spread[i] i - 0.5)
  }
  set grid noytics
  set xlabel 'time of the op' offset 0, 0.3
  set label 3 'ops' at graph 0, graph 1 left offset 0, above font ',9'
  set label 4 'MAD / median' at graph 1, graph 1 left offset 1.5, above font ',9' textcolor rgb '#666666'
  set key at graph 1, graph 1 right bottom horizontal samplen 0.5 width 1
  plot $ops using 3:1:($4 - $3):(0):(pale($7)) with vectors nohead linewidth 2.5 linecolor rgb variable notitle, \
       '' using 5:1:7 with points pointtype 2 pointsize 0.4 linecolor rgb variable notitle, \
       '' using 2:1:6:7 with points pointtype variable pointsize 0.8 linecolor rgb variable notitle, \
       for [i = 1:n_groups] keyentry with points pointtype group_mark[i] pointsize 0.8 linecolor rgb '#666666' title group[i]
}
unset multiplot
