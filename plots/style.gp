# style.gp - the look that all pictures share. gnuplot reads it before each template and after the variables title, width, height
# and letter (its width), in pixels.

set encoding utf8
set style fill solid 1.0 noborder
set border 3 linewidth 0.7 linecolor rgb '#555555'
set tics nomirror font ',9' textcolor rgb '#333333' scale 0.5
set xlabel font ',10'
set ylabel font ',10'
set key outside right top Left reverse samplen 2.5 spacing 1.15 font ',9' textcolor rgb '#333333'

# Devices, and the values of a map: from dark violet to yellow, evenly lighter.
set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', 4 '#e8cf20')
set cbrange [0:1]
unset colorbox
place(d, n) = n > 1 ? d / (n - 1.0) : 0

# A picture of text has no thin lines for a grid, and the name of its vertical axis stands above the axis.
is_text = letter > 7
grid = is_text ? '' : "set grid xtics ytics linetype 1 linewidth 0.5 linecolor rgb '#e2e2e2'"
name_y = is_text ? 'set label 9 y_label at graph 0, graph 1 left offset 0, 1' : 'set ylabel y_label'

# Distance of a caption from its frame, in letters.
above = is_text ? 1 : 0.6

# Black or white, whichever reads better on that background, and the same hue half way to white.
ink(c) = 0.299 * (int(c) / 65536) + 0.587 * (int(c) / 256 % 256) + 0.114 * (int(c) % 256) > 140 ? 0 : 0xffffff
pale(c) = (int(c) & 0xfefefe) / 2 + 0x7f7f7f

# Distance of ticks: 1, 2 or 5 times a power of ten, so that about n ticks cover the range.
digit(x) = x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10
power(x) = 10.0 ** floor(log10(x))
tick_step(range, n) = digit(range * 1.0 / n / power(range * 1.0 / n)) * power(range * 1.0 / n)

# Commands for a logarithmic axis: ticks at 1, 2 and 5 times powers of ten; at more digits if those are few, at the powers alone if
# they are many. text: the function that names a tick.
number(v) = sprintf('%g', v)
log_digits(low, high) = high < 20 * low ? '1 1.5 2 3 4 5 6 8' : high < 1e4 * low ? '1 2 5' : '1'
log_axis(axis, low, high, text) = sprintf("set logscale %s; set %stics ('' 1e-30); do for [k = -12:15] { do for [d in '%s'] " \
  . "{ set %stics add (%s(d * 10.0 ** k) d * 10.0 ** k) } }", axis, axis, log_digits(low, high), axis, text)

# Values are spread so that a logarithmic axis reads better: over a factor of eight, or most of them lie in the lowest third. A ratio
# is read from 0 on, unless most of its values would lie in the lowest sixth.
crowds(low, middle, high, is_ratio) = low > 0 && (is_ratio ? high >= 8 * low && high > 6 * middle : high >= 8 * low || high > 3 * middle)

# The title, and below it a sentence about the picture in lines that fit.
set label 1 title at graph 0, screen 1 left offset 0, -1.2 font ',13'
if (!exists('about')) { about = '' }
about_text = ''
about_lines = 0
about_length = 0
do for [word in about] {
  if (about_length > 0 && about_length + 1 + strlen(word) <= (width - 90) / letter) {
    about_text = about_text.' '.word
    about_length = about_length + 1 + strlen(word)
  } else {
    about_text = about_text.(about_lines > 0 ? "\n" : '').word
    about_lines = about_lines + 1
    about_length = strlen(word)
  }
}
set label 2 about_text at graph 0, screen 1 left offset 0, -2.6 font ',9' textcolor rgb '#555555'
set tmargin 3 + about_lines
