# timeline.gp - timelines as rows of boxes, one panel each, memory strips below.
# timeline-plot.c writes before it: left, right and top (where the time axis begins and ends, and where the first panel begins),
# row (height of a device's row; all in pixels from the upper left corner), bare (no title, key and captions), time_end,
# time_label, memory_label, memory_low, memory_high, panels, n_kinds; the arrays caption, devices, has_memory, kind and kind_colour; and
# for each panel the blocks $opsN and $denseN ("start end device half colour number"; half: 1 is the upper half of the row, -1 the
# lower one, 0 the whole row; $denseN has no numbers), $transfersN ("start sender end receiver colour") and $memoryN ("time memory",
# two blank lines after each device).

pixel = time_end / (right - left)
middle(device, half) = device - 0.23 * half
reach(half) = half == 0 ? 0.46 : 0.23
edge(from, to) = to > from ? 0.46 : -0.46
fits(start, end, half, text) = bare || (end - start >= (5.9 * strlen(text) + 3) * pixel && 2 * reach(half) * row >= 11)

# The memory axis begins above 0 if no curve goes down to a third of the highest, so that changes can be seen.
memory_bottom = memory_low > memory_high / 3 ? memory_low - 0.1 * (memory_high - memory_low) : 0
memory_top = memory_high + 0.1 * (memory_high - memory_bottom)
if (memory_top <= memory_bottom) { memory_top = 1.01 * memory_bottom }

set multiplot
set border 15
set lmargin at screen left / width
set rmargin at screen right / width
set xrange [0:time_end]
if (bare) {
  unset label
  unset key
} else {
  set label 1 at screen left / width, screen 1 - 20 / height left offset 0, 0
  set key at screen left / width, screen 1 - 36 / height left top horizontal samplen 1.6 width 1
}
y = top
do for [i = 1:panels] {
  last = i == panels
  n = devices[i]
  set tmargin at screen 1 - y / height
  y = y + row * n
  set bmargin at screen 1 - y / height
  set yrange [n - 0.5:-0.5]
  set ytics 0, row < 13 ? ceil(13 / row) : 1, n - 1 scale 0 offset -0.6, 0
  set label 2 'device' at screen 20 / width, graph 0.5 center rotate font ',10' textcolor rgb '#000000' offset 0, 0
  if (!bare) { set label 3 caption[i] at graph 0, graph 1 left offset 0, above font ',10' }
  set xtics format '' scale 0.5
  if (bare) { set xtics tick_step(time_end, 100) }
  if (last && !has_memory[i]) { set xtics format '%g'; set xlabel time_label offset 0, 0.6 }

  # A chip in the colour of its memory curve left of each row.
  if (has_memory[i]) { do for [d = 0:n - 1] {
    set object 1 + d rectangle from screen (left - 8) / width, first d - 0.2 to screen (left - 4) / width, first d + 0.2 noclip \
        fillcolor palette frac place(d, n) fillstyle solid noborder
  } }
  plot '$dense'.i using ($4 == 0 ? $1 : NaN):3:($2 - $1):(0):5 with vectors nohead linewidth 0.92 * row linecolor rgb variable notitle, \
       '' using ($4 != 0 ? $1 : NaN):(middle($3, $4)):($2 - $1):(0):5 with vectors nohead linewidth 0.46 * row linecolor rgb variable notitle, \
       '$ops'.i using (($1 + $2) / 2):(middle($3, $4)):1:2:(middle($3, $4) - reach($4)):(middle($3, $4) + reach($4)):5 \
         with boxxyerror linecolor rgb variable notitle, \
       '' using (bare || $2 - $1 < 5 * pixel ? NaN : ($1 + $2) / 2):(middle($3, $4)):1:2:(middle($3, $4) - reach($4)):(middle($3, $4) + reach($4)) \
         with boxxyerror fillstyle empty linecolor rgb '#ffffff' linewidth 0.7 notitle, \
       '$transfers'.i using 1:($2 + edge($2, $4)):($3 - $1):($4 - $2 - 2 * edge($2, $4)):5 with vectors nohead linewidth 0.9 \
         linecolor rgb variable notitle, \
       '$ops'.i using (fits($1, $2, $4, strcol(6)) ? ($1 + $2) / 2 : NaN):(middle($3, $4)):6:(ink($5)) with labels font ',8' \
         textcolor rgb variable notitle, \
       for [k = 1:n_kinds] keyentry with boxes linecolor rgb kind_colour[k] title kind[k]
  unset label
  unset key
  unset object
  unset xlabel
  if (has_memory[i]) {
    set tmargin at screen 1 - (y + 7) / height
    y = y + 87
    set bmargin at screen 1 - y / height
    set yrange [memory_bottom:memory_top]
    set ytics tick_step(memory_top - memory_bottom, 4) scale 0.5 offset 0, 0
    set label 2 memory_label at screen 20 / width, graph 0.5 center rotate font ',10'
    if (last) { set xtics format '%g'; set xlabel time_label offset 0, 0.6 }
    plot for [d = 0:n - 1] '$memory'.i index d using 1:2 with steps linewidth 1.2 linecolor palette frac place(d, n) notitle
    unset label
  }
  y = y + 34
}
unset multiplot
