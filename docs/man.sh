#!/bin/sh
# man.sh - writes a man page from what the programs print with --help, so that the two cannot drift apart.
#
#   man.sh PIPESIM            pipesim(1)
#   man.sh PIPESIM COMMAND    pipesim-COMMAND(1)
set -eu
export LC_ALL=C.UTF-8 LANGUAGE= ASAN_OPTIONS=detect_leaks=0

pipesim=$1
command=${2:-}
version=$("$pipesim" --version)
name=pipesim${command:+-$command}

help ()
{
  "$pipesim" "$@" --help | sed "s/…/.../g; s/, at most [0-9]*)/)/" # limits of this machine
}

# Turns one text of --help into roff: usage, text around the options, options. $1 begins a heading.
convert ()
{
  awk -v heading="$1" '
    function safe (text) { gsub (/\\/, "\\e", text); gsub (/-/, "\\-", text); return text ~ /^[.\047]/ ? "\\&" text : text }
    function filled (line) { return line !~ /^ / && length (line) > 100 }
    /^Usage:$/ { usage = 1; next }
    /^Usage: / { sub (/^Usage: /, ""); synopsis = synopsis ".B " safe ($0) "\n.br\n"; next }
    usage { sub (/^ +/, ""); synopsis = synopsis ".B " safe ($0) "\n.br\n"; usage = 0; next }
    /^(Help|Application) Options:$/ { options = 1; next }
    options && /^  -/ {
      line = substr ($0, 3); at = index (line, "  ")
      option = at ? substr (line, 1, at - 1) : line; text = at ? substr (line, at) : ""; sub (/^ +/, "", text)
      list = list ".TP\n.B " safe (option) "\n" safe (text) "\n"
      next
    }
    /^$/ { options = 0 }
    { texts = texts (filled ($0) ? ".fi\n" safe ($0) "\n.nf\n" : safe ($0) "\n") }
    END {
      printf "%s SYNOPSIS\n%s", heading, synopsis
      if (texts ~ /[^\n]/) printf "%s DESCRIPTION\n.nf\n%s.fi\n", heading, texts
      if (list) printf "%s OPTIONS\n%s", heading, list
    }'
}

# Prints the actions of a command, from its usage or from lines that begin with them.
actions ()
{
  help "$command" | awk '/^Usage: / { list = 1 } list && /^  [a-z]/ { print $1 } /^pipesim [a-z]+ [a-z]+ [A-Z]/ { print $3 }'
}

# Prints "COMMAND DESCRIPTION" for each command.
commands ()
{
  help | awk '/^$/ { n++ } n == 2 && /^  [a-z]/ { sub (/^ +/, ""); print }'
}

describe ()
{
  if [ "$command" ]; then
    commands | awk -v command="$command" '$1 == command { sub (/^[^ ]+ +/, ""); print }'
  else
    help | sed -n '3s/\.$//p'
  fi
}

echo ".TH $(echo "$name" | tr a-z A-Z) 1 \"\" \"$version\" \"pipesim\""
echo '.SH NAME'
echo "$name \\- $(describe)"
if [ -z "$command" ]; then
  help | convert .SH
else
  help "$command" | convert .SH
  for action in $(actions); do
    echo ".SH PIPESIM $(echo "$command $action" | tr a-z A-Z)"
    help "$command" "$action" | convert .SS
  done
  echo '.SH EXIT STATUS'
  help | sed -n 's/^Exit codes: //p'
fi
echo '.SH SEE ALSO'
if [ "$command" ]; then
  echo '.BR pipesim (1)'
else
  commands | awk '$1 != "help" { printf "%s.BR pipesim\\-%s (1)", n++ ? ",\n" : "", $1 } END { print "" }'
fi
