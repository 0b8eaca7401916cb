# heat.gp - a map of a sweep: one box for each pair of values.
# sweep-plot.c writes before it: about, x_label, y_label, heat_label, the arrays x_name and y_name, and the block $cells ("column row
# value text colour"). Texts have n_words, the arrays word and word_colour, and colours of their own; else n_words is 0.

if (n_words == 0) {
  stats $cells using 3 name 'HEAT' nooutput
  set cbrange [HEAT_min:HEAT_max > HEAT_min ? HEAT_max : HEAT_min + 1]
  set colorbox user origin graph 1.025, graph 0 size graph 0.02, graph 1
  set cbtics font ',9' textcolor rgb '#333333' scale 0 format '%g'
}
set rmargin at screen 1 - 170 / width
set border 0
set tics scale 0
set xrange [0.5:|x_name| + 0.5]
set yrange [0.5:|y_name| + 0.5]
cell_width = (width - 280) / |x_name|
cell_height = (height - 150) / |y_name|

# Every value is named or, if there are too many, every n-th.
set xtics ()
set ytics ()
do for [i = 1:|x_name|:ceil(44 / cell_width)] { set xtics add (x_name[i] i) }
do for [i = 1:|y_name|:ceil(15 / cell_height)] { set ytics add (y_name[i] i) }
set xlabel x_label
eval name_y
set label 3 heat_label at graph 1, graph 1 left offset 2.6, above font ',10'
fits(text) = cell_width > 6 * (strlen(text) + 1) && cell_height > 13
set key at graph 1.01, graph 1 left top samplen 1
plot $cells using (n_words > 0 ? NaN : $1):2:($1 - 0.5):($1 + 0.5):($2 - 0.5):($2 + 0.5):3 with boxxyerror linecolor palette notitle, \
     '' using (n_words > 0 ? $1 : NaN):2:($1 - 0.5):($1 + 0.5):($2 - 0.5):($2 + 0.5):5 with boxxyerror linecolor rgb variable notitle, \
     '' using 1:2:($1 - 0.5):($1 + 0.5):($2 - 0.5):($2 + 0.5) with boxxyerror fillstyle empty linecolor rgb '#ffffff' notitle, \
     '' using 1:2:(fits(strcol(4)) ? strcol(4) : ''):(ink(n_words > 0 ? $5 : palette($3))) with labels font ',8' textcolor rgb variable notitle, \
     for [i = 1:n_words] keyentry with boxes linecolor rgb word_colour[i] title word[i]
