#!/bin/sh
# completion.sh - writes bash completion for pipesim from what the programs print with --help.
#
#   completion.sh PIPESIM
set -eu
export LC_ALL=C.UTF-8 LANGUAGE= ASAN_OPTIONS=detect_leaks=0

pipesim=$1

# words COMMAND...: prints the options of a command, then its actions.
words ()
{
  "$pipesim" "$@" --help | awk '
    /^Usage: .* (ACTION|COMMAND)/ { list = 1 }
    /^  -/ {
      sub (/^ +/, ""); at = index ($0, "  "); option = at ? substr ($0, 1, at - 1) : $0
      sub (/[=[].*$/, "", option); n = split (option, names, ", ")
      for (i = 1; i <= n; i++) print names[i]
    }
    list && /^  [a-z]/ { print $1 }
    /^pipesim [a-z]+ [a-z]+ [A-Z]/ { print $3 }' | tr '\n' ' ' | sed 's/ $//'
}

# case_of COMMAND...: prints a line of the case below.
case_of ()
{
  echo "    '$*') echo '$(words "$@")' ;;"
}

families=$("$pipesim" schedule list --json | sed -n 's/^ *"name": "\(.*\)",$/\1/p' | tr '\n' ' ')
topics=$("$pipesim" help | awk '/^$/ { n++ } n == 4 && /^  [a-z]/ { print $1 }')
commands=$("$pipesim" help | awk '/^$/ { n++ } n == 2 && /^  [a-z]/ { print $1 }')

cat <<END
# bash completion of pipesim, made from its help; do not edit.
_pipesim_words ()
{
  case \$1 in
    '') echo '$(echo $commands) --help --version' ;;
    help) echo '$(echo $topics $commands)' ;;
END
for command in $commands; do
  [ "$command" != help ] || continue
  case_of "$command"
  for action in $(words "$command" | tr ' ' '\n' | grep -v '^-' || true); do
    case_of "$command" "$action"
  done
done
cat <<END
  esac
}

_pipesim ()
{
  local path='' word previous=\${COMP_WORDS[COMP_CWORD-1]} current=\${COMP_WORDS[COMP_CWORD]} words
  if [[ \$current == = ]]; then
    current=
  elif [[ \$previous == = ]]; then
    previous=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ \$word != -* && " \$(_pipesim_words "\$path") " == *" \$word "* ]]; then
      path="\${path:+\$path }\$word"
    fi
  done
  case \$previous in
    -s | --schedule) words='$families' ;;
    *) words=\$(_pipesim_words "\$path") ;;
  esac
  COMPREPLY=(\$(compgen -W "\$words" -- "\$current"))
}
complete -o default -F _pipesim pipesim
END
