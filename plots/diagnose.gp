# diagnose.gp - a diagnosis: the parts of each device's iteration, and the iterations of other schedules.
# diagnose-main.c writes before it: bar (height of a device's bar, in pixels), iteration and its unit, own_time and longest, and their
# rival_unit, n_devices, n_parts, n_rivals; the arrays part, part_colour, bubble, rival and rival_text; and the blocks $parts ("device
# start end colour") and $rivals ("time colour").

left = 14 * letter > 210 ? 26 * letter : 210
set multiplot
set label 1 at screen 20 / width, screen 1 - 20 / height left offset 0, 0
set lmargin at screen left / width
set rmargin at screen 1 - 170 / width
set border 1
set xtics format '%g'
set ytics () scale 0
set y2tics () scale 0 font ',9' textcolor rgb '#333333'
set key at screen 20 / width, screen 1 - 40 / height left top horizontal samplen 1 width 0.5

# A bar for each device; low ones are not all named.
y = 72
set tmargin at screen 1 - y / height
y = y + bar * n_devices
set bmargin at screen 1 - y / height
set xrange [0:iteration]
set yrange [n_devices - 0.5:-0.5]
set y2range [n_devices - 0.5:-0.5]
do for [d = 0:n_devices - 1:bar < 10 ? 8 : 1] {
  set ytics add (sprintf('device %d', d) d)
  set y2tics add (bubble[d + 1] d)
}
set xlabel sprintf('time (%s)', unit) offset 0, 0.6
plot $parts using 2:1:2:3:($1 - 0.4):($1 + 0.4):4 with boxxyerror linecolor rgb variable notitle, \
     for [i = 1:n_parts] keyentry with boxes linecolor rgb part_colour[i] title part[i]

# A bar for each schedule.
unset label
unset key
set label 1 'iterations predicted under the same costs, and change from the run as predicted (dashed); pale: more memory than the run' \
    at screen 20 / width, graph 1 left offset 0, 1 font ',9' textcolor rgb '#333333'
set ytics ()
set y2tics ()
y = y + 80
set tmargin at screen 1 - y / height
set bmargin at screen 44 / height
set xrange [0:longest]
set yrange [n_rivals - 0.5:-0.5]
set y2range [n_rivals - 0.5:-0.5]
do for [i = 1:n_rivals] {
  set ytics add (rival[i] i - 1)
  set y2tics add (rival_text[i] i - 1)
}
set xlabel sprintf('time (%s)', rival_unit) offset 0, 0.6
set arrow 1 from own_time, graph 0 to own_time, graph 1.02 nohead front dashtype 2 linewidth 1.2 linecolor rgb '#222222'
plot $rivals using (0):0:(0):1:($0 - 0.4):($0 + 0.4):2 with boxxyerror linecolor rgb variable notitle
unset multiplot
