#!/bin/sh
# programs.sh - pipesim NAME runs the program pipesim-NAME, the one beside it first, with its arguments and its exit code.
set -u
. "$(dirname "$0")/lib.sh"

mkdir beside path
ln "$(command -v pipesim)" beside/pipesim 2>/dev/null || cp "$(command -v pipesim)" beside/pipesim
for folder in beside path; do
  for name in both $folder; do
    printf '#!/bin/sh\necho "%s: $# $2"\nexit 7\n' $folder >$folder/pipesim-$name
    chmod +x $folder/pipesim-$name
  done
done
for name in text plot; do printf 'not a program' >beside/pipesim-$name; done
PATH=$PWD/path:$PATH

# says TEXT NAME
says ()
{
  output=$(beside/pipesim "$2" one 'two words')
  code=$?
  if [ "$output" = "$1" ] && [ $code -eq 7 ]; then result "pipesim $2"; else result "pipesim $2" "said '$output', exit $code"; fi
}

says "beside: 2 two words" beside
says "path: 2 two words" path
says "beside: 2 two words" both
refuse 2 "no command 'neither'" beside/pipesim neither
refuse 2 "no command 'text'" beside/pipesim text
refuse 2 "no command 'x/y'" beside/pipesim x/y
refuse 1 "pipesim-exec: no such program, neither in pipesim's folder nor on PATH" env PATH=/usr/bin:/bin beside/pipesim exec
# pipesim-gnuplot stands in for a gnuplot that is not on PATH; it draws no other format.
mkdir wheel tools
ln "$(command -v pipesim-plot)" wheel/pipesim-plot 2>/dev/null || cp "$(command -v pipesim-plot)" wheel/pipesim-plot
printf '#!/bin/sh\ncat >/dev/null\nprintf "<?xml ?><svg></svg>"\n' >wheel/pipesim-gnuplot
chmod +x wheel/pipesim-gnuplot
ln -s "$(command -v cat)" tools/cat
pipesim predict -s 1f1b -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms -o timeline.json >/dev/null
step "SVG without gnuplot" env PATH="$PWD/tools" wheel/pipesim-plot timeline timeline.json -o timeline.svg
for ending in png pdf; do
  refuse 1 "the gnuplot that came with pipesim draws .svg alone; install gnuplot for .$ending" \
    env PATH="$PWD/tools" wheel/pipesim-plot timeline timeline.json -o timeline.$ending
done
refuse 1 "pipesim-plot: Permission denied" beside/pipesim plot
finish
