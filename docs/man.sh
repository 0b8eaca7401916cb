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
  COLUMNS=110 "$pipesim" "$@" --help | sed 's/, at most [0-9]*]/]/' # limits of this machine
}

# The lines below the heading $1 of pipesim --help, or of a command's.
section ()
{
  heading=$1
  shift
  help "$@" | awk -v heading="$heading:" '/^$/ { inside = 0 } inside { sub (/^  /, ""); print } $0 == heading { inside = 1 }'
}

# Turns lines into roff that keeps them.
lines ()
{
  sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/' | { echo .nf; cat; echo .fi; }
}

# Turns one text of --help into roff: usage, text around the options, options, examples. $1 begins a heading.
convert ()
{
  awk -v heading="$1" '
    function safe (text) { gsub (/\\/, "\\e", text); gsub (/-/, "\\-", text); return text ~ /^[.\047]/ ? "\\&" text : text }
    /^Usage: / { sub (/^Usage: /, ""); printf "%s SYNOPSIS\n.B %s\n", heading, safe ($0); next }
    /^(Options|What to simulate|Costs|Machine|Channels|Training|Variation|Output):$/ {
      list = list ".PP\n.I " substr ($0, 1, length ($0) - 1) "\n"; options = 1; next
    }
    /^(Examples|Files|Environment):$/ { exit }
    options && /^  -/ {
      line = substr ($0, 3); at = index (line, "  ")
      option = at ? substr (line, 1, at - 1) : line; text = at ? substr (line, at) : ""; sub (/^ +/, "", text)
      list = list ".TP\n.B " safe (option) "\n" (text != "" ? safe (text) "\n" : "")
      next
    }
    options && /^ +/ { sub (/^ +/, ""); list = list safe ($0) "\n"; next }
    /^  -h, --help / { list = list ".PP\n.TP\n.B \\-h, \\-\\-help\nPrint this page\n"; next }
    /^$/ { options = 0 }
    { texts = texts safe ($0) "\n" }
    END {
      gsub (/\n\n\n+/, "\n\n", texts); sub (/^\n+/, "", texts); sub (/\n+$/, "\n", texts)
      if (texts ~ /[^\n]/) printf "%s DESCRIPTION\n.nf\n%s.fi\n", heading, texts
      if (list) printf "%s OPTIONS\n%s", heading, list
    }'
}

# Prints the actions of a command, from its usage or from lines that begin with them.
actions ()
{
  help "$command" | awk '/^Usage: .* (ACTION|COMMAND)/ { list = 1 } list && /^  [a-z]/ { print $1 } /^pipesim [a-z]+ [a-z]+ [A-Z]/ { print $3 }'
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
  echo '.SH EXAMPLES'
  section Examples | lines
else
  help "$command" | convert .SH
  for action in $(actions); do
    echo ".SH PIPESIM $(echo "$command $action" | tr a-z A-Z)"
    help "$command" "$action" | convert .SS
  done
  echo '.SH EXAMPLES'
  { section Examples "$command"; for action in $(actions); do section Examples "$command" "$action"; done; } | lines
  echo '.SH EXIT STATUS'
  help | sed -n 's/^Exit codes: //p'
fi
for part in Files Environment; do
  echo ".SH $(echo $part | tr a-z A-Z)"
  section $part | lines
done
echo '.SH SEE ALSO'
if [ "$command" ]; then
  echo '.BR pipesim (1)'
else
  commands | awk '$1 != "help" { printf "%s.BR pipesim\\-%s (1)", n++ ? ",\n" : "", $1 } END { print "" }'
fi
